"""An order to stop that a thread can wait for together with files."""

import os
import weakref
from contextlib import suppress
from threading import Event


class Cancellation(Event):
    """A `threading.Event` with a file descriptor that is readable while the event is set.

    `set` may be called from a signal handler, as long as the thread that handles signals does not `wait` on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        weakref.finalize(self, _close, self._reader, self._writer)

    def fileno(self) -> int:
        return self._reader

    def set(self) -> None:
        super().set()
        with suppress(BlockingIOError):  # full: readable already
            os.write(self._writer, b"\0")

    def clear(self) -> None:
        super().clear()
        with suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass


def _close(reader: int, writer: int) -> None:
    os.close(reader)
    os.close(writer)
