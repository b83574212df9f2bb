"""`ralph cancel`: the run that goes on ends now, and its end is waited for."""

from collections.abc import Sequence
from pathlib import Path

import click

from rulebook_ralph import process_table
from rulebook_ralph.app import App
from rulebook_ralph.commands.durations import Duration
from rulebook_ralph.commands.ordering import order
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.core import orders
from rulebook_ralph.core.amounts import span
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.orders import AtWork, Cancel
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.state import history, lock
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.store import StateFolder

_TIMEOUT = 60.0
_LOOK = 0.1
_GOING = 1.0


@click.command()
@click.option(
    "--timeout",
    type=Duration(),
    metavar="TIME",
    default=_TIMEOUT,
    help="Wait at most so long for the end (default: 1m); the order stands.",
)
@click.pass_obj
def command(app: App, *, timeout: float) -> int:
    """End the run that goes on now, from another terminal, and wait until it has ended.

    Its agent is interrupted, then terminated, then killed. The attempt is not counted, what it made is saved in a
    snapshot ('ralph show N --diff'), the tree goes back to the base, the task to pending; progress.txt is kept. The
    run itself ends with exit code 130. This command ends with 2 where no run is going on, and 4 when the time is over.
    """
    root, repository = open_root(app)
    folder = StateFolder(root)
    deadline = app.clock.monotonic() + timeout
    obeyed = order(app, repository.private, Cancel(), listening=timeout)
    if obeyed is None:
        raise RalphError(nothing_to_cancel(list(history.unsettled(folder))))
    who = obeyed.holder
    if who.is_agent:
        with app.console() as console:
            console.line(obeyed.answer.text)
        return ExitCode.OK
    if not _ended(app, repository.lock_file, who, deadline=deadline):
        raise RalphError(
            f"process {who.pid} is told to end and has not within {span(timeout)}; look again with ralph status, "
            f"or end it with kill -KILL {who.pid} and then: ralph resume",
            exit_code=ExitCode.LIMITED,
        )
    at_work = obeyed.answer.situation.at_work if obeyed.answer.situation else ()
    with app.console() as console:
        console.line(told(_records(folder, at_work)))
    return ExitCode.OK


def nothing_to_cancel(unsettled: Sequence[Iteration]) -> str:
    """Why nothing was done, and what there is to do after a run that died in an iteration."""
    if not unsettled:
        return "no run is going on in this project"
    died = orders.named(unsettled)
    return f"no run is going on: the last one died in {died}; 'ralph resume' saves its work and goes on"


def told(records: Sequence[Iteration]) -> str:
    """What came of the attempts that were being made when the order was given, by their records as they stand now."""
    cut_short = [record for record in records if record.completion_status == "cancelled"]
    came = []
    if len(cut_short) == 1:
        number = cut_short[0].iteration_number
        came.append(f"{orders.named(cut_short)} is not counted, its work is saved (ralph show {number} --diff)")
    elif cut_short:
        came.append(f"{orders.named(cut_short)} are not counted, their work is saved (ralph show NUMBER --diff)")
    came += [
        f"{orders.named([record])} had ended as {record.completion_status}"
        for record in records
        if record.completion_status != "cancelled"
    ]
    return "; ".join([f"cancelled: {came[0]}" if came else "cancelled", *came[1:], "go on with: ralph resume"])


def _ended(app: App, lock_file: Path, who: Holder, *, deadline: float) -> bool:
    """Whether the run has let go of the project in time; its process is waited for a moment more."""
    process = process_table.look(who.pid)
    processes = {process} if process else set()
    while (holder := lock.holder(lock_file)) is not None and (holder.pid, holder.since) == (who.pid, who.since):
        left = deadline - app.clock.monotonic()
        if left <= 0:
            return False
        process_table.wait_until_gone(processes, min(_LOOK, left))
    process_table.wait_until_gone(processes, _GOING)
    return True


def _records(folder: StateFolder, at_work: Sequence[AtWork]) -> list[Iteration]:
    try:
        return [history.read(folder, each.iteration_number) for each in at_work]
    except RalphError:
        return []
