"""Processes found anywhere on this machine by the mark they carry, or by their session."""

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
            if _in_session(process.pid, session) or mark in process.environ():
                yield process.pid


def left_by(ralph: int) -> Iterator[int]:
    """Ids of living processes that carry a mark of the Ralph process of that id."""
    start = f"{MARK}{ralph}_"
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and any(name.startswith(start) for name in process.environ()):
                yield process.pid


def _in_session(pid: int, session: int | None) -> bool:
    if session is None:
        return False
    try:
        return os.getsid(pid) == session
    except OSError:
        return False
