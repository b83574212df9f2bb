"""The git folder itself as a lock: an agent can remove a file in it, and git knows no project without the folder.

The kernel holds it for a descriptor, which no child inherits, and releases it with the process.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

_LOOKS, _PAUSE = 25, 0.02
"""Whoever only looks holds it for an instant too."""


class FolderHeldError(Exception):
    """Another process holds the folder, and not only for an instant."""


def take(folder: Path) -> int | None:
    """The descriptor that holds the folder from now on; None where it cannot be locked, as on some network file systems
    and where it may not be read. Raises FolderHeldError.
    """
    return _locked(folder, fcntl.LOCK_EX)


def release(descriptor: int | None) -> None:
    """Give it up, also for a forked child."""
    if descriptor is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process holds it."""
    try:
        release(_locked(folder, fcntl.LOCK_SH))
    except FolderHeldError:
        return True
    return False


def _locked(folder: Path, how: int) -> int | None:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError:  # whichever the file system has for it: EINVAL, ENOTSUP, EBADF, ENOLCK, EACCES
            os.close(descriptor)
            return None
        else:
            return descriptor
    os.close(descriptor)
    raise FolderHeldError
