"""One run at a time on a project: a lock that the kernel releases when its holder dies.

What is written into the file only names the holder. What a dead one wrote stays until the next start, which then knows,
and names the dead beside itself until it has ended what they left running: it may be killed before.

An agent's interactive session works through many processes of Ralph's, one at a time. Between them no process holds the
lock in the kernel: the agent's, which is named, holds it for as long as it lives, against all but its own session.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.state.holder import Holder, here, is_alive, is_shared, is_stopped, lives, myself

__all__ = ["RUNS", "SESSION", "Dead", "Holder", "briefly", "held", "held_for_session", "holder", "is_alive", "release"]

SESSION = "session"
RUNS = ("run", "resume", "run --watch", "resume --watch", SESSION)
"""The commands that run: what a holder of the lock is called that mends what a dead one left, and takes orders."""

WATCH = "watching"
"""The file beside the lock that a watch (`--watch`) holds in the same way, also while none of its runs goes on."""

_UNKNOWN = Holder(0, "", "")
_LOOKS, _PAUSE = 500, 0.02
_FEW_LOOKS = 25
_MOST_BYTES = 1 << 14


@dataclass(slots=True)
class Dead:
    """The holders that died and whose leftovers nobody has ended yet, the last one first; the lock tells of all of
    them until `ended` is called. One that cannot be read has the id 0.
    """

    holders: tuple[Holder, ...]
    _forget: Callable[[], None]
    _left: bytes
    are_ended: bool = False

    def ended(self) -> None:
        """What all of them left is ended: the lock names this process alone, and afterwards, if its command does not
        mend the rest, the last run that died. Raises RalphError where it cannot be written.
        """
        self._forget()
        self.are_ended = True

    def content(self) -> bytes:
        """The lock of one that has mended nothing else: of several dead it names the last run."""
        last = next((one for one in self.holders if one.command in RUNS), self.holders[0])
        return _encoded(last) if self.are_ended and last.pid else self._left


@contextmanager
def held(path: Path, *, since: str, command: str) -> Iterator[Dead | None]:
    """Hold the project's lock; yields the last holders if they died. Raises RalphError naming one that lives.

    Only a run mends what a dead one left: after any other command the lock still tells of the death.
    """
    with _held(path, myself(since=since, command=command), lambda: False) as dead:
        yield dead


@contextmanager
def held_for_session(path: Path, me: Holder, *, goes_on: Callable[[], bool]) -> Iterator[Dead | None]:
    """The same for a process that works for a session (`holder.of_session`). Afterwards the session's agent holds the
    lock, if it `goes_on`, also after an error.
    """
    with _held(path, me, goes_on) as dead:
        yield dead


def release(path: Path, session: str) -> None:
    """The session has ended: what it left is that of a dead holder, although its agent's process may live."""
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        named = _read(descriptor)
        if named is not None and named.session == session:
            pid = 0 if named.is_agent else named.pid  # the agent's own process is none that Ralph would end
            _write(descriptor, path, _encoded(replace(named, pid=pid, session="", agent=0, agent_started=0)))
    finally:
        _released(descriptor)


@contextmanager
def _held(path: Path, me: Holder, goes_on: Callable[[], bool]) -> Iterator[Dead | None]:
    descriptor = _opened(path)
    try:
        _take(descriptor, path, me.session)
        written = os.pread(descriptor, _MOST_BYTES, 0)
        dead = None
        if written and not _is_own(written, me):
            chain = (_decoded(written) or _UNKNOWN).chain()
            dead = Dead(chain, lambda: _write(descriptor, path, _encoded(me)), written)
        mends = me.command in RUNS
        try:
            _write(descriptor, path, _encoded(me.after(dead.holders) if dead else me))
            yield dead
        except RalphError:
            if goes_on():
                _write(descriptor, path, _encoded(me.resting()))
            elif dead is None:
                _write(descriptor, path, b"")
            elif not (mends and dead.are_ended):  # else the next start must still know, by what is written
                _write(descriptor, path, dead.content())
            raise
        if goes_on():
            _write(descriptor, path, _encoded(me.resting()))
        else:
            _write(descriptor, path, b"" if dead is None or mends else dead.content())
    finally:
        _released(descriptor)


def _is_own(written: bytes, me: Holder) -> bool:
    """Whether the session itself held it, and not a process of Ralph's for it that died."""
    last = _decoded(written)
    return last is not None and last.is_agent and last.session == me.session


@contextmanager
def briefly(path: Path) -> Iterator[Holder | None]:
    """Hold the lock for one write, without becoming its holder: what it says of a dead run stays in it.

    Yields the living holder where there is one; then the lock is not held. Raises RalphError where it cannot be opened.
    """
    descriptor = _opened(path)
    try:
        other = _living_holder(descriptor, path)
        if other is not None:
            yield other
            return
        _refuse_other_machine(descriptor, path)
        try:
            yield None
        finally:
            _unlocked(descriptor)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Who holds the lock now, or None; with the id 0 where somebody does who is not named in it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        named = None
        for _ in range(_FEW_LOOKS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                named = _read(descriptor)
                if named is not None and lives(named):
                    return named
                time.sleep(_PAUSE)
            else:
                return _session(descriptor, "")
        return named or _UNKNOWN
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise RalphError(f"cannot open the lock {path}: {error.strerror}; make the git folder writable") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RalphError(f"cannot open the lock {path}: it is no regular file; remove it")
    return descriptor


def _take(descriptor: int, path: Path, session: str) -> None:
    """Take the lock, or raise RalphError; `session` is the one that this process works for, if any."""
    other = _living_holder(descriptor, path, session)
    if other is not None:
        what = "wait for it or end it"
        if other.is_agent:
            what = "end it: ralph cancel, or /ralph:cancel there"
        elif is_stopped(other):
            what = f"it was stopped: let it go on (kill -CONT {other.pid}) or end it"
        raise RalphError(f"{other.told(here())} is working on this project; {what}")
    _refuse_other_machine(descriptor, path)


def _refuse_other_machine(descriptor: int, path: Path) -> None:
    """Raises RalphError where another machine may be at work whose locks this one does not see; the lock was taken."""
    last = _read(descriptor)
    if last is None or not here().is_elsewhere(last) or not is_shared(path):
        return
    raise RalphError(
        f"{last.told(here())} may be working on this project, whose disk is shared; "
        f"end it there, and if that machine is gone: rm {path}"
    )


def _session(descriptor: int, mine: str) -> Holder | None:
    """The agent's process of another session, while none of Ralph's works for it."""
    named = _read(descriptor)
    if named is None or not named.session or named.session == mine:
        return None
    agent = named.resting()
    return agent if lives(agent) else None


def _living_holder(descriptor: int, path: Path, session: str = "") -> Holder | None:
    """Who holds the lock, or None, and it is taken. Raises RalphError where nobody can be named for long.

    One held without a living holder is held `briefly` or only looked at, or something wrote into it.
    """
    for _ in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            other = _read(descriptor)
            if other is not None and lives(other):
                return other
            time.sleep(_PAUSE)
        except OSError as error:
            raise RalphError(f"cannot lock {path}: {error.strerror}; its file system must know locks") from error
        else:
            if (other := _session(descriptor, session)) is not None:
                _unlocked(descriptor)
            return other
    raise RalphError(f"something holds the lock {path}, and its process is not named there; find it: fuser {path}")


def _released(descriptor: int) -> None:
    _unlocked(descriptor)
    os.close(descriptor)


def _unlocked(descriptor: int) -> None:
    """Closing alone leaves the lock to a forked child."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write(descriptor: int, path: Path, data: bytes) -> None:
    """Raises RalphError. At no moment is it empty that was not and shall not be: a kill may come at any."""
    problem = "there is no room"
    try:
        padded = data.ljust(min(os.fstat(descriptor).st_size, _MOST_BYTES)) if data else b""
        if os.pwrite(descriptor, padded, 0) == len(padded):
            os.ftruncate(descriptor, len(data))
            if data:  # that a run died must be known after a power cut too
                os.fsync(descriptor)
            return
    except OSError as error:
        problem = str(error.strerror)
    raise RalphError(f"cannot write the lock {path}: {problem}; make room there")


def _read(descriptor: int) -> Holder | None:
    try:
        return _decoded(os.pread(descriptor, _MOST_BYTES, 0))
    except OSError:
        return None


def _encoded(holder: Holder) -> bytes:
    return msgspec.json.encode(holder)


def _decoded(data: bytes) -> Holder | None:
    try:
        return msgspec.json.decode(data, type=Holder)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
