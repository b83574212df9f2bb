"""Git's patch of many files, read as it comes: the lines that were added and removed.

What is kept is bounded: a file with too much of a patch counts as binary.
"""

import os
import re
from collections.abc import Iterator
from typing import IO, Literal, cast

from rulebook_ralph.core.diff import FileDiff, Line

MOST_OF_A_FILE = 4 * 1024 * 1024
"""Bytes of one file's patch, or of one version of a file, that are kept."""
MOST_OF_A_PATCH = 20 * 1024 * 1024
"""Bytes of patch that are kept of all files together."""

_BLOCK = 1024 * 1024
_ENTRY = re.compile(
    rb':\d+ (\d+) \w+ \w+ ([A-Z])\d*\t("(?:[^"\\]|\\.)*"|[^\t\n]*)(?:\t("(?:[^"\\]|\\.)*"|[^\t\n]*))?\n'
)
_LINK = b"120000"
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

_Kind = Literal["A", "M", "D", "R"]


def read_files(output: IO[bytes]) -> Iterator[tuple[FileDiff, bool]]:
    """Each file that `git diff-tree --raw -p -U0` shows, and whether it was git that called it binary."""
    entries: list[tuple[bool, str, str, str | None]] = []
    line = output.readline()
    while entry := _ENTRY.fullmatch(line):
        is_link, letter, first = entry[1] == _LINK, entry[2].decode(), _unquoted(entry[3])
        entries.append((is_link, letter, first, _unquoted(entry[4]) if entry[4] else None))
        line = output.readline()
    patches = _Patches(output)
    for is_link, letter, first, second in entries:
        parts = 2 if letter == "T" else 1  # a changed type is shown as a removal and an addition
        added, removed, binary = patches.next_file(parts)
        kind = cast("_Kind", letter if letter in "ADR" else "M")
        path = second or first
        old_path = None if kind == "A" else first
        lines = ((), ()) if binary else (added, removed)
        yield FileDiff(kind, path, old_path, *lines, binary, is_link=is_link), patches.by_git


class _Patches:
    """The patches of the files one after another. Within a hunk a line begins with a mark, so that no file's content
    is taken for a header.
    """

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._kept = 0
        self._line = b""
        self._size = 0
        self.by_git = False
        """Whether git called the last file binary."""
        self._advance()

    def next_file(self, parts: int) -> tuple[tuple[Line, ...], tuple[Line, ...], bool]:
        """Added and removed lines of the next `parts` patches, and whether they could not be kept."""
        added: list[Line] = []
        removed: list[Line] = []
        self._size = 0
        self.by_git = False
        shown = [self._read_patch(added, removed) for _ in range(parts)]
        if not all(shown):
            return (), (), True
        self._kept += self._size
        return tuple(added), tuple(removed), False

    def _read_patch(self, added: list[Line], removed: list[Line]) -> bool:
        """Whether the whole patch was text and small enough."""
        old = new = 0
        shown = True
        self._advance()
        while self._line and not self._line.startswith(b"diff --git "):
            mark = self._line[:1]
            if not shown or self._is_too_much():
                shown = False
                added.clear()
                removed.clear()
            elif mark == b"@" and (hunk := _HUNK.match(self._line)):
                old, new = int(hunk[1]), int(hunk[3])
            elif not (old or new):  # the header
                self.by_git = self._line.startswith(b"Binary files ")
                shown = not self.by_git
            elif mark == b"+":
                added.append(Line(new, _text(self._line[1:])))
                new += 1
            elif mark == b"-":
                removed.append(Line(old, _text(self._line[1:])))
                old += 1
            self._advance()
        return shown

    def _is_too_much(self) -> bool:
        return self._size > MOST_OF_A_FILE or self._kept + self._size > MOST_OF_A_PATCH

    def _advance(self) -> None:
        """The next line; of a very long one the end is left out."""
        self._line = self._output.readline(MOST_OF_A_FILE + 2)
        self._size += len(self._line)
        if len(self._line) > MOST_OF_A_FILE and not self._line.endswith(b"\n"):
            while (rest := self._output.readline(_BLOCK)) and not rest.endswith(b"\n"):
                pass


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "replace")


def _unquoted(name: bytes) -> str:
    if not name.startswith(b'"'):
        return os.fsdecode(name)

    def meant(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if code.isdigit() else _ESCAPED.get(code, code)

    return os.fsdecode(_ESCAPE.sub(meant, name[1:-1]))
