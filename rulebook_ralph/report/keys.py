"""The keys that are pressed while a live display is shown. What is typed is consumed, and never reaches the shell."""

import os
import select
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

_LOOK = 0.5
"""Seconds after which it looks whether the terminal is still its own: ^Z and `fg` change that."""
_BLOCK = 1024


class Keyboard:
    """Reads single keys from a terminal, in a thread of its own, from `open` to `close`. ^C stays what it is, and
    nothing is touched while another process group has the terminal.
    """

    def __init__(self, terminal: int, pressed: Callable[[str], None]) -> None:
        self._terminal = terminal
        self._pressed = pressed
        self._closing, self._close = os.pipe()
        self._before: list[object] | None = None
        self._thread = Thread(target=self._read, name="ralph-keys", daemon=True)

    def open(self) -> None:
        with suppress(termios.error, OSError):
            self._take()
        self._thread.start()

    def close(self) -> None:
        """Put the terminal back as it was; what was typed and not read is thrown away."""
        os.write(self._close, b"\0")
        self._thread.join()
        os.close(self._close)
        os.close(self._closing)
        with suppress(termios.error, OSError):
            if self._before is not None and self._is_ours():
                termios.tcsetattr(self._terminal, termios.TCSAFLUSH, self._before)  # type: ignore[arg-type]

    def _read(self) -> None:
        with suppress(termios.error, OSError):  # the terminal is gone
            while True:
                ours = self._is_ours()
                if ours:
                    self._take()
                watched = [self._closing, self._terminal] if ours else [self._closing]
                ready, _, _ = select.select(watched, [], [], _LOOK)
                if self._closing in ready:
                    return
                if self._terminal in ready and self._is_ours():
                    typed = os.read(self._terminal, _BLOCK)
                    if not typed:
                        return
                    for key in "" if typed.startswith(b"\x1b") else typed.decode("utf-8", "replace"):
                        self._pressed(key)

    def _is_ours(self) -> bool:
        return os.tcgetpgrp(self._terminal) == os.getpgrp()

    def _take(self) -> None:
        """Have each key come at once, unseen; again after somebody else has put the terminal back."""
        if not self._is_ours():
            return
        mode = termios.tcgetattr(self._terminal)
        if mode[3] & (termios.ICANON | termios.ECHO):
            self._before = self._before or mode
            tty.setcbreak(self._terminal, termios.TCSADRAIN)
