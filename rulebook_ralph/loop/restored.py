"""Work that `ralph restore` put into the tree: known again by the next run, which goes on from it.

A note in the git folder says what was brought back. It is believed as long as the tree stands so to the letter and no
iteration was opened since; from then on the history says what stands in the tree.
"""

from dataclasses import dataclass

import msgspec

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.model import Task
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state import disk, history, store
from rulebook_ralph.workspace.snapshot import Workspace

_NAME = "restored.json"
_OPEN = ("pending", "in_iteration")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was brought back: the iteration's number and task, the tree it makes with HEAD, and the newest iteration
    there was then.
    """

    number: int
    task_id: str
    tree: str
    newest: int


def remember(project: Project, restored: Restored) -> None:
    """Write the note, before the tree is touched. Raises RalphError."""
    disk.make_folder(project.repository.private)
    disk.replace_file(project.repository.private / _NAME, msgspec.json.encode(restored))


def forget(project: Project) -> None:
    """The work has left the tree again."""
    (project.repository.private / _NAME).unlink(missing_ok=True)


def noted(project: Project) -> Restored | None:
    """What was brought back last, unless the history has gone on since."""
    try:
        note = msgspec.json.decode((project.repository.private / _NAME).read_bytes(), type=Restored)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return note if note.newest == newest_number(project) and project.repository.tree_exists(note.tree) else None


def newest_number(project: Project) -> int:
    """The number of the newest iteration file; 0 without any."""
    return max(history.numbers(project.folder)[-1:], default=0)


def stands(workspace: Workspace, restored: Restored) -> bool:
    """Whether the tree is just what was brought back, and that is more than HEAD."""
    opening = workspace.open(restored.tree)
    is_as_noted = not workspace.changes(workspace.capture(opening), restored.tree)
    return is_as_noted and bool(workspace.changes(opening.tree, restored.tree))


def kept(project: Project, workspace: Workspace) -> Kept | None:
    """The work that was brought back, where it stands as it was and its task is open.

    Raises RalphError where it stands and its task is not open, or where it was changed since and its new files would
    count as a person's.
    """
    note = noted(project)
    if note is None:
        return None
    if not stands(workspace, note):
        _require_no_new_files(project, workspace, note)
        return None
    task = next((task for task in store.read_prd(project.folder).tasks if task.id == note.task_id), None)
    if task is None or task.status not in _OPEN:
        raise RalphError(f"the tree holds what 'ralph restore {note.number}' brought back; {go_on(task, note)}")
    return Kept(note.task_id, note.tree)


def go_on(task: Task | None, note: Restored) -> str:
    """What to do so that a run goes on from it, in a few words."""
    if task is None:
        return f"{note.task_id} is not in the task list: commit it, or take it out: ralph restore {note.number} --undo"
    if task.status == "completed":
        way = f"ralph task reopen {task.id} --reason …, then: ralph resume"
        return f"{task.id} is completed; to go on from it: {way}; or commit it"
    if task.status == "blocked":
        return f"{task.id} is blocked; to go on from it: ralph task unblock {task.id}, then: ralph resume"
    return "go on from it: ralph resume"


def _require_no_new_files(project: Project, workspace: Workspace, note: Restored) -> None:
    changes = workspace.changes(project.repository.tree_of("HEAD"), note.tree)
    new = [change.path for change in changes if change.kind == "A" and (project.root / change.path).exists()]
    if new:
        raise RalphError(
            f"what 'ralph restore {note.number}' brought back was changed since, and its new files are not committed: "
            f"{some(new)}; commit them, or move them away"
        )
