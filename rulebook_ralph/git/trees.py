"""Trees made of other trees, without a work tree and without touching anybody's index."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from rulebook_ralph.git.diff import GITLINK, changes, from_nowhere
from rulebook_ralph.git.git_folder import read_rules
from rulebook_ralph.git.repository import OPTIONS, GitError, Repository

_CONFLICTS = 1
_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages")
_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ralph"), ("EMAIL", "ralph"), ("DATE", "@0 +0000"))
}
"""Who makes the commits that are merged, which nothing names afterwards."""
_MOST_MESSAGES, _LONGEST_MESSAGE = 20, 300
_PLAIN, _EXECUTABLE = "100644", "100755"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class Merged:
    """`tree` is None where there are `conflicts` (paths); `messages` are git's words about these, the first of many."""

    tree: str | None
    conflicts: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


def entries_of(repository: Repository, tree: str) -> dict[str, Entry]:
    """Every file of a tree, by path. Raises GitError."""
    found = {}
    for line in os.fsdecode(repository.run("ls-tree", "-r", "-z", "--full-tree", tree)).split("\0"):
        head, _, path = line.partition("\t")
        if path:
            mode, _, oid = head.split(" ")
            found[path] = Entry(mode, oid)
    return found


def with_entries(repository: Repository, tree: str, entries: Iterable[tuple[str, Entry | None]]) -> str:
    """The tree with those files; None stands for a file that is not to be there. Raises GitError."""
    pairs = sorted(entries, key=lambda pair: pair[1] is not None)  # first what goes: a file may become a folder
    if not pairs:
        return tree
    orders = (
        f"{entry.mode if entry else 0} {entry.oid if entry else '0' * len(tree)}\t{path}\0" for path, entry in pairs
    )
    with _index(repository) as index:
        repository.run("read-tree", tree, index=index)
        told = b"".join(map(os.fsencode, orders))
        repository.run("update-index", "--add", "--replace", "-z", "--index-info", stdin=told, index=index)
        return repository.text("write-tree", index=index)


def mix(repository: Repository, new_tree: str, base_tree: str, from_base: Callable[[str], bool]) -> str:
    """The new tree, but exactly the base's files at the paths for which `from_base` says so. Raises GitError."""
    found = changes(repository, base_tree, new_tree)
    wanted = [change for change in found if from_base(change.path)]
    pairs = ((each.path, None if each.status == "A" else Entry(each.old_mode, each.old_oid)) for each in wanted)
    return with_entries(repository, new_tree, pairs)


def without(repository: Repository, tree: str, unwanted: Callable[[str], bool]) -> str:
    """The tree without the files for whose paths `unwanted` says so. Raises GitError."""
    return with_entries(repository, tree, ((path, None) for path in entries_of(repository, tree) if unwanted(path)))


def emptied(repository: Repository, tree: str, wanted: Callable[[str], bool]) -> str:
    """The tree with the files for whose paths `wanted` says so as empty files. Submodules stay. Raises GitError."""
    found = {
        path: entry for path, entry in entries_of(repository, tree).items() if entry.mode != GITLINK and wanted(path)
    }
    if not found:
        return tree
    nothing = repository.text("hash-object", "-w", "--stdin", stdin=b"")
    modes = {path: _EXECUTABLE if entry.mode == _EXECUTABLE else _PLAIN for path, entry in found.items()}
    return with_entries(repository, tree, ((path, Entry(mode, nothing)) for path, mode in modes.items()))


def merge_trees(repository: Repository, base: str, ours: str, theirs: str) -> Merged:
    """What `theirs` changes of `base`, brought to `ours`; all may be commits or trees. Raises GitError.

    History does not matter: a person may have taken back what the base holds, and it must not come again. Attributes
    are those of `ours`, so that what `theirs` brings names no merge driver.
    """
    trees = [repository.tree_of(each) for each in (base, ours, theirs)]
    if trees[0] == trees[1] or trees[0] == trees[2] or trees[1] == trees[2]:
        return Merged(trees[1] if trees[0] == trees[2] else trees[2])
    with from_nowhere(replace(repository, environment={**repository.environment, **_NOBODY})) as asked:
        attributes = asked.root / "attributes"
        attributes.write_bytes(read_rules(repository, trees[1], ".gitattributes"))
        start = asked.text("commit-tree", trees[0], "-m", "base")
        sides = [asked.text("commit-tree", each, "-p", start, "-m", "side") for each in trees[1:]]
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


@contextmanager
def _index(repository: Repository) -> Iterator[Path]:
    repository.private.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=repository.private, prefix=f"trees-{os.getpid()}-") as folder:
        yield Path(folder) / "index"
