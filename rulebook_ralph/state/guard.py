"""The state folder while an agent lives: remembered at opening, put back afterwards.

What an agent wrote there never counts. An edit a person made meanwhile cannot be told from the agent's, so the other
version of every changed file is handed back, to be kept for the person (DESIGN.md, Whose edit is it?).
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.state import disk
from rulebook_ralph.state.disk import Fingerprint
from rulebook_ralph.state.store import StateFolder

_AT_THE_TOP = ("prd.json", "config.yaml", "progress.txt")
_HISTORY = "history/"


@dataclass(frozen=True, slots=True)
class Restored:
    """A state file that was put back: its name in the folder, what stood there instead (None: it was deleted), and what
    stands there again (None: nothing).
    """

    name: str
    other: bytes | None
    content: bytes | None


@dataclass(frozen=True, slots=True)
class StateGuard:
    """Contents of the files at the top and of the templates, fingerprints of all, the history too; None where only the
    content tells whether a file was changed.
    """

    folder: StateFolder
    contents: dict[str, bytes]
    fingerprints: dict[str, Fingerprint | None]

    def restore(self, fetch: Callable[[str], bytes | None]) -> tuple[Restored, ...]:
        """Put the folder back; `fetch` gives the saved content of a history file, or None."""
        for folder in (self.folder.path, self.folder.history):
            _real_folder(folder)
        now = _fingerprints(self.folder)
        changed = [name for name, seen in self.fingerprints.items() if seen is None or now.get(name) != seen]
        strangers = sorted(now.keys() - self.fingerprints.keys())
        put_back = [self._put_back(name, fetch) for name in changed]
        return (*filter(None, put_back), *map(self._put_away, strangers))

    def with_file(self, name: str, content: bytes) -> "StateGuard":
        """The same with a file that Ralph itself has just written, while the agent could write as well: what stands
        there is known by its content alone.
        """
        return replace(self, contents=self.contents | {name: content}, fingerprints=self.fingerprints | {name: None})

    def _put_back(self, name: str, fetch: Callable[[str], bytes | None]) -> Restored | None:
        path = self.folder.path / name
        other = disk.content_of(path)
        content = self.contents[name] if name in self.contents else fetch(name)
        if content is None or content == other:
            return None
        _put(path, content)
        return Restored(name, other, content)

    def _put_away(self, name: str) -> Restored:
        path = self.folder.path / name
        stranger = Restored(name, disk.content_of(path), None)
        _remove(path)
        return stranger


def remember(folder: StateFolder, *, prd: bytes | None = None) -> StateGuard:
    """The state folder as it is now; `prd` is the content of prd.json where it is known."""
    fingerprints = _fingerprints(folder)
    known = {} if prd is None else {"prd.json": prd}
    names = [name for name in fingerprints if not name.startswith(_HISTORY) and name not in known]
    contents = {name: content for name in names if (content := disk.content_of(folder.path / name)) is not None}
    return StateGuard(folder, known | contents, fingerprints)


def _fingerprints(folder: StateFolder) -> dict[str, Fingerprint | None]:
    """Every guarded file, with None for what is no plain file."""
    paths = [folder.path / name for name in _AT_THE_TOP]
    paths += [path for path in _below(folder.templates) if path.is_symlink() or not path.is_dir()]
    start = len(str(folder.path)) + 1
    found = {str(path)[start:]: disk.fingerprint(path) for path in paths if os.path.lexists(path)}
    if folder.history.is_symlink():
        return found | {_HISTORY.rstrip("/"): None}
    with suppress(OSError), _opened(folder.history) as history, os.scandir(history) as listing:
        for item in listing:
            found[_HISTORY + item.name] = disk.fingerprint_of(item.stat(follow_symlinks=False))
    return found


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """Its descriptor: thousands of files are looked at without walking the whole path for each."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _below(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return [folder]
    return sorted(folder.rglob("*")) if folder.is_dir() else []


def _real_folder(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    disk.make_folder(path)


def _put(path: Path, content: bytes) -> None:
    _real_folder(path.parent)
    if path.is_symlink() or path.is_dir():
        _remove(path)
    disk.replace_file(path, content)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
