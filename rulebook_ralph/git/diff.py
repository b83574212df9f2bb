"""What differs between two trees line by line, whatever configuration and attributes say."""

import os
import re
import tempfile
from ast import literal_eval
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import IO, Literal, cast

from rulebook_ralph.git.repository import Repository, within_state
from rulebook_ralph.git.trees import from_nowhere

MOST_OF_A_FILE = 4 * 1024 * 1024
"""Bytes of one version of a file, or of its patch, that are read."""
MOST_OF_A_PATCH = 20 * 1024 * 1024
"""Bytes of patch that are kept of all files together."""

_NULS, _FEW_NULS, _UNREADABLE = 0.01, 3, 0.1
"""So much of a text may be NULs (a few in any case) and no UTF-8: a NUL in a program hides nothing of it."""
_PATCH = (
    *("-c", "core.attributesFile=/dev/null", "-c", f"core.bigFileThreshold={2 * MOST_OF_A_FILE}"),
    *("-c", "diff.suppressBlankEmpty=false", "-c", "core.quotePath=true"),  # a name can forge no line of the output
    *(
        "diff-tree",
        "-r",
        "-M",
        "--raw",
        "-p",
        "-U0",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=none",
    ),
)
_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; `number` counts from 1, in the version that the line belongs to."""

    number: int
    text: str


Lines = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file between two trees: A added, M modified, D deleted, R renamed (maybe modified too).

    `path` is the new path (of a deleted file its old one), `old_path` the one before, None for an added file. Of a
    binary file `added` and `removed` are empty. `cut` says that it is a text whose lines were left out for their size;
    `binary` is then set too.
    """

    kind: Literal["A", "M", "D", "R"]
    path: str
    old_path: str | None
    added: Lines = ()
    removed: Lines = ()
    binary: bool = False
    cut: bool = False


def read_diff(repository: Repository, old_tree: str, new_tree: str) -> tuple[FileDiff, ...]:
    """What changed from one tree to the other, line by line, the state folder aside. Raises GitError.

    A file that became a link counts as modified. Of text in another encoding, U+FFFD stands for what is not UTF-8.
    """
    old_tree, new_tree = repository.tree_of(old_tree), repository.tree_of(new_tree)
    if old_tree == new_tree:
        return ()
    with from_nowhere(repository) as asked, tempfile.TemporaryFile() as output:
        asked.run(*_PATCH, old_tree, new_tree, output=output)
        output.seek(0)
        files, patches = _files(output), _patches(output)
        found = [_with_lines(file, list(islice(patches, parts))) for file, parts in files]
    return tuple(
        _as_text(repository, old_tree, new_tree, file) if file.binary and not file.cut and file.kind != "D" else file
        for file in found
        if not within_state(file.path)
    )


def read_text(repository: Repository, tree: str, path: str) -> str | None:
    """The text of a file; None where it is not there, is no text or is larger than `MOST_OF_A_FILE`."""
    content = repository.file_of(tree, path)
    return None if content is None or len(content) > MOST_OF_A_FILE else _decoded(content)


def _as_text(repository: Repository, old_tree: str, new_tree: str, file: FileDiff) -> FileDiff:
    """A file that git takes for binary, where it is a text all the same."""
    old = repository.file_of(old_tree, file.old_path) if file.old_path else None
    new = repository.file_of(new_tree, file.path) or b""
    before, after = _decoded(old or b"") or "", _decoded(new)
    if after is None:
        return file
    if len(new) + (len(old) if before and old else 0) > MOST_OF_A_FILE:
        return replace(file, cut=True)
    olds, news = before.split("\n"), after.split("\n")
    return replace(file, added=_lines_missing(news, olds), removed=_lines_missing(olds, news), binary=False)


def _decoded(content: bytes) -> str | None:
    """How a text begins; None for what is no text."""
    text = content[:MOST_OF_A_FILE].decode("utf-8", "replace")
    nuls, unreadable = text.count("\0"), text.count("\ufffd")
    is_binary = nuls and (nuls > max(_FEW_NULS, _NULS * len(text)) or unreadable > _UNREADABLE * len(text))
    return None if is_binary else text


def _lines_missing(lines: Sequence[str], others: Sequence[str]) -> Lines:
    known = {*others, ""}
    return tuple(Line(number, line) for number, line in enumerate(lines, start=1) if line not in known)


# Git's output


def _files(output: IO[bytes]) -> list[tuple[FileDiff, int]]:
    """The files that differ, and how many patches each has: a changed type is shown as a removal and an addition."""
    found = []
    while (line := output.readline()).startswith(b":"):
        head, *names = line.rstrip(b"\n").decode("ascii").split("\t")
        letter = head.rpartition(" ")[2][0]
        paths = [os.fsdecode(literal_eval(f"b{name}")) if name.startswith('"') else name for name in names]
        kind = cast("Literal['A', 'M', 'D', 'R']", letter if letter in "ADR" else "M")
        found.append((FileDiff(kind, paths[-1], None if kind == "A" else paths[0]), 2 if letter == "T" else 1))
    return found


@dataclass(slots=True)
class _Patch:
    """Of one that is binary, or too large, nothing is kept. `old` and `new` are the numbers of its next lines."""

    added: list[Line] = field(default_factory=list)
    removed: list[Line] = field(default_factory=list)
    binary: bool = False
    cut: bool = False
    size: int = 0
    in_hunk: bool = False
    old: int = 0
    new: int = 0

    def feed(self, line: bytes, room: int) -> None:
        """Within a hunk a line begins with a mark, so that no file's content is taken for a header."""
        self.size += len(line)
        if self.binary or self.cut:
            return
        if self.size > min(room, MOST_OF_A_FILE):
            self.cut = True
        elif hunk := _HUNK.match(line):
            self.old, self.new, self.in_hunk = int(hunk[1]), int(hunk[2]), True
        elif line.startswith(b"Binary files "):
            self.binary = True
        elif self.in_hunk and line.startswith(b"+"):
            self.added.append(Line(self.new, _text(line)))
            self.new += 1
        elif self.in_hunk and line.startswith(b"-"):
            self.removed.append(Line(self.old, _text(line)))
            self.old += 1


def _patches(output: IO[bytes]) -> Iterator[_Patch]:
    patch, room = None, MOST_OF_A_PATCH
    for line in iter(output.readline, b""):
        if line.startswith(b"diff --git "):
            if patch is not None:
                room -= 0 if patch.binary or patch.cut else patch.size
                yield patch
            patch = _Patch(size=len(line))
        elif patch is not None:
            patch.feed(line, room)
    if patch is not None:
        yield patch


def _with_lines(file: FileDiff, patches: Sequence[_Patch]) -> FileDiff:
    binary = any(each.binary for each in patches)
    if binary or any(each.cut for each in patches):
        return replace(file, binary=True, cut=not binary)
    added, removed = chain(*(each.added for each in patches)), chain(*(each.removed for each in patches))
    return replace(file, added=tuple(added), removed=tuple(removed))


def _text(line: bytes) -> str:
    return line[1:].removesuffix(b"\n").decode("utf-8", "replace")
