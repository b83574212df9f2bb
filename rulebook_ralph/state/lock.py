"""One run at a time on a project: a lock that the kernel releases when its holder dies.

What is written into the file only names the holder. What a dead one wrote stays until the next start, which then knows,
and names the dead beside itself until it has ended what they left running: it may be killed before.

An agent can remove the file. So whoever holds it holds the git folder too (folder_lock.py), without which nobody else
has the project; a run puts its file back when the agent has ended.

An agent's interactive session works through many processes of Ralph's, one at a time. Between them no process holds the
lock in the kernel: the agent's, which is named, holds it for as long as it lives, against all but its own session.
"""

import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import folder_lock, lock_file
from rulebook_ralph.state.holder import Holder, here, is_alive, is_shared, is_stopped, lives, myself

__all__ = [
    "RUNS",
    "SESSION",
    "Dead",
    "Holder",
    "briefly",
    "held",
    "held_for_run",
    "held_for_session",
    "holder",
    "is_alive",
    "release",
    "unnamed",
]

SESSION = "session"
RUNS = ("run", "resume", "run --watch", "resume --watch", SESSION)
"""The commands that run: what a holder of the lock is called that mends what a dead one left, and takes orders."""

WATCH = "watching"
"""The file beside the lock that a watch (`--watch`) holds in the same way, also while none of its runs goes on."""

_UNKNOWN = Holder(0, "", "")
_WITHOUT_FILE = Holder(0, "", "run")
_LOOKS, _PAUSE = 500, 0.02
_FEW_LOOKS = 25


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
        return lock_file.encoded(last) if self.are_ended and last.pid else self._left


@contextmanager
def held(path: Path, *, since: str, command: str) -> Iterator[Dead | None]:
    """Hold the project's lock; yields the last holders if they died. Raises RalphError naming one that lives.

    Only a run mends what a dead one left: after any other command the lock still tells of the death.
    """
    with _held(path, myself(since=since, command=command), lambda: False) as (dead, _):
        yield dead


@contextmanager
def held_for_run(path: Path, *, since: str, command: str) -> Iterator[tuple[Dead | None, Callable[[], bool]]]:
    """The same for a run, with what puts the lock's file back where an agent removed or changed it; that returns
    whether it had to, may be called in any thread, and raises RalphError where it cannot be written.
    """
    with _held(path, myself(since=since, command=command), lambda: False) as (dead, grip):
        yield dead, grip.put_back


@contextmanager
def held_for_session(path: Path, me: Holder, *, goes_on: Callable[[], bool]) -> Iterator[Dead | None]:
    """The same for a process that works for a session (`holder.of_session`). Afterwards the session's agent holds the
    lock, if it `goes_on`, also after an error. By its file alone: with the git folder's part of Ralph the session's
    note goes too, and so its loop.
    """
    with _held(path, me, goes_on) as (dead, _):
        yield dead


def release(path: Path, session: str) -> None:
    """The session has ended: what it left is that of a dead holder, although its agent's process may live."""
    descriptor = lock_file.opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        named = lock_file.read(descriptor)
        if named is not None and named.session == session:
            pid = 0 if named.is_agent else named.pid  # the agent's own process is none that Ralph would end
            lock_file.write(
                descriptor, path, lock_file.encoded(replace(named, pid=pid, session="", agent=0, agent_started=0))
            )
    finally:
        lock_file.released(descriptor)


class _Grip:
    """What holds the lock in the kernel, by descriptors of its file and of the git folder, and what the file says."""

    def __init__(self, path: Path, session: str) -> None:
        """Take the lock, or raise RalphError; `session` is the one that this process works for, if any."""
        self._path = path
        self._folder: int | None = None
        self._said = b""
        self._writing = threading.Lock()
        self._file = lock_file.opened(path)
        try:
            self._folder = _take(self._file, path, session)
            self.written = os.pread(self._file, lock_file.MOST_BYTES, 0)
        except BaseException:
            self.release()
            raise

    def say(self, data: bytes) -> None:
        with self._writing:
            lock_file.write(self._file, self._path, data)
            self._said = data

    def put_back(self) -> bool:
        """Whether the file was not there as it was written, and is again."""
        with self._writing:
            if self._stands() or (self._folder is None and holder(self._path) is not None):
                return False
            before, self._file = self._file, lock_file.renewed(self._path, self._said)
            lock_file.released(before)
            return True

    def release(self) -> None:
        folder_lock.release(self._folder)
        lock_file.released(self._file)

    def _stands(self) -> bool:
        try:
            is_mine = os.path.samestat(self._path.lstat(), os.fstat(self._file))
            return is_mine and os.pread(self._file, lock_file.MOST_BYTES, 0) == self._said
        except OSError:
            return False


@contextmanager
def _held(path: Path, me: Holder, goes_on: Callable[[], bool]) -> Iterator[tuple[Dead | None, _Grip]]:
    grip = _Grip(path, me.session)
    try:
        dead = None
        if grip.written and not _is_own(grip.written, me):
            chain = (lock_file.decoded(grip.written) or _UNKNOWN).chain()
            dead = Dead(chain, lambda: grip.say(lock_file.encoded(me)), grip.written)
        mends = me.command in RUNS
        try:
            grip.say(lock_file.encoded(me.after(dead.holders) if dead else me))
            yield dead, grip
        except RalphError:
            if goes_on():
                grip.say(lock_file.encoded(me.resting()))
            elif dead is None:
                grip.say(b"")
            elif not (mends and dead.are_ended):  # else the next start must still know, by what is written
                grip.say(dead.content())
            raise
        if goes_on():
            grip.say(lock_file.encoded(me.resting()))
        else:
            grip.say(b"" if dead is None or mends else dead.content())
    finally:
        grip.release()


def _is_own(written: bytes, me: Holder) -> bool:
    """Whether the session itself held it, and not a process of Ralph's for it that died."""
    last = lock_file.decoded(written)
    return last is not None and last.is_agent and last.session == me.session


@contextmanager
def briefly(path: Path) -> Iterator[Holder | None]:
    """Hold the lock for one write, without becoming its holder: what it says of a dead run stays in it.

    Yields the living holder where there is one; then the lock is not held. Raises RalphError where it cannot be opened,
    and where a run holds the git folder whose file is gone.
    """
    descriptor, folder = lock_file.opened(path), None
    try:
        other = _living_holder(descriptor, path)
        if other is not None:
            yield other
            return
        _refuse_other_machine(descriptor, path)
        folder = _folder_of(path)
        try:
            yield None
        finally:
            lock_file.unlocked(descriptor)
    finally:
        folder_lock.release(folder)
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Who holds the lock now, or None; with the id 0 where somebody does who is not named in it (`unnamed`)."""
    found = _named(path)
    if found is None and path.name != WATCH and folder_lock.is_held(_folder(path)):
        return _named(path) or _WITHOUT_FILE  # which may just have put it back
    return found


def unnamed(path: Path, who: Holder) -> str:
    """What is said of a holder with the id 0: what is the matter, and how to find it."""
    if who == _WITHOUT_FILE:
        told = f"another run is working on this project, although its lock file {path} is gone"
        return f"{told}; find it: fuser -v {_folder(path)}"
    return f"something holds the lock {path}, and its process is not named there; find it: fuser {path}"


def _folder(path: Path) -> Path:
    """The git folder."""
    return path.parent.parent


def _named(path: Path) -> Holder | None:
    """Who holds its file."""
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
                named = lock_file.read(descriptor)
                if named is not None and lives(named):
                    return named
                time.sleep(_PAUSE)
            else:
                return _session(descriptor, "")
        return named or _UNKNOWN
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, session: str) -> int | None:
    """Take the lock, or raise RalphError; `session` is the one that this process works for, if any. Returns what holds
    the git folder, if it can be held.
    """
    other = _living_holder(descriptor, path, session)
    if other is not None:
        what = "wait for it or end it"
        if other.is_agent:
            what = "end it: ralph cancel, or /ralph:cancel there"
        elif is_stopped(other):
            what = f"it was stopped: let it go on (kill -CONT {other.pid}) or end it"
        raise RalphError(f"{other.told(here())} is working on this project; {what}")
    _refuse_other_machine(descriptor, path)
    return _folder_of(path)


def _folder_of(path: Path) -> int | None:
    """Take the git folder of a lock whose file is taken. A watch does without: its runs take it."""
    if path.name == WATCH:
        return None
    try:
        return folder_lock.take(_folder(path))
    except folder_lock.FolderHeldError:
        raise RalphError(unnamed(path, _WITHOUT_FILE)) from None


def _refuse_other_machine(descriptor: int, path: Path) -> None:
    """Raises RalphError where another machine may be at work whose locks this one does not see; the lock was taken."""
    last = lock_file.read(descriptor)
    if last is None or not here().is_elsewhere(last) or not is_shared(path):
        return
    raise RalphError(
        f"{last.told(here())} may be working on this project, whose disk is shared; "
        f"end it there, and if that machine is gone: rm {path}"
    )


def _session(descriptor: int, mine: str) -> Holder | None:
    """The agent's process of another session, while none of Ralph's works for it."""
    named = lock_file.read(descriptor)
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
            other = lock_file.read(descriptor)
            if other is not None and lives(other):
                return other
            time.sleep(_PAUSE)
        except OSError as error:
            raise RalphError(f"cannot lock {path}: {error.strerror}; its file system must know locks") from error
        else:
            if (other := _session(descriptor, session)) is not None:
                lock_file.unlocked(descriptor)
            return other
    raise RalphError(unnamed(path, _UNKNOWN))
