"""The objects and refs of a repository, without a process for each of them: two git processes answer as long as a run
lasts.

`git cat-file` reads, `git update-ref` moves refs. New objects are written as git writes them: a compressed file each.
"""

import hashlib
import os
import stat
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rulebook_ralph.git.command import Conversation, EndedError, GitError
from rulebook_ralph.tasks import disk

FOLDER, GITLINK = "40000", "160000"
_MODES = {b"040000": FOLDER, b"100664": "100644", b"100775": "100755"}
"""Of trees that old tools made, as git reads them."""
_SHA1_LENGTH = 40
_FASTEST = 1
_MOST_KNOWN, _LARGEST_KNOWN = 1000, 4096
"""So many answers are remembered, of so many bytes."""
_MOST_ENTRIES = 50_000
"""So many entries of trees are remembered."""
_MOST_SYNCED = 8
"""So many files are written through at once: a disk takes them together."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a name in a tree stands for: a file, a link, a submodule or a folder."""

    mode: str
    oid: str


_Found = tuple[str, str, bytes]
"""Name, kind and content of an object."""


class NewObjects:
    """Objects that are not written yet: their names are known, so that others can name them."""

    def __init__(self, hash_length: int) -> None:
        self.contents: dict[str, bytes] = {}
        self.trees: dict[str, Mapping[str, Entry]] = {}
        self._hash = hashlib.sha1 if hash_length == _SHA1_LENGTH else hashlib.sha256

    def add(self, kind: Literal["blob", "tree", "commit"], content: bytes) -> str:
        """One of that content; returns its name."""
        whole = b"%s %d\0%b" % (kind.encode(), len(content), content)
        oid = self._hash(whole, usedforsecurity=False).hexdigest()
        self.contents[oid] = whole
        return oid

    def tree(self, entries: Mapping[str, Entry]) -> str:
        """A tree of those entries."""
        lines = []
        for name, entry in entries.items():
            raw = name.encode("utf-8", "surrogateescape")
            line = b"%b %b\0%b" % (entry.mode.encode(), raw, bytes.fromhex(entry.oid))
            lines.append((raw + b"/" if entry.mode == FOLDER else raw, line))
        lines.sort()
        oid = self.add("tree", b"".join([line for _, line in lines]))
        self.trees[oid] = entries
        return oid

    def commit(self, tree: str, parents: Iterable[str], message: str, *, who: str, seconds: int) -> str:
        """A commit by `Name <address>` at that time, without a signature."""
        lines = [f"tree {tree}", *(f"parent {each}" for each in parents)]
        lines += [f"{role} {who} {seconds} +0000" for role in ("author", "committer")]
        return self.add("commit", "\n".join((*lines, "", message)).encode("utf-8", "replace"))


class Objects:
    """Those of one repository, for any number of threads. `environment` is that of its git commands."""

    def __init__(self, root: Path, environment: Mapping[str, str], folder: Path, hash_length: int) -> None:
        self._folder = folder
        self._hash_length = hash_length
        self._reading = Conversation(("cat-file", "--batch-command"), root, environment)
        self._moving = Conversation(("update-ref", "--stdin"), root, environment)
        self._known: dict[str, _Found] = {}
        self._trees: dict[str, Mapping[str, Entry]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_MOST_SYNCED, "sync")

    # Reading

    def find(self, name: str) -> str | None:
        """The id of what a revision, `tree:path` or id names; None for nothing. Raises GitError."""
        found = self._asked("info", name)
        return found[0] if found else None

    def read(self, name: str) -> bytes | None:
        """Its content."""
        found = self._asked("contents", name)
        return found[2] if found else None

    def tree(self, oid: str) -> Mapping[str, Entry]:
        """The entries of a tree by name, without what lies below. Raises GitError."""
        known = self._trees.get(oid)
        if known is None:
            found = self._asked("contents", oid)
            if found is None or found[1] != "tree":
                raise GitError(("cat-file",), -1, f"{oid} is not there, or is no tree")
            known = dict(_entries(found[2], self._hash_length // 2))
            self._remember(oid, known)
        return known

    def is_id(self, name: str) -> bool:
        """Whether it is the whole id of an object, of which the answer is always the same."""
        return len(name) == self._hash_length and not name.strip("0123456789abcdef")

    def _asked(self, order: Literal["info", "contents"], name: str) -> _Found | None:
        if not name or "\n" in name or "\0" in name:
            return None
        question = f"{order} {name}\n"
        if (known := self._known.get(question)) is not None:
            return known
        try:
            try:
                found = self._answer(os.fsencode(question), with_content=order == "contents")
            except EndedError:  # once more: somebody ended it
                found = self._answer(os.fsencode(question), with_content=order == "contents")
        except EndedError:
            raise GitError(("cat-file", name), 128, self._reading.last_words) from None
        if found and len(found[2]) <= _LARGEST_KNOWN and self.is_id(name.partition("^")[0]):
            with self._lock:
                self._known[question] = found
                if len(self._known) > _MOST_KNOWN:
                    self._known.clear()
        return found

    def _answer(self, question: bytes, *, with_content: bool) -> _Found | None:
        with self._reading.asked(question) as git:
            oid, *rest = git.line().decode("utf-8", "replace").split(" ")
            if len(oid) != self._hash_length or len(rest) != len(("kind", "size")) or not rest[1].isdigit():
                return None  # missing, or ambiguous
            return oid, rest[0], git.read(int(rest[1])) if with_content else b""

    def _remember(self, oid: str, entries: Mapping[str, Entry]) -> None:
        with self._lock:
            if sum(map(len, self._trees.values())) > _MOST_ENTRIES:
                self._trees.clear()
            self._trees[oid] = entries

    # Writing

    def new(self) -> NewObjects:
        """Objects to be made, and then written."""
        return NewObjects(self._hash_length)

    def write(self, new: NewObjects) -> None:
        """Write them; they outlive a power cut. Raises RalphError."""
        files: list[tuple[Path, Path]] = []
        try:
            for oid, content in new.contents.items():
                path = self._folder / oid[:2] / oid[2:]
                try:
                    os.utime(path)  # `git gc` keeps what is young
                except OSError:
                    files.append((self._written(path, content), path))
            for _ in self._pool.map(sync, (written for written, _ in files)):
                pass
            for written, path in files:
                written.rename(path)
        except OSError as error:
            raise disk.cannot_write(self._folder, error) from None
        finally:
            for written, _ in files:
                with suppress(OSError):
                    written.unlink(missing_ok=True)
        for oid, entries in new.trees.items():
            self._remember(oid, entries)

    def blob(self, content: bytes) -> str:
        """The object of that content, unchanged by any filter. Raises RalphError."""
        new = self.new()
        oid = new.add("blob", content)
        self.write(new)
        return oid

    def _written(self, path: Path, content: bytes) -> Path:
        if not path.parent.is_dir():
            path.parent.mkdir(exist_ok=True)
            path.parent.chmod(stat.S_IMODE(self._folder.stat().st_mode))  # of a shared repository, a group's
        written = path.with_name(f"tmp_obj_{os.urandom(6).hex()}")  # as git names them, which removes old ones
        with written.open("xb") as file:
            file.write(zlib.compress(content, _FASTEST))
            os.fchmod(file.fileno(), 0o444)
        return written

    # Refs

    def save(self, new: NewObjects, reference: str, commit: str) -> None:
        """Write the objects and have a ref name the commit among them. Raises GitError, RalphError."""
        self.write(new)
        try:
            self.move(reference, commit)
        except GitError:
            if self.find(commit):
                raise
            self.write(new)  # a person's `git gc --prune=now` took what no ref named yet
            self.move(reference, commit)

    def move(self, reference: str, new: str | None, old: str = "") -> None:
        """Have a ref name that object, or no more be there; with `old` only where it names that. Raises GitError."""
        order = f"update {reference} {new} {old}" if new else f"delete {reference} {old}"
        try:
            with self._moving.asked(os.fsencode(f"start\n{order.rstrip()}\ncommit\n")) as git:
                git.line(), git.line()  # where git refuses it says so, and ends
        except EndedError:
            raise GitError(("update-ref", reference), 128, self._moving.last_words) from None


def _entries(content: bytes, length: int) -> Iterator[tuple[str, Entry]]:
    """The entries of a tree as git keeps it; `length` is that of a name in bytes."""
    at = 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 1 + length
        yield os.fsdecode(name), Entry(_MODES.get(mode) or mode.decode("ascii"), content[end + 1 : at].hex())


def sync(path: Path, flags: int = 0) -> None:
    """Have the content of a file or folder outlive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
