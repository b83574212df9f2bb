"""Which process is the agent's, seen from a command or hook that it started."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "timeout")


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A process above this one, and the name of its program."""

    pid: int
    name: str


def agent_among(ancestors: Sequence[Ancestor], said: str) -> int | None:
    """The agent among this process's ancestors, the nearest first: the one whose id was `said` (CLAUDE_PID), if it is
    there; else the first that is no shell. None where there is none.
    """
    named = next((each.pid for each in ancestors if str(each.pid) == said), None)
    return named or next((each.pid for each in ancestors if each.name.lstrip("-") not in _SHELLS), None)


def started_in(pid: int) -> Path | None:
    """The folder of the agent's process, which stays the one it was started in; None where nobody can tell."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cwd").readlink()
        except OSError:
            return None
    import psutil  # noqa: PLC0415 - see below

    try:
        return Path(psutil.Process(pid).cwd())
    except psutil.Error:
        return None


def ancestors(pid: int | None = None) -> tuple[Ancestor, ...]:
    """The processes above this one (or `pid`), the nearest first."""
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - 20 ms, and only where there is no /proc

        return tuple(Ancestor(each.pid, each.name()) for each in psutil.Process(pid).parents())
    found: list[Ancestor] = []
    at = os.getppid() if pid is None else pid
    while at > 1 and all(at != each.pid for each in found):
        try:
            stat = Path(f"/proc/{at}/stat").read_text("utf-8", "replace")
        except OSError:
            break
        end = stat.rindex(")")
        found.append(Ancestor(at, stat[stat.index("(") + 1 : end]))
        at = int(stat[end + 2 :].split()[1])
    return tuple(found)
