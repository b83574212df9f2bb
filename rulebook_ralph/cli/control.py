"""`ralph pause` and `ralph cancel`: the run that goes on ends after this iteration, or now."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from rulebook_ralph.cli.app import App, Duration
from rulebook_ralph.cli.places import open_root, refuse_agents
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.run import lock
from rulebook_ralph.run.control import AtWork, Cancel, Obeyed, Pause, give
from rulebook_ralph.run.lock import Holder
from rulebook_ralph.tasks import history
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.text import span

_TIMEOUT = 60.0
_LISTENING = 5.0
_LOOK = 0.1
_GOING = 1.0
_NO_RUN = "no run is going on in this project"


@click.command("pause")
@click.option("--undo", is_flag=True, help="Take it back: the run goes on after all.")
@click.pass_obj
def pause(app: App, *, undo: bool) -> int:
    """Let the run that goes on end after this iteration, from another terminal; 'ralph resume' goes on.

    The iteration is judged and settled as always, with --parallel all that go on; a run that waits for an agent's
    limit ends at once. The run itself ends with exit code 0. This command does not wait for it; it ends with 2 where
    no run is going on.
    """
    obeyed = _order(app, open_root(app)[1].private, Pause(undo=undo))
    if obeyed is None:
        raise RalphError(_NO_RUN)
    with app.console() as console:
        console.line(obeyed.answer.text)
    return ExitCode.OK


@click.command("cancel")
@click.option(
    "--timeout",
    type=Duration(),
    metavar="TIME",
    default=_TIMEOUT,
    help="Wait at most so long for the end (default: 1m); the order stands.",
)
@click.pass_obj
def cancel(app: App, *, timeout: float) -> int:
    """End the run that goes on now, from another terminal, and wait until it has ended.

    Its agent is interrupted, then terminated, then killed. The attempt is not counted, what it made is saved ('ralph
    show N --diff'), its task is pending again. The run itself ends with exit code 130. This command ends with 2 where
    no run is going on, and 4 when the time is over.
    """
    root, repository = open_root(app)
    folder = StateFolder(root)
    deadline = app.clock.monotonic() + timeout
    obeyed = _order(app, repository.private, Cancel(), listening=timeout)
    if obeyed is None:
        raise RalphError(_nothing_to_cancel(list(history.unsettled(folder))))
    who = obeyed.holder
    if who.is_agent:
        with app.console() as console:
            console.line(obeyed.answer.text)
        return ExitCode.OK
    if not _ended(app, repository.private, who, deadline=deadline):
        raise RalphError(
            f"process {who.pid} is told to end and has not within {span(timeout)}; look again with ralph status, "
            f"or end it with kill -KILL {who.pid} and then: ralph resume",
            exit_code=ExitCode.LIMITED,
        )
    at_work = obeyed.answer.situation.at_work if obeyed.answer.situation else ()
    with app.console() as console:
        console.line(_outcome(_records(folder, at_work)))
    return ExitCode.OK


def _order(app: App, private: Path, order: Pause | Cancel, *, listening: float = _LISTENING) -> Obeyed | None:
    refuse_agents(app, "a run may not be paused or cancelled")
    return give(private, order, clock=app.clock, listening=listening)


def _nothing_to_cancel(unsettled: Sequence[Iteration]) -> str:
    """Why nothing was done, and what there is to do after a run that died in an iteration."""
    if not unsettled:
        return _NO_RUN
    return f"no run is going on: the last one died in {_named(unsettled)}; 'ralph resume' saves its work and goes on"


def _named(records: Sequence[Iteration]) -> str:
    """`#7 (t2), #8 (t3)`."""
    return ", ".join(f"#{each.iteration_number} ({each.task_id})" for each in records)


def _outcome(records: Sequence[Iteration]) -> str:
    """What came of the attempts that were being made when the order was given, by their records as they stand now."""
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


def _records(folder: StateFolder, at_work: Sequence[AtWork]) -> list[Iteration]:
    try:
        return [history.read(folder, each.iteration_number) for each in at_work]
    except RalphError:
        return []
