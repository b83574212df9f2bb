"""What of a user's stands in the way of a landing: edits, staged or not, and files that git does not hold."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.git.cache import is_folder
from rulebook_ralph.git.objects import GITLINK, Entry
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.git.trees import Change, folders_of


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

    def __init__(self, reason: str, files: Sequence[str] = (), remedy: str = "") -> None:
        super().__init__(reason)
        self.waiting = NotAdvanced(reason, tuple(files), remedy)


_MOST_NAMED = 500
"""Paths; for more, the whole index is asked."""


def look_around(
    repository: Repository, index: Path, work: Sequence[Change], *, was_begun: bool
) -> tuple[list[Change], list[Change]]:
    """The changes whose files are the new ones already, and those whose files a killed landing left unfinished.

    Raises InTheWayError where something of the user's is in the way.
    """
    root = repository.root
    staged = _read_index(repository, index, [each.path for each in work])
    leaving = {each.path for each in work if each.after is None}
    # What the index has as it will be, or what is not checked out, is not touched.
    moving = [each for each in work if each.path not in staged.left_out and staged.entries.get(each.path) != each.after]
    standing = [each for each in moving if not each.is_gitlink and staged.differs(root, each.path)]
    same, torn = _already_new(repository, standing, was_begun=was_begun)
    settled = {each.path for each in (*same, *torn)}
    blocking = {each.path for each in standing} - settled
    blocking |= {each.path for each in work if staged.entries.get(each.path) not in (each.before, each.after)}
    paths = {each.path for each in work}  # git would take away what is staged below one of them
    blocking |= {path for path in staged.entries.keys() - paths if folders_of([path]) & paths}
    for each in moving:
        if each.after and each.after.mode != GITLINK and each.path not in settled:
            blocking.update(_around(root, each.path, leaving))
    if blocking:
        raise InTheWayError("your edits are in the way", sorted(blocking), "commit or move them")
    return same, torn


@dataclass(frozen=True, slots=True)
class _Staged:
    """What the index has; the paths that are not checked out, and those whose files are not as it says."""

    entries: dict[str, Entry]
    left_out: set[str]
    edited: set[str]

    def differs(self, root: Path, path: str) -> bool:
        """Whether something stands at the path that is not as the index has it."""
        if path in self.entries:
            return path in self.edited and os.path.lexists(root / path)
        behind_link = any((root / folder).is_symlink() for folder in folders_of([path]))
        return os.path.lexists(root / path) and not is_folder(root / path) and not behind_link


def _read_index(repository: Repository, index: Path, paths: Sequence[str]) -> _Staged:
    """Each entry has a line, and one more where its file is not as it says."""
    asked = ("--literal-pathspecs", "ls-files", "-s", "-t", "-c", "-m", "-z", "--")
    few = paths if len(paths) <= _MOST_NAMED else ()
    listing = os.fsdecode(repository.run(*asked, *few, index=index)) if paths else ""
    found, unmerged = _Staged({}, set(), set()), set()
    for line in filter(None, listing.split("\0")):
        head, _, path = line.partition("\t")
        tag, mode, oid, stage = head.split(" ")
        if tag == "C":
            found.edited.add(path)
            continue
        found.entries[path] = Entry(mode, oid)
        if tag == "S":
            found.left_out.add(path)
        if stage != "0":
            unmerged.add(path)
    if unmerged:
        raise InTheWayError("files are not merged in the index", sorted(unmerged), "merge them")
    return found


def _around(root: Path, path: str, leaving: set[str]) -> Iterator[str]:
    """What stands where folders must be, and in a folder where a file must be."""
    for folder in folders_of([path]) - leaving:
        if os.path.lexists(root / folder) and not is_folder(root / folder):
            yield folder
    if is_folder(root / path):
        for parent, folders, names in os.walk(root / path):
            for each in (Path(parent, name) for name in (*names, *folders)):
                below = each.relative_to(root).as_posix()
                if not is_folder(each) and below not in leaving:
                    yield below


def _already_new(
    repository: Repository, standing: Sequence[Change], *, was_begun: bool
) -> tuple[list[Change], list[Change]]:
    """The changes whose file is the new version, and those whose file is the beginning of it after a kill."""
    root, same, torn = repository.root, [], []
    asked = []
    for each in standing:
        target = root / each.path
        if target.is_symlink():
            if each.after == Entry("120000", repository.objects.new().add("blob", os.fsencode(target.readlink()))):
                same.append(each)
        elif each.after and each.after.mode.startswith("100") and target.is_file() and "\n" not in each.path:
            asked.append((each, each.after, target))
    names = b"".join(os.fsencode(f"{each.path}\n") for each, _, _ in asked)
    oids = repository.run("hash-object", "--stdin-paths", stdin=names).decode().split() if asked else []
    for (each, after, target), oid in zip(asked, oids, strict=True):
        if after == Entry("100755" if target.stat().st_mode & 0o100 else "100644", oid):
            same.append(each)
        elif was_begun:
            written = repository.run("cat-file", "--filters", f"--path={each.path}", after.oid)
            if written.startswith(target.read_bytes()):
                torn.append(each)
    return same, torn
