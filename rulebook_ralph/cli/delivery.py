"""Changing a project's state from a command that is no run: an edit of the task list goes into the file, or to the run
that goes on; all else happens under the project's lock.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import OpenedProject, open_project, open_root, project_with, refuse_agents
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.attempts import state_reference
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report.events import Event
from rulebook_ralph.run import control, lock
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.project import RunContext, RunOptions
from rulebook_ralph.tasks import disk, edits, history, prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.edits import Edit, EditRefusedError, Move
from rulebook_ralph.tasks.model import Prd

if TYPE_CHECKING:
    from rulebook_ralph.run.parts import Parts

TASKS_STAY = "the task list may not be changed"
"""How the refusal within an agent's process tree ends."""

_COMMAND = "task"
_OTHERS = 5.0
_PAUSE = 0.05


def deliver(app: App, edit: Edit) -> str:
    """Have the edit made; returns the line for the person. Raises RalphError; then nothing was changed."""
    refuse_agents(app, TASKS_STAY)
    try:
        change = msgspec.Raw(msgspec.json.encode(edit))
    except UnicodeEncodeError:
        raise RalphError("what was given is no valid UTF-8 text") from None
    root, repository = open_root(app)
    path = repository.private / lock.LOCK
    deadline = app.clock.monotonic() + _OTHERS
    while True:
        holder = lock.holder(path)
        passing = holder is not None and (not holder.pid or holder.command == _COMMAND)  # it looks, or edits as this
        if holder is not None and (not passing or app.clock.monotonic() > deadline):
            return _given(app, repository, control.Edit(change=change))
        if holder is None:  # a watch that waits for edits looks at the file itself
            with ExitStack() as stack:
                try:
                    stack.enter_context(lock.hold(repository.private, _COMMAND, since=app.clock.iso()))
                except RalphError:  # somebody was quicker
                    if app.clock.monotonic() > deadline:
                        raise
                else:
                    return _write(app, StateFolder(root), repository, edit)
        time.sleep(_PAUSE)


def _given(app: App, repository: Repository, order: control.Edit) -> str:
    """Have the run that goes on make the edit; returns its line. Raises RalphError."""
    obeyed = control.give(repository.private, order, clock=app.clock)
    if obeyed is None:
        raise RalphError("the run has just ended; give the command again")
    answer = obeyed.answer
    if answer.faults:
        raise EditRefusedError(*answer.faults)
    if answer.refused:
        raise RalphError(answer.text)
    return answer.text


def _write(app: App, folder: StateFolder, repository: Repository, edit: Edit) -> str:
    """Under the lock: nobody else writes. Returns the line for the person.

    Where Ralph has saved the state already, the edit is saved there too: then it is known to be Ralph's own. Else, and
    where another branch is checked out, the file is left as an editor leaves it, with the time of its last version.
    """
    _require_settled(folder, edit)
    before = prd_file.read_prd(folder.prd)
    answer = ""

    def change(prd: Prd) -> Prd:
        nonlocal answer
        applied = edits.apply(prd, edit, at=app.clock.iso(), at_work=())
        answer = applied.answer
        return applied.prd

    if repository.branch() == before.work_branch and repository.commit_of(state_reference(before.project)):
        journal = Journal(
            project_with(app, repository, Config()), before, clock=app.clock, notice=lambda _level, _text: None
        )
        journal.edit(change)
    else:
        after = change(before)
        if after is not before:
            kept = replace(after, updated_at=before.updated_at)
            disk.replace_file(folder.prd, prd_file.encode_prd(kept))
    return answer


def _require_settled(folder: StateFolder, edit: Edit | None = None) -> None:
    """Raises RalphError where a dead run's iteration is to be recovered first: it decides about the task's status."""
    for record in history.unsettled(folder):
        moves = isinstance(edit, Move) and edit.task_id in record.tasks
        if edit is None or moves:
            raise RalphError(
                f"the last run ended in the middle of #{record.iteration_number} ({record.names}); "
                "run 'ralph resume' first, this command works while it runs"
            )


@contextmanager
def alone(app: App, command: str) -> Iterator[OpenedProject]:
    """The project under its lock, while no run goes on and none is to be recovered. Raises RalphError."""
    refuse_agents(app, f"'ralph {command}' is refused")
    opened = open_project(app)
    with lock.hold(opened.project.private, command, since=app.clock.iso()):
        _require_settled(opened.project.folder)
        yield opened


@contextmanager
def prepared(app: App, command: str, *, report: Callable[[Event], None], cancelled: Cancellation) -> "Iterator[Parts]":
    """The parts of a run, without any agent's work. Raises RalphError."""
    from rulebook_ralph.run.parts import Parts  # noqa: PLC0415 - not for a command that edits the list

    with alone(app, command) as opened:
        require_agreed(app, opened)
        context = RunContext(report=report, clock=app.clock, cancelled=cancelled)
        with Parts(opened.project, RunOptions(command=command), context) as parts:
            yield parts
