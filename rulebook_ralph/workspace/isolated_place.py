"""Folders in the user's cache for checkouts of a repository: each claimed by a lock that dies with its process.

One that holds an agent's work outlives its process until somebody has taken it over.
"""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.syncing import sync_file

_OF = "repository"
"""The file in a repository's folder that says where the repository is."""
_LOCK = ".lock"
_WORK = b"work"
"""What the lock of a place says that outlives its process."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that belongs to this process until it is `given_up`, or the process ends."""

    folder: Path
    _descriptor: int

    def give_up(self) -> None:
        """Remove the folder, with all that stands in it. What cannot go now goes with a later claim."""
        with suppress(OSError):
            take_down(self.folder)
            _lock_of(self.folder).unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """It is as if this process had ended: what stands in the folder is there for `take_over` or `remove_dead`."""
        os.close(self._descriptor)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where all of them are; a relative XDG_CACHE_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_CACHE_HOME", ""))
    base = configured if configured.is_absolute() else Path(environment.get("HOME") or "/") / ".cache"
    return base / "rulebook-ralph" / "checkouts"


def folder_of(environment: Mapping[str, str], root: Path, git_folder: Path) -> Path:
    """The folder of one work tree, known by its git folder. Raises RalphError where it would lie within it."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", root.name).strip("-._")[:40] or "repository"
    folder = cache_folder(environment) / f"{name}-{hashlib.sha256(os.fsencode(git_folder)).hexdigest()[:16]}"
    if folder.resolve().is_relative_to(root.resolve()):
        raise RalphError(f"{folder} would lie within the project; set XDG_CACHE_HOME to a folder outside of it")
    return folder


def claim(folder: Path, git_folder: Path, *, keeps_work: bool = False) -> Place:
    """A new, empty place in the folder of a repository; those of dead processes are removed. Raises OSError.

    One that `keeps_work` is then left for `take_over`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _OF).write_bytes(os.fsencode(git_folder))
    remove_dead(folder)
    while True:
        place = folder / secrets.token_hex(6)
        descriptor = _locked(_lock_of(place))
        if descriptor is not None:
            if keeps_work:
                os.write(descriptor, _WORK)
                sync_file(_lock_of(place))
                sync_file(folder)
            place.mkdir(mode=0o700)
            return Place(place, descriptor)


def take_over(place: Path) -> Place | None:
    """The place of a dead process, with all that stands in it; None while the process lives, or where there is none.

    Raises OSError.
    """
    if not place.parent.is_dir():
        return None
    descriptor = _locked(_lock_of(place))
    if descriptor is None:
        return None
    if place.is_dir() and not place.is_symlink():
        return Place(place, descriptor)
    _lock_of(place).unlink()
    os.close(descriptor)
    return None


def remove_dead(folder: Path, *, with_work: bool = False) -> int:
    """Remove the places in a repository's folder whose process has ended; how many. What cannot go stays.

    Those that keep work stay too, unless they are to go `with_work`.
    """
    removed = 0
    names = {path.name.removesuffix(_LOCK) for path in folder.glob("*")} - {_OF}
    for place in sorted(folder / name for name in names):  # a power cut may have taken the lock alone
        with suppress(OSError):
            descriptor = _locked(lock := _lock_of(place))
            if descriptor is None:
                continue
            try:
                if with_work or os.pread(descriptor, len(_WORK), 0) != _WORK:
                    take_down(place)
                    lock.unlink()
                    removed += 1
            finally:
                os.close(descriptor)
    return removed


def remove_vanished(environment: Mapping[str, str]) -> int:
    """Remove the folders of repositories that are not there any more; how many places were dead, or of such ones."""
    removed = 0
    for folder in sorted(cache_folder(environment).glob("*")):
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir():
                continue
            has_vanished = not Path(os.fsdecode((folder / _OF).read_bytes())).exists()
            removed += remove_dead(folder, with_work=has_vanished)
            if has_vanished and not any(folder.glob(f"*{_LOCK}")):
                take_down(folder)
    return removed


def take_down(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one with folders that may not be written. Raises OSError."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except OSError:
        open_up(path)
        shutil.rmtree(path)


def open_up(path: Path) -> None:
    """Make every folder there, and itself, one that can be read and written. Raises OSError."""
    path.chmod(0o700)
    for parent, folders, _ in os.walk(path):
        for name in folders:
            if not (inner := Path(parent, name)).is_symlink():
                inner.chmod(0o700)


def _lock_of(place: Path) -> Path:
    return place.with_name(f"{place.name}{_LOCK}")


def _locked(lock: Path) -> int | None:
    """The lock's descriptor, None where another process holds it or removes it just now. Raises OSError."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(lock).st_ino == os.fstat(descriptor).st_ino:  # noqa: PTH116 - beside fstat
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
