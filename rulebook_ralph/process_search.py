"""Processes found anywhere on this machine by the mark they carry, or by their session."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress

import psutil

from rulebook_ralph.process_table import MARK


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
