"""An order to stop that threads wait for together with files, and that a signal handler can give."""

import os
import select
import time
import weakref
from contextlib import suppress
from threading import Event


class Cancellation(Event):
    """A `threading.Event` with a file descriptor that is readable while it is set itself. It counts as set, too, while
    one of those is that it follows.

    It has no lock: a signal handler runs in the midst of whatever its thread does, also of `set`, `clear` or `wait`
    on this very event, and would wait for ever for a lock that its own thread holds.

    `at_once` is set by a second order: what is to end gets no time for it any more. It is the same for followers.
    """

    def __init__(self, *followed: "Cancellation") -> None:
        super().__init__()
        self._followed = followed
        self._ordered = False
        self.at_once: Cancellation | None = next((each.at_once for each in followed if each.at_once), None)
        self._reader, self._writer = os.pipe()
        for file in (self._reader, self._writer):
            os.set_blocking(file, False)
            weakref.finalize(self, os.close, file)

    @property
    def orders(self) -> "tuple[Cancellation, ...]":
        """All that may be set: this one and those that it follows."""
        return (self, *(order for each in self._followed for order in each.orders))

    def fileno(self) -> int:
        return self._reader

    def is_set(self) -> bool:
        return self._ordered or any(each.is_set() for each in self._followed)

    def set(self) -> None:
        self._ordered = True
        self._wake()

    def clear(self) -> None:
        self._ordered = False
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
        if self._ordered:  # set meanwhile, and its byte was read here
            self._wake()

    def wait(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()
        for order in self.orders:
            poll.register(order, select.POLLIN)
        while not self.is_set():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            poll.poll(left if left is None else left * 1000)
        return True

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: readable already
            os.write(self._writer, b"\0")
