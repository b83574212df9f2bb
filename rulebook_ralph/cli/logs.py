"""`ralph logs`: what an agent said and did in an attempt, also while it works, from another terminal."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.command import PlainTextReader
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.app import App, interruptible
from rulebook_ralph.cli.places import open_project
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.run import lock
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.verify.redaction import Redactor

_BLOCK = 256 * 1024
_LOOK = 0.2


@click.command()
@click.argument("number", type=click.IntRange(min=1), metavar="[N]", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on while the agent works; without N, as long as the run does.")
@click.pass_obj
def command(app: App, number: int | None, *, follow: bool) -> int:
    """What the agent said and did in iteration N, readable; without N in the one that goes on, or the last.

    `ralph show N` tells what came of it, `ralph show N --raw` prints the agent's output as it is.
    """
    project = open_project(app).project
    redactor = Redactor(Roster(project.config, app.environment).secrets())
    with app.console(paged=not follow, clean=redactor.clean) as console, interruptible() as cancelled:
        record = _record(project, number, console)
        while True:
            tell(console, project, record, cancelled if follow else None)
            following = _next(project, record, cancelled) if follow and number is None else None
            if following is None:
                return ExitCode.INTERRUPTED if cancelled.is_set() else ExitCode.OK
            record = following
            console.line()


def tell(console: Console, project: Project, record: Iteration, follow: Cancellation | None = None) -> None:
    """Print an attempt's transcript; with `follow` until its agent has ended, or that is set. Raises RalphError."""
    console.line(
        f"#{record.iteration_number} {record.names} · {record.stage} · attempt {record.attempt} · {record.agent}",
        style="bold",
    )
    settings = Roster(project.config, project.environment).settings_of(record.agent)
    shown = _Transcript(console, project)
    now = local_clock({**project.environment, **settings.env})
    reader = registry.reader_of(settings, shown.add, now)
    feed = shown.raw if reader is None or isinstance(reader, PlainTextReader) else reader.feed
    for block in _blocks(project, record, follow):
        feed(block)
    if reader is not None:
        shown.end(reader.close().final_text)
    shown.close()


class _Transcript:
    """An agent's activity as lines: what it said, `● Bash  make test`, and how that failed."""

    def __init__(self, console: Console, project: Project) -> None:
        self._console = console
        self._begun = ""
        self._has_spoken = False
        clones = rf"{re.escape(str(project.cache))}/[^/\s]+/[^/\s]+/"
        self._roots = re.compile(rf"{clones}|{re.escape(str(project.root))}/")

    def add(self, activity: AgentActivity) -> None:
        if activity.kind == "text":
            self._said(f"{activity.detail or activity.text}\n")
            return
        self.close()
        if activity.kind == "failure":
            self._console.line(f"  {self._short(activity.text)}", style="red")
            return
        mark = "●" if activity.kind == "tool" else "↻"
        detail = f"  {self._short(activity.detail)}" if activity.detail else ""
        self._console.line(f"{mark} {activity.text}{detail}", style="cyan" if activity.kind == "tool" else "yellow")

    def raw(self, block: bytes) -> None:
        """Output of an agent whose stream nobody here can read."""
        self._said(block.decode("utf-8", "replace"))

    def end(self, final_text: str) -> None:
        """The agent's final message, where it is all that the agent said."""
        if final_text and not self._has_spoken:
            self._said(f"{final_text}\n")

    def close(self) -> None:
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


def raw_output(project: Project, record: Iteration) -> bytes:
    """The agent's output as it is, as far as there is any. Raises RalphError."""
    return b"".join(_blocks(project, record, None))


def _blocks(project: Project, record: Iteration, follow: Cancellation | None) -> Iterator[bytes]:
    """The agent's output, from its attempt, or from the file that it goes to while it works."""
    path = project.output_file(record.iteration_number)
    if record.snapshot is None and path.exists():
        yield from _live_blocks(path, lambda: _is_at_work(project, record.iteration_number), follow)
        return
    record = history.read(project.folder, record.iteration_number)
    if record.snapshot is None:
        return
    try:
        yield project.repository.run("cat-file", "blob", f"{record.snapshot}^2:output.log")
    except GitError:
        raise RalphError(
            f"the attempt of #{record.iteration_number} ({record.snapshot[:12]}) is not in this repository any more"
        ) from None


def _live_blocks(path: Path, at_work: Callable[[], bool], follow: Cancellation | None) -> Iterator[bytes]:
    with path.open("rb") as file:
        while True:
            goes_on = follow is not None and not follow.is_set() and at_work()
            while block := file.read(_BLOCK):
                yield block
            if not goes_on:
                return
            time.sleep(_LOOK)


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
