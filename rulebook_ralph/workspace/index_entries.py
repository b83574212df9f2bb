"""What stands in an index, entry by entry, and the user's own index changed as a person's git would: under its lock."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.restoring import Version
from rulebook_ralph.workspace.syncing import sync_file

_TRIES, _PAUSE = 20, 0.1
"""How often, and how long (seconds) apart, the lock of a person's git is tried."""


def entries_of(repository: Repository, index: Path | None) -> tuple[dict[str, Version], dict[str, str]]:
    """What an index (the user's, where none is named) holds: versions, of a path in conflict one that no tree has, and
    the letters by which git marks entries that it is not to look at.
    """
    versions, tags = {}, {}
    for entry in filter(None, repository.git.raw("ls-files", "-v", "-s", "-z", index=index).split(b"\0")):
        described, path = os.fsdecode(entry).split("\t", 1)
        tag, mode, name, stage = described.split()
        versions[path] = Version(mode, name) if stage == "0" else Version("", "")
        if tag != "H":
            tags[path] = tag
    return versions, tags


def update_index(repository: Repository, index: Path, lines: list[str], *how: str) -> None:
    """Have `git update-index` do the same to each of those lines; nothing without any."""
    if lines:
        stdin = os.fsencode("\0".join([*lines, ""]))
        repository.git.raw("update-index", "--add", "-z", *how, stdin=stdin, index=index)


@contextmanager
def index_replaced(repository: Repository, own: Path) -> Iterator[None]:
    """A copy of the user's index in `own`, to be put in its place; a person's git waits meanwhile."""
    users = repository.git_folder / "index"
    lock = _locked(users)
    try:
        if users.is_file():
            shutil.copy2(users, own)
        yield
        shutil.copy2(own, lock)  # with its time: by that git knows which files may have changed while it was written
        sync_file(lock)
        lock.replace(users)
        sync_file(users.parent)
    except BaseException:
        lock.unlink(missing_ok=True)
        raise


def _locked(index: Path) -> Path:
    """The lock of an index, as git takes it."""
    lock = index.with_name("index.lock")
    for trial in range(_TRIES):
        with suppress(FileExistsError):
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            return lock
        if trial < _TRIES - 1:
            time.sleep(_PAUSE)
    problem = f"another git is at work in the repository: {lock} is there; if none is, remove it"
    raise GitError(index.parent, ("update-index",), -1, problem)
