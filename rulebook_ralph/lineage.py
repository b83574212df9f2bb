"""Whether a process runs inside an agent's process tree: its ancestors, and the marks that the supervisor sets."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rulebook_ralph.process_table import MARK

_LOOKS = 20


def carries_mark(names: Iterable[str]) -> bool:
    """Whether an environment with these names was given to an agent, a gate, or what they started."""
    return any(name.startswith(MARK) for name in names)


def inside(pid: int, ralph: int) -> bool | None:
    """Whether the process was started, by however many steps, by the process `ralph`, or carries a mark of any Ralph.

    None where it cannot be told, as of a process that has ended or is in another PID namespace. On Linux `ralph` must
    be the subreaper of what it starts; elsewhere a process that left its parent is known by its mark only.
    """
    for _ in range(_LOOKS):  # a parent that ends between two looks breaks the chain: look again
        chain, names = _ancestry(pid), _environment_names(pid)
        if chain is not None and names is not None:
            return ralph in chain or carries_mark(names)
    return None


def _ancestry(pid: int) -> tuple[int, ...] | None:
    """The process and its ancestors; None where the chain broke off."""
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - 20 ms, and only where there is no /proc

        try:
            return (pid, *(parent.pid for parent in psutil.Process(pid).parents()))
        except psutil.Error:
            return None
    chain: list[int] = []
    while pid > 0 and pid not in chain:
        chain.append(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return None
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
    return tuple(chain) or None


def _environment_names(pid: int) -> list[str] | None:
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 - see above

        try:
            return list(psutil.Process(pid).environ())
        except psutil.Error:
            return None
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return [os.fsdecode(entry.partition(b"=")[0]) for entry in entries]
