# ruff: noqa: PTH101, PTH103, PTH104, PTH106, PTH108, PTH113, PTH120, PTH110, PTH123
"""What a power cut does to a disk, as far as a file system owes it to nobody that it were otherwise.

Of Ralph's own files: content that was not synced is gone (`lose`: as it was before; `tear`: half of what was written),
and an entry of a folder (new, renamed, removed) that no sync of that folder followed is undone by `lose`.
Of git, and of new folders: a journal keeps the order of entries, so the sync of any later file keeps them; what git wrote since is undone by
`lose`. `tear` halves what git did not sync: indexes always, loose objects unless core.fsync names them.
In the work tree: what agents, gates and git wrote and nobody synced since is as it was, or half.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from tests.crash import git_commands

STATE_FOLDER = ".rulebook-ralph"
_INDEXES = ("/index", "/landing-index")
Files = dict[str, tuple[int, int, int, bytes]]
"""Path -> inode, size, time and content; of git's objects without the content."""


@dataclass(frozen=True, slots=True)
class Undone:
    """Something that is not durable yet, and the way back. `place` is the folder of an entry, a file's path for its
    content, "git" for what git did.
    """

    kind: str
    place: str
    undo: Callable[[], object]


class Disk:
    """Remembers what is not durable."""

    def __init__(self, scratch: Path, within: tuple[str, ...]) -> None:
        self._scratch = scratch
        self._root = within[0]
        self._git = f"{self._root}/.git"
        self._cache = within[1]
        self._not_theirs = f"{self._root}/{STATE_FOLDER}"
        self._pending: list[Undone] = []
        self._unsynced: dict[str, bytes | None] = {}
        self._number = count()
        self._seen: Files = {}
        self._own: dict[str, tuple[int, int, int]] = {}
        self._lock = threading.RLock()
        scratch.mkdir(parents=True, exist_ok=True)

    # Ralph's own

    def before(self, kind: str, *paths: str) -> Undone | None:
        """How a change of folder entries, about to be made, is undone; None for what has no entry."""
        path = paths[-1]
        folder = os.path.dirname(path)
        entry = "git" if "/objects/" in path else "entry"  # Ralph writes objects as git does
        if kind == "link" or (kind == "create" and not os.path.lexists(path)):
            return Undone(entry, folder, lambda: os.unlink(path))
        if kind == "mkdir":
            return Undone("git", folder, lambda: os.rmdir(path))
        if kind == "remove" and os.path.isfile(path):
            kept = self._keep(path)
            return Undone("entry", folder, lambda: os.link(kept, path))
        if kind == "rename":
            source = paths[0]
            other = self._keep(path) if os.path.isfile(path) else None
            return Undone(entry, folder, lambda: self._unrename(source, path, other))
        return None

    def did(self, undone: Undone) -> None:
        with self._lock:
            self._pending.append(undone)

    def writing(self, path: str) -> None:
        """Content is about to change."""
        if path not in self._unsynced:
            self._unsynced[path] = _bytes(path)

    def renamed(self, source: str, path: str) -> None:
        status = os.lstat(path)
        self._own[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
        if source in self._unsynced:
            del self._unsynced[source]
            self._unsynced[path] = b""

    def synced(self, path: str) -> None:
        with self._lock:
            with suppress(OSError):  # another process that ends now has not written it
                status = os.lstat(path)
                self._own[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
            self._unsynced.pop(path, None)
            for gone in [each for each in self._unsynced if each.startswith(f"{path}/") and not os.path.exists(each)]:
                del self._unsynced[gone]
            self._pending = [item for item in self._pending if item.kind != "git" and item.place != path]

    def _unrename(self, source: str, path: str, kept: str | None) -> None:
        os.rename(path, source)
        if kept:
            os.link(kept, path)

    def _keep(self, path: str) -> str:
        kept = str(self._scratch / str(next(self._number)))
        os.link(path, kept)
        return kept

    # Other processes

    def moving(self, reference: str) -> Callable[[], None]:
        """A ref is about to be moved by the process that does so for the whole run; to be called when it was."""
        path = f"{self._git}/{reference}"
        before = _bytes(path)

        def moved() -> None:
            with suppress(OSError):
                status = os.lstat(path)
                self._own[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
            self.did(Undone("git", "git", lambda: _put({path: before})))

        return moved

    def look(self) -> Files:
        """The repository and the work tree as they are before another process."""
        self._seen = self._listing()
        return self._seen

    def ended(self, before: Files, arguments: list[str]) -> None:
        """Another process has ended that began with that look."""
        now = self.look()
        changed = {path for path in now.keys() | before.keys() if now.get(path) != before.get(path)}
        changed -= {path for path in changed & before.keys() & now.keys() if "/objects/" in path}  # only touched
        if git_commands.name(arguments) == "update-ref":  # others work beside one that waits for orders
            changed = {path for path in changed if path.startswith((f"{self._git}/refs", f"{self._git}/logs"))}
        synced = git_commands.syncs(arguments)
        entries = set()
        for path in changed:
            if path in now and now[path][:3] == self._own.get(path):
                continue  # done by another thread meanwhile
            content = before[path][3] if path in before else None
            if not path.startswith(f"{self._git}/"):
                self._unsynced.setdefault(path, content)
            elif arguments[0] != "git":
                continue  # done by a git command meanwhile
            elif path.endswith(_INDEXES):
                if path in now and "index" not in synced:
                    self._unsynced.setdefault(path, content)
            else:
                entries.add(path)
                if path in now and "/objects/" in path and "/pack/" not in path and "loose-object" not in synced:
                    self._unsynced.setdefault(path, content)
        if entries:
            old = {path: before[path][3] if path in before else None for path in entries}
            self.did(Undone("git", "git", lambda: _put(old)))

    def _listing(self) -> Files:
        found: Files = {}
        for folder, _, names in chain(os.walk(self._root), os.walk(self._cache)):
            if folder.startswith(self._not_theirs):
                continue
            for name in names:
                path = f"{folder}/{name}"
                with suppress(OSError):
                    status = os.lstat(path)
                    seen = (status.st_ino, status.st_size, status.st_mtime_ns)
                    last = self._seen.get(path)
                    known = last is not None and last[:3] == seen
                    content = last[3] if last is not None and known else b"" if "/objects/" in path else _read(path)
                    found[path] = (*seen, content)
        return found

    # The cut

    def lose(self) -> None:
        for path, content in list(self._unsynced.items()):
            with suppress(OSError):
                _put({path: content})
        for item in reversed(list(self._pending)):
            with suppress(OSError):
                item.undo()

    def tear(self) -> None:
        for path, before in list(self._unsynced.items()):
            with suppress(OSError):
                os.chmod(path, 0o644)
                now = _read(path)
                safe = len(before) if before and now.startswith(before) else 0  # what was synced before an append
                os.truncate(path, safe + (len(now) - safe) // 2)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _bytes(path: str) -> bytes | None:
    try:
        return _read(path)
    except OSError:
        return None


def _put(files: dict[str, bytes | None]) -> None:
    for path, content in files.items():
        with suppress(OSError):
            os.unlink(path)
        if content is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
