"""One run at a time on a project: a lock that the kernel releases when its holder dies.

Whether the lock is held the kernel says; what stands in its file names the holder. What a dead one wrote stays until
the next run, which then knows that there is something to recover.

An interactive session works through many processes of Ralph's, one at a time. Between them none holds the lock in the
kernel: the agent's process, which the file names, holds it as long as it lives, against all but its own session.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock, Timeout
from msgspec import DecodeError, json
from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.process import tree
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import Value

LOCK = "lock"
WATCH = "watching"
"""The lock that a watch (`--watch`) holds in the same way, also while none of its runs goes on."""

SESSION = "session"
RUNS = ("run", "resume", "run --watch", "resume --watch", SESSION)
"""The commands that recover what a dead one left, and take orders."""

_TAKE_SECONDS = 0.5
"""Seconds for which a lock without a living holder is waited for: others hold it for an instant, to look."""

_LOOK = 0.02
_SAME_START = 2000
_MOST_BEFORE = 20
_MOST_BYTES = 1 << 14
_SHARED = ("nfs", "cifs", "smb", "fuse", "9p", "afs", "ceph", "gluster", "lustre", "ocfs", "gfs", "beegfs", "virtiofs")
"""How the types of file systems begin that other machines may have mounted too."""


class Holder(Value, frozen=True, kw_only=True):
    """Who holds a lock: a process, since when (ISO time), and the command that it runs.

    `started` is the process' start in milliseconds since the epoch, `boot` names the start of its machine; both tell it
    from a later one with its id. `before` are those that died before it, the last one first. With `session` it works
    for an interactive session of the process `agent`, which is the holder itself in between.
    """

    pid: int
    since: str
    command: str
    host: str = ""
    boot: str = ""
    started: int = 0
    session: str = ""
    agent: int = 0
    agent_started: int = 0
    before: "tuple[Holder, ...]" = ()

    @property
    def is_agent(self) -> bool:
        """Whether it is the agent's process of a session itself, between two of Ralph's."""
        return bool(self.session) and self.pid == self.agent

    @property
    def is_elsewhere(self) -> bool:
        """Whether its machine has another name than this one, as a container also has."""
        return bool(self.host) and self.host != os.uname().nodename

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still, by SIGSTOP or in a debugger."""
        with suppress(psutil.Error):
            return not self.is_elsewhere and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return False

    def lives(self) -> bool:
        """Whether that very process lives; of one on another machine it is taken for granted."""
        if self.is_elsewhere:
            return True
        started = tree.started_at(self.pid) if self.pid > 0 else 0
        if not started or (self.boot and self.boot != _boot()):
            return False
        return not self.started or abs(started - self.started) <= _SAME_START

    def told(self) -> str:
        """`process 7 ('ralph run', since …)`, and on which host, if it is another one."""
        where = f" on {self.host}" if self.is_elsewhere else ""
        if self.session:
            return f"a Claude Code session (process {self.pid}{where}, since {self.since})"
        return f"process {self.pid}{where} ('ralph {self.command}', since {self.since})"


@dataclass(slots=True)
class Held:
    """The lock is held. `me` is what it says of this process; `dead` are those that held it before and died, whose work
    is not recovered yet, the last one first. `rests` is the session's agent, where that holds it from here on.
    """

    me: Holder
    dead: tuple[Holder, ...]
    rests: Holder | None = None

    def end_orphans(self) -> tuple[int, int]:
        """End what the dead left running; how many there were, and how many could not be ended."""
        counts = [tree.end_left_by(one.pid, one.started) for one in self.dead if one.pid and not one.is_elsewhere]
        return sum(ended for ended, _ in counts), sum(left for _, left in counts)

    def stay(self) -> None:
        """The session goes on: its agent's process holds the lock from here on."""
        self.rests = replace(self.me, pid=self.me.agent, started=self.me.agent_started) if self.me.agent else None


@contextmanager
def hold(
    private: Path, command: str, *, since: str, name: str = LOCK, session: str = "", agent: int = 0
) -> Iterator[Held]:
    """Hold the project's lock in Ralph's folder within the git folder. Raises RalphError naming another holder.

    Only a run recovers what a dead one left: after any other command, or where it ends with a RalphError, the lock
    still tells of the death; after any other exception it tells of this one's. `session` and its process `agent` are
    what an interactive session's hook works for.
    """
    path = private / name
    disk.make_folder(private)
    lock = _take(path, session)
    try:
        last = _named(path)
        if last is not None and last.is_agent and last.session == session:
            last = None  # the session itself held it, and no process of Ralph's for it that died
        dead = tuple(replace(one, before=()) for one in (last, *last.before)) if last else ()
        me = Holder(
            pid=os.getpid(),
            since=since,
            command=command,
            host=os.uname().nodename,
            boot=_boot(),
            started=tree.own_start(),
            session=session,
            agent=agent,
            agent_started=tree.started_at(agent) if agent else 0,
        )
        held = Held(me, dead)
        _put(path, replace(me, before=dead[:_MOST_BEFORE]))
        try:
            yield held
        except RalphError:
            _put(path, held.rests or last)
            raise
        _put(path, held.rests or (None if command in RUNS else last))
    finally:
        lock.release()


def holder(path: Path) -> Holder | None:
    """Who holds the lock at that path now, or None; with the id 0 where somebody does who is not named in it."""
    if not path.is_file():
        return None
    with suppress(RalphError):
        lock = _try(path)
        if lock is not None:
            try:
                return _resting(path, "")
            finally:
                lock.release()
    named = _named(path)
    return named if named is not None and named.lives() else Holder(pid=0, since="", command="")


def dead_run(path: Path) -> Holder | None:
    """The run that died while it held the lock at that path, and was not recovered since; to be asked where nobody
    holds it.
    """
    named = _named(path)
    return named if named and named.pid and named.command in RUNS and not named.lives() else None


def release_session(private: Path, session: str) -> None:
    """The session has ended: its agent's process holds the lock no more."""
    path = private / LOCK
    named = _named(path)
    if named is not None and named.session == session:
        _put(path, None)


def _take(path: Path, session: str) -> FileLock:
    """Take the lock. Raises RalphError."""
    deadline = time.monotonic() + _TAKE_SECONDS
    while (lock := _try(path)) is None:
        named = _named(path)
        if named is not None and named.lives():
            raise RalphError(_busy(named))
        if time.monotonic() > deadline:
            raise RalphError(f"something holds the lock {path}, and no living process is named there: fuser {path}")
        time.sleep(_LOOK)
    try:
        _refuse_others(path, session)
    except BaseException:
        lock.release()
        raise
    return lock


def _refuse_others(path: Path, session: str) -> None:
    """Raises RalphError where somebody is at work whom the kernel does not tell of; the lock was taken."""
    resting, last = _resting(path, session), _named(path)
    if resting is not None:
        raise RalphError(_busy(resting))
    if last is not None and last.is_elsewhere and last.boot != _boot() and _is_shared(path):
        raise RalphError(
            f"{last.told()} may be working on this project, whose disk is shared; end it there, and if that machine "
            f"is gone: rm {path}"
        )


def _try(path: Path) -> FileLock | None:
    """The lock if nobody has it. Raises RalphError where it cannot be tried."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RalphError(f"cannot open the lock {path}: it is no regular file; remove it")
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise RalphError(f"cannot take the lock {path}: {why}; make it writable, on a disk that knows locks") from error
    return lock


def _busy(named: Holder) -> str:
    what = "wait for it or end it: ralph cancel"
    if named.is_agent:
        what = "end it: ralph cancel, or /ralph:cancel there"
    elif named.is_stopped:
        what = f"it was stopped: let it go on (kill -CONT {named.pid}) or end it"
    return f"{named.told()} is working on this project; {what}"


def _resting(path: Path, session: str) -> Holder | None:
    """The agent's process of another session, while none of Ralph's works for it; the lock must be taken."""
    named = _named(path)
    if named is None or not named.session or named.session == session:
        return None
    agent = replace(named, pid=named.agent, started=named.agent_started, before=())
    return agent if agent.pid and agent.lives() else None


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return ""


def _is_shared(path: Path) -> bool:
    """Whether other machines may have the file system of that path mounted too."""
    real = path.resolve()
    mounted = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    return bool(mounted) and max(mounted, key=lambda part: len(part.mountpoint)).fstype.startswith(_SHARED)


def _named(path: Path) -> Holder | None:
    """Who stands in the lock; with the id 0 where that cannot be read."""
    data = b""
    with suppress(OSError), path.open("rb") as file:
        data = file.read(_MOST_BYTES)
    try:
        return json.decode(data, type=Holder) if data else None
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return Holder(pid=0, since="", command="run")


def _put(path: Path, named: Holder | None) -> None:
    """Into the file as it is: the kernel's lock is on it. Raises RalphError."""
    data = json.encode(named) if named else b""
    try:
        with path.open("r+b", buffering=0) as file:
            file.write(data)
            file.truncate(len(data))
    except OSError as error:
        raise disk.cannot_write(path, error) from error
