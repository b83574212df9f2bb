"""Where a watch is: its repository, and the lock that says so. A person may move, delete or make the folder anew."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import open_repository_of
from rulebook_ralph.state import lock
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository


class WatchedPlace:
    """From `with` to its end the lock of watches is held. `hold` makes that lock for the path of its file."""

    def __init__(self, repository: Repository, hold: Callable[[Path], AbstractContextManager[object]]) -> None:
        self.repository = repository
        self._hold = hold
        self._held = ExitStack()
        self._identity: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    @property
    def root(self) -> Path:
        return self.repository.root

    def is_whole(self) -> bool:
        """Whether the folder that was opened is where it was: the lock's file, as no other can have its inode yet."""
        return self._identity is not None and _identity(self._lock_file) == self._identity

    def is_there(self) -> bool:
        """Whether there is a repository that git may be asked about."""
        return os.path.lexists(self.root / ".git")

    def reopen(self) -> None:
        """Go on in the folder that is there now. Raises RalphError where none is that a watch could go on in."""
        if not self.root.is_dir():
            raise RalphError(f"{self.root} is gone; put it back, or end this (^C)")
        if not self.is_there():
            raise RalphError(f"{self.root} is no git repository any more; put it back, or end this (^C)")
        try:
            self.repository = open_repository_of(self.root, self.repository.git.environment)
            self._take()
        except GitError as error:
            raise RalphError(str(error)) from error

    @property
    def _lock_file(self) -> Path:
        return self.repository.private / lock.WATCH

    def _take(self) -> None:
        self._identity = None
        self._held.close()
        self._held.enter_context(self._hold(self._lock_file))
        self._identity = _identity(self._lock_file)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
