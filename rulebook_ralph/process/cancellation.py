"""An order to stop that threads wait for together with files, and that a signal handler can give."""

import os
import select
import time
import weakref
from contextlib import suppress
from threading import Event


class Cancellation(Event):
    """A `threading.Event` with a file descriptor that is readable while the event is set.

    It has no lock: a signal handler runs in the midst of whatever its thread does, also of `set`, `clear` or `wait`
    on this very event, and would wait for ever for a lock that its own thread holds.

    `at_once` is set by a second order: what is to end gets no time for it any more. It is the same for followers.
    """

    at_once: "Cancellation | None" = None

    def __init__(self) -> None:
        super().__init__()
        self._ordered = False
        self._follower: Cancellation | None = None
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        weakref.finalize(self, _close, self._reader, self._writer)

    @property
    def orders(self) -> "tuple[Cancellation, ...]":
        return (self,)

    def fileno(self) -> int:
        return self._reader

    def is_set(self) -> bool:
        return self._ordered

    def set(self) -> None:
        self._ordered = True
        self._wake()
        if self._follower is not None:
            self._follower.set()

    def follower(self) -> "Cancellation":
        """One, instead of the last, that is set as soon as this is, and may be set alone."""
        self._follower = follower = Cancellation()
        follower.at_once = self.at_once
        if self._ordered:
            follower.set()
        return follower

    def clear(self) -> None:
        self._ordered = False
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass
        if self._ordered:  # set meanwhile, and its byte was read here
            self._wake()

    def wait(self, timeout: float | None = None) -> bool:
        return Either(self).wait(timeout)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: readable already
            os.write(self._writer, b"\0")


class Either(Event):
    """Set while one of several orders is; it is not set itself."""

    def __init__(self, *orders: Cancellation) -> None:
        super().__init__()
        self.orders = orders

    def is_set(self) -> bool:
        return any(order.is_set() for order in self.orders)

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


def _close(reader: int, writer: int) -> None:
    os.close(reader)
    os.close(writer)
