"""Processes that outlive the one that started them, where no sandbox ended them: found by a mark, and ended.

Every supervised process carries an environment variable with a name of its own, which all that it starts inherits, and
leads a session. What clears its environment and leaves the session as well is not found; in the sandbox it would be.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache

import psutil

_MARK = "RALPH_MARK_"
_KILL_SECONDS = 5.0
_LOOK = 0.01
_MOST_LOOKS = 50
_CLOCK_SLACK = 2.0
"""Start times are told in seconds since the epoch, and the clock may be set meanwhile."""


def started_at(pid: int) -> int:
    """When the process of that id started, in milliseconds since the epoch; 0 where there is none."""
    try:
        return round(psutil.Process(pid).create_time() * 1000)
    except (psutil.Error, ValueError, OverflowError):
        return 0


def own_start() -> int:
    """When this process started: the same number however often it is asked for."""
    return _start_of_this(os.getpid())


@lru_cache(maxsize=1)
def _start_of_this(pid: int) -> int:
    return started_at(pid)


def marks_of(pid: int, started: int) -> str:
    """How the names of all marks begin that the Ralph process of that id and start time gives."""
    return f"{_MARK}{pid}_{started}_"


def new_mark() -> str:
    """The name of an environment variable that nothing else carries."""
    return marks_of(os.getpid(), own_start()) + os.urandom(8).hex()


def carries_mark(names: Iterable[str]) -> bool:
    """Whether an environment with these names was given to an agent, a gate, or to what they started."""
    return any(name.startswith(_MARK) for name in names)


def end_left_by(pid: int, started: int) -> tuple[int, int]:
    """End what the dead Ralph process of that id and start time left running; how many there were, and how many are
    left all the same.
    """
    prefix = marks_of(pid, started)
    return end_all(lambda: _marked(prefix, session=None, since=started / 1000), grace=1.0)


def end_started_by(mark: str, session: int, since: float, *, grace: float) -> int:
    """End all that carries the mark or is in the session, which began at `since` (seconds since the epoch); how many
    there were. Asked to terminate first if `grace` is not 0.
    """
    return end_all(lambda: _marked(mark, session=session, since=since), grace=grace)[0]


def end_all(find: Callable[[], set[psutil.Process]], *, grace: float) -> tuple[int, int]:
    """End what is found until nothing is found any more; how many there were, and how many could not be ended."""
    seen: set[psutil.Process] = set()
    out_of_reach: set[psutil.Process] = set()
    order = signal.SIGTERM if grace > 0 else signal.SIGKILL
    deadline = time.monotonic() + grace + _KILL_SECONDS
    while found := find() - out_of_reach:
        seen |= found
        for process in found:
            try:
                process.send_signal(order)
            except psutil.AccessDenied:
                out_of_reach.add(process)
            except psutil.Error:  # gone
                continue
        _wait_until_gone(found - out_of_reach, grace if order is signal.SIGTERM else 1.0)
        if time.monotonic() > deadline:
            break
        order = signal.SIGKILL
    return len(seen), sum(1 for process in seen if _runs(process))


def _marked(mark: str, *, session: int | None, since: float) -> set[psutil.Process]:
    """Living processes with a variable whose name begins so, or in that session; then those in the sessions of these,
    which nobody else can join, and those below them.
    """
    living: dict[int, psutil.Process] = {}
    sessions = {session} if session is not None else set()
    found: set[psutil.Process] = set()
    looked_at = {os.getpid()}
    for _ in range(_MOST_LOOKS):  # what forks and ends meanwhile has another id by now
        new = set(psutil.pids()) - looked_at
        if not new:
            break
        looked_at |= new
        for pid in new:
            with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
                process = psutil.Process(pid)
                if process.create_time() < since - _CLOCK_SLACK or not _runs(process):
                    continue
                living[pid] = process
                if any(name.startswith(mark) for name in process.environ()):
                    found.add(process)
                    sessions.add(_session(pid))
    found |= {process for pid, process in living.items() if _session(pid) in sessions - {0, os.getsid(0)}}
    return found | _below(found, living) if found else found


def _below(found: set[psutil.Process], living: dict[int, psutil.Process]) -> set[psutil.Process]:
    parents: dict[int, int] = {}
    for pid, process in living.items():
        with suppress(psutil.Error):
            parents[pid] = process.ppid()
    below = {process.pid for process in found}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {living[pid] for pid in below if pid in living}


def _wait_until_gone(processes: set[psutil.Process], seconds: float) -> None:
    """A zombie counts as gone: its parent, which is not this process, may let it lie."""
    deadline = time.monotonic() + seconds
    while any(_runs(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_LOOK)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _session(pid: int) -> int:
    """0 where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0
