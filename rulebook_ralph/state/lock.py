"""One run at a time on a project: a lock that the kernel releases when its holder dies."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rulebook_ralph.errors import RalphError


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lock: process id, since when (ISO time), and what it does."""

    pid: int
    since: str
    command: str


_UNKNOWN = Holder(0, "", "")
_LOOKS, _PAUSE = 500, 0.02


@contextmanager
def held(path: Path, *, since: str, command: str) -> Iterator[Holder | None]:
    """Hold the project's lock; yields the last holder if it died. Raises RalphError naming one that lives."""
    descriptor = _opened(path)
    try:
        _take(descriptor, path)
        died = (_read(path) or _UNKNOWN) if os.fstat(descriptor).st_size > 0 else None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, msgspec.json.encode(Holder(os.getpid(), since, command)), 0)
        try:
            yield died
        except RalphError:
            if died is None:  # else the next start must still know
                os.ftruncate(descriptor, 0)
            raise
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def briefly(path: Path) -> Iterator[Holder | None]:
    """Hold the lock for one write, without becoming its holder: what it says of a dead run stays in it.

    Yields the living holder where there is one; then the lock is not held. Raises RalphError where it cannot be opened.
    """
    descriptor = _opened(path)
    try:
        yield _living_holder(descriptor, path)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Who holds the lock now, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(path)
    finally:
        os.close(descriptor)
    return None


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RalphError(f"cannot open the lock {path}: {error.strerror}; make the git folder writable") from error


def _take(descriptor: int, path: Path) -> None:
    """Take the lock, or raise RalphError."""
    other = _living_holder(descriptor, path)
    if other is not None:
        who = f"process {other.pid} ('ralph {other.command}', since {other.since})"
        raise RalphError(f"{who} is working on this project; wait for it or end it")


def _living_holder(descriptor: int, path: Path) -> Holder | None:
    """Who holds the lock, or None, and it is taken. Raises RalphError where nobody can be named for long.

    One held without a living holder is held `briefly` or only looked at, or something wrote into it.
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = _read(path)
            if other is not None and is_alive(other.pid):
                return other
            time.sleep(_PAUSE)
        else:
            return None
    raise RalphError(f"something holds the lock {path}, and its process is not named there; find it: fuser {path}")


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None
