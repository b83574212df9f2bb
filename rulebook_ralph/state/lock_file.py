"""The file of a lock: it is opened and held like no other file, and names the holder."""

import fcntl
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.state.holder import Holder

MOST_BYTES = 1 << 14
"""Of a lock that are read."""


def opened(path: Path) -> int:
    """The descriptor of the file, which is made if it is not there. Raises RalphError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise RalphError(f"cannot open the lock {path}: {error.strerror}; make the git folder writable") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RalphError(f"cannot open the lock {path}: it is no regular file; remove it")
    return descriptor


def renewed(path: Path, data: bytes) -> int:
    """The descriptor of a new file with that content, which is held before it stands there. Raises RalphError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _clear(fresh)
    descriptor = opened(fresh)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write(descriptor, path, data)
        if path.is_dir():
            _clear(path)
        fresh.replace(path)
    except (OSError, RalphError) as error:
        released(descriptor)
        _clear(fresh)
        if isinstance(error, RalphError):
            raise
        raise RalphError(f"cannot put back the lock {path}: {error.strerror}; make the git folder writable") from error
    return descriptor


def _clear(path: Path) -> None:
    """Whatever an agent put there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def released(descriptor: int) -> None:
    """Give the lock up, and close it."""
    unlocked(descriptor)
    os.close(descriptor)


def unlocked(descriptor: int) -> None:
    """Closing alone leaves the lock to a forked child."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def write(descriptor: int, path: Path, data: bytes) -> None:
    """Raises RalphError. At no moment is it empty that was not and shall not be: a kill may come at any."""
    problem = "there is no room"
    try:
        padded = data.ljust(min(os.fstat(descriptor).st_size, MOST_BYTES)) if data else b""
        if os.pwrite(descriptor, padded, 0) == len(padded):
            os.ftruncate(descriptor, len(data))
            if data:  # that a run died must be known after a power cut too
                os.fsync(descriptor)
            return
    except OSError as error:
        problem = str(error.strerror)
    raise RalphError(f"cannot write the lock {path}: {problem}; make room there")


def read(descriptor: int) -> Holder | None:
    """Who is named in it, if anybody can be."""
    try:
        return decoded(os.pread(descriptor, MOST_BYTES, 0))
    except OSError:
        return None


def encoded(holder: Holder) -> bytes:
    """As it stands in the file."""
    return msgspec.json.encode(holder)


def decoded(data: bytes) -> Holder | None:
    """The same read; None for what no holder wrote."""
    try:
        return msgspec.json.decode(data, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
