"""An attempt's snapshot brought back for a person: into the work tree, onto a branch, or into a folder of its own.

What the attempt changed is told from its base, and each file of it is brought back whole: where the branch has another
version of it since, nothing is. The state folder is no part of any of this.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.workspace.commits import commit_tree
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository, within_state
from rulebook_ralph.workspace.snapshot import Workspace

GITLINK = "160000"
_LINK = "120000"
_EXECUTABLE = "100755"


@dataclass(frozen=True, slots=True)
class Version:
    """A path in a tree: git's mode, and the name of its object."""

    mode: str
    name: str


Changes = Mapping[str, tuple[Version | None, Version | None]]
"""Path -> what it was and what it became; None where there is none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A snapshot of which every object is there: its commit, the commit it was made from, and what differs."""

    commit: str
    base: str
    changes: Changes

    @property
    def repositories(self) -> tuple[str, ...]:
        """Repositories and submodules among it, of which git keeps no content."""
        return tuple(path for path, (_, after) in self.changes.items() if after and after.mode == GITLINK)


def snapshots_of(repository: Repository, project: str, number: int) -> dict[str, str]:
    """The snapshots with that number: task id -> commit."""
    pattern = f"refs/ralph/{project}/tasks/*/{number}"
    listing = repository.git.text("for-each-ref", "--format=%(objectname) %(refname)", pattern)
    pairs = (line.split(" ", 1) for line in listing.splitlines())
    return {name.split("/")[-2]: commit for commit, name in pairs}


def read_attempt(repository: Repository, commit: str) -> Attempt | None:
    """The attempt of a snapshot; None where the snapshot, or an object of it, is not in the repository."""
    if repository.commit_of(commit) is None:
        return None
    base = repository.commit_of(f"{commit}^1")
    if base is None:
        return None
    try:
        changes = differences(repository, repository.tree_of(base), repository.tree_of(commit))
    except GitError:
        return None
    wanted = {after.name for _, after in changes.values() if after and after.mode != GITLINK}
    return Attempt(commit, base, changes) if _are_there(repository, wanted) else None


def differences(repository: Repository, old_tree: str, new_tree: str) -> Changes:
    """What differs between two trees, the state folder aside. Raises GitError."""
    listing = repository.git.raw("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old_tree, new_tree)
    fields = listing.split(b"\0")
    found = {}
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, old_name, new_name, _ = description.decode().lstrip(":").split()
        if not within_state(name := os.fsdecode(path)):
            found[name] = (_version(old_mode, old_name), _version(new_mode, new_name))
    return found


def upon_head(repository: Repository, attempt: Attempt) -> str:
    """The tree of HEAD with what the attempt changed in it. Raises RalphError where HEAD has other versions since."""
    moved = differences(repository, repository.tree_of(attempt.base), repository.tree_of("HEAD"))
    conflicts, wanted = [], {}
    for path, (before, after) in attempt.changes.items():
        here = moved[path][1] if path in moved else before
        if here != after and after is not None and after.mode == GITLINK:
            continue
        if here not in (before, after):
            conflicts.append(path)
        elif here != after:
            wanted[path] = after
    if not conflicts:
        with suppress(GitError):  # a folder stands where a file must be, or the other way round
            return _tree_with(repository, "HEAD", wanted)
        conflicts = sorted(wanted)
    raise RalphError(
        f"the branch has other versions of {some(conflicts)} since; bring the attempt back beside it with "
        "--branch NAME or --to FOLDER"
    )


def in_the_way(repository: Repository, standing_tree: str, wanted_tree: str, modified: Collection[str]) -> list[str]:
    """The paths of a person's own that would be lost if `standing_tree` became `wanted_tree` in the work tree.

    `modified` are tracked paths that differ from `standing_tree`. What has its new form already is in nobody's way.
    """
    changes = differences(repository, standing_tree, wanted_tree)
    leaving = {path for path, (_, after) in changes.items() if after is None}
    flagged = _not_looked_at(repository) & changes.keys()
    found = [path for path in modified if path not in changes]
    for path, (before, after) in changes.items():
        if path in flagged:
            found.append(path)
        elif (path in modified or before is None) and not _stands(repository, path, after):
            found += _strangers(repository.root, path, leaving)
        elif after is not None:
            found += _strangers_above(repository.root, path, leaving)
    return list(dict.fromkeys(found))


def place(workspace: Workspace, standing_tree: str, wanted_tree: str) -> None:
    """Make a work tree that stands as one tree stand as the other; the user's index is left alone."""
    opening = workspace.open()
    workspace.restore(replace(opening, commit=wanted_tree, tree=wanted_tree), standing_tree)


def make_branch(repository: Repository, attempt: Attempt, branch: str, message: str, *, sign: bool) -> str:
    """A new branch with one commit of the attempt on its base; returns the commit. Raises RalphError."""
    reference = f"refs/heads/{branch}"
    valid = repository.git.succeeds("check-ref-format", reference)
    if branch.startswith("-") or branch == "HEAD" or not valid:
        raise RalphError(f"'{branch}' is no valid branch name")
    if repository.git.succeeds("show-ref", "--verify", "-q", reference):
        raise RalphError(f"there is a branch {branch} already; choose another name")
    wanted = {path: after for path, (_, after) in attempt.changes.items()}
    try:
        tree = _tree_with(repository, attempt.base, wanted)
        commit = commit_tree(repository, tree, attempt.base, message, sign=sign)
        repository.git.raw("update-ref", "-m", "ralph restore", reference, commit, "0" * len(commit))
    except GitError as error:
        raise RalphError(f"cannot make branch {branch}: {' '.join(error.stderr.split())[:300]}") from error
    return commit


def write_to(repository: Repository, attempt: Attempt, folder: Path) -> None:
    """Write the attempt's whole tree into a new or empty folder outside of the repository. Raises RalphError."""
    _require_free(repository, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _index(repository) as index:
            repository.git.raw("read-tree", attempt.commit, index=index)
            state = f":(top,literal){STATE_FOLDER}"
            repository.git.raw("rm", "-r", "-f", "-q", "--cached", "--ignore-unmatch", "--", state, index=index)
            repository.git.raw("checkout-index", "-a", "-q", index=index, work_tree=folder)
    except OSError as error:
        raise RalphError(f"cannot write to {folder}: {error.strerror}") from error
    except GitError as error:
        raise RalphError(f"not all could be written to {folder}: {' '.join(error.stderr.split())[:300]}") from error


# Parts


def _version(mode: str, name: str) -> Version | None:
    return None if set(mode) == {"0"} else Version(mode, name)


def _are_there(repository: Repository, names: Collection[str]) -> bool:
    asked = "".join(f"{name}\n" for name in names).encode()
    answers = repository.git.text("cat-file", "--batch-check=%(objectname)", stdin=asked) if names else ""
    return not any(answer.endswith(" missing") for answer in answers.splitlines())


@contextmanager
def _index(repository: Repository) -> Iterator[Path]:
    index = repository.private / f"restore-index-{os.getpid()}"
    index.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield index
    finally:
        index.unlink(missing_ok=True)


def _tree_with(repository: Repository, start: str, wanted: Mapping[str, Version | None]) -> str:
    """The tree of a commit with other versions of some paths. Raises GitError where they cannot stand together."""
    nothing = "0" * len(repository.head())
    gone = [f"0 {nothing}\t{path}\0" for path, after in wanted.items() if after is None]
    there = [f"{after.mode} {after.name}\t{path}\0" for path, after in wanted.items() if after is not None]
    with _index(repository) as index:
        repository.git.raw("read-tree", start, index=index)
        orders = os.fsencode("".join([*gone, *there]))  # a file may have become a folder
        repository.git.raw("update-index", "-z", "--index-info", stdin=orders, index=index)
        return repository.git.raw("write-tree", index=index).decode().strip()


def _not_looked_at(repository: Repository) -> set[str]:
    """Tracked paths that the user told git not to look at, as in a sparse checkout."""
    flagged = repository.git.raw("ls-files", "-v", "-z").split(b"\0")
    return {os.fsdecode(entry[2:]) for entry in flagged if entry[:1] == b"S" or entry[:1].islower()}


def _stands(repository: Repository, path: str, version: Version | None) -> bool:
    """Whether the work tree has just that version of a path."""
    target = repository.root / path
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return version is None
    if version is None:  # as a file it is gone, and what the folder holds stands under its own path
        return stat.S_ISDIR(mode) and not (target / ".git").exists()
    if version.mode == GITLINK:
        return False
    if stat.S_ISLNK(mode):
        content = os.fsencode(target.readlink())
        return version.mode == _LINK and _hash(repository, ("--stdin",), content) == version.name
    if not stat.S_ISREG(mode) or version.mode == _LINK:
        return False
    executable = bool(mode & stat.S_IXUSR)
    return executable == (version.mode == _EXECUTABLE) and _hash(repository, ("--", path)) == version.name


def _hash(repository: Repository, arguments: Sequence[str], content: bytes = b"") -> str:
    try:
        return repository.git.raw("hash-object", *arguments, stdin=content).decode().strip()
    except GitError:  # it cannot be read
        return ""


def _strangers(root: Path, path: str, leaving: Collection[str]) -> Iterator[str]:
    """What stands at a path, or in its way, and is not going to leave."""
    target = root / path
    if target.is_dir() and not target.is_symlink():
        for folder, folders, names in os.walk(target):
            below = [*names, *(name for name in folders if (Path(folder) / name).is_symlink())]
            inside = (str((Path(folder) / name).relative_to(root)) for name in below)
            yield from (name for name in inside if name not in leaving)
    elif os.path.lexists(target):
        yield path
    yield from _strangers_above(root, path, leaving)


def _strangers_above(root: Path, path: str, leaving: Collection[str]) -> Iterator[str]:
    for above in Path(path).parents:
        standing = root / above
        if (standing.is_symlink() or standing.is_file()) and str(above) not in leaving:
            yield str(above)


def _require_free(repository: Repository, folder: Path) -> None:
    """Raises RalphError unless the folder is new or empty, no link, and of no work tree of Ralph's."""
    if folder.is_symlink():
        raise RalphError(f"{folder} is a symbolic link; name the folder itself")
    real = folder.resolve()
    for place_of_git in (repository.root, repository.git_folder, repository.common_folder):
        if real.is_relative_to(place_of_git.resolve()):
            raise RalphError(f"{folder} lies within the repository; name a folder outside of {repository.root}")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RalphError(f"{folder} is there already and not an empty folder; name a new one")
    except OSError as error:
        raise RalphError(f"cannot look into {folder}: {error.strerror}") from error
