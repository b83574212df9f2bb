"""What differs between two trees, as paths and line by line, whatever configuration and attributes say.

git reads attributes from the work tree and the index; these questions are asked from an empty folder with no index, so
that nothing that was left in a tree can call a text binary or name a driver.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from rulebook_ralph.git.objects import FOLDER, GITLINK, Entry
from rulebook_ralph.git.repository import Repository, within_state

MOST_OF_A_FILE = 4 * 1024 * 1024
"""Bytes of one version of a file, or of its patch, that are read."""
MOST_OF_A_PATCH = 20 * 1024 * 1024
"""Bytes of patch that are kept of all files together."""

_NULS, _FEW_NULS, _UNREADABLE = 0.01, 3, 0.1
"""So much of a text may be NULs (a few in any case) and no UTF-8: a NUL in a program hides nothing of it."""
_SETTINGS = (
    *("-c", "core.attributesFile=/dev/null", "-c", f"core.bigFileThreshold={2 * MOST_OF_A_FILE}"),
    *("-c", "diff.suppressBlankEmpty=false"),
)
_PATCH = (
    *("-c", "core.quotePath=true"),  # a name can then forge no line of the output
    *("diff-tree", "-r", "-M", "-p", "-U0", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"),
)
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two trees. `status` is A, M, D or T (another type); with renames also R."""

    path: str
    status: Literal["A", "M", "D", "T", "R"]
    old_mode: str
    new_mode: str
    old_oid: str
    new_oid: str
    old_path: str | None = None

    @property
    def is_gitlink(self) -> bool:
        """Whether it is a submodule, before or after."""
        return GITLINK in (self.old_mode, self.new_mode)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; `number` counts from 1, in the version that the line belongs to."""

    number: int
    text: str


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
    added: tuple[Line, ...] = ()
    removed: tuple[Line, ...] = ()
    binary: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Versions:
    """A file's text in two trees; None where it is not there, is no text or is larger than `MOST_OF_A_FILE`."""

    before: str | None
    after: str | None


def changes(repository: Repository, old_tree: str, new_tree: str) -> tuple[Change, ...]:
    """The paths in which two trees or commits differ, the state folder's included. Raises GitError."""
    tree, found = repository.objects.tree, []
    left = [("", repository.tree_of(old_tree), repository.tree_of(new_tree))]
    while left:
        above, old_oid, new_oid = left.pop()
        if old_oid == new_oid:
            continue
        old, new = tree(old_oid) if old_oid else {}, tree(new_oid) if new_oid else {}
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before == after:
                continue
            path = above + name
            old_folder, before = (before.oid, None) if before and before.mode == FOLDER else ("", before)
            new_folder, after = (after.oid, None) if after and after.mode == FOLDER else ("", after)
            left.append((f"{path}/", old_folder, new_folder))
            if before or after:
                found.append(_change(path, before, after, repository.no_object))
    return tuple(sorted(found, key=lambda each: os.fsencode(each.path)))


def _change(path: str, before: Entry | None, after: Entry | None, nothing: str) -> Change:
    if before is None or after is None:
        status: Literal["A", "D", "M", "T"] = "A" if after else "D"
    else:
        status = "M" if before.mode[:3] == after.mode[:3] else "T"
    old, new = before or Entry("000000", nothing), after or Entry("000000", nothing)
    return Change(path, status, old.mode, new.mode, old.oid, new.oid)


def _with_renames(repository: Repository, old_tree: str, new_tree: str) -> tuple[Change, ...]:
    found = changes(repository, old_tree, new_tree)
    if not {"A", "D"} <= {each.status for each in found}:
        return found
    return tuple(_entries(repository.run("diff-tree", "-r", "-z", "--raw", "-M", old_tree, new_tree)))


def read_diff(repository: Repository, old_tree: str, new_tree: str) -> tuple[FileDiff, ...]:
    """What changed from one tree to the other, line by line, the state folder aside. Raises GitError.

    A file that became a link counts as modified. Of text in another encoding, U+FFFD stands for what is not UTF-8.
    """
    if old_tree == new_tree:
        return ()
    with from_nowhere(repository) as asked, tempfile.TemporaryFile() as output:
        entries = _with_renames(asked, old_tree, new_tree)
        asked.run(*_SETTINGS, *_PATCH, old_tree, new_tree, output=output)
        output.seek(0)
        found = [file for file in _read_files(entries, output) if not within_state(file.path)]
    doubtful = [file for file in found if file.binary and not file.cut and file.kind != "D"]
    texts = _read_texts(repository, old_tree, new_tree, doubtful) if doubtful else {}
    return tuple(_as_text(file, texts) if file.path in texts else file for file in found)


def read_versions(
    repository: Repository, old_tree: str, new_tree: str, files: Sequence[FileDiff]
) -> Mapping[str, Versions]:
    """The texts of those files in both trees, by `FileDiff.path`. Raises GitError."""
    found = _read_texts(repository, old_tree, new_tree, files)
    return {path: Versions(_whole(before), _whole(after)) for path, (before, after) in found.items()}


# The texts


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of a file; of a `large` one nothing but that it is one."""

    text: str
    large: bool = False


_Pair = tuple[_Text | None, _Text | None]


def _whole(text: _Text | None) -> str | None:
    return None if text is None or text.large else text.text


def _as_text(file: FileDiff, texts: Mapping[str, _Pair]) -> FileDiff:
    """A file that git takes for binary, where it is a text all the same."""
    old, new = texts[file.path]
    if new is None:
        return file
    if new.large or (old is not None and old.large) or len(new.text) + len(old.text if old else "") > MOST_OF_A_FILE:
        return replace(file, cut=True)
    before, after = (old.text if old else "").split("\n"), new.text.split("\n")
    return replace(file, added=_lines_missing(after, before), removed=_lines_missing(before, after), binary=False)


def _lines_missing(lines: Sequence[str], others: Sequence[str]) -> tuple[Line, ...]:
    known = {*others, ""}
    return tuple(Line(number, line) for number, line in enumerate(lines, start=1) if line not in known)


def _read_texts(repository: Repository, old_tree: str, new_tree: str, files: Sequence[FileDiff]) -> Mapping[str, _Pair]:
    return {
        file.path: (
            _read_text(repository, old_tree, file.old_path or file.path) if file.kind != "A" else None,
            _read_text(repository, new_tree, file.path) if file.kind != "D" else None,
        )
        for file in files
    }


def _read_text(repository: Repository, tree: str, path: str) -> _Text | None:
    """The text of a file; of a large one nothing is kept but that it is one. None for what is no text."""
    content = repository.file_of(tree, path)
    if content is None:
        return None
    if len(content) > MOST_OF_A_FILE:
        strange = len(content.translate(None, delete=bytes(range(128))))
        return None if _is_binary(len(content), content.count(0), strange) else _Text("", large=True)
    text = content.decode("utf-8", "replace")
    return None if _is_binary(len(text), text.count("\0"), text.count("\ufffd")) else _Text(text)


def _is_binary(size: int, nuls: int, unreadable: int) -> bool:
    return nuls > 0 and (nuls > max(_FEW_NULS, _NULS * size) or unreadable > _UNREADABLE * size)


# Git's output


@contextmanager
def from_nowhere(repository: Repository) -> Iterator[Repository]:
    """The repository with an empty work tree and no index."""
    repository.private.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository.private, prefix=f"nothing-{os.getpid()}-") as name:
        nothing = {"GIT_WORK_TREE": name, "GIT_INDEX_FILE": f"{name}/none", "GIT_ATTR_NOSYSTEM": "1"}
        yield replace(repository, root=Path(name), environment={**repository.environment, **nothing})


def _entries(output: bytes) -> Iterator[Change]:
    """The entries of `--raw -z`."""
    fields = iter(output.split(b"\0"))
    while head := next(fields, b""):
        old_mode, new_mode, old, new, letter = head.decode("ascii").removeprefix(":").split(" ")
        status = cast("Literal['A', 'M', 'D', 'T', 'R']", letter[0])
        names = [os.fsdecode(next(fields)) for _ in range(2 if status == "R" else 1)]
        yield Change(names[-1], status, old_mode, new_mode, old, new, names[0] if len(names) > 1 else None)


def _read_files(entries: Sequence[Change], output: IO[bytes]) -> Iterator[FileDiff]:
    """The entries with their patches, which are in the same order."""
    patches = _Patches(output)
    for entry in entries:
        parts = 2 if entry.status == "T" else 1  # a changed type is shown as a removal and an addition
        added, removed, binary, cut = patches.next_file(parts)
        kind = cast("Literal['A', 'M', 'D', 'R']", entry.status if entry.status in "ADR" else "M")
        old_path = None if kind == "A" else entry.old_path or entry.path
        yield FileDiff(kind, entry.path, old_path, added, removed, binary, cut)


class _Patches:
    """The patches of the files one after another. Within a hunk a line begins with a mark, so that no file's content
    is taken for a header. Of a file with too much of a patch nothing is kept.
    """

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._kept = 0
        self._line = output.readline()
        self._size = 0
        self._by_git = False

    def next_file(self, parts: int) -> tuple[tuple[Line, ...], tuple[Line, ...], bool, bool]:
        """Added and removed lines of the next `parts` patches; whether there are none, and whether for their size."""
        added: list[Line] = []
        removed: list[Line] = []
        self._size = 0
        self._by_git = False
        shown = [self._read_patch(added, removed) for _ in range(parts)]
        if not all(shown):
            return (), (), True, not self._by_git
        self._kept += self._size
        return tuple(added), tuple(removed), False, False

    def _read_patch(self, added: list[Line], removed: list[Line]) -> bool:
        """Whether the whole patch was text and small enough."""
        old = new = 0
        in_hunk = False
        shown = True
        self._advance()
        while self._line and not self._line.startswith(b"diff --git "):
            mark = self._line[:1]
            if not shown or self._size > MOST_OF_A_FILE or self._kept + self._size > MOST_OF_A_PATCH:
                shown = False
            elif mark == b"@" and (hunk := _HUNK.match(self._line)):
                old, new, in_hunk = int(hunk[1]), int(hunk[3]), True
            elif not in_hunk:  # the header
                self._by_git = self._by_git or self._line.startswith(b"Binary files ")
                shown = not self._by_git
            elif mark == b"+":
                added.append(Line(new, _text(self._line[1:])))
                new += 1
            elif mark == b"-":
                removed.append(Line(old, _text(self._line[1:])))
                old += 1
            self._advance()
        return shown

    def _advance(self) -> None:
        self._line = self._output.readline()
        self._size += len(self._line)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").decode("utf-8", "replace")
