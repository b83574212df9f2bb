"""The tree an attempt left, captured with an index of Ralph's own, and the way back to the base.

The user's index is never used for this, so its flags hide nothing. What was untracked at opening is not part of any
tree, and the ignore rules are those of the opening: an agent that edits them neither hides nor drags in files.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.ignore_rules import caches, ignore_files, ignored_by
from rulebook_ralph.workspace.repository import Repository, within_state

_GITLINK = "160000"
_MOST_NAMED = 200


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
    """Captures and restores trees of one repository.

    Between two agents of one run nothing is asked of git that is known from the first: files that a person makes
    meanwhile count like those made while an agent works.
    """

    def __init__(self, repository: Repository, *, index: str = "index") -> None:
        self.repository = repository
        self.index = repository.private / index
        self._index_digest = b""
        self._index_holds = ""
        self._trees: dict[str, str] = {}
        self._rules: dict[str, bytes] | None = None
        self._state_is_ignored = False
        self._changes: tuple[tuple[str, str], tuple[Change, ...]] = (("", ""), ())

    def open(self, kept_tree: str | None = None, *, after: Opening | None = None) -> Opening:
        """Remember the tree before an agent works.

        `kept_tree` is the tree of earlier attempts' work that stands in it: files of it are no untracked files of a
        person's. `after` is the opening of the iteration just settled; what it knew is not asked again.
        """
        commit = self.repository.head()
        self._load(kept_tree or commit)
        if kept_tree is not None and (after is None or after.commit != commit):
            self._take_state_of(commit)
        if after is None or self._rules != after.ignore_files:
            self._look_whether_state_is_ignored()
        if after is None or (kept_tree is None and self._rules != after.ignore_files):
            return Opening(commit, self.tree_of(commit), self._untracked(), ignore_files(self.repository, self.index))
        return Opening(commit, self.tree_of(commit), after.untracked, after.ignore_files)

    def capture(self, opening: Opening) -> str:
        """The tree as it stands now, without what was untracked or ignored at opening and without the state folder."""
        self.index.parent.mkdir(parents=True, exist_ok=True)
        self.index.with_name(f"{self.index.name}.lock").unlink(missing_ok=True)
        if not self._index_is_ours():
            self._load(opening.commit)
        self._rules = ignore_files(self.repository, self.index)
        if self._rules != opening.ignore_files:
            self._look_whether_state_is_ignored()
        try:
            self._add_all(opening)
        except GitError:
            self._make_addable(opening)
            self._add_all(opening)
        tree = self._git("write-tree").decode().strip()
        self._now_holds(tree)
        return tree

    def recapture(self, opening: Opening, tree: str) -> str:
        """The tree as it stands now, when it was captured as `tree` a moment ago and has hardly changed since."""
        if not self._index_is_ours():
            return self.capture(opening)
        listing = self._git("ls-files", "-m", "-d", "-o", "--exclude-standard", "-z").split(b"\0")
        names = (os.fsdecode(name) for name in listing if name)
        same = all(within_state(name) or is_below(name, opening.untracked) for name in names)
        return tree if same else self.capture(opening)

    def changes(self, old_tree: str, new_tree: str) -> tuple[Change, ...]:
        """The paths in which two trees differ, the state folder aside."""
        if old_tree == new_tree:
            return ()
        if self._changes[0] != (old_tree, new_tree):
            self._changes = ((old_tree, new_tree), self._diff(old_tree, new_tree))
        return self._changes[1]

    def restore(self, opening: Opening, tree: str) -> None:
        """Put every path in which the work tree (captured as `tree`) differs from the base back to the base."""
        changes = self._diff(tree, opening.tree)
        for change in changes:
            if change.kind in ("D", "T"):
                _delete(self.repository.root, change.path, aside=self.repository.private / "held" / tree[:12])
        self._load(opening.commit)
        wanted = [change.path for change in changes if change.kind != "D" and not change.is_gitlink]
        if wanted:
            for path in wanted:
                _clear_way(self.repository.root, path)
            names = "\0".join(wanted).encode("utf-8", "surrogateescape")
            self._git("checkout-index", "-f", "-u", "-q", "-z", "--stdin", stdin=names)
        self._rules = None
        self._now_holds(opening.commit)

    def tree_of(self, commit: str) -> str:
        """The tree of a commit; of Ralph's own commits it is known."""
        if commit not in self._trees:
            self._trees[commit] = self.repository.tree_of(commit)
        return self._trees[commit]

    def remember_commit(self, commit: str, tree: str) -> None:
        """A commit that Ralph made of a tree."""
        self._trees[commit] = tree

    def take_index(self, index: Path, commit: str) -> None:
        """Use a copy of an index that holds `commit` as the own one."""
        shutil.copy2(index, self.index)
        self._now_holds(commit)

    def _diff(self, old_tree: str, new_tree: str) -> tuple[Change, ...]:
        fields = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", old_tree, new_tree).split(b"\0")
        found = []
        for description, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, _, kind = description.decode().lstrip(":").split()
            name = os.fsdecode(path)
            if not within_state(name):
                found.append(Change(name, kind[0], _GITLINK in (old_mode, new_mode)))  # type: ignore[arg-type]  # git's letters
        return tuple(found)

    def _load(self, content: str) -> None:
        """Make the own index that of a commit or tree, keeping what is known of unchanged files, and the flags of a
        person: in a sparse checkout what is not there is not deleted.
        """
        if self._index_holds == content and self._index_is_ours():
            return
        if not self._index_is_ours():
            self.index.parent.mkdir(parents=True, exist_ok=True)
            users = self.repository.git_folder / "index"
            if users.is_file():
                shutil.copy2(users, self.index)
        try:
            self._git("read-tree", "--reset", content)
        except GitError:
            self.index.unlink(missing_ok=True)
            self._git("read-tree", content)
        self._now_holds(content)

    def _index_is_ours(self) -> bool:
        return bool(self._index_digest) and _digest(self.index) == self._index_digest

    def _now_holds(self, content: str) -> None:
        self._index_digest = _digest(self.index)
        self._index_holds = content

    def _take_state_of(self, commit: str) -> None:
        """Unfinished work carries the state folder of an older base; give the own index that of `commit`."""
        self._git("rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch", "--", f":(top,literal){STATE_FOLDER}")
        with suppress(GitError):  # no state folder is committed yet
            self._git("read-tree", f"--prefix={STATE_FOLDER}/", f"{commit}:{STATE_FOLDER}")
        self._index_digest = _digest(self.index)

    def _untracked(self) -> frozenset[str]:
        """Untracked paths; where they are very many, the folders that hold nothing else."""
        listing = ("ls-files", "-o", "--exclude-standard", "-z")
        names = self._git(*listing).split(b"\0")
        if len(names) > _MOST_NAMED:
            names = self._git(*listing, "--directory", "--no-empty-directory").split(b"\0")
        paths = (os.fsdecode(name).rstrip("/") for name in names if name)
        return frozenset(path for path in paths if not within_state(path)) | self._left_alone()

    def _left_alone(self) -> frozenset[str]:
        """Tracked files that stand in the tree and that the user told git not to look at."""
        flagged = self.repository.git.raw("ls-files", "-v", "-z").split(b"\0")
        names = (os.fsdecode(entry[2:]) for entry in flagged if entry[:1] == b"S" or entry[:1].islower())
        return frozenset(name for name in names if os.path.lexists(self.repository.root / name))

    def _look_whether_state_is_ignored(self) -> None:
        asked = ("check-ignore", "-q", "--no-index", "--", STATE_FOLDER)
        self._state_is_ignored = self.repository.git.succeeds(*asked)

    def _excludable(self, untracked: frozenset[str]) -> list[str]:
        """What `git add` must leave out. It refuses to leave out what is ignored anyway or lies behind a link."""
        root = self.repository.root
        paths = [path for path in sorted(untracked) if not any((root / up).is_symlink() for up in Path(path).parents)]
        return paths if self._state_is_ignored else [*paths, STATE_FOLDER]

    def _add_all(self, opening: Opening) -> None:
        rules = opening.ignore_files
        if self._rules is not None and self._rules != rules:
            rules = rules | caches(self.repository, self.index, self._rules)
        if self._rules != rules:
            self._add_by_rules(opening, rules)
            return
        excluded = (f":(top,exclude,literal){path}" for path in self._excludable(opening.untracked))
        paths = "\0".join([":/", *excluded]).encode("utf-8", "surrogateescape")
        self._git("add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=paths)

    def _make_addable(self, opening: Opening) -> None:
        """Mend what `git add` fails at: a repository without a commit gets a link as if it had one, for the judge to
        see; a file that cannot be read is made readable.
        """
        for name in self._git("ls-files", "-o", "-m", "-z").split(b"\0"):
            path = os.fsdecode(name)
            if not name or is_below(path, opening.untracked) or within_state(path):
                continue
            if path.endswith("/"):
                link = f"{_GITLINK},{opening.commit},{path.rstrip('/')}"
                self._git("update-index", "--add", "--cacheinfo", link)
            elif (file := self.repository.root / path).is_file() and not os.access(file, os.R_OK):
                with suppress(OSError):
                    file.chmod(file.stat().st_mode | 0o400)

    def _add_by_rules(self, opening: Opening, rules: dict[str, bytes]) -> None:
        """Stage what changed, ignoring by those rules instead of the ones in the tree."""
        listing = self._git("ls-files", "-o", "-z").split(b"\0")
        others = [name for name in listing if name and not is_below(os.fsdecode(name), opening.untracked)]
        ignored = ignored_by(self.repository, rules, others)
        wanted = [name for name in others if name not in ignored and not within_state(os.fsdecode(name))]
        without = [] if self._state_is_ignored else [f":(top,exclude,literal){STATE_FOLDER}"]
        self._git("add", "-u", "--", ":/", *without)
        if wanted:
            names = b"\0".join(b":(top,literal)" + name.rstrip(b"/") for name in wanted)
            self._git("add", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names)

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.repository.git.raw(*arguments, stdin=stdin, index=self.index)


def is_below(path: str, roots: frozenset[str]) -> bool:
    """Whether a repository path is one of `roots` or lies in one."""
    parts = path.rstrip("/").split("/")
    return any("/".join(parts[:length]) in roots for length in range(1, len(parts) + 1))


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def _delete(root: Path, path: str, *, aside: Path) -> None:
    """Remove a file; a repository that stands there is in no snapshot, and is moved to `aside`."""
    target = root / path
    if target.is_dir() and not target.is_symlink():
        if not (target / ".git").exists():
            return
        (aside / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(target, aside / path)
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
