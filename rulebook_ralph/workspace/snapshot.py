"""The tree an attempt left, captured with an index of Ralph's own, and the way back to the base.

The user's index is never used for this, so its flags hide nothing. What was untracked at opening is not part of any
tree, and the ignore rules are those of the opening: an agent that edits them neither hides nor drags in files.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.commits import commit_tree
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository, within_state

_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two trees. `kind` is git's letter; an embedded repository is a gitlink."""

    path: str
    kind: Literal["A", "M", "D", "T"]
    is_gitlink: bool


@dataclass(frozen=True, slots=True)
class Opening:
    """What the work tree looked like before an agent: base commit and tree, what was untracked, the ignore rules."""

    commit: str
    tree: str
    untracked: frozenset[str]
    ignore_files: dict[str, bytes]


class Workspace:
    """Captures and restores trees of one repository."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.index = repository.private / "index"
        self._digest = b""
        self._loaded = ""
        self._trees: set[str] = set()
        self._state_of = ""

    def open(self, kept_tree: str | None = None) -> Opening:
        """Remember the tree before an agent works. `kept_tree` is the tree of earlier attempts' work that stands in it:
        files of it are no untracked files of a person's.
        """
        commit, tree = self.repository.git.text("rev-parse", "HEAD^{commit}", "HEAD^{tree}").split("\n")
        self._start_index(kept_tree or commit)
        if kept_tree is not None and self._state_of != commit:
            self._take_state_of(commit)
        self._state_of = commit
        return Opening(commit, tree, self._untracked(), self._ignore_files())

    def capture(self, opening: Opening) -> str:
        """The tree as it stands now, without what was untracked or ignored at opening and without the state folder."""
        if not self._is_ours():
            self.index.unlink(missing_ok=True)
            self._git("read-tree", opening.commit)
        rules_changed = self._ignore_files() != opening.ignore_files
        excluded = [f":(top,exclude,literal){path}" for path in sorted(opening.untracked | {STATE_FOLDER})]
        paths = "\0".join([":/", *excluded]).encode("utf-8", "surrogateescape")
        if rules_changed:
            self._add_by_old_rules(opening)
        else:
            self._git("add", "-A", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=paths)
        return self._written_tree()

    def changes(self, old_tree: str, new_tree: str) -> tuple[Change, ...]:
        """The paths in which two trees differ, the state folder aside."""
        if old_tree == new_tree:
            return ()
        fields = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", old_tree, new_tree).split(b"\0")
        found = []
        for description, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, _, kind = description.decode().lstrip(":").split()
            name = path.decode("utf-8", "surrogateescape")
            if not within_state(name):
                found.append(Change(name, kind[0], _GITLINK in (old_mode, new_mode)))  # type: ignore[arg-type]  # git's letters
        return tuple(found)

    def restore(self, opening: Opening, tree: str) -> None:
        """Put every path in which the work tree (captured as `tree`) differs from the base back to the base."""
        changes = self.changes(tree, opening.tree)
        for change in changes:
            if change.kind in ("D", "T"):
                _delete(self.repository.root, change.path)
        self._git("read-tree", opening.commit)
        wanted = [change.path for change in changes if change.kind != "D" and not change.is_gitlink]
        if wanted:
            for path in wanted:
                _clear_way(self.repository.root, path)
            names = "\0".join(wanted).encode("utf-8", "surrogateescape")
            self._git("checkout-index", "-f", "-u", "-q", "-z", "--stdin", stdin=names)
        self._now_holds(opening.commit)

    def publish_index(self) -> None:
        """Make the user's index that of Ralph, after a commit of the captured tree."""
        target = self.repository.git_folder / "index"
        temporary = target.with_name("index.ralph")
        shutil.copyfile(self.index, temporary)
        temporary.replace(target)

    def reset_user_index(self) -> None:
        """Make the user's index that of HEAD: a dead run may have moved the branch and not come to this."""
        self.repository.git.raw("read-tree", "HEAD")

    def commit_state(self, folder: Path, head: str, message: str, *, sign: bool) -> str | None:
        """A commit on top of `head` that differs from it in the state folder alone; None where nothing differs.

        Starts from the user's index, which is that of HEAD between agents, in a copy; `publish_state` puts it in place.
        """
        name = f":(top,literal){folder.relative_to(self.repository.root).as_posix()}"
        head_tree = self.repository.tree_of(head)
        user_index = self.repository.git_folder / "index"
        if user_index.is_file():
            shutil.copyfile(user_index, self._state_index)
        for _ in range(2):
            self._with_state_index("add", "-A", "-f", "--", name)
            tree = self._with_state_index("write-tree").decode().strip()
            if not self.changes(head_tree, tree):
                break
            self._with_state_index("read-tree", head)
        if tree == head_tree:
            return None
        return commit_tree(self.repository, tree, head, message, sign=sign)

    def publish_state(self, commit: str, *, whole: bool) -> None:
        """Make the user's index that of the state commit; Ralph's own too where no unfinished work stands (`whole`)."""
        self._state_index.replace(self.repository.git_folder / "index")
        if whole:
            shutil.copyfile(self.repository.git_folder / "index", self.index)
            self._now_holds(commit)

    def diff(self, old: str, new: str, *, limit: int = 200_000) -> str:
        """The difference of two trees as a patch, cut at `limit` bytes."""
        data = self._git("diff-tree", "-p", "-r", "-M", old, new, "--", ":/", f":(top,exclude){STATE_FOLDER}")
        return data[:limit].decode("utf-8", "replace")

    def _written_tree(self) -> str:
        """The tree of the own index; nothing is asked where the index is still the one whose tree is known."""
        if self._is_ours() and self._loaded in self._trees:
            return self._loaded
        tree = self._git("write-tree").decode().strip()
        self._now_holds(tree)
        self._trees.add(tree)
        return tree

    def _take_state_of(self, commit: str) -> None:
        """Unfinished work carries the state folder of an older base; give the own index that of `commit`."""
        self._git("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", f":(top,literal){STATE_FOLDER}")
        with suppress(GitError):  # no state folder is committed yet
            self._git("read-tree", f"--prefix={STATE_FOLDER}/", f"{commit}:{STATE_FOLDER}")
        self._digest = _digest(self.index)

    @property
    def _state_index(self) -> Path:
        return self.repository.private / "state-index"

    def _with_state_index(self, *arguments: str) -> bytes:
        return self.repository.git.raw(*arguments, index=self._state_index)

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.repository.git.raw(*arguments, stdin=stdin, index=self.index)

    def _start_index(self, content: str) -> None:
        """Make the own index that of a tree, keeping what is known of unchanged files; it starts from the user's."""
        if self._loaded == content and self._is_ours():
            return
        if not self._is_ours():
            self.index.parent.mkdir(parents=True, exist_ok=True)
            own = self.repository.git_folder / "index"
            if own.is_file():
                shutil.copyfile(own, self.index)
        try:
            self._git("read-tree", "-m", content)
        except GitError:
            self.index.unlink(missing_ok=True)
            self._git("read-tree", content)
        self._now_holds(content)

    def _is_ours(self) -> bool:
        return bool(self._digest) and _digest(self.index) == self._digest

    def _now_holds(self, content: str) -> None:
        self._digest = _digest(self.index)
        self._loaded = content

    def _untracked(self) -> frozenset[str]:
        output = self._git("ls-files", "-o", "--exclude-standard", "-z", "--directory", "--no-empty-directory")
        names = (name.decode("utf-8", "surrogateescape") for name in output.split(b"\0") if name)
        return frozenset(name.rstrip("/") for name in names if not within_state(name.rstrip("/")))

    def _ignore_files(self) -> dict[str, bytes]:
        """Every ignore file that counts: tracked and untracked `.gitignore`, and the repository's own exclude file."""
        root = self.repository.root
        output = self._git("ls-files", "-c", "-o", "-z", "--", ":(top,glob)**/.gitignore")
        paths = {root / os.fsdecode(name) for name in output.split(b"\0") if name}
        paths.add(self.repository.common_folder / "info" / "exclude")
        found = {}
        for path in paths:
            with suppress(OSError):
                found[str(path)] = path.read_bytes()
        return found

    def _add_by_old_rules(self, opening: Opening) -> None:
        """Stage what changed, ignoring by the rules of the opening, replayed in a folder that holds only them."""
        listing = self._git("ls-files", "-o", "-z").split(b"\0")
        others = [name for name in listing if name and not _below(os.fsdecode(name), opening.untracked)]
        with _rules_folder(self.repository, opening.ignore_files) as folder:
            ignored = self._ignored(folder, others)
        wanted = [name for name in others if name not in ignored and not within_state(os.fsdecode(name))]
        excluded = f":(top,exclude,literal){STATE_FOLDER}"
        self._git("add", "-u", "--", ":/", excluded)
        if wanted:
            names = b"\0".join(b":(top,literal)" + name.rstrip(b"/") for name in wanted)
            self._git("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names)

    def _ignored(self, folder: Path, names: Sequence[bytes]) -> frozenset[bytes]:
        if not names:
            return frozenset()
        try:
            output = self.repository.git.raw(
                "check-ignore", "--no-index", "-z", "--stdin", stdin=b"\0".join(names), work_tree=folder
            )
        except GitError:
            return frozenset()
        return frozenset(output.split(b"\0"))


class _rules_folder:  # noqa: N801 - used as a with statement
    """A folder that holds the ignore files of the opening, and nothing else, while it is entered."""

    def __init__(self, repository: Repository, ignore_files: dict[str, bytes]) -> None:
        self._folder = repository.private / "ignore-rules"
        self._root = repository.root
        self._files = ignore_files

    def __enter__(self) -> Path:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        for name, content in self._files.items():
            if Path(name).is_relative_to(self._root) and Path(name).name == ".gitignore":
                target = self._folder / Path(name).relative_to(self._root)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        return self._folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _below(path: str, roots: frozenset[str]) -> bool:
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:length]) in roots for length in range(1, len(parts) + 1))


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def _delete(root: Path, path: str) -> None:
    target = root / path
    if target.is_dir() and not target.is_symlink():
        return
    target.unlink(missing_ok=True)
    for parent in target.parents:
        if parent == root:
            break
        try:
            parent.rmdir()
        except OSError:
            break


def _clear_way(root: Path, path: str) -> None:
    """Remove a file or link that stands where a folder of `path` must be."""
    for parent in reversed((root / path).parents):
        if parent != root and parent.is_relative_to(root) and (parent.is_symlink() or parent.is_file()):
            parent.unlink()
