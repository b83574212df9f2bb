"""A running process with all that it started: signals to it, and its end without anything left behind."""

import json
import os
import select
import signal
from contextlib import suppress
from subprocess import Popen, TimeoutExpired

import psutil

from rulebook_ralph.process.orphans import end_started_by

_DEATH_WAIT = 5.0
_STATUS_BYTES = 4096
_SHELL_SIGNAL = 128
"""Bubblewrap ends as shells do: with this much more than the signal that ended the command."""


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
        return end_started_by(self._mark, self._process.pid, self._began, grace=grace)

    def close(self) -> None:
        """Give up what this holds."""

    def _wait(self) -> None:
        with suppress(TimeoutExpired):  # not even SIGKILL ended it: the kernel holds it
            self._process.wait(_DEATH_WAIT)


class BoxedTree(ProcessTree):
    """In a sandbox: `process` is bubblewrap, whose child is the first process of all inside, whose child is the
    command. With the first one all others end. Bubblewrap itself would end them all at any signal, so it gets none.
    """

    def __init__(self, process: Popen[bytes], status_file: int) -> None:
        super().__init__(process, "", 0.0)
        self._status_file = status_file
        self._status = b""
        os.set_blocking(status_file, False)

    @property
    def exit_code(self) -> int | None:
        code = self._process.returncode
        number = code - _SHELL_SIGNAL if code is not None else 0
        return -number if number in set(signal.Signals) else code

    def signal(self, order: signal.Signals) -> None:
        """To those inside that are still in the command's group, as a terminal would."""
        first = self._first()
        if first is None or self._process.returncode is not None:
            return
        with suppress(psutil.Error):
            inside = psutil.Process(first).children(recursive=True)
            for one in [each for each in inside if _group(each.pid) == self._process.pid] or inside:
                with suppress(psutil.Error):
                    one.send_signal(order)

    def kill(self) -> None:
        """The first process inside, which is gone only after all others; bubblewrap too, where there is none yet."""
        first = self._first()
        with suppress(ProcessLookupError):
            if first is None:
                self._process.kill()
            elif self._process.returncode is None:
                os.kill(first, signal.SIGKILL)

    def clear_up(self, *, grace: float) -> int:  # noqa: ARG002 - nobody inside can be asked any more
        """Wait until all inside are gone; they were killed when the command ended."""
        if self._process.poll() is None:
            self._wait()
        if self._process.returncode is None:
            self._process.kill()
            self._wait()
        first = self._first()
        if first is not None:
            _wait_until_gone(first)
        return 0

    def close(self) -> None:
        os.close(self._status_file)

    def _first(self) -> int | None:
        """The id of the first process inside, as bubblewrap tells it before the command runs."""
        with suppress(BlockingIOError):
            while b"\n" not in self._status and (block := os.read(self._status_file, _STATUS_BYTES)):
                self._status += block
        with suppress(ValueError, TypeError, KeyError):
            return int(json.loads(self._status.partition(b"\n")[0])["child-pid"])
        return None


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _wait_until_gone(pid: int) -> None:
    """It may have ended already; no other process can have its id so soon."""
    with suppress(ProcessLookupError, PermissionError):
        file = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(file, select.POLLIN)
            poll.poll(_DEATH_WAIT * 1000)
        finally:
            os.close(file)
