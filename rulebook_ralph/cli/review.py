"""`ralph review`: what a reviewer says of a whole branch, before a pull request; in any repository."""

from typing import get_args

import click

from rulebook_ralph import __version__
from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli import review_views
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.options import interruptible, trust_commands
from rulebook_ralph.cli.places import open_project, refuse_agents, require_agreed
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import verifying
from rulebook_ralph.run.branch_change import branch_change
from rulebook_ralph.tasks.review import NOTHING_TO_REVIEW, Review, Tier
from rulebook_ralph.tasks.text import money, some
from rulebook_ralph.verify import reviewers
from rulebook_ralph.verify.workspace import Cancelled


@click.command()
@click.option(
    "--base", metavar="REV", default="", help="What to review against; else where the default branch was left."
)
@click.option("--tier", type=click.Choice(get_args(Tier)), default="final", show_default=True, help="How thoroughly.")
@click.option("--json", "view", flag_value="json", help="Print one JSON object (schemas/review.schema.json).")
@click.option("--sarif", "view", flag_value="sarif", help="Print SARIF 2.1.0, as code hosts and editors read it.")
@click.option("--markdown", "view", flag_value="markdown", help="Print Markdown, for a comment.")
@trust_commands
@click.pass_obj
def command(app: App, base: str, *, tier: Tier, view: str | None, trust_commands: bool) -> int:
    """Have a reviewer look at the branch since it left the default one, with what is not committed yet. There need be
    no task list. Exit code 3 says that something must be mended first, or that nothing was decided.
    """
    opened = open_project(app)
    project = opened.project
    refuse_agents(app, "nothing is reviewed but by Ralph itself")
    require_agreed(app, opened, trusted=trust_commands)
    found = branch_change(project.repository, base)
    with (
        app.console(json=view in ("json", "sarif"), quiet=view == "markdown") as console,
        interruptible() as cancelled,
    ):

        def report(event: events.Event) -> None:
            if view is not None or not isinstance(event, events.ReviewEnded):  # all of it is printed below, once
                console.report(event)

        try:
            with verifying.tools(project, report=report, cancelled=cancelled) as tools:
                reviewer = _reviewer(project.config, tools.roster, tier, cancelled)
                if found.uncommitted:
                    report(events.Notice("info", "what is not committed yet is reviewed, too"))
                review = NOTHING_TO_REVIEW
                if found.is_empty or tools.verifiers.reviewers is None:
                    report(events.Notice("info", f"nothing differs from {found.base[:12]}: there is nothing to review"))
                else:
                    review = tools.verifiers.reviewers.review(reviewer, tier, found.change, report)
                _, cost = tools.ledger.take()
        except Cancelled:
            return ExitCode.INTERRUPTED
        _show(console, review, view)
        if view is None and cost is not None:
            console.line(f"cost: {money(cost)}")
    if review.decision == "SHIP":
        return ExitCode.OK
    return ExitCode.AGENT if review.decision == "UNDECIDED" and review.unasked else ExitCode.BLOCKED


def _reviewer(config: Config, roster: Roster, tier: Tier, cancelled: Cancellation) -> Reviewer:
    """Raises RalphError for one that is not known, and (exit 5) for one that cannot be asked."""
    reviewer = reviewers.reviewer_of_branch(config, tier)
    by_agent = names_agent(reviewer.executor)
    try:
        probe = roster.agent(reviewer.executor)[0].probe() if by_agent else None
    except RalphError:
        ids = [each.id for each in config.tools.reviewers]
        if reviewer.id in ids:
            raise
        known = f"tools.reviewers has {some(ids) if ids else 'none'}"
        raise RalphError(f"there is no reviewer and no agent '{reviewer.id}'; {known}") from None
    asked = reviewers.with_model(config, reviewer, tier)
    model = roster.model(asked, cancelled, named_by=reviewers.key_of(reviewer))
    problem = model.missing or ("" if probe is None or probe.installed else probe.problem)
    if problem:
        raise RalphError(f"the reviewer {reviewer.id} cannot be asked: {problem}", exit_code=ExitCode.AGENT)
    return reviewer


def _show(console: Console, review: Review, view: str | None) -> None:
    if view == "json":
        console.json(review)
    elif view == "sarif":
        console.json(review_views.sarif(review, version=__version__))
    elif view == "markdown":
        console.verbatim(review_views.markdown(review))
    else:
        for line in review_views.lines(review):
            console.line(line)
