"""Who holds a project's lock: a process of this machine that can be told from a later one with its id, or of another.

Whether a lock is held the kernel says (lock.py). This tells the rest: whether the process named in it is that one, and
whether a machine that shares the disk, and perhaps not its locks, may still be at work.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

MOST_BEFORE = 20
_SHARED = ("nfs", "cifs", "smb", "fuse", "9p", "afs", "ceph", "gluster", "lustre", "ocfs", "gfs", "beegfs", "virtiofs")
"""How the types of file systems begin that other machines may have mounted too."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Process id, since when (ISO time), and what it does; then what tells it from others, empty where not known.

    `started` is in clock ticks since the machine's start, which `boot` names. `before` are those that died before it,
    the last one first, and what they left running has not been ended yet. One that works for an agent's interactive
    session names it and the agent's process, which is the holder itself while none of Ralph's works for it.
    """

    pid: int
    since: str
    command: str
    host: str = ""
    boot: str = ""
    started: int = 0
    before: "tuple[Holder, ...]" = ()
    session: str = ""
    agent: int = 0
    agent_started: int = 0

    @property
    def is_agent(self) -> bool:
        """Whether it is the agent's process of a session itself, between two of Ralph's."""
        return bool(self.session) and self.pid == self.agent

    def resting(self) -> "Holder":
        """The agent's process in its place, until the next of Ralph's comes."""
        return replace(self, pid=self.agent, started=self.agent_started, before=())

    def told(self, here: "Here | None" = None) -> str:
        """`process 7 ('ralph run', since …)`, and on which host, if it is another one."""
        if not (self.pid or self.since):
            return "a process that its lock does not name"
        where = f" on {self.host}" if here is not None and here.is_other(self) else ""
        if self.is_agent:
            return f"a Claude Code session (process {self.pid}{where}, session {self.session}, since {self.since})"
        if self.session:
            which = f"session {self.session}, since {self.since}"
            return f"a Claude Code session (its hook is process {self.pid}{where}, {which})"
        return f"process {self.pid}{where} ('ralph {self.command}', since {self.since})"

    def chain(self) -> "tuple[Holder, ...]":
        """This one, then those before it, each once and with none before itself."""
        flat = (self, *self.before)
        return tuple(dict.fromkeys(replace(one, before=()) if one.before else one for one in flat))

    def after(self, dead: "tuple[Holder, ...]") -> "Holder":
        """This one as the successor of those dead, the last one first. Of too many the last ones are left out: whoever
        died while others were before it had not come to start an agent.
        """
        return replace(self, before=dead[-MOST_BEFORE:])


@dataclass(frozen=True, slots=True)
class Here:
    """The machine that a process runs on: its name, and the id of its present start ("" where there is none)."""

    host: str
    boot: str

    def is_other(self, holder: Holder) -> bool:
        """Whether the holder has a name of its own for its machine, as a container also has on the same one."""
        return bool(holder.host) and holder.host != self.host

    def is_elsewhere(self, holder: Holder) -> bool:
        """Whether it may be a process of another machine: the same name after a restart is the same machine."""
        return self.is_other(holder) and not (self.boot and holder.boot == self.boot)

    def has_restarted_since(self, holder: Holder) -> bool:
        """Whether this machine was started after that process: nothing of what it left can run."""
        return not self.is_other(holder) and bool(self.boot and holder.boot) and holder.boot != self.boot

    def lives(self, holder: Holder, started: int | None) -> bool:
        """Whether it lives, where the process of that id here `started` then (0: not known, None: there is none).

        Of a process that cannot be looked at from here it is taken for granted: somebody holds the lock.
        """
        if self.is_other(holder):
            return True
        if started is None or self.has_restarted_since(holder):
            return False
        return not holder.started or not started or holder.started == started


def here() -> Here:
    """This machine."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return Here(os.uname().nodename, boot)


def myself(*, since: str, command: str) -> Holder:
    """This process as a holder."""
    from rulebook_ralph import process_table  # noqa: PLC0415 - see below

    place, entry = here(), process_table.look(os.getpid())
    return Holder(os.getpid(), since, command, place.host, place.boot, entry.started if entry else 0)


def of_session(session: str, agent: int, *, since: str, command: str) -> Holder:
    """This process as a holder that works for the session of that agent's process."""
    return replace(
        myself(since=since, command=command), session=session, agent=agent, agent_started=_started(agent) or 0
    )


def lives(holder: Holder) -> bool:
    """Whether the process that is named lives, and not merely one that has its id by now."""
    return here().lives(holder, _started(holder.pid))


def is_stopped(holder: Holder) -> bool:
    """Whether it stands still, by SIGSTOP or in a debugger (told on Linux only)."""
    if sys.platform != "linux" or here().is_other(holder):
        return False
    try:
        stat = Path(f"/proc/{holder.pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :].split()[0] in (b"T", b"t")


def is_alive(pid: int) -> bool:
    """Whether a process of that id runs."""
    return _started(pid) is not None


def is_shared(path: Path) -> bool:
    """Whether other machines may have the file system of that path mounted too (told on Linux only)."""
    try:
        device = path.stat().st_dev
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    return has_shared_type(lines, f"{os.major(device)}:{os.minor(device)}")


def has_shared_type(lines: Iterable[str], device: str) -> bool:
    """Whether one of the lines of /proc/self/mountinfo mounts that device (`8:1`) with the type of a shared disk."""
    fields = (line.split(" - ", 1) for line in lines)
    types = (after[0].split()[0] for before, *after in fields if before.split()[2:3] == [device] and after)
    return any(kind.startswith(_SHARED) for kind in types)


def _started(pid: int) -> int | None:
    """When the process of that id started, 0 where that is not told; None where there is none."""
    if pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    from rulebook_ralph import process_table  # noqa: PLC0415 - `status` needs it only while somebody holds the lock

    entry = process_table.look(pid)
    if entry is None:
        return 0 if sys.platform != "linux" else None
    return None if entry.is_zombie else entry.started
