"""Files as they stand on the disk, read and put back without git, whatever they are: plain, links, pipes."""

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.syncing import sync_file

SPECIAL = -2
UNFINISHED = ".ralph.lock"
"""How names end of files that are to replace one of git's; no ref's does."""

Files = dict[str, tuple[bytes, int]]
"""Path -> content and mode of a plain file; of a link its target and -1; of a pipe or the like nothing and SPECIAL."""


def contents(paths: Iterable[str]) -> Files:
    """What stands at those of the paths that can be read; folders are none. In plain system calls: they are many."""
    files: Files = {}
    for path in paths:
        with suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                files[path] = (os.fsencode(os.readlink(path)), -1)  # noqa: PTH115
            elif stat.S_ISREG(status.st_mode):
                files[path] = (_content(path, status.st_size), stat.S_IMODE(status.st_mode))
            elif not stat.S_ISDIR(status.st_mode):
                files[path] = (b"", SPECIAL)
    return files


def _content(path: str, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        data = os.read(descriptor, size)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def put(path: Path, content: tuple[bytes, int]) -> None:
    """Have that at the path, in place of whatever stands there. Raises OSError."""
    data, mode = content
    if mode < 0 or path.is_dir():
        remove(path)  # a file is replaced at once: without HEAD there is no repository
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == -1:
        path.symlink_to(os.fsdecode(data))
        return
    if mode == SPECIAL:  # it cannot be made again
        return
    temporary = path.with_name(f"{path.name}{UNFINISHED}")
    temporary.write_bytes(data)
    temporary.chmod(mode)
    sync_file(temporary)
    temporary.rename(path)


def not_put_back(path: Path | str, error: OSError) -> RalphError:
    """What is said where a file cannot be as it was."""
    return RalphError(f"{path} was changed and cannot be put back: {error.strerror}; mend it")


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if there is one. Raises OSError for one that is no folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
