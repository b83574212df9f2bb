"""The tree an attempt left, captured with an index of Ralph's own, and the way back to the base.

The user's index is never used for this, so its flags hide nothing. What was untracked at opening is not part of any
tree, and the ignore rules are those of the opening: an agent that edits them neither hides nor drags in files.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.clearing import clear_way, is_behind_link, is_below, remove_empty, take_away
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.ignore_rules import caches, ignore_files, ignored_by
from rulebook_ralph.workspace.repository import Repository, within_state
from rulebook_ralph.workspace.staging import GITLINK, Staging
from rulebook_ralph.workspace.submodules import bring_back, changed_within
from rulebook_ralph.workspace.syncing import sync_paths

_MOST_NAMED = 200
_NESTED = 8


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
    meanwhile count like those made while an agent works. `users_index` is the one that knows the files as they are: the
    repository's, unless it is given.
    """

    def __init__(self, repository: Repository, *, index: str = "index", users_index: Path | None = None) -> None:
        self.repository = repository
        self.index = repository.private / index
        self._users_index = users_index or repository.git_folder / "index"
        self._index_digest = b""
        self._index_holds = ""
        self._trees: dict[str, str] = {}
        self._rules: dict[str, bytes] | None = None
        self._state_is_ignored = False
        self._changes: tuple[tuple[str, str], tuple[Change, ...]] = (("", ""), ())

    def open(self, kept_tree: str | None = None, *, after: Opening | None = None, base: str | None = None) -> Opening:
        """Remember the tree before an agent works, as a change of the commit `base`: HEAD, unless it is given.

        `kept_tree` is the tree of earlier attempts' work that stands in it: files of it are no untracked files of a
        person's. `after` is the opening of the iteration just settled; what it knew is not asked again.
        """
        commit = base or self.repository.head()
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
            self._add_each(opening)
        for path in changed_within(self.repository, self.index):  # a link that names no commit, for the judge to see
            self._git("update-index", "--cacheinfo", f"{GITLINK},{opening.commit},{path}")
        tree = self._git("write-tree").decode().strip()
        if standing := self._standing_of_base(opening, tree):
            Staging(self.repository, self.index, opening.commit).stage(standing)
            tree = self._git("write-tree").decode().strip()
        self._now_holds(tree)
        return tree

    def _standing_of_base(self, opening: Opening, tree: str) -> list[str]:
        """The files of the base that the tree lacks although they stand: work that it goes on from had deleted them, so
        they were taken for untracked or ignored ones.
        """
        root, changes = self.repository.root, self.changes(opening.tree, tree)
        new = {change.path.casefold() for change in changes if change.kind == "A"}  # it may be one file by another case
        links = {change.path for change in changes if change.is_gitlink and change.kind != "D"}
        deleted = [change.path for change in changes if change.kind == "D" and not change.is_gitlink]
        return [
            path
            for path in deleted
            if _is_file_or_link(root / path)
            and path.casefold() not in new
            and not is_below(path, links)
            and not is_behind_link(root, path)
        ]

    def recapture(self, opening: Opening, tree: str) -> str:
        """The tree as it stands now, when it was captured as `tree` a moment ago and has hardly changed since."""
        if not self._index_is_ours():
            return self.capture(opening)
        listing = self._git("ls-files", "-m", "-d", "-o", "--exclude-standard", "-z").split(b"\0")
        names = (os.fsdecode(name) for name in listing if name)
        same = all(within_state(name) or is_below(name, opening.untracked) for name in names)
        return tree if same else self.capture(opening)

    def file_in(self, tree: str, path: str) -> tuple[str, bytes]:
        """Mode and content of a file of a tree; both empty where the tree has none of that path."""
        entry = self._git("--literal-pathspecs", "ls-tree", "-z", tree, "--", path).decode("utf-8", "surrogateescape")
        mode, kind, name = entry.partition("\t")[0].split() if entry.count("\0") == 1 else ("", "", "")
        return (mode, self._git("cat-file", "blob", name)) if kind == "blob" else ("", b"")

    def with_file(self, tree: str, path: str, mode: str, content: bytes) -> str:
        """The tree, which the own index holds from then on, with another content of a file."""
        name = self._git("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        self._load(tree)
        self._git("update-index", "--cacheinfo", f"{mode},{name},{path}")
        changed = self._git("write-tree").decode().strip()
        self._now_holds(changed)
        return changed

    def changes(self, old_tree: str, new_tree: str) -> tuple[Change, ...]:
        """The paths in which two trees differ, the state folder aside."""
        if old_tree == new_tree:
            return ()
        if self._changes[0] != (old_tree, new_tree):
            self._changes = ((old_tree, new_tree), self._diff(old_tree, new_tree))
        return self._changes[1]

    def restore(self, opening: Opening, tree: str) -> None:
        """Put every path in which the work tree (captured as `tree`) differs from the base back to the base.

        A repository that an attempt made is in no snapshot, and is moved aside: its git folder first, and then what
        is now seen to be neither a person's nor ignored.
        """
        root, mark = self.repository.root, tree[:12]
        aside = self.repository.private / "held" / mark
        inner: frozenset[str] = frozenset()
        changes = self.changes(tree, opening.tree)
        rewritten = self._written_otherwise(opening)
        links = self._links(opening.tree, changes)
        for _ in range(_NESTED):
            leaving = [change.path for change in changes if change.kind in ("D", "T")]
            repositories = {path for path in leaving if take_away(root, path, aside, inner, links)}
            sync_paths(root, leaving)
            if not repositories:
                break
            inner |= repositories
            self._load(opening.commit)
            changes = self.changes(self.capture(opening), opening.tree)
        for path, commit in links.items():
            bring_back(self.repository, path, commit, keep_as=f"refs/ralph/held/{mark}")
        wanted = [change.path for change in changes if change.kind != "D" and change.path not in links]
        self._bring_back(opening, wanted, rewritten)
        self._rules = None
        self._now_holds(opening.commit)

    def _links(self, tree: str, changes: Iterable[Change]) -> dict[str, str]:
        """The submodules of a tree that are among the changes: path -> commit."""
        paths = [change.path for change in changes if change.is_gitlink and change.kind != "D"]
        if not paths:
            return {}
        listing = self._git("--literal-pathspecs", "ls-tree", "-z", tree, "--", *paths).split(b"\0")
        entries = (os.fsdecode(entry).split("\t", 1) for entry in listing if entry.startswith(GITLINK.encode()))
        return {path: described.split()[2] for described, path in entries}

    def _written_otherwise(self, opening: Opening) -> frozenset[str]:
        """Files that were touched since opening, though what git would commit of them is the base's. What a person
        edits meanwhile differs, and is not among them.
        """
        self._load_users(opening.commit)
        touched = self._names("diff-files", "-z", "--name-only", "--ignore-submodules")
        try:
            differ = self._names("diff", "-z", "--name-only", "--ignore-submodules", "--no-ext-diff", "--no-textconv")
        except GitError:  # a filter of the attempt's fails
            return frozenset()
        return frozenset(touched - differ)

    def _bring_back(self, opening: Opening, paths: list[str], rewritten: frozenset[str]) -> None:
        """Write those files of the base, and of the `rewritten` what git calls modified when the attempt's attributes
        are gone.
        """
        root = self.repository.root
        for path in paths:
            clear_way(root, path)
        self._load_users(opening.commit)
        hidden = self._hidden()
        for path in hidden.intersection(paths):
            remove_empty((root / path).parent, root)
        self._check_out([path for path in paths if path not in hidden])
        if rewritten:
            with suppress(GitError):  # it fails where something differs
                self._git("update-index", "-q", "--refresh", "--ignore-submodules")
            self._check_out(sorted(rewritten & self._names("diff-files", "-z", "--name-only", "--ignore-submodules")))

    def _names(self, *listing: str) -> set[str]:
        """The paths outside the state folder that a command lists."""
        names = (os.fsdecode(name) for name in self._git(*listing).split(b"\0") if name)
        return {name for name in names if not within_state(name)}

    def _load_users(self, commit: str) -> None:
        """Make the own index that of a commit, with what the user's knows of the files as they were at opening."""
        self._index_digest = b""
        self._load(commit)

    def _check_out(self, paths: list[str]) -> None:
        if paths:
            self._git("checkout-index", "-f", "-u", "-q", "-z", "--stdin", stdin=os.fsencode("\0".join(paths)))
            sync_paths(self.repository.root, paths)

    def _hidden(self) -> set[str]:
        """The paths that a sparse checkout leaves out."""
        if not self._is_sparse():
            return set()
        listing = self._git("ls-files", "-t", "-z").split(b"\0")
        return {os.fsdecode(entry[2:]) for entry in listing if entry.startswith(b"S ")}

    def _is_sparse(self) -> bool:
        return (self.repository.git_folder / "info" / "sparse-checkout").is_file()

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
        temporary = self.index.with_name(f"{self.index.name}.lock")
        shutil.copy2(index, temporary)
        temporary.replace(self.index)
        self._now_holds(commit)

    def _diff(self, old_tree: str, new_tree: str) -> tuple[Change, ...]:
        fields = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", old_tree, new_tree).split(b"\0")
        found = []
        for description, path in zip(fields[::2], fields[1::2], strict=False):
            old_mode, new_mode, _, _, kind = description.decode().lstrip(":").split()
            name = os.fsdecode(path)
            if not within_state(name):
                found.append(Change(name, kind[0], GITLINK in (old_mode, new_mode)))  # type: ignore[arg-type]  # git's letters
        return tuple(found)

    def _load(self, content: str) -> None:
        """Make the own index that of a commit or tree, keeping what is known of unchanged files, and the flags of a
        person: in a sparse checkout what is not there is not deleted.
        """
        if self._index_holds == content and self._index_is_ours():
            return
        if not self._index_is_ours():
            self.index.parent.mkdir(parents=True, exist_ok=True)
            if self._users_index.is_file():
                shutil.copy2(self._users_index, self.index)
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
        paths = [path for path in sorted(untracked) if not is_behind_link(root, path)]
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
        self._git("add", *self._sparse(), "-A", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=paths)

    def _add_by_rules(self, opening: Opening, rules: dict[str, bytes]) -> None:
        """Stage what changed, ignoring by those rules instead of the ones in the tree."""
        wanted = self._new_paths(opening, rules)
        if wanted:  # first: of a repository around tracked files git sees no others once these are gone
            names = b"\0".join(b":(top,literal)" + name for name in wanted)
            add = ("add", *self._sparse(), "-f", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git(*add, stdin=names)
        without = [] if self._state_is_ignored else [f":(top,exclude,literal){STATE_FOLDER}"]
        self._git("add", *self._sparse(), "-u", "--", ":/", *without)

    def _add_each(self, opening: Opening) -> None:
        """Stage what changed although `git add` fails at something in it."""
        changed = self._git("diff-files", "-z", "--name-only", "--ignore-submodules=dirty").split(b"\0")
        names = [os.fsdecode(name) for name in (*changed, *self._new_paths(opening, opening.ignore_files)) if name]
        staging = Staging(self.repository, self.index, opening.commit)
        staging.stage([name for name in names if not within_state(name) and not is_below(name, opening.untracked)])

    def _new_paths(self, opening: Opening, rules: dict[str, bytes]) -> list[bytes]:
        """What is neither tracked, nor ignored by those rules, nor was there at opening."""
        listing = self._git("ls-files", "-o", "-z").split(b"\0")
        others = [name for name in listing if name and not is_below(os.fsdecode(name), opening.untracked)]
        ignored = ignored_by(self.repository, rules, others)
        return [name.rstrip(b"/") for name in others if name not in ignored and not within_state(os.fsdecode(name))]

    def _sparse(self) -> tuple[str, ...]:
        return ("--sparse",) if self._is_sparse() else ()

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.repository.git.raw(*arguments, stdin=stdin, index=self.index)


def _is_file_or_link(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""
