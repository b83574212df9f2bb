"""The user's work tree and index, brought along when Ralph has moved the branch that is checked out there.

What stands as the old tree has it becomes what the new one has; what a person changed stays theirs, merged where that
is clean. Each file and the index are replaced as a whole, so that a crash anywhere is mended by doing it again; of a
merge alone it cannot be seen that it was done (edit_merging.py).
"""

import errno
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.workspace.clearing import is_behind_link, remove_empty
from rulebook_ralph.workspace.edit_merging import EditMerging
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.index_entries import entries_of, index_replaced, update_index
from rulebook_ralph.workspace.isolated_files import folders_of
from rulebook_ralph.workspace.raw_files import contents, put
from rulebook_ralph.workspace.repository import Repository
from rulebook_ralph.workspace.restoring import GITLINK, Changes, Version, differences
from rulebook_ralph.workspace.syncing import sync_paths

_DIFFERING = ("diff", "--name-only", "-z", "--no-renames", "--ignore-submodules", "--no-ext-diff", "--no-textconv")


def bring_along(repository: Repository, old: str, new: str) -> tuple[str, ...]:
    """Make the work tree and the index that stand at `old` (a commit or tree) stand at `new`, the state folder aside.

    Returns the paths that are left as a person has them, though `new` has them otherwise. Called again with the same
    arguments it does what is left to do. Raises GitError, also where a person's git holds the index; OSError.
    """
    changes = differences(repository, old, new)
    if not changes:
        return ()
    folder = _folder_for_a_moment(repository)
    standing = _look(repository, old, new, folder)
    merging = EditMerging(repository, folder, f"{old}-{new}")
    left = _bring_files(_Files(repository, changes, standing, folder), merging)
    left |= _bring_index(repository, changes, standing.hidden, folder / "own-index")
    shutil.rmtree(folder)
    told = (path for path in left if standing.staged.get(path) != changes[path][1])
    return tuple(sorted(told))


def bring_state_along(repository: Repository) -> None:
    """Make the index hold the state folder as HEAD has it, and leave all else as a person has it. Raises GitError, also
    where a person's git holds the index; OSError.
    """
    folder = _folder_for_a_moment(repository)
    with index_replaced(repository, own := folder / "own-index"):
        repository.git.raw("reset", "-q", "--", f":(top,literal){STATE_FOLDER}", index=own)
    shutil.rmtree(folder)


def _folder_for_a_moment(repository: Repository) -> Path:
    folder = repository.private / "along"  # leftovers.clear_passing knows it
    folder.mkdir(parents=True, exist_ok=True)
    for lock in folder.glob("*.lock"):
        lock.unlink()
    return folder


@dataclass(frozen=True, slots=True)
class _Standing:
    """How the user's tree and index are: `staged` are the index's entries, `flagged` are paths that a person or a
    sparse checkout told git not to look at, `hidden` those that it takes for not checked out.
    """

    staged: Mapping[str, Version]
    flagged: frozenset[str]
    hidden: frozenset[str]
    not_as_old: frozenset[str]
    not_as_new: frozenset[str]


def _look(repository: Repository, old: str, new: str, folder: Path) -> _Standing:
    staged, tags = entries_of(repository, None)
    assumed = [path for path, tag in tags.items() if tag.islower()]
    not_as_old = _differing(repository, old, folder / "old-index", assumed)
    not_as_new = _differing(repository, new, folder / "new-index", assumed)
    if (repository.git_folder / "info" / "sparse-checkout").is_file():
        tags |= _left_out(repository, folder / "new-index", folder / "nothing")
    hidden = frozenset(path for path, tag in tags.items() if tag == "S")
    return _Standing(staged, hidden.union(assumed), hidden, not_as_old, not_as_new)


def _differing(repository: Repository, content: str, index: Path, assumed: list[str]) -> frozenset[str]:
    """The files of a tree that do not stand as it has them. The index is made that of the tree."""
    users = repository.git_folder / "index"
    if users.is_file():
        shutil.copy2(users, index)
    # In a sparse checkout git stumbles over such a flag.
    update_index(repository, index, assumed, "--no-assume-unchanged", "--stdin")
    repository.git.raw("read-tree", "--reset", content, index=index)
    return frozenset(map(os.fsdecode, repository.git.raw(*_DIFFERING, index=index).split(b"\0")))


def _left_out(repository: Repository, index: Path, nothing: Path) -> dict[str, str]:
    """What a sparse checkout leaves out of an index. git marks it as it writes files: into nothing."""
    nothing.mkdir(exist_ok=True)
    repository.git.raw("sparse-checkout", "reapply", index=index, work_tree=nothing)
    return {path: tag for path, tag in entries_of(repository, index)[1].items() if tag == "S"}


# The files


@dataclass(frozen=True, slots=True)
class _Files:
    """What is needed to bring the files along; `folder` holds the indexes of both trees."""

    repository: Repository
    changes: Changes
    standing: _Standing
    folder: Path

    @property
    def root(self) -> Path:
        return self.repository.root


def _bring_files(files: _Files, edits: EditMerging) -> set[str]:
    """Returns the paths that stay as they are, though the new tree has them otherwise."""
    leaving, coming, merging, left = _sorted_out(files)
    for path in leaving:
        (files.root / path).unlink()
        remove_empty((files.root / path).parent, files.root)
    in_the_way = {path for path in coming if _is_in_the_way(files.root, path)}
    coming -= in_the_way
    attributes = {path for path in coming if path.rpartition("/")[2] == ".gitattributes"}
    _write(files, attributes)  # they say how the others are written
    _write(files, coming - attributes)
    sync_paths(files.root, leaving | coming)
    return left | in_the_way | {path for path in sorted(merging) if not edits.merge(path, *files.changes[path])}


def _sorted_out(files: _Files) -> tuple[set[str], set[str], set[str], set[str]]:
    """The paths that leave, are to be written, to be merged and to be left as they are."""
    leaving, coming, merging, left = set[str](), set[str](), set[str](), set[str]()
    for path, (before, after) in files.changes.items():
        there = _is_there(files.root, path)
        if GITLINK in (before and before.mode, after and after.mode):
            left.add(path)
        elif path in files.standing.flagged:
            left.update([path] if there else [])
        elif (path not in files.standing.not_as_new) if after else not there:
            continue
        elif (path not in files.standing.not_as_old) if before else not there:
            (coming if after else leaving).add(path)
        elif there and files.standing.staged.get(path) == before:
            merging.add(path)
        else:
            left.add(path)
    return leaving, coming, merging, left


def _is_there(root: Path, path: str) -> bool:
    """Whether a file or link stands at the path itself, or what may be a repository."""
    target = root / path
    if is_behind_link(root, path) or not os.path.lexists(target):
        return False
    return target.is_symlink() or not target.is_dir() or os.path.lexists(target / ".git")


def _is_in_the_way(root: Path, path: str) -> bool:
    """Whether something that is nobody's of the old tree stands where a file is to be written."""
    target = root / path
    above = [root / parent for parent in Path(path).parents][:-1]
    if any(folder.is_symlink() or (os.path.lexists(folder) and not folder.is_dir()) for folder in above):
        return True
    if target.is_symlink() or not target.is_dir():
        return False
    with suppress(OSError):
        target.rmdir()
    return target.is_dir()


def _write(files: _Files, paths: Collection[str]) -> None:
    """Write files of the new tree, as git writes them: beside the work tree first, so that none stands there torn."""
    if not paths:
        return
    beside = files.folder / "files"
    shutil.rmtree(beside, ignore_errors=True)
    prefix = f"--prefix={beside}/"
    names = os.fsencode("\0".join(sorted(paths)))
    index = files.folder / "new-index"
    files.repository.git.raw("checkout-index", "-f", "-q", "-z", "--stdin", prefix, stdin=names, index=index)
    sync_paths(beside, paths)
    for path in paths:
        target = files.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            (beside / path).replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            put(target, contents([f"{beside}/{path}"])[f"{beside}/{path}"])


# The index


def _bring_index(repository: Repository, changes: Changes, hidden: Collection[str], own: Path) -> set[str]:
    """Entries that are as the old tree has them become the new one's; returns the paths of the others."""
    with index_replaced(repository, own):
        return _enter(repository, changes, hidden, own)


def _enter(repository: Repository, changes: Changes, hidden: Collection[str], index: Path) -> set[str]:
    staged, _ = entries_of(repository, index)
    wanted = {path for path, (before, _) in changes.items() if staged.get(path) == before}
    gone = {path: before for path in wanted if (before := changes[path][0]) and changes[path][1] is None}
    staying = staged.keys() - gone.keys()
    inner = folders_of(staying)
    wanted -= {path for path in wanted if path in inner or not folders_of([path]).isdisjoint(staying)}
    coming = {path: after for path in wanted if (after := changes[path][1]) is not None}
    orders = [f"0 {'0' * len(version.name)}\t{path}" for path, version in gone.items()]
    orders += [f"{version.mode} {version.name}\t{path}" for path, version in coming.items()]
    update_index(repository, index, orders, "--index-info")
    update_index(repository, index, [path for path in coming if path in hidden], "--skip-worktree", "--stdin")
    with suppress(GitError):  # where something differs
        repository.git.raw("update-index", "-q", "--ignore-submodules", "--refresh", index=index)
    return changes.keys() - wanted
