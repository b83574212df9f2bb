"""What an agent must not change in the git folder: remembered at opening, compared afterwards, put back.

Read and written as files, before any git command runs: an agent may have planted configuration by which git runs
something. Covered: configuration, `info/`, hooks, HEAD, the index, refs and the stash, unfinished merges and rebases.
Not covered: `refs/ralph` (Ralph's own), remote-tracking refs (a person may fetch meanwhile) and branches that are
checked out in another work tree (somebody may commit there).
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rulebook_ralph.workspace.repository import Repository

_PER_TREE = (
    "HEAD",
    "index",
    "config.worktree",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "AUTO_MERGE",
    "info/sparse-checkout",
)
_PER_TREE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_SHARED = ("config", "packed-refs", "shallow", "objects/info/alternates", "logs/refs/stash")
_SHARED_FOLDERS = ("info", "hooks", "refs")
_LOCKS = ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock")
_FREE_REFS = ("refs/ralph", "refs/remotes")


@dataclass(frozen=True, slots=True)
class Guard:
    """The guarded files as they were: path -> content and mode, for plain files; links by their target."""

    files: dict[Path, tuple[bytes, int]]
    repository: Repository

    def encoded(self) -> bytes:
        """The guard as bytes, so that it outlives a crash."""
        return msgspec.msgpack.encode({os.fsencode(path): content for path, content in self.files.items()})

    def restore(self) -> tuple[str, ...]:
        """Put everything back; returns what had been changed, as paths in the git folder, for the feedback."""
        changed: list[Path] = []
        now = _read(self.repository)
        for path in now.keys() - self.files.keys():
            _remove(path)
            changed.append(path)
        for path, content in self.files.items():
            if now.get(path) != content:
                _write(path, content)
                changed.append(path)
        for name in _LOCKS:
            (self.repository.git_folder / name).unlink(missing_ok=True)
            (self.repository.common_folder / name).unlink(missing_ok=True)
        folders = (self.repository.git_folder, self.repository.common_folder)
        return tuple(sorted(_relative(path, folders) for path in changed if path.name != "index"))


def remember(repository: Repository) -> Guard:
    """The guarded files at opening."""
    return Guard(_read(repository), repository)


def decoded(data: bytes, repository: Repository) -> Guard:
    """A guard from its bytes; raises msgspec.MsgspecError."""
    files = msgspec.msgpack.decode(data, type=dict[bytes, tuple[bytes, int]])
    return Guard({Path(os.fsdecode(path)): content for path, content in files.items()}, repository)


def new_tips(guard: Guard) -> tuple[str, ...]:
    """Commits that refs or HEAD point to now and did not at opening: an agent's own, to be kept reachable."""
    before = {content for content, _ in guard.files.values()}
    tips = []
    for path, (content, _) in _read(guard.repository).items():
        name = content.strip()
        if content not in before and path.name != "index" and len(name) in (40, 64) and name.isalnum():
            tips.append(name.decode("ascii", "replace"))
    return tuple(sorted(set(tips)))


def _read(repository: Repository) -> dict[Path, tuple[bytes, int]]:
    elsewhere = _checked_out_elsewhere(repository)
    files = {}
    for path in _guarded_paths(repository):
        if path in elsewhere:
            continue
        with suppress(OSError):
            if path.is_symlink():
                files[path] = (os.fsencode(path.readlink()), -1)
            else:
                files[path] = (path.read_bytes(), path.stat().st_mode & 0o7777)
    return files


def _guarded_paths(repository: Repository) -> Iterator[Path]:
    own, shared = repository.git_folder, repository.common_folder
    yield from (own / name for name in _PER_TREE)
    yield from (shared / name for name in _SHARED)
    for folder in [*(own / name for name in _PER_TREE_FOLDERS), *(shared / name for name in _SHARED_FOLDERS)]:
        for parent, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not _is_free(Path(parent, name), shared)]
            yield from (Path(parent, name) for name in names)


def _is_free(path: Path, shared: Path) -> bool:
    return any(path == shared / name for name in _FREE_REFS)


def _checked_out_elsewhere(repository: Repository) -> set[Path]:
    """The ref files of branches that other work trees have checked out."""
    shared = repository.common_folder
    heads = [shared / "HEAD", *shared.glob("worktrees/*/HEAD")]
    found = set()
    for head in heads:
        if head == repository.git_folder / "HEAD":
            continue
        with suppress(OSError, UnicodeDecodeError):
            text = head.read_text("utf-8").strip()
            if text.startswith("ref: refs/"):
                found.add(shared / text.removeprefix("ref: "))
    return found


def _write(path: Path, content: tuple[bytes, int]) -> None:
    data, mode = content
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == -1:
        path.symlink_to(os.fsdecode(data))
        return
    temporary = path.with_name(f"{path.name}.ralph")
    temporary.write_bytes(data)
    temporary.chmod(mode)
    temporary.rename(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _relative(path: Path, folders: tuple[Path, ...]) -> str:
    for folder in folders:
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return str(path)
