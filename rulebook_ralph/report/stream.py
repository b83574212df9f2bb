"""A text stream that never fails: the reader may be gone, the encoding poor, and the run goes on. Aligned columns."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TextIO

from rulebook_ralph.tasks.text import clipped, cut, display_width

_SUBSTITUTES = str.maketrans("✔✘↻■●○…·→│━─╸╺⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "+x~#*.~->|=-=-" + "*" * 10)
"""For encodings without these marks, each by one column of ASCII."""

_NARROWEST_COLUMN = 6
_AMOUNT = re.compile(r"<?\$?\d{1,6}(?:,\d{3})*(?:\.\d+)?[kM]?(?: [a-z]+)?")

DEFAULT_SIZE = (80, 24)


class Stream:
    """Writes whole texts at once, each flushed, also of several threads. What the encoding lacks is replaced.

    Once the reader is gone (a closed pipe, a vanished terminal) the rest is dropped in silence. Rich takes it for a
    file.
    """

    encoding = "utf-8"

    def __init__(self, file: TextIO, terminal: TextIO | None = None) -> None:
        self._file = file
        self._terminal = terminal or file
        self._gone = False
        self._writing = Lock()
        self._encoding = getattr(file, "encoding", None) or "utf-8"
        self.unicode = self._encoding.lower().startswith("utf")

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._terminal.isatty()
        return False

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal now; 80 by 24 where it does not say."""
        with suppress(OSError, ValueError):
            columns, rows = os.get_terminal_size(self._terminal.fileno())
            if columns > 0 and rows > 0:
                return columns, rows
        return DEFAULT_SIZE

    def write(self, text: str) -> int:
        """How long the text was."""
        with self._writing:
            if not self._gone:
                self._write_or_give_up(text)
        return len(text)

    def write_bytes(self, data: bytes) -> bool:
        """Whether the file takes bytes."""
        buffer = getattr(self._file, "buffer", None)
        if buffer is None:
            return False
        with suppress(OSError, ValueError):
            buffer.write(data)
            buffer.flush()
        return True

    def flush(self) -> None:
        """Every write is flushed."""

    def _write_or_give_up(self, text: str) -> None:
        if not self.unicode:
            text = text.translate(_SUBSTITUTES)
        text = text.encode(self._encoding, "replace").decode(self._encoding)
        try:
            self._write_and_flush(text)
        except (OSError, ValueError):
            self._gone = True
            self._discard_what_is_buffered()

    def _write_and_flush(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except BlockingIOError:  # a child that shares the terminal made it non-blocking
            os.set_blocking(self._file.fileno(), True)
            self._file.flush()

    def _discard_what_is_buffered(self) -> None:
        """Else the interpreter tries to write it once more when it exits, and complains."""
        if self._file not in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            return
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)


Paint = Callable[[int, str], str]
"""Colours the text of a cell of a column."""


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, paint: Paint = lambda _, text: text
) -> list[str]:
    """Aligned columns, amounts to the right; where `width` is given, the widest columns give way until it fits."""
    cells = [[clipped(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(headings, *cells, strict=True)]
    if width is not None:
        _narrow(widths, width - 2 * (len(widths) - 1))
    right = [
        bool(cells) and all(_AMOUNT.fullmatch(row[i]) or not row[i] for row in cells) for i in range(len(headings))
    ]
    return [_aligned(row, widths, right, paint) for row in [list(headings), *cells]]


def _narrow(widths: list[int], room: int) -> None:
    while sum(widths) > room and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool], paint: Paint) -> str:
    parts = []
    for column, (cell, width, to_the_right) in enumerate(zip(row, widths, right, strict=True)):
        text = cut(cell, width)
        space = " " * (width - display_width(text))
        text = paint(column, text) if text else ""
        parts.append(space + text if to_the_right else text + space)
    return "  ".join(parts).rstrip()
