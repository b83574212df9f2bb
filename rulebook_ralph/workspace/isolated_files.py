"""What stands in a folder, compared with what was put there: every change leaves its mark on a file's status.

The marks are kept in memory, where no code that runs in the folder can reach them: a file's time of change (ctime)
cannot be set, so that one which was written to and given its old times is found all the same.
"""

import hashlib
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rulebook_ralph.workspace.clearing import remove_empty
from rulebook_ralph.workspace.isolated_place import take_down

Mark = tuple[int, ...]


@dataclass(slots=True)
class Found:
    """How a folder differs: `extra` are paths that nobody put there (of a folder the topmost), `spoilt` those that are
    not as they were put there, or gone; `closed` are folders with another mode than the root.
    """

    extra: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    spoilt: set[str] = field(default_factory=set)


def mark(path: str) -> Mark:
    """What tells a file, a link or a folder from any later one at this path. Raises OSError."""
    return _mark_of(os.lstat(path))


def look(root: Path, marks: Mapping[str, Mark], folders: Collection[str]) -> Found:
    """Compare; `folders` are those that hold something known. Raises OSError where a folder cannot be read."""
    found = Found()
    mode = root.stat().st_mode
    seen = set()
    left = [""]
    while left:
        above = left.pop()
        with os.scandir(root / above if above else root) as entries:
            for entry in entries:
                path = f"{above}/{entry.name}" if above else entry.name
                if entry.is_dir(follow_symlinks=False) and path in folders:
                    left.append(path)
                    if entry.stat(follow_symlinks=False).st_mode != mode:
                        found.closed.append(path)
                elif path not in marks:
                    found.extra.append(path)
                else:
                    seen.add(path)
                    if marks[path] != _mark_of(entry.stat(follow_symlinks=False)):
                        found.spoilt.add(path)
    found.spoilt.update(path for path in marks if path not in seen)
    return found


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder that leads to one of the paths."""
    folders: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


def files_below(root: Path, path: str) -> Iterator[str]:
    """A file's or link's own path; of a folder those of all in it. Raises OSError."""
    here = root / path
    if here.is_symlink() or not here.is_dir():
        yield path
        return
    with os.scandir(here) as entries:
        for name in sorted(entry.name for entry in entries):
            yield from files_below(root, f"{path}/{name}")


def remove_whole(root: Path, path: str) -> None:
    """Remove a file, a link or a whole folder, and the folders that are empty then. Raises OSError."""
    target = root / path
    with suppress(NotADirectoryError):  # what led there is gone
        take_down(target)
    remove_empty(target.parent, root)


def wait_for_another_time() -> None:
    """Return when the clock that files get their times from has gone on: what changes later has another mark."""
    clock = getattr(time, "CLOCK_REALTIME_COARSE", None)  # elsewhere it is as fine as can be
    if clock is None:
        return
    begun = time.clock_gettime_ns(clock)
    while time.clock_gettime_ns(clock) == begun:
        time.sleep(0.0005)


def digest(path: Path) -> bytes:
    """Of a file's content; empty where it cannot be read, or is no file: a pipe would be waited for."""
    if path.is_symlink() or not path.is_file():
        return b""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def _mark_of(status: os.stat_result) -> Mark:
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
