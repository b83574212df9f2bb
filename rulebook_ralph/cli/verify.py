"""`ralph verify` and `ralph review`: the verdict on the tree as it stands, and what a reviewer says of a branch."""

from collections.abc import Iterator
from typing import get_args
from urllib.parse import quote

import click

from rulebook_ralph import __version__
from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.app import App, interruptible, trust_commands
from rulebook_ralph.cli.places import open_project, refuse_agents
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.summary import inline
from rulebook_ralph.run import preflight, verifying
from rulebook_ralph.run.verifying import VerifyOutcome
from rulebook_ralph.tasks.edits import find
from rulebook_ralph.tasks.model import Json, Value
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.tasks.review import NOTHING_TO_REVIEW, Review, ReviewIssue, Tier
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.tasks.text import counted, money, printable
from rulebook_ralph.verify import reviewers

_LEVELS = {"high": "error", "medium": "warning", "low": "note"}
_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LONGEST = 4_000
"""Characters of one text of a comment."""


@click.command()
@click.argument("task_ids", nargs=-1, metavar="[TASK…]")
@trust_commands
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr.")
@click.pass_obj
def verify_command(app: App, task_ids: tuple[str, ...], *, trust_commands: bool, json: bool) -> int:
    """Run the gates, and the criteria of each TASK, on the tree as it stands; no agent works, nothing is committed.

    Without a TASK the criteria of all completed tasks are verified, those aside that a model judges. Exit code 3 says
    that something does not hold.
    """
    opened = open_project(app)
    prd = read_prd(opened.project.folder.prd)
    chosen = tuple(find(prd, task_id) for task_id in dict.fromkeys(task_ids))
    if not task_ids:
        chosen = tuple(task for task in prd.tasks if task.status == "completed")
    require_agreed(app, opened, trusted=trust_commands)
    with app.console(json=json) as console, interruptible() as cancelled:
        with verifying.tools(opened.project, report=console.report, cancelled=cancelled) as tools:
            outcome = verifying.verify(opened.project, tools.verifiers, chosen, with_models=bool(task_ids))
        if outcome.is_empty:
            raise RalphError("nothing to verify: no gate is configured, and no task that was asked for has criteria")
        if json:
            console.json(_as_json(outcome))
        else:
            _tell(console, outcome)
    return ExitCode.OK if outcome.passed else ExitCode.BLOCKED


def _tell(console: Console, outcome: VerifyOutcome) -> None:
    for gate in outcome.gates:
        if not gate.passed and gate.output:
            console.line(f"output of the gate {gate.step}:")
            _tell_output(console, gate)
    for stage in outcome.stages:
        mark = "-" if stage.left_out else "✘" if stage.failed else "✔"
        why = f": not verified, {stage.left_out}" if stage.left_out else ""
        why = f": {stage.verified.reason}" if stage.failed and not stage.verified.results else why
        console.line(f"{mark} {stage.task_id} ({stage.stage}){why}")
        for result in stage.verified.results:
            if not result.passed and result.method != "multi_stage":
                console.line(f"    {result.step}: {result.reason}{'' if result.required else ' (a warning only)'}")
                _tell_output(console, result)
        for warning in stage.verified.warnings:
            console.line(f"    warning: {warning}")
    if outcome.passed:
        console.line("verified: everything that was run holds")
        return
    failed = [f"gate {result.step}" for result in outcome.gates if not result.passed and result.required]
    failed += [f"{stage.task_id} ({stage.stage})" for stage in outcome.stages if stage.failed]
    console.line(f"not verified: {', '.join(failed) or 'nothing that was run passed'}")


def _tell_output(console: Console, result: CheckResult) -> None:
    told = "" if result.output.strip() in result.reason else feedback_excerpt(result.output, head=5, tail=25)
    for line in told.splitlines():
        console.line(f"      {line}".rstrip())


def _as_json(outcome: VerifyOutcome) -> dict[str, object]:
    return {
        "success": outcome.passed,
        "gates": list(map(_whole, outcome.gates)),
        "stages": [
            {
                "taskId": stage.task_id,
                "stage": stage.stage,
                "passed": None if stage.left_out else stage.verified.passed,
                "reason": stage.left_out or stage.verified.reason,
                "checks": list(map(_whole, stage.verified.results)),
                "warnings": stage.verified.warnings,
            }
            for stage in outcome.stages
        ],
    }


def _whole(value: Value) -> dict[str, object]:
    """All its fields, also those that are as usual."""
    whole = {camel(name): getattr(value, name) for name in value.__struct_fields__}
    return whole | {"findings": list(map(_whole, whole["findings"]))} if "findings" in whole else whole


# Reviewing


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
def review_command(app: App, base: str, *, tier: Tier, view: str | None, trust_commands: bool) -> ExitCode:
    """Have a reviewer look at the branch since it left the default one, with what is not committed yet. There need be
    no task list. Exit code 3 says that something must be mended first, or that nothing was decided.
    """
    opened = open_project(app)
    project = opened.project
    refuse_agents(app, "nothing is reviewed but by Ralph itself")
    require_agreed(app, opened, trusted=trust_commands)
    repository = project.repository
    change = verifying.standing_change(repository, base)
    with (
        app.console(json=view in ("json", "sarif"), quiet=view == "markdown") as console,
        interruptible() as cancelled,
    ):

        def report(event: events.Event) -> None:
            if view is not None or not isinstance(event, events.ReviewEnded):  # all of it is printed below, once
                console.report(event)

        with verifying.tools(project, report=report, cancelled=cancelled) as tools:
            reviewer = _reviewer(project.config, tools.roster, tier, cancelled)
            if verifying.differ(repository, repository.head(), change.tree):
                report(events.Notice("info", "what is not committed yet is reviewed, too"))
            review = NOTHING_TO_REVIEW
            if tools.verifiers.reviewers is None or not verifying.differ(repository, change.base, change.tree):
                report(events.Notice("info", f"nothing differs from {change.base[:12]}: there is nothing to review"))
            else:
                review = tools.verifiers.reviewers.review(reviewer, tier, change, report)
            _, cost = tools.ledger.take()
        if view == "markdown":
            console.verbatim(_markdown(review))
        elif view is not None:
            console.json(review if view == "json" else _sarif(review))
        else:
            for line in _lines(review):
                console.line(printable(line))
            if cost is not None:
                console.line(f"cost: {money(cost)}")
    if review.decision == "SHIP":
        return ExitCode.OK
    return ExitCode.AGENT if review.decision == "UNDECIDED" and review.unasked else ExitCode.BLOCKED


def _reviewer(config: Config, roster: Roster, tier: Tier, cancelled: Cancellation) -> Reviewer:
    """Raises RalphError for one that is not known, and (exit 5) for one that cannot be asked."""
    reviewer = reviewers.reviewer_of_branch(config, tier)
    if problem := preflight.unknown_reviewer(config, roster, reviewer):
        raise RalphError(problem)
    asked = reviewers.with_model(config, reviewer, tier)
    problem = roster.model(asked, cancelled, named_by=reviewers.key_of(reviewer)).missing
    if not problem and names_agent(reviewer.executor):
        probe = roster.agent(reviewer.executor)[0].probe()
        problem = "" if probe.installed else probe.problem
    if problem:
        raise RalphError(f"the reviewer {reviewer.id} cannot be asked: {problem}", exit_code=ExitCode.AGENT)
    return reviewer


# What is printed


def _lines(review: Review) -> Iterator[str]:
    """For a terminal, the worst first."""
    for issue in review.issues:
        yield f"{issue.severity:<6} {issue.place} ({issue.type})"
        yield f"       {issue.description}"
        if issue.suggestion:
            yield f"       suggested: {issue.suggestion}"
    for name in review.not_reviewed:
        yield f"not reviewed: {name}"
    yield str(review)


def _markdown(review: Review) -> str:
    """For a comment on a pull request: what others wrote makes no markup, and calls nobody."""
    told = [f"## Review: {review.decision}", ""]
    for look in review.looks:
        told += [f"{look.tier} review by {_plain(look.reviewer)}: {_plain(look.reason or look.decision)}  "]
    told += [f"{counted(review.summary.total, 'issue')}: {review.summary}" if review.issues else "No issues.", ""]
    for issue in review.issues:
        told += [f"### {issue.severity}: {_plain(issue.place)}", "", f"{issue.type}: {_plain(issue.description)}", ""]
        told += [f"Suggested: {_plain(issue.suggestion)}", ""] if issue.suggestion else []
    if review.not_reviewed:
        told += ["Not reviewed:", "", *(f"- {_plain(name)}" for name in review.not_reviewed), ""]
    return "\n".join(told).rstrip() + "\n"


def _plain(text: str) -> str:
    return inline(text, _LONGEST)


def _sarif(review: Review) -> Json:
    """For code scanning. A review that came to no decision did not execute successfully."""
    undecided = review.decision == "UNDECIDED"
    failure = {"level": "error", "message": {"text": review.reason or "no decision"}}
    missed = [{"level": "warning", "message": {"text": f"not reviewed: {name}"}} for name in review.not_reviewed]
    types = sorted({issue.type for issue in review.issues})
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Ralph review",
                        "version": __version__,
                        "rules": [{"id": each, "shortDescription": {"text": each.replace("_", " ")}} for each in types],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not undecided,
                        "toolExecutionNotifications": [failure, *missed] if undecided else missed,
                    }
                ],
                "results": [_result(issue, types.index(issue.type)) for issue in review.issues],
                "properties": {"decision": review.decision},
            }
        ],
    }


def _result(issue: ReviewIssue, rule: int) -> Json:
    first, last = issue.lines
    place: Json = {"artifactLocation": {"uri": quote(issue.file, errors="surrogateescape")}}
    if first:
        place["region"] = {"startLine": first, "endLine": last}
    suggested = f"\n\nSuggested: {issue.suggestion}" if issue.suggestion else ""
    return {
        "ruleId": issue.type,
        "ruleIndex": rule,
        "level": _LEVELS[issue.severity],
        "message": {"text": f"{issue.description}{suggested}"},
        "locations": [{"physicalLocation": place}],
        "properties": {"agentPrompt": issue.agent_prompt},
    }
