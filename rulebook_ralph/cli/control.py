"""`ralph pause` and `ralph cancel`: the run that goes on ends after this iteration, or now. And `ralph events`: what
happens in it.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from rulebook_ralph.cli.app import App, Duration, interruptible
from rulebook_ralph.cli.places import open_root, private_folder, refuse_agents, state_folder
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.event_log import EventLogReader
from rulebook_ralph.run import lock
from rulebook_ralph.run.control import Cancel, Pause, give
from rulebook_ralph.run.lock import Holder
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.text import span

_TIMEOUT = 60.0
_LOOK = 0.1
_GOING = 1.0
_NO_RUN = "no run is going on in this project"
_NOT_HERE = "a run may not be paused or cancelled"


@click.command("pause")
@click.option("--undo", is_flag=True, help="Take it back: the run goes on after all.")
@click.pass_obj
def pause_command(app: App, *, undo: bool) -> None:
    """Let the run that goes on end after this iteration, from another terminal; 'ralph resume' goes on.

    The iteration is judged and settled as always, with --parallel all that go on; a run that waits for an agent's
    limit ends at once. The run itself ends with exit code 0. This command does not wait for it; it ends with 2 where
    no run is going on.
    """
    refuse_agents(app, _NOT_HERE)
    obeyed = give(open_root(app)[1].private, Pause(undo=undo), clock=app.clock)
    if obeyed is None:
        raise RalphError(_NO_RUN)
    with app.console() as console:
        console.line(obeyed.answer.text)


@click.command("cancel")
@click.option(
    "--timeout",
    type=Duration(),
    metavar="TIME",
    default=_TIMEOUT,
    help="Wait at most so long for the end (default: 1m); the order stands.",
)
@click.pass_obj
def cancel_command(app: App, *, timeout: float) -> None:
    """End the run that goes on now, from another terminal, and wait until it has ended.

    Its agent is interrupted, then terminated, then killed. The attempt is not counted, what it made is saved ('ralph
    show N --diff'), its task is pending again. The run itself ends with exit code 130. This command ends with 2 where
    no run is going on, and 4 when the time is over.
    """
    refuse_agents(app, _NOT_HERE)
    root, repository = open_root(app)
    folder = StateFolder(root)
    deadline = app.clock.monotonic() + timeout
    obeyed = give(repository.private, Cancel(), clock=app.clock, listening=timeout)
    if obeyed is None:
        died = _named(list(history.unsettled(folder)))
        told = f"no run is going on: the last one died in {died}; 'ralph resume' saves its work and goes on"
        raise RalphError(told if died else _NO_RUN)
    who = obeyed.holder
    told = obeyed.answer.text
    if not who.is_agent:
        if not _ended(app, repository.private, who, deadline=deadline):
            raise RalphError(
                f"process {who.pid} is told to end and has not within {span(timeout)}; look again with ralph status, "
                f"or end it with kill -KILL {who.pid} and then: ralph resume",
                exit_code=ExitCode.LIMITED,
            )
        at_work = obeyed.answer.situation.at_work if obeyed.answer.situation else ()
        told = _outcome(folder, [each.iteration_number for each in at_work])
    with app.console() as console:
        console.line(told)


def _named(records: Sequence[Iteration]) -> str:
    """`#7 (t2), #8 (t3)`."""
    return ", ".join(f"#{each.iteration_number} ({each.task_id})" for each in records)


def _outcome(folder: StateFolder, numbers: Sequence[int]) -> str:
    """What came of the attempts that were being made when the order was given, by their records as they stand now."""
    records: list[Iteration] = []
    with suppress(RalphError):
        records = [history.read(folder, number) for number in numbers]
    came = [
        f"{_named([each])} is not counted, its work is saved (ralph show {each.iteration_number} --diff)"
        if each.completion_status == "cancelled"
        else f"{_named([each])} had ended as {each.completion_status}"
        for each in records
    ]
    return "; ".join([f"cancelled: {came[0]}" if came else "cancelled", *came[1:], "go on with: ralph resume"])


def _ended(app: App, private: Path, who: Holder, *, deadline: float) -> bool:
    """Whether the run has let go of the project in time; its process is waited for a moment more."""
    path = private / lock.LOCK
    while (holder := lock.holder(path)) is not None and (holder.pid, holder.since) == (who.pid, who.since):
        if app.clock.monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    going = app.clock.monotonic() + _GOING
    while who.lives() and app.clock.monotonic() < going:
        time.sleep(_LOOK)
    return True


@click.command("events")
@click.option("--follow", "-f", is_flag=True, help="Go on as long as the run does.")
@click.pass_obj
def events_command(app: App, *, follow: bool) -> ExitCode:
    """The events of the run that goes on, else of the last one, as `ralph run --events` prints them."""
    private = private_folder(state_folder(app))
    reader = EventLogReader(private)
    with app.console() as console, interruptible() as cancelled:
        while True:
            goes_on = follow and lock.holder(private / lock.LOCK) is not None
            try:
                for line in reader.lines():
                    console.raw(line.data + b"\n")
            except OSError as error:
                raise RalphError(f"the events cannot be read: {error}") from None
            if not goes_on:
                return ExitCode.OK
            if cancelled.wait(_LOOK):
                return ExitCode.INTERRUPTED
