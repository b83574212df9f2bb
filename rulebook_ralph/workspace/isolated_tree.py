"""A tree's files, read from an index and written into a checkout, by git and the repository's own settings."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.workspace.git import Git, GitError
from rulebook_ralph.workspace.isolated_files import files_below
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.staging import GITLINK

Entries = Mapping[str, tuple[str, str]]
"""Path -> mode and object, of what belongs into the work tree: what a sparse checkout leaves out is not among them."""


def read_tree(git: Git, tree: str, index: Path, hidden: frozenset[str]) -> Entries:
    """Make the index that of the tree, keeping what it knows of files that are the same. Raises GitError."""
    git.raw("read-tree", "--reset", tree, index=index)
    listing = git.raw("ls-files", "-s", "-z", index=index).split(b"\0")
    fields = (os.fsdecode(entry).split("\t", 1) for entry in listing if entry)
    entries = {path: (mode, name) for said, path in fields for mode, name, _ in [said.split()]}
    if left_out := sorted(hidden & entries.keys()):
        paths = os.fsencode("\0".join(left_out))
        git.raw("update-index", "--skip-worktree", "-z", "--stdin", stdin=paths, index=index)
    return {path: entry for path, entry in entries.items() if path not in hidden} if left_out else entries


def changed_paths(old: Entries, new: Entries) -> set[str]:
    """The paths in which they differ; all, where files say otherwise how others are written."""
    changed = {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
    if any(path.rpartition("/")[2] == ".gitattributes" for path in changed):
        return set(old) | set(new)
    return changed


def write_files(
    git: Git, repository: Repository, entries: Entries, paths: Sequence[str], index: Path
) -> Collection[str]:
    """Write those paths of the index, where nothing stands; returns the files. Raises GitError, OSError."""
    links = [path for path in paths if entries[path][0] == GITLINK]
    plain = [path for path in paths if entries[path][0] != GITLINK]
    if plain:
        # Attributes of files that are not written yet are read from the index.
        git.raw("checkout-index", "-f", "-u", "-q", "-z", "--stdin", stdin=os.fsencode("\0".join(plain)), index=index)
    inner = [each for path in links for each in _write_submodule(git, repository, path, entries[path][1], index)]
    return [*plain, *inner]


def tree_with(
    repository: Repository, tree: str, other: str, paths: Collection[str], *, without: Collection[str]
) -> str:
    """A tree with those paths as they are in another one, and without some. Raises GitError."""
    git, index, wanted = repository.git, repository.scratch / "mixed-index", set(map(os.fsencode, paths))
    listing = git.raw("ls-tree", "-r", "-z", "--full-tree", other).split(b"\0")
    removed = [b"0 %s\t%s" % (b"0" * len(tree), os.fsencode(path)) for path in without]
    entries = [*removed, *(entry for entry in listing if entry.partition(b"\t")[2] in wanted)]
    try:
        git.raw("read-tree", tree, index=index)
        git.raw("update-index", "--replace", "-z", "--index-info", stdin=b"\0".join([*entries, b""]), index=index)
        return git.text("write-tree", index=index)
    finally:
        index.unlink(missing_ok=True)


def _write_submodule(git: Git, repository: Repository, path: str, commit: str, index: Path) -> Iterable[str]:
    """A submodule's files, as far as its commit is there in the user's tree; else its empty folder. Its own settings
    are not used: an agent may have changed them.
    """
    folder, source = git.root / path, repository.root / path
    folder.mkdir(parents=True, exist_ok=True)
    if not (source / ".git").exists():
        return [path]
    own_index = index.with_name("submodule-index")
    with suppress(GitError):
        objects = source / Git.at(source, repository.git.environment).text("rev-parse", "--git-path", "objects")
        alternate = {"GIT_WORK_TREE": str(folder), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
        inside = replace(git, root=folder, environment={**git.environment, **alternate})
        own_index.unlink(missing_ok=True)
        inside.raw("read-tree", "--no-sparse-checkout", commit, index=own_index)
        inside.raw("checkout-index", "-a", "-f", "-q", index=own_index)
    return list(files_below(git.root, path)) or [path]
