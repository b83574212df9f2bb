"""Bringing an edit into the task list: into the file where no run goes on, else to the run."""

import time
from collections.abc import Callable

import msgspec

from rulebook_ralph import control, lineage
from rulebook_ralph.app import App
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.core import edits
from rulebook_ralph.core.edits import Done, Edit, EditRefusedError, Remove, Reopen, Sent, Unblock
from rulebook_ralph.core.plan import AddAll
from rulebook_ralph.core.problem import Fault, dotted
from rulebook_ralph.core.taking import Put, Take
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.project import refuse_second_state
from rulebook_ralph.state import editable, history, lock, store
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.store import StateFolder
from rulebook_ralph.workspace.repository import Repository

_ANSWER = 60.0
_LISTENING = 5.0
_PAUSE = 0.05

INSIDE_AN_AGENT = "this runs inside an agent's process tree, where the task list may not be changed"

Namer = Callable[[Fault], str]
"""The name under which a person gave the value that is at fault."""


def place_of(fault: Fault) -> str:
    """The keys of the value within its task; empty for the task itself."""
    return dotted("", fault.path).removeprefix(".")


def carry_out(app: App, edit: Edit, *, name: Namer = place_of) -> int:
    """Deliver the edit and say what came of it, every problem on a line of its own; returns the exit code."""
    with app.console() as console:
        try:
            console.line(deliver(app, edit))
        except EditRefusedError as error:
            told = (f"{where}: {fault.message}" if (where := name(fault)) else fault.message for fault in error.faults)
            for line in dict.fromkeys(told):
                console.error(line)
            return error.exit_code
    return ExitCode.OK


def deliver(app: App, edit: Sent) -> str:
    """Have the edit made; returns the line for the person. Raises RalphError; then nothing was changed."""
    if lineage.carries_mark(app.environment):
        raise RalphError(INSIDE_AN_AGENT)
    try:
        message = msgspec.json.encode(edit)
    except UnicodeEncodeError:
        raise RalphError("what was given is no valid UTF-8 text") from None
    root, repository = open_root(app)
    folder = StateFolder(root)
    refuse_second_state(repository, folder)
    deadline = app.clock.monotonic() + _LISTENING
    while True:
        with lock.briefly(repository.lock_file) as running:
            if running is None:
                return _write(app, folder, edit)
        answer = _ask(repository, running, message)
        if answer is not None:
            return answer
        if app.clock.monotonic() > deadline:
            raise RalphError(f"{running.told()} is working on this project and takes no edits; wait for it or end it")
        time.sleep(_PAUSE)  # it has only just begun, or is about to end


def require_deliverable(app: App) -> None:
    """Raises RalphError where no edit would be taken, as far as it can be told now."""
    root, repository = open_root(app)
    folder = StateFolder(root)
    with lock.briefly(repository.lock_file) as running:
        if running is None:
            _require_settled(folder, AddAll(tasks=()))


def _write(app: App, folder: StateFolder, edit: Sent) -> str:
    """Under the lock: nobody else writes. Returns the line for the person."""
    _require_settled(folder, edit)
    if isinstance(edit, Put):
        if not edits.is_to_be_put(edit, editable.current(folder, edit.name)):
            return f"{edit.name}: nothing changed"
        editable.put(folder, edit.name, edit.content)
        return f"{edit.name}: taken over"
    before = store.read_prd(folder)
    applied = edits.apply(before, edit, at=app.clock.iso(), at_work=())
    if applied.prd is not before:
        store.write_prd(folder, applied.prd)
    return applied.answer


def _require_settled(folder: StateFolder, edit: Sent) -> None:
    """What the agent of a run that died may have written is put back at the next start; an edit would be too."""
    for record in history.unsettled(folder):
        moves = isinstance(edit, Unblock | Reopen | Done | Remove) and edit.task_id in record.tasks
        moves = moves or isinstance(edit, Take)
        if record.phase == "executing" or moves:
            raise RalphError(
                f"the last run ended in the middle of iteration {record.iteration_number} ({record.names}); "
                "run 'ralph resume' first, this command works while it runs"
            )


def _ask(repository: Repository, running: Holder, message: bytes) -> str | None:
    """The line of the run that goes on; None where it does not listen."""
    place = control.address(repository.private, running.pid)
    answer = control.ask(place, message, server=running.pid, seconds=_ANSWER)
    if answer is None:
        return None
    if answer.faults:
        raise EditRefusedError(*answer.faults)
    if answer.refused:
        raise RalphError(answer.text)
    return answer.text
