"""Which files outside a repository say how git behaves in it: settings, and what is ignored or filtered everywhere."""

import os
from pathlib import Path

from rulebook_ralph.workspace.git import Git, GitError
from rulebook_ralph.workspace.repository import Repository

_SYSTEM = Path("/etc/gitconfig")


def settings_files(repository: Repository) -> tuple[Path, ...]:
    """The files that git reads, or would read if they were there, for this repository beside those in its git folder.

    By them what is committed can differ from what stands in the tree: filters, line ends, ignored names.
    """
    git = repository.git
    user = _user_folder(git)
    files = {*_global(git, user), *_system(git), *_read_now(git)}
    files.add(_path(git, "core.excludesFile") or user / "ignore")
    files.add(_path(git, "core.attributesFile") or user / "attributes")
    own = (repository.git_folder, repository.common_folder)
    absolute = {Path(os.path.abspath(file)) for file in files}  # noqa: PTH100 - links stay as they are
    return tuple(sorted(file for file in absolute if not any(file.is_relative_to(folder) for folder in own)))


def _user_folder(git: Git) -> Path:
    """`$XDG_CONFIG_HOME/git`, as git finds it (git-config: FILES)."""
    base = git.environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else _home(git) / ".config") / "git"


def _home(git: Git) -> Path:
    return Path(git.environment.get("HOME") or "/")


def _global(git: Git, user: Path) -> tuple[Path, ...]:
    named = git.environment.get("GIT_CONFIG_GLOBAL")
    return (Path(named),) if named is not None else (_home(git) / ".gitconfig", user / "config")


def _system(git: Git) -> tuple[Path, ...]:
    named = git.environment.get("GIT_CONFIG_SYSTEM")
    return (Path(named),) if named is not None else (_SYSTEM,)


def _read_now(git: Git) -> tuple[Path, ...]:
    """What git tells that it read, files named by `include.path` among them."""
    try:
        words = git.raw("config", "--list", "--show-origin", "-z").split(b"\0")
    except GitError:
        return ()
    names = {os.fsdecode(word.removeprefix(b"file:")) for word in words[::2] if word.startswith(b"file:")}
    return tuple(git.root / name for name in names)


def _path(git: Git, key: str) -> Path | None:
    try:
        return git.root / os.fsdecode(git.raw("config", "--type=path", "--get", key)).rstrip("\n")
    except GitError:
        return None
