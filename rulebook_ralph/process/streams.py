"""Bytes as they come from a process, in bounded memory: whole lines, the beginning and end of everything, and the loop
that waits for them, for the end of the process and for the order to stop, all at once and without polling.
"""

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

from rulebook_ralph.process.cancellation import Cancellation

Sink = Callable[[bytes], None]

LONGEST_LINE = 8 * 1024 * 1024
_BLOCK = 64 * 1024
_PLAIN_EVENT_INTERVAL = 0.05


class LineSplitter:
    """Hands each whole line (bytes, without its end, never empty) to `on_line`, if it is no longer than `longest`."""

    def __init__(self, on_line: Callable[[bytes], None], *, longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, block: bytes) -> None:
        *ends, rest = block.split(b"\n")
        for end in ends:
            self._extend(end)
            self.close()
        self._extend(rest)

    def close(self) -> None:
        """The end of the stream: a last line without a line end counts as a line."""
        line, self._length = b"".join(self._pieces), 0
        self._pieces.clear()
        if line:
            self._on_line(line)

    def _extend(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._longest:
            self._pieces.append(piece)
        else:
            self._pieces.clear()


class HeadTail:
    """Keeps the first `head` and the last `tail` bytes of everything it is fed; `size` is the count of all of them."""

    def __init__(self, *, head: int, tail: int) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def feed(self, block: bytes) -> None:
        self.size += len(block)
        room = self._head_size - len(self._head)
        self._head += block[:room]
        self._tail += block[room:]
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    def tail(self) -> bytes:
        """The end, as far as it is not in the head already."""
        return bytes(self._tail[max(0, len(self._tail) - self._tail_size) :])

    def text(self) -> str:
        """What was kept, with a line that says how much was left out. Bytes that are not UTF-8 become U+FFFD."""
        head, tail = bytes(self._head), self.tail()
        if not (left_out := self.size - len(head) - len(tail)):
            return (head + tail).decode("utf-8", "replace")
        return f"\n… {left_out} bytes left out …\n".join(each.decode("utf-8", "replace") for each in (head, tail))


class Pump:
    """Moves bytes between a process and its sinks. `last_byte` is the time (monotonic) of the last output."""

    def __init__(
        self, process: Popen[bytes], stdin: bytes | None, on_stdout: Sink, on_stderr: Sink, cancelled: Event | None
    ) -> None:
        self._cancelled = cancelled
        self._selector = selectors.DefaultSelector()
        self._input = memoryview(stdin or b"")
        self._outputs: dict[int, Sink] = {}
        self.exited = False
        self.last_byte = time.monotonic()
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None]
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            if pipe is process.stdin:
                self._selector.register(pipe, selectors.EVENT_WRITE, partial(self._write, pipe))
            else:
                file, sink = pipe.fileno(), on_stdout if pipe is process.stdout else on_stderr
                self._outputs[file] = sink
                self._selector.register(file, selectors.EVENT_READ, partial(self._read, file, sink))
        self._exit_file = _readable_at_exit(process)
        self._selector.register(self._exit_file, selectors.EVENT_READ, self._exit)
        orders: tuple[Cancellation, ...] = getattr(cancelled, "orders", ())
        self._longest_wait = None if orders or cancelled is None else _PLAIN_EVENT_INTERVAL
        self._at_once = {each.at_once for each in orders if each.at_once}
        for order in {*orders, *self._at_once}:
            self._selector.register(order, selectors.EVENT_READ, partial(self._selector.unregister, order))

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled.is_set()

    @property
    def is_to_end_at_once(self) -> bool:
        return any(order.is_set() for order in self._at_once)

    def wait(self, seconds: float | None) -> None:
        """Wait until something happens, at most that long (None: for ever), and deal with it."""
        waits = [each for each in (seconds, self._longest_wait) if each is not None]
        for key, _ in self._selector.select(min(waits, default=None)):
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
        for pipe in self._pipes:
            pipe.close()
        os.close(self._exit_file)

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

    def _exit(self) -> None:
        self._selector.unregister(self._exit_file)
        self.exited = True


def _readable_at_exit(process: Popen[bytes]) -> int:
    """A file descriptor that tells of the process' end."""
    if sys.platform == "linux":
        return os.pidfd_open(process.pid)
    reader, writer = os.pipe()

    def tell() -> None:
        process.wait()
        os.close(writer)

    threading.Thread(target=tell, daemon=True).start()
    return reader
