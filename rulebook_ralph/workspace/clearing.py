"""Files and folders of a work tree that make way for those of the base."""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def is_below(path: str, roots: Collection[str]) -> bool:
    """Whether a repository path is one of `roots` or lies in one."""
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:length]) in roots for length in range(1, len(parts) + 1))


def is_behind_link(root: Path, path: str) -> bool:
    """Whether a folder of a path is a link; the root itself may be one."""
    return any(parent.is_symlink() for parent in _folders_above(root, path))


def take_away(root: Path, path: str, aside: Path, inner: Collection[str], links: Collection[str]) -> bool:
    """Remove what the base does not have; whether it was a repository, which is now none any more.

    What lies in one of the folders `inner` is moved to `aside`.
    """
    if is_behind_link(root, path):
        return False
    target = root / path
    _open_folders(root, path)
    if target.is_dir() and not target.is_symlink():
        if path in links or not os.path.lexists(target / ".git"):
            return False
        _move(root, f"{path}/.git", aside)
        return True
    if is_below(path, inner):
        _move(root, path, aside)
    target.unlink(missing_ok=True)
    remove_empty(target.parent, root)
    return False


def _move(root: Path, path: str, aside: Path) -> None:
    (aside / path).parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        shutil.move(root / path, aside / path)


def remove_empty(folder: Path, root: Path) -> None:
    with suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _folders_above(root: Path, path: str) -> list[Path]:
    """The folders within the root that lead to a path, the outermost first."""
    return [root / parent for parent in reversed(Path(path).parents)][1:]


def _open_folders(root: Path, path: str) -> None:
    """Make the folders of a path writable."""
    for folder in (root, *_folders_above(root, path)):
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            folder.chmod(folder.stat().st_mode | 0o700)


def clear_way(root: Path, path: str) -> None:
    """Remove a file or link that stands where a folder of `path` must be, and the file itself: attributes files of an
    attempt must not decide how others are written.
    """
    for folder in _folders_above(root, path):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
    _open_folders(root, path)
    if not (root / path).is_dir() or (root / path).is_symlink():
        (root / path).unlink(missing_ok=True)
