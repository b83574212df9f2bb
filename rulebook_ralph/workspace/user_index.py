"""The user's index, and the commits of the state folder that start from it.

Between agents it is that of HEAD, and it stays so: after each commit of Ralph's the fitting index is put in its place.
An index is copied with its time: by that git knows which files may have changed in the moment it was written.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.commits import commit_tree
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.snapshot import Workspace
from rulebook_ralph.workspace.syncing import sync_file


@dataclass(frozen=True, slots=True)
class StateCommit:
    """A commit that differs from its parent in the state folder alone; `index` is the file that holds it."""

    commit: str
    index: Path


class UserIndex:
    """The index that the user sees."""

    def __init__(self, repository: Repository, workspace: Workspace) -> None:
        self._repository = repository
        self._workspace = workspace
        self._path = repository.git_folder / "index"
        self._published = b""

    def publish(self, index: Path) -> None:
        """Put a copy of that index in place: it holds what HEAD is now."""
        temporary = self._path.with_name("index.ralph")
        shutil.copy2(index, temporary)
        sync_file(temporary)
        temporary.replace(self._path)
        self._published = self._path.read_bytes()

    def reset(self) -> None:
        """Make it that of HEAD: a dead run may have moved the branch and not come to this."""
        self._repository.git.raw("-c", "core.fsync=added", "read-tree", "HEAD")

    def commit_state_alone(self, head: str, message: str, *, sign: bool) -> StateCommit | None:
        """A commit of the state folder on top of `head`, whatever the index holds; None where nothing differs."""
        index = self._repository.private / "state-index"
        index.unlink(missing_ok=True)
        self._repository.git.raw("read-tree", head, index=index)
        tree = self._with_state(index)
        return None if tree == self._workspace.tree_of(head) else self._committed(tree, head, message, index, sign=sign)

    def commit_state(self, head: str, message: str, *, sign: bool) -> StateCommit | None:
        """A commit of the state folder on top of `head`; None where nothing differs, and the index is that of HEAD
        then, unless a person has staged something.
        """
        index = self._repository.private / "state-index"
        if self._path.is_file():
            shutil.copy2(self._path, index)
        head_tree = self._workspace.tree_of(head)
        tree = self._with_state(index)
        staged = not self._is_head() and bool(self._workspace.changes(head_tree, tree))
        if staged:
            self._repository.git.raw("read-tree", head, index=index)
            tree = self._with_state(index)
        if tree == head_tree:
            if not staged and index.read_bytes() != self._content():  # an earlier run failed to put it in place
                self.publish(index)
            return None
        return self._committed(tree, head, message, index, sign=sign)

    def _committed(self, tree: str, head: str, message: str, index: Path, *, sign: bool) -> StateCommit:
        commit = commit_tree(self._repository, tree, head, message, sign=sign)
        self._workspace.remember_commit(commit, tree)
        return StateCommit(commit, index)

    def _is_head(self) -> bool:
        """Whether the index is still the one that was put in place; a person may have staged something since."""
        return bool(self._published) and self._content() == self._published

    def _content(self) -> bytes:
        return self._path.read_bytes() if self._path.is_file() else b""

    def _with_state(self, index: Path) -> str:
        self._repository.git.raw("add", "-A", "-f", "--", f":(top,literal){STATE_FOLDER}", index=index)
        return self._repository.git.raw("write-tree", index=index).decode().strip()
