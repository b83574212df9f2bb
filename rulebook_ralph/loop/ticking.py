"""Ralph ticks the box of what it verified in the file that the task came from, in the commit that completes the task.

The commit's tree is the one that was judged but for that box, and for those of other open tasks that the attempt
ticked: these are open in it. The blob is made from the judged one, whatever else the file holds by then. Nothing is
judged with the boxes as they become, so no check has to know of it, and nothing is lost by it: a box is never believed.
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """A file in which boxes are ticked or opened again: the tree with it, and what it was and becomes in the work tree.
    `by_way_of` is where it is written first.
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


def untick(
    workspace: Workspace, base: str, tree: str, others: Iterable[Task], tell: Callable[[str], None]
) -> list[Ticked]:
    """Open the boxes of `others` that are ticked in the tree, which is the one that stands in the work tree, and not in
    the tree `base`: each file that changes, in order, each tree with those before it. `tell` is told of which tasks.
    """
    changed = {change.path for change in workspace.changes(base, tree)}
    unticked: list[Ticked] = []
    opened: list[str] = []
    for name, tasks in _by_file(others).items() if changed else ():
        if name in changed:
            try:
                found, ids = _unticked(workspace, base, unticked[-1].tree if unticked else tree, name, tasks)
                if found is not None:
                    found.put()
                    unticked.append(found)
                    opened += ids
            except (LookupError, OSError) as error:
                tell(f"what was ticked in {name} with the work stays so, though not verified: {error}")
    if opened:
        tell(f"ticked with the work, but not verified, so unticked again: {some(opened)}")
    return unticked


def _unticked(
    workspace: Workspace, base: str, tree: str, name: str, tasks: Sequence[Task]
) -> tuple[Ticked | None, Iterable[str]]:
    """The file with the tasks' boxes open that were so in `base`, and the ids of these tasks."""
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    root = workspace.repository.root
    mode, judged = workspace.file_in(tree, name)
    if mode not in _FILES:
        return None, ()
    _, earlier = workspace.file_in(base, name)
    rows = boxes.ticked_since(earlier, judged, tasks)
    if not rows:
        return None, ()
    before = _content(root, name)
    after = boxes.with_open(before, boxes.ticked_since(earlier, before, tasks))
    with_box = workspace.with_file(tree, name, mode, boxes.with_open(judged, rows))
    found = Ticked(with_box, root / name, before, after, workspace.repository.scratch / "ticked")
    return found, dict.fromkeys(rows.values())


def said_to_be_done(root: Path, prd: Prd) -> Iterator[str]:
    """A line for each file that says tasks are done which are still to be completed."""
    by_file = _by_file(task for task in prd.tasks if task.status != "completed")
    if not by_file:
        return
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    for name, tasks in by_file.items():
        with suppress(OSError, LookupError):
            if found := boxes.said_to_be_done(_content(root, name), tasks):
                yield f"ticked in {name}, but not verified, so still to be done: {some(list(found))}"


def _by_file(tasks: Iterable[Task]) -> Mapping[str, Sequence[Task]]:
    """The tasks by the file that has their boxes, of those that have one."""
    from_sources = [task for task in tasks if task.source]
    if not from_sources:
        return {}
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    by_file: dict[str, list[Task]] = defaultdict(list)
    for task in from_sources:
        if name := boxes.file_of(task):
            by_file[name].append(task)
    return by_file


def _content(root: Path, name: str) -> bytes:
    """Raises OSError, and LookupError for what is no plain file of a size that can be read."""
    file = root / name
    if is_behind_link(root, name) or file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise LookupError("it is no plain file in the work tree")
    return file.read_bytes()
