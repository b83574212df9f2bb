"""A process with all that it started: signals to it, and its end without anything left behind.

Every supervised process carries an environment variable with a name of its own, which all that it starts inherits, and
leads a session. What clears its environment and leaves the session as well is found only in the sandbox.
"""

import json
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from subprocess import Popen, TimeoutExpired
from typing import IO

import psutil

_MARK = "RALPH_MARK_"
_KILL_SECONDS = _DEATH_WAIT = 5.0
_LOOK = 0.01
_MOST_LOOKS = 50
_EXEC_LOOKS = 10
"""For so long what has no environment may only be about to become another program."""
_KERNEL = 2
"""The parent of the kernel's own threads, which never have one."""
_CLOCK_SLACK = 2.0
"""Start times are told in seconds since the epoch, and the clock may be set meanwhile."""
_STATUS_BYTES = 4096
_SHELL_SIGNAL = 128
"""Bubblewrap ends as shells do: with this much more than the signal that ended the command."""


def started_at(pid: int) -> int:
    """When the process of that id started, in milliseconds since the epoch; 0 where there is none."""
    try:
        return round(psutil.Process(pid).create_time() * 1000)
    except (psutil.Error, ValueError, OverflowError):
        return 0


_start_of_this = lru_cache(maxsize=1)(started_at)


def own_start() -> int:
    """When this process started: the same number however often it is asked for."""
    return _start_of_this(os.getpid())


# Marks


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
    """End what the dead Ralph process of that id and start left running; how many there were, and remain."""
    return _end_marked(marks_of(pid, started), None, started / 1000, grace=1.0)


def _end_marked(mark: str, session: int | None, since: float, *, grace: float) -> tuple[int, int]:
    """End all whose mark begins so or that is in the session, and that started after `since` (seconds since the
    epoch), until nothing is found any more; how many there were, and how many could not be ended. Asked to terminate
    first if `grace` is not 0.
    """
    seen: set[psutil.Process] = set()
    out_of_reach: set[psutil.Process] = set()
    order = signal.SIGTERM if grace > 0 else signal.SIGKILL
    deadline = time.monotonic() + grace + _KILL_SECONDS
    while found := _marked(mark, session, since) - out_of_reach:
        seen |= found
        for process in sorted(found, key=_age):  # a shell before what it waits for: else it goes on with its next line
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
    return len(seen), sum(map(_runs, seen))


def _marked(mark: str, session: int | None, since: float) -> set[psutil.Process]:
    """Living processes with such a mark, or in that session; then those in the sessions of these, which nobody else can
    join, and those below them.
    """
    living: dict[int, psutil.Process] = {}
    sessions = {session} if session is not None else set()
    found: set[psutil.Process] = set()
    looked_at = {os.getpid()}
    for look in range(_MOST_LOOKS):  # what forks and ends meanwhile has another id by now
        new = set(psutil.pids()) - looked_at
        unread: set[int] = set()
        for pid in new:
            with suppress(psutil.Error, OSError):  # gone meanwhile, or another user's
                process = psutil.Process(pid)
                if process.create_time() < since - _CLOCK_SLACK or not _runs(process):
                    continue
                living[pid] = process
                names = process.environ()
                if any(name.startswith(mark) for name in names):
                    found.add(process)
                    sessions.add(_session(pid))
                elif not names and look < _EXEC_LOOKS and process.ppid() != _KERNEL:
                    unread.add(pid)
        if not new:
            break
        looked_at |= new - unread
        if unread == new:
            time.sleep(_LOOK)
    found |= {process for pid, process in living.items() if _session(pid) in sessions - {0, os.getsid(0)}}
    for process in tuple(found):
        with suppress(psutil.Error):
            below = process.children(recursive=True)
            found.update(each for each in below if each.pid != os.getpid() and _runs(each))
    return found


def _age(process: psutil.Process) -> tuple[float, int]:
    return process.create_time(), process.pid


def _wait_until_gone(processes: Iterable[psutil.Process], seconds: float) -> None:
    """A zombie counts as gone: its parent, which is not this process, may let it lie."""
    deadline = time.monotonic() + seconds
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(_LOOK)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _session(pid: int) -> int:
    """0 where it is gone."""
    with suppress(OSError):
        return os.getsid(pid)
    return 0


# One that runs


class ProcessTree:
    """Without a sandbox: a process that leads a session and carries `mark`, started at `began` (epoch seconds)."""

    def __init__(self, process: Popen[bytes], mark: str, began: float) -> None:
        self._process = process
        self._mark = mark
        self._began = began

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while it runs."""
        return self._process.returncode

    def signal(self, order: signal.Signals) -> None:
        """To the process and its group, as a terminal would; until it has been waited for, the id is its own."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, order)

    def kill(self) -> None:
        """At once, without asking."""
        self.signal(signal.SIGKILL)

    def clear_up(self, *, grace: float) -> int:
        """When the process has ended: end what it left behind, which is asked first if there is a `grace`. How many."""
        self._wait()
        return _end_marked(self._mark, self._process.pid, self._began, grace=grace)[0]

    def _wait(self) -> None:
        with suppress(TimeoutExpired):  # not even SIGKILL ended it: the kernel holds it
            self._process.wait(_DEATH_WAIT)


class BoxedTree(ProcessTree):
    """In a sandbox: `process` is bubblewrap, whose child is the first process of all inside, whose child is the
    command. With the first one all others end. Bubblewrap itself would end them all at any signal, so it gets none.
    """

    def __init__(self, process: Popen[bytes], status: IO[bytes]) -> None:
        super().__init__(process, "", 0.0)
        self._status = status

    @property
    def exit_code(self) -> int | None:
        code = self._process.returncode
        number = code - _SHELL_SIGNAL if code is not None else 0
        return -number if number in set(signal.Signals) else code

    def signal(self, order: signal.Signals) -> None:
        """To those inside that are still in the command's group, as a terminal would."""
        with suppress(psutil.Error):
            if self._process.returncode is None and (first := self._first()):
                inside = first.children(recursive=True)
                for one in [each for each in inside if _group(each.pid) == self._process.pid] or inside:
                    with suppress(psutil.Error):
                        one.send_signal(order)

    def kill(self) -> None:
        """The first process inside, which is gone only after all others; bubblewrap too, where there is none yet."""
        if self._process.returncode is None:
            with suppress(psutil.Error, ProcessLookupError):
                (self._first() or self._process).kill()

    def clear_up(self, *, grace: float) -> int:  # noqa: ARG002 - nobody inside can be asked any more
        """Wait until all inside are gone; they were killed when the command ended."""
        first = self._first()
        self._wait()
        if self._process.returncode is None:
            self._process.kill()
            self._wait()
        if first:
            _wait_until_gone((first,), _DEATH_WAIT)
        return 0

    def _first(self) -> psutil.Process | None:
        """The first process inside, as bubblewrap tells it before the command runs."""
        said = os.pread(self._status.fileno(), _STATUS_BYTES, 0).partition(b"\n")[0]
        with suppress(ValueError, TypeError, KeyError, psutil.Error):
            return psutil.Process(json.loads(said)["child-pid"])
        return None


def _group(pid: int) -> int:
    with suppress(OSError):
        return os.getpgid(pid)
    return 0
