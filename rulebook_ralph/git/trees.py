"""Trees: what differs between them, and trees made of others without a work tree and without anybody's index."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rulebook_ralph.git.git_folder import read_rules
from rulebook_ralph.git.objects import FOLDER, GITLINK, Entry, NewObjects, Objects
from rulebook_ralph.git.repository import GitError, Repository

_CONFLICTS = 1
_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
_NOBODY = "ralph <ralph>"
_PLAIN, _EXECUTABLE = "100644", "100755"


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs between two trees; None stands for no file."""

    path: str
    before: Entry | None
    after: Entry | None

    @property
    def status(self) -> Literal["A", "M", "D"]:
        return "M" if self.before and self.after else "A" if self.after else "D"

    @property
    def is_gitlink(self) -> bool:
        """Whether it is a submodule, before or after."""
        return any(each is not None and each.mode == GITLINK for each in (self.before, self.after))


def changes(repository: Repository, old_tree: str, new_tree: str) -> tuple[Change, ...]:
    """The paths in which two trees or commits differ, the state folder's included. Raises GitError."""
    tree, found = repository.objects.tree, []
    left = [("", repository.tree_of(old_tree), repository.tree_of(new_tree))]
    while left:
        above, old_oid, new_oid = left.pop()
        if old_oid == new_oid:
            continue
        old, new = tree(old_oid) if old_oid else {}, tree(new_oid) if new_oid else {}
        for name in old.keys() | new.keys():
            before, after = old.get(name), new.get(name)
            if before == after:
                continue
            path = above + name
            old_folder, before = (before.oid, None) if before and before.mode == FOLDER else ("", before)
            new_folder, after = (after.oid, None) if after and after.mode == FOLDER else ("", after)
            left.append((f"{path}/", old_folder, new_folder))
            if before or after:
                found.append(Change(path, before, after))
    return tuple(sorted(found, key=lambda each: os.fsencode(each.path)))


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder that leads to one of the paths."""
    folders: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


# Trees made of others


def with_entries(repository: Repository, tree: str, entries: Iterable[tuple[str, Entry | None]]) -> str:
    """The tree with those entries at their paths, None for none, in place of whatever is there."""
    new = repository.objects.new()
    made = tree_with(repository.objects, repository.tree_of(tree), entries, new)
    repository.objects.write(new)
    return made


def tree_with(objects: Objects, tree: str | None, entries: Iterable[tuple[str, Entry | None]], new: NewObjects) -> str:
    """The same of `tree`, or of an empty one, as `new` objects that are not written yet."""
    wanted = dict(sorted(entries, key=lambda pair: pair[1] is not None))  # first what goes
    folders = {"": dict(objects.tree(tree)) if tree else {}}
    opened = sorted(folders_of(wanted), key=lambda folder: folder.count("/"))
    for folder in opened:  # not by recursion, as there may be a thousand within each other
        above, _, name = folder.rpartition("/")
        there = folders[above].get(name)
        folders[folder] = dict(objects.tree(there.oid)) if there and there.mode == FOLDER else {}
    for path, entry in wanted.items():
        above, _, name = path.rpartition("/")
        if entry:
            folders[above][name] = entry
        else:
            folders[above].pop(name, None)
    for folder in (each for each in reversed(opened) if not wanted.get(each)):
        above, _, name = folder.rpartition("/")
        if folders[folder]:
            folders[above][name] = Entry(FOLDER, new.tree(folders[folder]))
        elif (there := folders[above].get(name)) and there.mode == FOLDER:
            del folders[above][name]
    return new.tree(folders[""])


def mix(repository: Repository, new_tree: str, base_tree: str, from_base: Callable[[str], bool]) -> str:
    """The new tree, but exactly the base's files at the paths for which `from_base` says so. Raises GitError."""
    found = changes(repository, base_tree, new_tree)
    return with_entries(repository, new_tree, ((each.path, each.before) for each in found if from_base(each.path)))


def without(repository: Repository, tree: str, unwanted: Callable[[str], bool]) -> str:
    """The tree without the files for whose paths `unwanted` says so. Raises GitError."""
    return with_entries(repository, tree, ((path, None) for path in repository.entries(tree) if unwanted(path)))


def emptied(repository: Repository, tree: str, wanted: Callable[[str], bool]) -> str:
    """The tree with the files for whose paths `wanted` says so as empty files. Submodules stay. Raises GitError."""
    nothing = repository.objects.blob(b"")
    return with_entries(
        repository,
        tree,
        (
            (path, Entry(_EXECUTABLE if entry.mode == _EXECUTABLE else _PLAIN, nothing))
            for path, entry in repository.entries(tree).items()
            if entry.mode != GITLINK and wanted(path)
        ),
    )


@contextmanager
def from_nowhere(repository: Repository) -> Iterator[Repository]:
    """The repository with an empty work tree and no index: git reads attributes from there, so that nothing that was
    left in a tree can call a text binary or name a driver.
    """
    repository.private.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository.private, prefix=f"nothing-{os.getpid()}-") as name:
        nothing = {"GIT_WORK_TREE": name, "GIT_INDEX_FILE": f"{name}/none", "GIT_ATTR_NOSYSTEM": "1"}
        yield replace(repository, root=Path(name), environment={**repository.environment, **nothing})


@dataclass(frozen=True, slots=True)
class Merged:
    """`tree` is None where there are `conflicts` (paths)."""

    tree: str | None
    conflicts: tuple[str, ...] = ()


def merge_trees(repository: Repository, base: str, ours: str, theirs: str) -> Merged:
    """What `theirs` changes of `base`, brought to `ours`; all may be commits or trees. Raises GitError.

    History does not matter: a person may have taken back what the base holds, and it must not come again. Attributes
    are those of `ours`, so that what `theirs` brings names no merge driver.
    """
    trees = [repository.tree_of(each) for each in (base, ours, theirs)]
    if trees[0] == trees[1] or trees[0] == trees[2] or trees[1] == trees[2]:
        return Merged(trees[1] if trees[0] == trees[2] else trees[2])
    new = repository.objects.new()
    start = new.commit(trees[0], (), "base", who=_NOBODY, seconds=0)
    sides = [new.commit(each, (start,), "side", who=_NOBODY, seconds=0) for each in trees[1:]]
    repository.objects.write(new)
    with from_nowhere(repository) as asked:
        attributes = asked.root / "attributes"
        attributes.write_bytes(read_rules(repository, trees[1], ".gitattributes"))
        settings = ("-c", f"core.attributesFile={attributes}", "-c", "merge.directoryRenames=conflict")
        try:
            return Merged(os.fsdecode(asked.run(*settings, *_MERGE, *sides)).partition("\0")[0])
        except GitError as error:
            if error.code != _CONFLICTS:
                raise
            return Merged(None, tuple(dict.fromkeys(filter(None, os.fsdecode(error.output).split("\0")[1:]))))
