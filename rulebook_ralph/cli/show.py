"""`ralph show N` and `ralph logs`: one iteration; and what an agent said and did in it, also while it works."""

import codecs
import re
import time
from collections.abc import Iterator

import click
import msgspec

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.command import PlainTextReader
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.places import open_project, state_folder
from rulebook_ralph.cli.status import result_of
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.run import lock
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.results import AskedItem, CheckResult, Evidence, Finding, ParsedIteration
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.tasks.text import duration, money, some
from rulebook_ralph.verify.redaction import Redactor

_BLOCK = 256 * 1024
_LOOK = 0.2

Fact = tuple[str, str]
"""A label and what it says; without a label it belongs to the one before."""


@click.command("show")
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--prompt", "part", flag_value="prompt", help="The whole prompt the agent was given.")
@click.option("--raw", "part", flag_value="raw", help="The agent's whole output as it is.")
@click.option("--diff", "part", flag_value="diff", help="What the attempt changed, against its base.")
@click.option("--json", is_flag=True, help="Print the iteration's record.")
@click.pass_obj
def show_command(app: App, number: int, *, part: str | None, json: bool) -> None:
    """One iteration: what was asked, what the agent did, what Ralph found."""
    record = history.read(state_folder(app), number)
    with app.console(json=json, paged=part != "raw") as console:
        if json:
            console.json(msgspec.json.decode(history.encode(record)))
        elif part is None:
            _show(console, record)
        elif part == "prompt" and record.snapshot is None:
            console.verbatim(record.prompt)
        elif part == "prompt":
            console.verbatim(_of_attempt(open_project(app).project, record, "prompt.md").decode("utf-8", "replace"))
        elif part == "diff":
            console.verbatim(_of_attempt(open_project(app).project, record).decode("utf-8", "replace"), diff=True)
        else:
            console.raw(b"".join(_blocks(open_project(app).project, record, None)))


def _of_attempt(project: Project, record: Iteration, name: str = "") -> bytes:
    """A file that is kept beside an attempt, without a name what it changed. Raises RalphError."""
    if record.snapshot is None:
        raise RalphError(f"#{record.iteration_number} has no attempt to look at yet: its agent has not ended")
    diff = ("diff", "--no-ext-diff", "--no-textconv", record.base_commit, record.snapshot)
    try:
        return project.repository.run(*(("cat-file", "blob", f"{record.snapshot}^2:{name}") if name else diff))
    except GitError:
        attempt = f"the attempt of #{record.iteration_number} ({record.snapshot[:12]})"
        raise RalphError(f"{attempt} is not in this repository any more") from None


def _show(console: Console, record: Iteration) -> None:
    console.line(f"#{record.iteration_number}: {record.names}, {record.stage}, attempt {record.attempt}")
    for label, told in _facts(record):
        console.line(f"  {label:<9} {told}")
    if record.feedback:
        console.line("")
        console.line("Feedback to the next attempt:")
        console.verbatim(record.feedback)
    console.line("")
    number = record.iteration_number
    console.line(f"More: ralph show {number} --prompt | --diff | --json; what the agent said: ralph logs {number}")


def _facts(record: Iteration) -> Iterator[Fact]:
    yield "result", result_of(record)
    if (verdict := record.verdict) and verdict.reason != result_of(record):
        yield "verdict", verdict.reason + (f" ({verdict.hook})" if verdict.hook not in ("", "judge") else "")
    cost = "cost unknown" if record.cost_usd is None else money(record.cost_usd)
    yield "agent", f"{record.agent}, {_took(record.duration_ms)}, {cost}"
    yield "started", record.started_at
    yield "base", record.base_commit[:12]
    if record.commit and record.tasks_completed:
        yield "commit", record.commit[:12]
    for changed in record.changed_checks:
        yield changed.change, f"{changed.path}, a check{_after(changed.reason)}"
    for check in record.checks:
        yield from _of_check(check)
    yield from _of_evidence(record.evidence or Evidence())
    if record.review:
        yield from _of_review(record.review)
    for line in record.log:
        yield "note", line
    if record.files_changed:
        yield "files", some(record.files_changed, 8)
    claimed = record.parsed or ParsedIteration()
    if claimed.summary:
        yield "claimed", claimed.summary
    for learning in claimed.learnings:
        yield "learned", learning


def _of_check(check: CheckResult) -> Iterator[Fact]:
    label = check.method if check.method in ("gate", "hook") else "check"
    yield label, f"{check.step}: {check.ending}{_after(check.reason)} ({_took(check.duration_ms)})"
    for finding in check.findings:
        yield "", f"{'met' if finding.met else 'NOT met'}: {finding.criterion}{_place(finding)}"


def _of_evidence(evidence: Evidence) -> Iterator[Fact]:
    if evidence.turned:
        yield "proof", f"failed on the base and passes now: {some(evidence.turned)}"
    if evidence.broken:
        yield "changed", f"passed with the base's checks and fails now: {some(evidence.broken)}"
    for item in evidence.asked:
        reason = f", {item.reason}" if item.reason else ""
        yield "asked", f"{item.item}: {item.answer or 'no answer'}{reason}{_place(item)}"
    if evidence.asked:
        yield "", f"answered by: {evidence.judged_by or 'nobody'}"


def _of_review(review: Review) -> Iterator[Fact]:
    for look in review.looks:
        yield (
            "review",
            f"{look.tier} by {look.reviewer}: {look.decision}{_after(look.reason)} ({_took(look.duration_ms)})",
        )
    for issue in review.issues:
        yield "", f"{issue.severity} {issue.place} ({issue.type}): {issue.description}"
    for name in review.not_reviewed:
        yield "", f"not reviewed: {name}"


def _took(milliseconds: int) -> str:
    return duration(milliseconds / 1000)


def _after(reason: str) -> str:
    return f": {reason}" if reason else ""


def _place(found: Finding | AskedItem) -> str:
    return f" ({found.file}:{found.line})" if found.file else ""


# What the agent said and did


@click.command("logs")
@click.argument("number", type=click.IntRange(min=1), metavar="[N]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on while the agent works; without N, as long as the run does.")
@click.pass_obj
def logs_command(app: App, number: int | None, *, follow: bool) -> ExitCode:
    """What the agent said and did in iteration N, readable; without N in the one that goes on, or the last.

    `ralph show N` tells what came of it, `ralph show N --raw` prints the agent's output as it is.
    """
    project = open_project(app).project
    redactor = Redactor(Roster(project.config, app.environment).secrets())
    with app.console(paged=not follow, clean=redactor.clean) as console, interruptible() as cancelled:
        following: Iteration | None = _record(project, number, console)
        while (record := following) is not None:
            _tell(console, project, record, cancelled if follow else None)
            following = _next(project, record, cancelled) if follow and number is None else None
            if following is not None:
                console.line()
    return ExitCode.INTERRUPTED if cancelled.is_set() else ExitCode.OK


def _tell(console: Console, project: Project, record: Iteration, follow: Cancellation | None = None) -> None:
    """Print an attempt's transcript; with `follow` until its agent has ended, or that is set. Raises RalphError."""
    about = f"{record.names} · {record.stage} · attempt {record.attempt} · {record.agent}"
    console.line(f"#{record.iteration_number} {about}", style="bold")
    settings = Roster(project.config, project.environment).settings_of(record.agent)
    shown = Transcript(console, project)
    now = local_clock({**project.environment, **settings.env})
    reader = registry.reader_class(settings)(shown.add, now)
    feed = shown.raw if isinstance(reader, PlainTextReader) else reader.feed
    for block in _blocks(project, record, follow):
        feed(block)
    shown.end(reader.close().final_text)


class Transcript:
    """An agent's activity as lines: what it said, `● Bash  make test`, and how that failed."""

    def __init__(self, console: Console, project: Project) -> None:
        self._console = console
        self._decoded = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._begun = ""
        self._has_spoken = False
        clones = rf"{re.escape(str(project.cache))}/[^/\s]+/[^/\s]+/"
        self._roots = re.compile(rf"{clones}|{re.escape(str(project.root))}/")

    def add(self, activity: AgentActivity) -> None:
        if activity.kind == "text":
            self._said(f"{activity.detail or activity.text}\n")
            return
        self._close()
        if activity.kind == "failure":
            self._console.line(f"  {self._short(activity.text)}", style="red")
            return
        mark = "●" if activity.kind == "tool" else "↻"
        detail = f"  {self._short(activity.detail)}" if activity.detail else ""
        self._console.line(f"{mark} {activity.text}{detail}", style="cyan" if activity.kind == "tool" else "yellow")

    def raw(self, block: bytes) -> None:
        """Output of an agent whose stream nobody here can read."""
        self._said(self._decoded(block))

    def end(self, final_text: str) -> None:
        """The agent's final message, where it is all that the agent said."""
        if final_text and not self._has_spoken:
            self._said(f"{final_text}\n")
        self._close()

    def _close(self) -> None:
        """The end of a text."""
        if self._begun:
            self._console.line(self._short(self._begun))
        self._begun = ""

    def _said(self, text: str) -> None:
        self._has_spoken = True
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._console.line(self._short(line))

    def _short(self, text: str) -> str:
        return self._roots.sub("", text)


def _blocks(project: Project, record: Iteration, follow: Cancellation | None) -> Iterator[bytes]:
    """The agent's output as it is, from its attempt, or from the file that it goes to while it works."""
    path = project.output_file(record.iteration_number)
    if record.snapshot is None and path.exists():
        with path.open("rb") as file:
            while True:
                goes_on = follow is not None and not follow.is_set() and _is_at_work(project, record.iteration_number)
                while block := file.read(_BLOCK):
                    yield block
                if not goes_on:
                    return
                time.sleep(_LOOK)
    record = history.read(project.folder, record.iteration_number)
    if record.snapshot is not None:
        yield _of_attempt(project, record, "output.log")


def _is_at_work(project: Project, number: int) -> bool:
    running = lock.holder(project.private / lock.LOCK) is not None
    return running and history.read(project.folder, number).phase == "executing"


def _record(project: Project, number: int | None, console: Console) -> Iteration:
    """The iteration that is asked for. Raises RalphError."""
    if number is not None:
        return history.read(project.folder, number)
    working = history.unsettled_numbers(project.folder)
    if len(working) > 1:
        others = ", ".join(f"ralph logs {each}" for each in working[:-1])
        console.line(f"several are at work; the others: {others}", style="dim")
    numbers = working or history.numbers(project.folder)
    if not numbers:
        raise RalphError("no iterations yet; start with: ralph run")
    return history.read(project.folder, numbers[-1])


def _next(project: Project, record: Iteration, cancelled: Cancellation) -> Iteration | None:
    """The next iteration of the run that goes on; None when it has ended."""
    while not cancelled.wait(_LOOK):
        later = [each for each in history.numbers(project.folder) if each > record.iteration_number]
        if later:
            return history.read(project.folder, later[0])
        if lock.holder(project.private / lock.LOCK) is None:
            return None
    return None
