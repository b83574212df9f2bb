"""Trees made of other trees, without a work tree and without touching anybody's index."""

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from rulebook_ralph.git.command import OPTIONS
from rulebook_ralph.git.diff import changes, from_nowhere
from rulebook_ralph.git.git_folder import read_rules
from rulebook_ralph.git.objects import FOLDER, GITLINK, Entry, NewObjects, Objects
from rulebook_ralph.git.repository import GitError, Repository

_CONFLICTS = 1
_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages")
_NOBODY = "ralph <ralph>"
_MOST_MESSAGES, _LONGEST_MESSAGE = 20, 300
_PLAIN, _EXECUTABLE = "100644", "100755"


@dataclass(frozen=True, slots=True)
class Merged:
    """`tree` is None where there are `conflicts` (paths); `messages` are git's words about these, the first of many."""

    tree: str | None
    conflicts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def with_entries(repository: Repository, tree: str, entries: Iterable[tuple[str, Entry | None]]) -> str:
    """The tree with those files; None stands for a file that is not to be there. Raises GitError, RalphError."""
    new = repository.objects.new()
    made = tree_with(repository.objects, repository.tree_of(tree), entries, new)
    repository.objects.write(new)
    return made


def tree_with(objects: Objects, tree: str | None, entries: Iterable[tuple[str, Entry | None]], new: NewObjects) -> str:
    """The same of `tree`, or of an empty one, as `new` objects that are not written yet."""
    draft = _Draft(objects, tree)
    for path, entry in sorted(entries, key=lambda pair: pair[1] is not None):  # first what goes
        if entry is None:
            draft.drop(path)
        else:
            draft.put(path, entry)
    return draft.made(new)


class _Draft:
    """A tree that is being changed: those of its folders in which something changes, by path."""

    def __init__(self, objects: Objects, tree: str | None) -> None:
        self._objects = objects
        self._folders = {"": dict(objects.tree(tree)) if tree else {}}
        self._put: set[str] = set()

    def put(self, path: str, entry: Entry) -> None:
        above, _, name = path.rpartition("/")
        self._opened(above)[name] = entry
        self._put.add(path)

    def drop(self, path: str) -> None:
        """No file stands there; a folder stays, as git has none without files."""
        above, _, name = path.rpartition("/")
        there = self._opened(above)
        if name in there and there[name].mode != FOLDER:
            del there[name]

    def made(self, new: NewObjects) -> str:
        deepest_first = sorted(filter(None, self._folders), key=lambda each: each.count("/"), reverse=True)
        for path in (each for each in deepest_first if each not in self._put):
            above, _, name = path.rpartition("/")
            if self._folders[path]:
                self._folders[above][name] = Entry(FOLDER, new.tree(self._folders[path]))
            elif name in self._folders[above] and self._folders[above][name].mode == FOLDER:
                del self._folders[above][name]
        return new.tree(self._folders[""])

    def _opened(self, path: str) -> dict[str, Entry]:
        """The entries of a folder, in which something will change; not by recursion, as there may be a thousand."""
        missing = []
        while path not in self._folders:
            missing.append(path)
            path = path.rpartition("/")[0]
        for each in reversed(missing):
            above, _, name = each.rpartition("/")
            there = self._folders[above].get(name)
            self._folders[each] = dict(self._objects.tree(there.oid)) if there and there.mode == FOLDER else {}
        return self._folders[missing[0] if missing else path]


def mix(repository: Repository, new_tree: str, base_tree: str, from_base: Callable[[str], bool]) -> str:
    """The new tree, but exactly the base's files at the paths for which `from_base` says so. Raises GitError."""
    found = changes(repository, base_tree, new_tree)
    wanted = [change for change in found if from_base(change.path)]
    pairs = ((each.path, None if each.status == "A" else Entry(each.old_mode, each.old_oid)) for each in wanted)
    return with_entries(repository, new_tree, pairs)


def without(repository: Repository, tree: str, unwanted: Callable[[str], bool]) -> str:
    """The tree without the files for whose paths `unwanted` says so. Raises GitError."""
    return with_entries(repository, tree, ((path, None) for path in repository.entries(tree) if unwanted(path)))


def emptied(repository: Repository, tree: str, wanted: Callable[[str], bool]) -> str:
    """The tree with the files for whose paths `wanted` says so as empty files. Submodules stay. Raises GitError."""
    nothing = repository.objects.blob(b"")
    found = [
        (path, Entry(_EXECUTABLE if entry.mode == _EXECUTABLE else _PLAIN, nothing))
        for path, entry in repository.entries(tree).items()
        if entry.mode != GITLINK and wanted(path)
    ]
    return with_entries(repository, tree, found) if found else tree


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
        command = ("git", *OPTIONS, *settings, *_MERGE, *sides)
        done = subprocess.run(
            command, cwd=asked.root, env=asked.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    if done.returncode not in (0, _CONFLICTS):
        raise GitError(_MERGE, done.returncode, done.stderr.decode("utf-8", "replace"))
    return _read_merge(done.stdout, clean=done.returncode == 0)


def _read_merge(output: bytes, *, clean: bool) -> Merged:
    """The tree, the paths in conflict, an empty field; then of each message the number of its paths, these, its kind
    and its words.
    """
    fields = iter(os.fsdecode(output).split("\0"))
    tree = next(fields)
    if clean:
        return Merged(tree)
    conflicts = tuple(dict.fromkeys(iter(lambda: next(fields, ""), "")))
    messages = []
    while (count := next(fields, "")).isdecimal():
        paths = tuple(islice(fields, int(count)))
        kind, words = next(fields, ""), " ".join(next(fields, "").split())
        if kind.startswith("CONFLICT"):
            conflicts += tuple(path for path in paths[:1] if path not in conflicts)
            messages.append(words[:_LONGEST_MESSAGE])
    return Merged(None, conflicts, tuple(messages[:_MOST_MESSAGES]))
