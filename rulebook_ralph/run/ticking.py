"""The box of a task in the file that it came from, ticked in the commit that completes the task.

Only the tree changes: nothing is judged by a box, and a box is never believed.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from rulebook_ralph.git.objects import Entry
from rulebook_ralph.git.repository import Repository, within_state
from rulebook_ralph.git.trees import with_entries
from rulebook_ralph.tasks.model import Task

_FILES = ("100644", "100755")


def with_box_ticked(repository: Repository, tree: str, task: Task, *, tell: Callable[[str], None]) -> str:
    """The tree with the task's box ticked; the same tree where there is none. `tell` is told why one is not ticked."""
    if not task.source or within_state(task.source):
        return tree
    from rulebook_ralph.tasks.importers import task_files  # noqa: PLC0415 - a Markdown parser

    name = task_files.file_of(task)
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        return tree
    entry = repository.entry(tree, name)
    before = repository.file_of(tree, name)
    if entry is None or before is None or entry.mode not in _FILES:
        if name == task.source:
            tell(f"the box of {task.id} is not ticked in {name}: git has no such file")
        return tree
    ticked = task_files.ticked(before, task)
    if ticked is None:
        tell(f"the box of {task.id} is not ticked in {name}: it has no line of the task")
        return tree
    if ticked == before:
        return tree
    return with_entries(repository, tree, [(name, Entry(entry.mode, repository.objects.blob(ticked)))])
