"""`ralph review`: what a reviewer says of a whole branch, before a pull request; in any repository."""

from typing import get_args

import click

from rulebook_ralph import __version__, config
from rulebook_ralph.app import App
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.commands import review_views
from rulebook_ralph.commands.interrupting import interruptible
from rulebook_ralph.commands.person_only import refuse_inside
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.commands.trusting import require_agreed
from rulebook_ralph.console import Console
from rulebook_ralph.core import events, reviewers
from rulebook_ralph.core.amounts import money
from rulebook_ralph.core.review import NOTHING_TO_REVIEW, Review, Tier
from rulebook_ralph.core.settings import Config, Reviewer
from rulebook_ralph.core.spending import Ledger
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import reviewing
from rulebook_ralph.loop.branch_change import BranchChange, branch_change
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import lock, review_memory
from rulebook_ralph.state.store import StateFolder


@click.command()
@click.option(
    "--base", metavar="REV", default="", help="What to review against; else where the default branch was left."
)
@click.option("--tier", type=click.Choice(get_args(Tier)), default="final", show_default=True, help="How thoroughly.")
@click.option("--json", "view", flag_value="json", help="Print one JSON object (schemas/review.schema.json).")
@click.option("--sarif", "view", flag_value="sarif", help="Print SARIF 2.1.0, as code hosts and editors read it.")
@click.option("--markdown", "view", flag_value="markdown", help="Print Markdown, for a comment.")
@click.option("--trust-commands", is_flag=True, help="Ask agents that are configured without 'ralph trust': for CI.")
@click.pass_obj
def command(app: App, base: str, *, tier: Tier, view: str | None, trust_commands: bool) -> int:
    """Have a reviewer look at the branch since it left the default one, with what is not committed yet. There need be
    no task list. Exit code 3 says that something must be mended first, or that nothing was decided.
    """
    project = _project(app)
    refuse_inside(app, project.repository.lock_file, "nothing is reviewed but by Ralph itself")
    require_agreed(app, project, trusted=trust_commands)
    crew = Crew(project.config, project.environment)
    reviewer = _reviewer(project.config, crew, tier)
    found = branch_change(project.repository, base, allow=project.config.integrity.allow)
    ledger, memory = Ledger(), review_memory.read(project.review_memory, root=project.root)
    with (
        app.console(json=view in ("json", "sarif"), quiet=view == "markdown") as console,
        interruptible() as cancelled,
    ):
        clean = crew.redactor().clean

        def report(event: events.Event) -> None:
            if view is not None or not isinstance(event, events.ReviewEnded):  # all of it is printed below, once
                console.report(event)

        desk = reviewing.Reviewing(project.config, crew, clean, cancelled, ledger.spend, report, memory)
        try:
            review = _review(desk, reviewer, tier, found)
        except Cancelled:
            return ExitCode.INTERRUPTED
        _show(console, review, view)
        _, cost = ledger.take()
        if view is None and cost is not None:
            console.line(f"cost: {money(cost)}")
    if lock.holder(project.repository.lock_file) is None:  # a run would take it for its agent's doing
        review_memory.write(project.review_memory, memory, root=project.root)
    if review.decision == "SHIP":
        return ExitCode.OK
    return ExitCode.AGENT if review.decision == "UNDECIDED" and review.unasked else ExitCode.BLOCKED


def _project(app: App) -> Project:
    """The repository with its configuration; a task list, here or on another branch, is not looked for."""
    root, repository = open_root(app)
    loaded = config.load_with_origins(root, environment=app.environment, home=app.home)
    folder = StateFolder(root)
    return Project(root, folder, repository, loaded.config, app.environment, origins=loaded.origins)


def _reviewer(settings: Config, crew: Crew, tier: Tier) -> Reviewer:
    """Raises RalphError for one that is not known, and (exit 5) for one that cannot be asked."""
    reviewer = reviewers.reviewer_of_branch(settings, tier)
    if problem := reviewing.unknown(settings, crew, reviewer):
        raise RalphError(problem)
    if problem := reviewing.unable(settings, crew, reviewer, tier, lambda name: crew.member(name).agent.probe()):
        raise RalphError(f"the reviewer {reviewer.id} cannot be asked: {problem}", exit_code=ExitCode.AGENT)
    return reviewer


def _review(desk: reviewing.Reviewing, reviewer: Reviewer, tier: Tier, found: BranchChange) -> Review:
    """What the reviewer says. Raises Cancelled."""
    if found.uncommitted:
        desk.report(events.Notice("info", "what is not committed yet is reviewed, too"))
    if not found.change.files:
        desk.report(events.Notice("info", f"nothing differs from {found.base[:12]}: there is nothing to review"))
        return NOTHING_TO_REVIEW
    return desk.by(reviewer, tier, found.change)


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
