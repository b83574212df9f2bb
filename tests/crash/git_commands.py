"""What the git commands that Ralph starts do to a disk."""

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

READING = (
    "cat-file", "check-ignore", "config", "diff-tree", "for-each-ref", "hash-object", "log", "ls-files", "ls-tree",
    "merge-base", "rev-parse", "show", "worktree",
)  # fmt: skip
PURE = ("check-ref-format", "version", "var")
"""Those that have no need of a disk."""
_INDEX_WRITING = ("add", "checkout-index", "read-tree", "rm", "update-index", "write-tree", "switch")


def name(arguments: list[str]) -> str:
    """The git command, past the options before it."""
    rest = iter(arguments[1:])
    for word in rest:
        if word == "-c":
            next(rest)
        elif not word.startswith("-"):
            return word
    return ""


def syncs(arguments: list[str]) -> set[str]:
    """The components of core.fsync that the command was told to sync, loose objects and refs among them."""
    settings = dict(
        word.split("=", 1) for before, word in itertools.pairwise(arguments) if before == "-c" and "=" in word
    )
    wanted = set(re.split(r"[ ,]+", settings.get("core.fsync", "")))
    found = {"pack", "reference"}
    if wanted & {"all", "added", "committed", "objects", "loose-object"} and "-loose-object" not in wanted:
        found.add("loose-object")
    if wanted & {"all", "added", "index"}:
        found.add("index")
    return found


def leave_locks(arguments: list[str], options: Mapping[str, Any]) -> None:
    """The locks that the command takes, as it leaves them when it is killed: an index or a ref half written."""
    root = Path(options["cwd"])
    git = root / ".git"
    command = name(arguments)
    locks: list[Path] = []
    if command in _INDEX_WRITING:
        index = options["env"].get("GIT_INDEX_FILE") or git / "index"
        locks.append(Path(f"{index}.lock"))
    elif command in ("update-ref", "fast-import", "symbolic-ref", "switch"):
        locks += [git / "HEAD.lock", git / "refs/heads/ralph/toy.lock", git / "refs/ralph/toy/state.lock"]
        locks += [git / "refs/ralph/toy/tasks/one/2.lock"]
    for lock in locks:
        if lock.parent.is_dir() and not lock.exists():
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT, 0o644))
