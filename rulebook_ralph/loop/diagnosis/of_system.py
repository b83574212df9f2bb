"""The disk: room on it, and whether its file system can what a crash-safe state needs."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place

LEAST_FREE = 1024**3
"""Bytes."""


def examine(place: Place) -> Iterator[Diagnosis]:
    """Room where a run writes, then a trial in the git folder."""
    caches = Path(place.environment.get("XDG_CACHE_HOME") or place.home / ".cache")
    temporary = Path(place.environment.get("TMPDIR") or "/tmp")  # noqa: S108 - only looked at
    seen: set[int] = set()
    for what, path in (("the project", place.root), ("caches", caches), ("temporary files", temporary)):
        there = next((each for each in (path, *path.parents) if each.exists()), Path("/"))
        device = there.stat().st_dev
        if device not in seen:
            seen.add(device)
            yield room(what, there, shutil.disk_usage(there).free)
    if place.repository is not None:
        yield trial(place.repository.private)


def room(what: str, path: Path, free: int) -> Diagnosis:
    """`free` in bytes."""
    told = f"{free / 1024**3:,.1f} GB free for {what} ({path})"
    return ok(told) if free >= LEAST_FREE else warning(f"only {told}", "make room: a full disk ends a run")


def trial(private: Path) -> Diagnosis:
    """Lock, write through, rename and link in a folder of its own, which is removed again."""
    try:
        private.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=private, prefix="verify-") as folder:
            failed = _failing(Path(folder))
    except OSError as error:
        return wrong(f"{private} cannot be written: {error.strerror}", "make it writable")
    if failed:
        return wrong(f"the file system of {private} cannot {failed}", "put the repository on a local disk")
    return ok("the file system can lock, sync, rename and link")


def _failing(folder: Path) -> str:
    """What cannot be done there; empty where all can."""
    first, second, third = folder / "first", folder / "second", folder / "third"

    def lock() -> None:
        with first.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def sync() -> None:
        for path, flags in ((first, os.O_RDWR), (folder, os.O_RDONLY)):
            descriptor = os.open(path, flags)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def rename() -> None:
        second.write_bytes(b"old")
        first.replace(second)

    trials: tuple[tuple[str, Callable[[], None]], ...] = (
        ("lock files (flock)", lock),
        ("write through (fsync)", sync),
        ("replace files (rename)", rename),
        ("link files", lambda: third.hardlink_to(second)),
    )
    for what, attempt in trials:
        try:
            attempt()
        except OSError as error:
            return f"{what}: {error.strerror}"
    return ""
