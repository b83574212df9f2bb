"""When a work tree changed last, for telling an agent that works in silence from one that hangs."""

import os

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository

MOST_ENTRIES = 200_000
_PATIENCE = 20.0
_NEVER_LOOKED_AT = frozenset({".git", "node_modules", "__pycache__", ".venv"})


def newest_change(repository: Repository, *, most: int = MOST_ENTRIES) -> float | None:
    """The time of the last change to anything in the work tree that git does not ignore, in seconds since the epoch.

    None where the tree cannot be read. Of a tree with more than `most` entries the rest is not looked at. Removals
    count too: they change their folder. The state folder and git's own do not count.
    """
    skipped = _ignored(repository) | {STATE_FOLDER}
    root = os.fspath(repository.root)
    folders, left, newest = [""], most, 0.0
    while folders and left > 0:
        folder = folders.pop()
        try:
            newest = max(newest, os.lstat(os.path.join(root, folder)).st_ctime)  # noqa: PTH118 - 200,000 times
            with os.scandir(os.path.join(root, folder)) as entries:  # noqa: PTH118
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name in _NEVER_LOOKED_AT or path in skipped:
                        continue
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        newest = max(newest, entry.stat(follow_symlinks=False).st_ctime)
        except OSError:  # gone meanwhile, or closed to us
            continue
    return newest or None


def _ignored(repository: Repository) -> frozenset[str]:
    """Files and folders that git ignores, a folder by its own name; none where git cannot tell."""
    listing = ("ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z")
    try:
        names = repository.git.raw(*listing, timeout=_PATIENCE).split(b"\0")
    except (GitError, RalphError):
        return frozenset()
    return frozenset(os.fsdecode(name).rstrip("/") for name in names if name)
