"""Ralph ticks the box of what it verified in the file that the task came from, in the commit that completes the task.

The commit's tree is the one that was judged but for that box: the blob is made from the judged one, whatever else the
file holds by then. Nothing is judged with the box ticked, so no check has to know of it, and nothing is lost by it: a
box is never believed.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.sources.text_file import MAX_BYTES
from rulebook_ralph.workspace.clearing import is_behind_link
from rulebook_ralph.workspace.repository import within_state
from rulebook_ralph.workspace.snapshot import Workspace

_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Ticked:
    """A box that is ticked: the tree with it, and what the file in the work tree was and becomes. `by_way_of` is where
    the file is written first.
    """

    tree: str
    file: Path
    before: bytes
    after: bytes
    by_way_of: Path

    def take_back(self) -> None:
        """Undo it in the work tree, unless the file was changed since."""
        with suppress(OSError):
            if self.file.read_bytes() == self.after:
                self._put(self.before)

    def put(self) -> None:
        """Do it in the work tree. Raises OSError."""
        self._put(self.after)

    def _put(self, content: bytes) -> None:
        """Replace the file, with nothing beside it that a crash could leave there."""
        self.by_way_of.write_bytes(content)
        shutil.copymode(self.file, self.by_way_of)
        try:
            self.by_way_of.replace(self.file)
        except OSError:  # the git folder is on another disk
            self.file.write_bytes(content)
            self.by_way_of.unlink()


def tick(workspace: Workspace, tree: str, task: Task, tell: Callable[[str], None]) -> Ticked | None:
    """Tick the task's box in its file and in the tree, which is the one that stands in the work tree. None where there
    is nothing to tick; `tell` is told why not.
    """
    if not task.source or within_state(task.source):
        return None
    try:
        ticked = _ticked(workspace, tree, task)
        if ticked is not None:
            ticked.put()
    except (LookupError, OSError) as error:
        tell(f"the box of {task.id} is not ticked in {task.source}: {error}")
        return None
    return ticked


def _ticked(workspace: Workspace, tree: str, task: Task) -> Ticked | None:
    """None where there is nothing to tick; raises OSError and LookupError where the box cannot be ticked."""
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    name, root = boxes.file_of(task), workspace.repository.root
    if not name or (name != task.source and not (root / name).exists()):  # a rulebook's task need not have a checklist
        return None
    path = PurePosixPath(name)
    below = not path.is_absolute() and ".." not in path.parts
    mode, judged = workspace.file_in(tree, name) if below else ("", b"")
    if mode not in _FILES:
        raise LookupError("git has no such file")
    before = _content(root, name)
    wanted, after = boxes.ticked(judged, task), boxes.ticked(before, task)
    if wanted is None or after is None:
        raise LookupError("it has no line of the task")
    if wanted == judged:
        return None
    with_box = workspace.with_file(tree, name, mode, wanted)
    return Ticked(with_box, root / name, before, after, workspace.repository.scratch / "ticked")


def said_to_be_done(root: Path, prd: Prd) -> Iterator[str]:
    """A line for each file that says tasks are done which are still to be completed."""
    to_be_done = [task for task in prd.tasks if task.source and task.status != "completed"]
    if not to_be_done:
        return
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    by_file: dict[str, list[Task]] = defaultdict(list)
    for task in to_be_done:
        if name := boxes.file_of(task):
            by_file[name].append(task)
    for name, tasks in by_file.items():
        with suppress(OSError, LookupError):
            if found := boxes.said_to_be_done(_content(root, name), tasks):
                yield f"ticked in {name}, but not verified, so still to be done: {some(list(found))}"


def _content(root: Path, name: str) -> bytes:
    """Raises OSError, and LookupError for what is no plain file of a size that can be read."""
    file = root / name
    if is_behind_link(root, name) or file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise LookupError("it is no plain file in the work tree")
    return file.read_bytes()
