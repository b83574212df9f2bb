"""Processes found anywhere on this machine by the mark they carry, or by their session."""

import math
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from rulebook_ralph.process_table import MARK, look


def find(mark: str, *, session: int | None = None) -> Iterator[int]:
    """Ids of living processes that carry the environment variable `mark` or are in the session of that id."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if (session is not None and _session(process.pid) == session) or mark in process.environ():
                yield process.pid


def left_by(ralph: int) -> set[int]:
    """Ids of living processes that a dead Ralph process of that id left: those with its mark, what is below them, and
    what is in their sessions, which nobody else can join.

    Another process may have that id by now; what was started later than it is not the dead one's.
    """
    start, end = f"{MARK}{ralph}_", _start_of(ralph)
    marked: set[int] = set()
    living: dict[int, int] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE or process.create_time() >= end:
                continue
            living[process.pid] = process.ppid()
            if any(name.startswith(start) for name in process.environ()):
                marked.add(process.pid)
    sessions = {_session(pid) for pid in marked} - {0, os.getsid(0)}
    found = marked | {pid for pid in living if _session(pid) in sessions}
    while below := {pid for pid, parent in living.items() if parent in found} - found:
        found |= below
    return found


def orphans_within(folders: Collection[Path], *, since: int) -> list[int]:
    """Ids of living processes of this user that lost their parent, work in one of these folders, started after `since`
    (clock ticks since boot) and are in another session than this process: a dead run's that hid from `left_by` looks
    so, and so may a person's. Linux only; elsewhere none.
    """
    if sys.platform != "linux":
        return []
    roots = [os.path.realpath(folder) for folder in folders]
    apart, own_session = {0, os.getpid(), *_ancestors()}, os.getsid(0)
    found = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208 - names only
        entry = look(pid)
        if pid in apart or entry is None or entry.is_zombie or entry.started <= since or entry.session == own_session:
            continue
        with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
            inside = any(Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(root) for root in roots)  # noqa: PTH115
            if inside and os.stat(f"/proc/{pid}").st_uid == os.getuid() and _lost_its_parent(pid):  # noqa: PTH116
                found.append(pid)
    return found


def _ancestors() -> list[int]:
    with suppress(psutil.Error):
        return [parent.pid for parent in psutil.Process().parents()]
    return []


def _lost_its_parent(pid: int) -> bool:
    """Whether its parent is the first process, or the session manager that takes up orphans of a login."""
    parent = psutil.Process(pid).ppid()
    return parent == 1 or psutil.Process(parent).name() == "systemd"


def _start_of(pid: int) -> float:
    """When the process of that id that lives now was started; for ever, if there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return math.inf


def _session(pid: int) -> int:
    """0 where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0
