"""Submodules of a tree: which an attempt changed within, and the way back to the commit that the tree names."""

import os
from contextlib import suppress
from pathlib import Path

from rulebook_ralph.workspace.git import Git, GitError
from rulebook_ralph.workspace.repository import Repository

_GITLINK_IN_INDEX = b"\0\0\xe0\0"


def changed_within(repository: Repository, index: Path) -> tuple[str, ...]:
    """Submodules whose tracked files differ from their own commit, while that is the one that the index names."""
    if _GITLINK_IN_INDEX not in index.read_bytes():
        return ()
    listing = repository.git.raw("diff-files", "--raw", "-z", "--ignore-submodules=untracked", index=index)
    fields = listing.split(b"\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return tuple(os.fsdecode(path) for description, path in pairs if description.startswith(b":160000 160000 "))


def bring_back(repository: Repository, path: str, commit: str, *, keep_as: str) -> None:
    """Make a submodule stand at that commit again. What stood there is kept in the submodule's ref `keep_as`.

    Where its repository is gone, or lacks the commit, an empty folder says to git that it is not checked out.
    """
    folder = repository.root / path
    if not os.path.lexists(folder):
        folder.mkdir(parents=True)
    if not (folder / ".git").exists():
        return
    git = Git.at(folder, repository.git.environment)
    with suppress(GitError):
        if Path(git.text("rev-parse", "--show-toplevel")).resolve() != folder.resolve():
            return
        git.raw("cat-file", "-e", f"{commit}^{{commit}}")
        kept = git.text("stash", "create") or git.text("rev-parse", "HEAD")
        git.raw("update-ref", keep_as, kept)
        git.raw("checkout", "-q", "-f", "--detach", commit)
