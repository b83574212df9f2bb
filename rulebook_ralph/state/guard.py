"""The state folder while an agent lives: remembered at opening, put back afterwards.

What an agent wrote there never counts. An edit a person made meanwhile cannot be told from the agent's, so the other
version of every changed file is handed back, to be kept for the person (DESIGN.md, Whose edit is it?).
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.state import disk
from rulebook_ralph.state.store import StateFolder

Fingerprint = tuple[int, int, int, int]
_REMEMBERED_WHOLE = ("prd.json", "config.yaml", "progress.txt")


@dataclass(frozen=True, slots=True)
class Restored:
    """A state file that was put back: its name in the folder, and what stood there instead (None: it was deleted)."""

    name: str
    other: bytes | None


@dataclass(frozen=True, slots=True)
class StateGuard:
    """Contents of the small files, fingerprints of the history."""

    folder: StateFolder
    contents: dict[str, bytes]
    fingerprints: dict[str, Fingerprint]

    def restore(self, fetch: Callable[[str], bytes | None]) -> tuple[Restored, ...]:
        """Put the folder back; `fetch` gives the saved content of a history file, or None."""
        changed: list[Restored] = []
        _real_folder(self.folder.path)
        for name, content in self.contents.items():
            other = _content(self.folder.path / name)
            if other != content:
                changed.append(Restored(name, other))
                _put(self.folder.path / name, content)
        now = _fingerprints(self.folder.history)
        untouched = {name for name, seen in now.items() if self.fingerprints.get(name) == seen}
        for name in sorted(self.fingerprints.keys() - untouched):
            saved = fetch(f"history/{name}")
            other = _content(self.folder.history / name)
            if saved is not None and saved != other:
                changed.append(Restored(f"history/{name}", other))
                _put(self.folder.history / name, saved)
        for name in sorted(now.keys() - self.fingerprints.keys()):
            changed.append(Restored(f"history/{name}", _content(self.folder.history / name)))
            _remove(self.folder.history / name)
        changed.extend(self._remove_strangers())
        return tuple(changed)

    def _remove_strangers(self) -> list[Restored]:
        known = {Path(name).parts[0] for name in self.contents} | {"history"}
        strangers = []
        for path in self.folder.path.iterdir():
            if path.name not in known and path.name in (*_REMEMBERED_WHOLE, "templates"):
                strangers.append(Restored(path.name, _content(path)))
                _remove(path)
        return strangers


def remember(folder: StateFolder) -> StateGuard:
    """The state folder as it is now."""
    names = [*_REMEMBERED_WHOLE]
    if folder.templates.is_dir():
        names += [path.relative_to(folder.path).as_posix() for path in sorted(folder.templates.rglob("*"))]
    contents = {name: content for name in names if (content := _content(folder.path / name)) is not None}
    return StateGuard(folder, contents, _fingerprints(folder.history))


def _fingerprints(history: Path) -> dict[str, Fingerprint]:
    found = {}
    with suppress(OSError), os.scandir(history) as listing:
        for item in listing:
            status = item.stat(follow_symlinks=False)
            found[item.name] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def _content(path: Path) -> bytes | None:
    if path.is_symlink() or not path.is_file():
        return None
    with suppress(OSError):
        return path.read_bytes()
    return None


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
