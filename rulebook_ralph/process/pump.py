"""The bytes, the end and the cancellation of one process, waited for together without polling, in bounded memory."""

import os
import selectors
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from subprocess import Popen
from threading import Event
from typing import IO

from rulebook_ralph.process.cancellation import Cancellation, Either

Sink = Callable[[bytes], None]

_BLOCK = 64 * 1024
_PLAIN_EVENT_INTERVAL = 0.05


class Pump:
    """Moves bytes between a process and its sinks. `last_byte` is the time (monotonic) of the last output."""

    def __init__(
        self, process: Popen[bytes], *, stdin: bytes | None, on_stdout: Sink, on_stderr: Sink, cancelled: Event | None
    ) -> None:
        self._process = process
        self._cancelled = cancelled
        self._selector = selectors.DefaultSelector()
        self._input = memoryview(stdin or b"")
        self._outputs: dict[int, Sink] = {}
        self._exit_file = -1
        self.exited = False
        self.last_byte = time.monotonic()
        for pipe, sink in ((process.stdout, on_stdout), (process.stderr, on_stderr)):
            self._read_from(pipe, sink)
        self._write_to(process.stdin)
        self._notice_exit()
        self._orders = cancelled.orders if isinstance(cancelled, Either) else (cancelled,)
        self._at_once = [each.at_once for each in self._orders if isinstance(each, Cancellation) and each.at_once]
        for order in (*self._orders, *self._at_once):
            if isinstance(order, Cancellation):
                self._selector.register(order, selectors.EVENT_READ, partial(self._selector.unregister, order))

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled.is_set()

    @property
    def is_to_end_at_once(self) -> bool:
        return any(order.is_set() for order in self._at_once)

    def wait(self, seconds: float | None) -> None:
        """Wait until something happens, at most that long (None: for ever), and deal with it."""
        if self._cancelled is not None and not isinstance(self._orders[0], Cancellation):
            seconds = min(_PLAIN_EVENT_INTERVAL, seconds if seconds is not None else _PLAIN_EVENT_INTERVAL)
        for key, _ in self._selector.select(seconds):
            key.data()

    def drain(self, seconds: float) -> None:
        """Read what is left in the pipes. To be called when nothing should hold them open any more."""
        deadline = time.monotonic() + seconds
        for file, sink in tuple(self._outputs.items()):
            with suppress(BlockingIOError):
                while time.monotonic() < deadline and (block := os.read(file, _BLOCK)):
                    sink(block)

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self._exit_file >= 0:
            os.close(self._exit_file)

    def _read_from(self, pipe: IO[bytes] | None, sink: Sink) -> None:
        if pipe is None:
            return
        file = pipe.fileno()
        os.set_blocking(file, False)
        self._outputs[file] = sink
        self._selector.register(file, selectors.EVENT_READ, lambda: self._read(file, sink))

    def _read(self, file: int, sink: Sink) -> None:
        try:
            block = os.read(file, _BLOCK)
        except BlockingIOError:
            return
        if block:
            self.last_byte = time.monotonic()
            sink(block)
        else:
            del self._outputs[file]
            self._selector.unregister(file)

    def _write_to(self, pipe: IO[bytes] | None) -> None:
        if pipe is None:
            return
        os.set_blocking(pipe.fileno(), False)
        self._selector.register(pipe, selectors.EVENT_WRITE, lambda: self._write(pipe))

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._input = self._input[os.write(pipe.fileno(), self._input[:_BLOCK]) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read (any more)
            self._input = memoryview(b"")
        if not self._input:
            self._selector.unregister(pipe)
            pipe.close()

    def _notice_exit(self) -> None:
        if sys.platform == "linux":
            self._exit_file = os.pidfd_open(self._process.pid)
        else:
            self._exit_file, writer = os.pipe()
            threading.Thread(target=_tell_exit, args=(self._process, writer), daemon=True).start()
        self._selector.register(self._exit_file, selectors.EVENT_READ, self._exit)

    def _exit(self) -> None:
        self._selector.unregister(self._exit_file)
        self.exited = True


def _tell_exit(process: Popen[bytes], writer: int) -> None:
    process.wait()
    os.close(writer)
