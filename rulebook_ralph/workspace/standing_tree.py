"""The tree that stands in the work tree now, looked at beside whoever works there: with an index of its own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.snapshot import Opening, Workspace


@contextmanager
def onlooking(repository: Repository) -> Iterator[Workspace]:
    """A workspace whose index nobody else has: others may verify, or run. Raises OSError where it cannot be made."""
    private = repository.private
    private.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=private, prefix="verify-") as folder:  # leftovers.clear_passing knows it
        yield Workspace(repository, index=f"{Path(folder).name}/index")


def standing_tree(repository: Repository, *, with_new_files: bool) -> tuple[Opening, str]:
    """HEAD, and the tree that stands there now.

    Files that git does not know are hashed only where they are wanted: they may be many.
    """
    with onlooking(repository) as workspace:
        opening = workspace.open()
        left_out = opening.untracked
        if with_new_files:
            left_out = frozenset(path for path in left_out if _cannot_be_added(repository.root / path))
        now = replace(opening, untracked=left_out)
        return now, workspace.capture(now)


def _cannot_be_added(file: Path) -> bool:
    """Whether it is unreadable, or a repository of its own."""
    return not os.access(file, os.R_OK) or (file / ".git").exists()
