"""What of a user's stands in the way of a landing: edits, staged or not, and files that git does not hold."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.git.capture import folders_of
from rulebook_ralph.git.diff import Change
from rulebook_ralph.git.objects import GITLINK
from rulebook_ralph.git.repository import Repository


@dataclass(frozen=True, slots=True)
class NotAdvanced:
    """Why the branch cannot follow now, to be said after "the branch waits:", the files concerned, and what a person
    can do, where the reason does not say it.
    """

    reason: str
    files: tuple[str, ...] = ()
    remedy: str = ""


class InTheWayError(Exception):
    """Nothing is done: the branch waits."""

    def __init__(self, waiting: NotAdvanced) -> None:
        super().__init__(waiting.reason)
        self.waiting = waiting


@dataclass(frozen=True, slots=True)
class _Entry:
    mode: str
    oid: str
    left_out: bool


_MOST_NAMED = 500
"""Paths; for more, the whole index is asked."""


class Surroundings:
    """The user's index and files at the paths that a landing changes."""

    def __init__(self, repository: Repository, index: Path, paths: Sequence[str], *, was_begun: bool) -> None:
        self._repository = repository
        self._root = repository.root
        self._was_begun = was_begun
        self._entries: dict[str, _Entry] = {}
        self._unmerged: set[str] = set()
        self._edited: set[str] = set()
        asked = ("--literal-pathspecs", "ls-files", "-s", "-t", "-c", "-m", "-z", "--")
        few = paths if len(paths) <= _MOST_NAMED else ()
        self._read(os.fsdecode(repository.run(*asked, *few, index=index)) if paths else "")

    def look(self, found: Sequence[Change]) -> tuple[list[Change], list[Change]]:
        """The changes whose files are the new ones already, and those whose files a killed landing left unfinished.

        Raises InTheWayError where something of the user's is in the way.
        """
        if self._unmerged:
            raise InTheWayError(
                NotAdvanced("files are not merged in the index", tuple(sorted(self._unmerged)), "merge them")
            )
        leaving = {each.path for each in found if each.status == "D"}
        standing = [each for each in found if self._differs(each)]
        same, torn = self._already_new(standing)
        settled = {each.path for each in (*same, *torn)}
        blocking = {each.path for each in standing} - settled
        for each in found:
            if self._is_staged(each):
                blocking.add(each.path)
            if each.path in settled:
                continue
            if each.status != "D" and each.new_mode != GITLINK and not self._is_left_out(each.path):
                blocking |= self._around(each.path, leaving)
        if blocking:
            raise InTheWayError(
                NotAdvanced("your edits are in the way", tuple(sorted(blocking)), "commit or move them")
            )
        return same, torn

    def _read(self, listing: str) -> None:
        """Each entry has a line, and one more where its file is not as it says."""
        for line in filter(None, listing.split("\0")):
            head, _, path = line.partition("\t")
            tag, mode, oid, stage = head.split(" ")
            if tag == "C":
                self._edited.add(path)
                continue
            self._entries[path] = _Entry(mode, oid, tag == "S")
            if stage != "0":
                self._unmerged.add(path)

    def _is_left_out(self, path: str) -> bool:
        entry = self._entries.get(path)
        return entry is not None and entry.left_out

    def _is_staged(self, change: Change) -> bool:
        """Whether the index has something that is neither the old nor the new version."""
        old = None if change.status == "A" else (change.old_mode, change.old_oid)
        return self._staged(change.path) != old and not self._is_entered(change)

    def _is_entered(self, change: Change) -> bool:
        """Whether the index has the new version already: nothing is done then, whatever stands in the tree."""
        return self._staged(change.path) == (None if change.status == "D" else (change.new_mode, change.new_oid))

    def _staged(self, path: str) -> tuple[str, str] | None:
        entry = self._entries.get(path)
        return (entry.mode, entry.oid) if entry else None

    def _differs(self, change: Change) -> bool:
        """Whether something stands at the path that is not as the index has it."""
        path = change.path
        if self._is_left_out(path) or self._is_entered(change) or change.is_gitlink:
            return False
        if path in self._entries:
            return path in self._edited and os.path.lexists(self._root / path)
        return os.path.lexists(self._root / path) and not self._is_folder(path) and not self._behind_link(path)

    def _is_folder(self, path: str) -> bool:
        return (self._root / path).is_dir() and not (self._root / path).is_symlink()

    def _behind_link(self, path: str) -> bool:
        return any((self._root / folder).is_symlink() for folder in folders_of([path]))

    def _around(self, path: str, leaving: set[str]) -> set[str]:
        """What stands where folders must be, and in a folder where a file must be."""
        found = {
            folder
            for folder in folders_of([path])
            if folder not in leaving and os.path.lexists(self._root / folder) and not self._is_folder(folder)
        }
        if self._is_folder(path):
            for parent, folders, names in os.walk(self._root / path):
                links = [name for name in folders if Path(parent, name).is_symlink()]
                below = (Path(parent, name).relative_to(self._root).as_posix() for name in (*names, *links))
                found |= {name for name in below if name not in leaving}
        return found

    def _already_new(self, standing: Sequence[Change]) -> tuple[list[Change], list[Change]]:
        """The changes whose file is the new version, and those whose file is the beginning of it after a kill."""
        same = [each for each in standing if self._is_new_link(each)]
        torn = []
        asked = [
            each
            for each in standing
            if each.new_mode in ("100644", "100755") and self._is_plain(each.path) and "\n" not in each.path
        ]
        names = b"".join(os.fsencode(f"{each.path}\n") for each in asked)
        oids = self._repository.run("hash-object", "--stdin-paths", stdin=names).decode().split() if asked else []
        for each, oid in zip(asked, oids, strict=True):
            is_executable = bool((self._root / each.path).stat().st_mode & 0o100)
            if oid == each.new_oid and is_executable == (each.new_mode == "100755"):
                same.append(each)
            elif self._was_begun and self._is_torn(each):
                torn.append(each)
        return same, torn

    def _is_plain(self, path: str) -> bool:
        target = self._root / path
        return target.is_file() and not target.is_symlink()

    def _is_new_link(self, change: Change) -> bool:
        target = self._root / change.path
        if change.new_mode != "120000" or not target.is_symlink():
            return False
        content = self._repository.run("cat-file", "blob", change.new_oid)
        return os.fsencode(target.readlink()) == content

    def _is_torn(self, change: Change) -> bool:
        """Whether a file is the beginning of the new version."""
        written = self._repository.run("cat-file", "--filters", f"--path={change.path}", change.new_oid)
        return written.startswith((self._root / change.path).read_bytes())
