"""A person at a terminal: Ralph's input and output are one, keys are pressed, and it may be resized."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer
from typing import Self

from tests.harness import DEADLINE, Project
from tests.played import Played

_ROOT = str(Path(__file__).parents[1])
_RALPH = "from rulebook_ralph.cli.main import main; import sys; main(sys.argv[1:])"


def at_terminal(project: Project, *arguments: str, typed: str = "") -> tuple[int, str]:
    """Runs a command there to its end; its exit code, and all that was shown."""
    with Terminal(project, *arguments) as terminal:
        terminal.press(typed)
        code = terminal.ended()
    return code, terminal.stream


class Terminal:
    """A terminal in which a command runs."""

    def __init__(
        self, project: Project, *arguments: str, columns: int = 80, rows: int = 24, code: str = _RALPH
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self._shown = b""
        self.resize(columns, rows)
        self.mode = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("controlling.py")), code, *arguments],
            cwd=project.root,
            env={**os.environ, "PYTHONPATH": _ROOT, "TERM": "xterm-256color", **project.environment},
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self._late = Timer(3 * DEADLINE, self.process.kill)
        self._late.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._late.cancel()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        self._reader.join()
        os.close(self._ours)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self.columns = columns
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def shows(self, *texts: str) -> list[str]:
        """The rows as soon as they contain all of `texts`."""
        ends = time.monotonic() + DEADLINE
        while True:
            rows = self.rows
            if all(any(text in row for row in rows) for text in texts):
                return rows
            if time.monotonic() > ends:
                raise AssertionError(f"never shown together: {texts}; last:\n" + "\n".join(rows))
            time.sleep(0.05)

    @property
    def rows(self) -> list[str]:
        return self.rows_since(0)

    def rows_since(self, at: int) -> list[str]:
        """What a screen that was empty at that place of the stream shows now."""
        return Played(self.columns).play(re.sub(r"\x1b[^A-Za-z]*\Z", "", self.stream[at:])).rows

    @property
    def stream(self) -> str:
        return self._shown.decode(errors="ignore")

    @property
    def is_as_before(self) -> bool:
        """Whether what is typed is shown, and comes in lines."""
        return bool(termios.tcgetattr(self._theirs)[3] == self.mode[3])

    @property
    def unread(self) -> int:
        """How many characters were typed that nobody read: a shell would take them."""
        return int(struct.unpack("i", fcntl.ioctl(self._theirs, termios.FIONREAD, b"\0" * 4))[0])

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        return self.process.wait(3 * DEADLINE)

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while block := os.read(self._ours, 65536):
                self._shown += block
