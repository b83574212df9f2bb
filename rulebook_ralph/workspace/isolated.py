"""A checkout of a repository in a folder of its own: exactly a tree, whatever was done to it, and a git folder with it.

It shares the repository's objects. Nothing that lies in its folder is believed: what stands there is known by marks in
memory, and git works on it with the repository's own git folder and an index whose digest is remembered.
"""

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.workspace.clearing import is_below
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.ignore_rules import ignored_by
from rulebook_ralph.workspace.isolated_clone import EMPTY_FOLDERS, clone_of
from rulebook_ralph.workspace.isolated_files import (
    Found,
    Mark,
    digest,
    files_below,
    folders_of,
    look,
    mark,
    remove_whole,
    wait_for_another_time,
)
from rulebook_ralph.workspace.isolated_given import Given
from rulebook_ralph.workspace.isolated_place import Place, take_down
from rulebook_ralph.workspace.isolated_tree import Entries, changed_paths, read_tree, write_files
from rulebook_ralph.workspace.isolated_workspace import index_in, workspace_in
from rulebook_ralph.workspace.repository import Repository, within_state
from rulebook_ralph.workspace.snapshot import Opening, Workspace

_GIT = ".git"
_FOLDERS_OF_GIT = frozenset(f"{_GIT}/{name}" for name in EMPTY_FOLDERS)


class Isolated:
    """One checkout. Its methods raise GitError and OSError, `hold` and `tidy` SpoiltError too."""

    def __init__(self, repository: Repository, place: Place, given: Given) -> None:
        self.workspace = workspace_in(place, repository)
        """The checkout as git works on it, with an index in the place; `ready` gives it what is known of the files."""
        self.root = self.workspace.repository.root
        self.tree = ""
        self.lost_prepared = False
        """Whether what `keep_as_prepared` took in was changed, and all of it removed for that."""
        self._repository = repository
        self._place = place
        self._given = given
        self._base = ""
        self._index = index_in(place)
        self._digest = b""
        self._knows_files = True
        self._entries: Entries = {}
        self._prepared: set[str] = set()
        self._marks: dict[str, Mark] = {}
        self._folders: set[str] = set()
        self.root.mkdir(parents=True)
        self._identity = _identity(self.root)
        self._git = self.workspace.repository.git

    @property
    def name(self) -> str:
        """By which the place is found again (`take_over`)."""
        return self._place.folder.name

    def objects(self, wanted: Callable[[str], bool]) -> frozenset[tuple[str, str]]:
        """The files of the tree whose name, without folders, is `wanted`: the path and the object of each."""
        return frozenset((path, entry[1]) for path, entry in self._entries.items() if wanted(path.rpartition("/")[2]))

    def hold(self, tree: str, base: str) -> None:
        """Make the work tree exactly that tree, with what was given and prepared, and HEAD the commit `base`.

        Written is what differs. Where something that was prepared is not as it was, all of that is removed.
        """
        found = self._look()
        old, new = self._entries, self._entries_of(tree)
        wrong = found.spoilt | changed_paths(old, new)
        inner = folders_of(found.spoilt)
        wrong.update(path for path in inner if path in old)  # a submodule
        self._entries, self.tree = new, tree
        self._remove(path for path in found.extra if not _is_of_git(path))
        self._remove(sorted(wrong & old.keys()))
        self._put_right(found.spoilt)
        self._write(sorted(wrong & new.keys()))
        self._give()
        if wrong or base != self._base or any(map(_is_of_git, found.extra)):
            self._base = base
            self._make_git_folder()

    def ready(self) -> Workspace:
        """The workspace, before an agent works: of files that stand as `hold` wrote them git need not read any again.

        What is given and prepared is untracked in it, or ignored.
        """
        self._require_index()
        is_of_base = self.workspace.tree_of(self._base) == self.tree
        self.workspace.take_index(self._index, self._base if is_of_base else self.tree)
        return self.workspace

    def renew_git_folder(self) -> None:
        """Make the git folder as `hold` made it, unless nobody has touched it; the files stay as they are."""
        found = self._look()
        if any(map(_is_of_git, (*found.extra, *found.spoilt))):
            self._make_git_folder()

    def touched(self) -> set[str]:
        """The files of the tree that were written to, whatever they hold by now."""
        return self._look().spoilt & self._entries.keys()

    def tidy(self, opening: Opening) -> bool:
        """Between two commands on one tree: take away and put right what is no part of what `capture` gives, the given,
        the prepared and the git folder included. What git would hold stays as it is now: with any of it, False.
        """
        found = self._look()
        extra = [path for path in found.extra if not _is_of_git(path)]
        new = self._capturable(extra, opening)
        for path in extra:
            below = list(files_below(self.root, path))
            self._remove([path] if new.isdisjoint(below) else [each for each in below if each not in new])
        changed = found.spoilt & self._entries.keys()
        never_captured = sorted(path for path in changed if _is_left_out(path, opening))
        self._remove(never_captured)
        self._put_right(found.spoilt)
        self._write(never_captured)
        self._give()
        if any(map(_is_of_git, (*found.extra, *found.spoilt))):
            self._make_git_folder()
        return not new and len(changed) == len(never_captured)

    def keep_as_prepared(self) -> None:
        """What stands there beside all that is known was made by a setup: it stays from now on, in any tree."""
        extra = [path for path in self._look().extra if not _is_of_git(path)]
        self._prepared |= {each for path in extra for each in files_below(self.root, path)}
        self._mark(self._prepared)
        self.lost_prepared = False
        wait_for_another_time()

    def drop_prepared(self) -> None:
        """Remove it."""
        self._remove(sorted(self._prepared))
        self._prepared.clear()

    def capture(self, opening: Opening) -> str:
        """The tree that stands there now: the one that is held, with what was changed since; by the rules of `opening`
        (of the repository's own work tree), without what is untracked there.
        """
        found = self._look()
        extra = [path for path in found.extra if not _is_of_git(path)]
        self._require_index()
        if found.spoilt.isdisjoint(self._entries) and not self._capturable(extra, opening):
            return self.tree
        self.workspace.take_index(self._index, self.tree)
        untracked = opening.untracked | frozenset(self._given.paths) | self._prepared
        return self.workspace.capture(replace(opening, untracked=untracked))

    def remove(self) -> None:
        """Remove the checkout; what cannot go now goes when the next one is made."""
        self._place.give_up()

    def leave(self) -> None:
        """Let the checkout stand for another run to take over."""
        self._place.leave()

    # Parts of it

    def _look(self) -> Found:
        *identity, mode = _identity(self.root)
        if identity != [*self._identity[:2]]:
            raise OSError(f"{self.root} was replaced by something else")
        if mode != self._identity[2]:
            self.root.chmod(self._identity[2])
        self._folders = folders_of(self._marks) | _FOLDERS_OF_GIT
        found = look(self.root, self._marks, self._folders)
        for path in found.closed:
            (self.root / path).chmod(self._identity[2])
        return found

    def _entries_of(self, tree: str) -> Entries:
        if tree == self.tree:
            return self._entries
        self._drop_foreign_index()
        entries = read_tree(self._git, tree, self._index, self._given.hidden)
        self._digest = digest(self._index)
        return entries

    def _drop_foreign_index(self) -> bool:
        """Remove the index, if anybody else has written to it; whether it was so."""
        if digest(self._index) == self._digest:
            return False
        take_down(self._index)
        self._knows_files = False
        return True

    def _require_index(self) -> None:
        """Have an index of the tree that knows the files as they are."""
        if self._drop_foreign_index():
            read_tree(self._git, self.tree, self._index, self._given.hidden)
        if not self._knows_files:
            with suppress(GitError):  # where something differs
                self._git.raw("update-index", "-q", "--refresh", index=self._index)
            self._knows_files = True
        self._digest = digest(self._index)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            remove_whole(self.root, path)
            self._marks.pop(path, None)
            if path in self._folders:
                self._marks = {each: known for each, known in self._marks.items() if not each.startswith(f"{path}/")}

    def _put_right(self, spoilt: set[str]) -> None:
        """Take away what was given and is not as it was, and all that was prepared where any of it is not."""
        in_the_way = self._in_the_way((*self._given.paths, *self._prepared))
        self._remove(path for path in self._given.paths if path in spoilt or path in in_the_way)
        if not self._prepared.isdisjoint(spoilt | in_the_way):
            self.drop_prepared()
            self.lost_prepared = True

    def _write(self, paths: list[str]) -> None:
        if not paths:
            return
        if self._drop_foreign_index():
            read_tree(self._git, self.tree, self._index, self._given.hidden)
        self._mark(write_files(self._git, self._repository, self._entries, paths, self._index))
        self._digest = digest(self._index)

    def _give(self) -> None:
        """Put there what is given and is not there, unless the tree has something in its place."""
        wanted = [path for path in self._given.paths if path not in self._marks]
        in_the_way = self._in_the_way(wanted)
        for path in wanted:
            if path not in in_the_way and self._given.put(self.root, path):
                self._mark([path])
        if wanted:
            wait_for_another_time()

    def _in_the_way(self, paths: Collection[str]) -> set[str]:
        """Those of the paths where the tree has something: there, below, or above."""
        taken = (self._entries.keys() | folders_of(self._entries)) if paths else set()
        return {path for path in paths if path in taken or not folders_of([path]).isdisjoint(self._entries)}

    def _make_git_folder(self) -> None:
        clone = clone_of(self._repository, self._base, hidden=(*self._given.named, *self._given.links))
        self._require_index()
        clone.write(self.root, self._index)
        self._marks = {path: known for path, known in self._marks.items() if not _is_of_git(path)}
        self._mark(files_below(self.root, _GIT))
        wait_for_another_time()

    def _mark(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._marks[path] = mark(f"{self.root}/{path}")

    def _capturable(self, extra: Iterable[str], opening: Opening) -> set[str]:
        """The files among those paths, and below them, that git would hold."""
        below = [each for path in extra for each in files_below(self.root, path)]
        files = [path for path in below if not _is_left_out(path, opening)]
        ignored = ignored_by(self.workspace.repository, opening.ignore_files, [os.fsencode(path) for path in files])
        return {path for path in files if os.fsencode(path) not in ignored}


def make(repository: Repository, place: Place, *, given: Given | None = None) -> Isolated:
    """An empty checkout in that place; `given` is what it gets besides. Raises OSError."""
    return Isolated(repository, place, given or Given(repository.root))


def _is_left_out(path: str, opening: Opening) -> bool:
    """Whether a path is never part of a captured tree: the state's, or of a file that is untracked in the user's."""
    return within_state(path) or is_below(path, opening.untracked)


def _is_of_git(path: str) -> bool:
    return path == _GIT or path.startswith(f"{_GIT}/")


def _identity(root: Path) -> tuple[int, int, int]:
    status = root.lstat()
    return status.st_dev, status.st_ino, status.st_mode
