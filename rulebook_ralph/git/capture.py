"""What stands in a clone as a tree, read with Ralph's own git folder: nothing that an agent arranged decides it.

Ignored is what the base's rules ignore: an agent that edits them drags nothing in. A new file that only new rules name
is left out too, as a build's products are; it is absent then wherever the work is judged.
"""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from rulebook_ralph.git.cache import open_up, take_down
from rulebook_ralph.git.objects import GITLINK, Entry
from rulebook_ralph.git.repository import GitError, Repository, within_state

TIME_LIMIT = 300.0
"""Seconds for a git command over a tree that an agent left."""
_NESTED = 8
_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Captured:
    """The tree; `special` are pipes and the like that were taken away; `notes` say what else is not as it stood."""

    tree: str
    special: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tracked:
    """What is to stand in a clone: files and links, the folders that lead there, and those of submodules."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    submodules: frozenset[str] = frozenset()


_LONGEST_PATH = 3000
"""Characters; systems give up at 4096, and git within its own files before that."""


@dataclass(frozen=True, slots=True)
class UntrackedFiles:
    """What a walk sees: `extra` are the topmost paths that hold nothing tracked, `special` are what no tree can hold:
    pipes and the like, and folders within each other without end.
    """

    extra: tuple[str, ...]
    special: tuple[str, ...]


def capture(own: Repository, prepared: Collection[str]) -> Captured:
    """The tree that stands in the clone, without what is in `prepared`. Raises GitError, OSError."""
    special = walk(own.root, None, prepared).special
    for path in special:
        take_down(own.root / path)
    notes: list[str] = []
    changed, new = _listed(own, prepared)
    for _ in range(_NESTED):
        nested = [path for path in (*changed, *new) if os.path.lexists(own.root / path / ".git")]
        if not nested:
            break
        for path in nested:
            take_down(own.root / path / ".git")
            notes.append(f"{path.rstrip('/')}: a git repository of its own; its files were taken, not its history")
        changed, new = _listed(own, prepared)
    return replace(_staged(own, changed, new, notes), special=special)


def capture_in_place(own: Repository, left_out: Collection[str]) -> Captured:
    """The same of a person's own work tree, without what is `left_out`; nothing there is changed or taken away. Raises
    GitError, OSError.
    """
    changed, new = _listed(own, left_out)
    notes = [f"{path}: a git repository of its own; it is left out" for path in new if path.endswith("/")]
    return _staged(own, changed, new, notes, in_place=True)


def _staged(
    own: Repository, changed: list[str], new: list[str], notes: list[str], *, in_place: bool = False
) -> Captured:
    # In place an earlier capture may have taken in the new rules already, so that they look unchanged.
    if in_place or any(path.rpartition("/")[2] == ".gitignore" for path in (*changed, *new)):
        new = _left_by_new_rules(own, new)
    notes += _Staging(own, in_place=in_place).stage(changed, [path for path in new if not path.endswith("/")])
    return Captured(own.text("write-tree"), (), tuple(notes))


def walk(root: Path, tracked: Tracked | None, prepared: Collection[str]) -> UntrackedFiles:
    """Look through a clone, without git. Without `tracked` nothing is `extra`. Folders that may not be read are opened.
    Raises OSError.
    """
    top = f"{root}/"
    extra, special = [], []
    left = [""]
    while left:
        above = left.pop()
        for entry in _scan(top + above):
            path = above + entry.name
            if path in prepared or path == ".git" or (tracked and path in tracked.submodules):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            is_endless = is_folder and len(top) + len(path) > _LONGEST_PATH
            if is_endless or not (is_folder or entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                special.append(path)
            elif tracked is not None and path not in (tracked.folders if is_folder else tracked.files):
                extra.append(path)
            elif is_folder:
                left.append(f"{path}/")
    return UntrackedFiles(tuple(extra), tuple(special))


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        open_up(Path(folder))
        with os.scandir(folder) as entries:
            return list(entries)


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder that leads to one of the paths."""
    folders: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


def _listed(own: Repository, prepared: Collection[str]) -> tuple[list[str], list[str]]:
    """The tracked paths that changed, and the new ones that the base's rules do not ignore."""
    rules = own.git_dir / "info" / "exclude"
    output = own.run("ls-files", "-t", "-o", "-m", "-z", f"--exclude-from={rules}", timeout=TIME_LIMIT)
    changed: dict[str, None] = {}
    new: dict[str, None] = {}
    for line in os.fsdecode(output).split("\0"):
        path = line[2:]
        if path and not within_state(path) and not is_below(path, prepared):
            (new if line[0] == "?" else changed)[path] = None
    return list(changed), list(new)


def is_below(path: str, folders: Collection[str]) -> bool:
    """Whether the path is one of the folders or lies in one."""
    return bool(folders) and not {path.rstrip("/"), *folders_of([path])}.isdisjoint(folders)


def _left_by_new_rules(own: Repository, new: Sequence[str]) -> list[str]:
    if not new:
        return []
    asked = b"\0".join(b"./" + os.fsencode(path) for path in new)  # a leading ':' would be taken for magic
    try:
        output = own.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked, timeout=TIME_LIMIT)
    except GitError as error:
        if error.code != 1 or error.stderr:
            raise
        return list(new)  # none of them is
    ignored = {os.fsdecode(path).removeprefix("./") for path in output.split(b"\0")}
    return [path for path in new if path not in ignored]


class _Staging:
    """Brings paths into the index. What git refuses as a whole because of one path in it is taken path by path."""

    def __init__(self, own: Repository, *, in_place: bool = False) -> None:
        self._own = own
        self._in_place = in_place
        self._notes: list[str] = []

    def stage(self, changed: Sequence[str], new: Sequence[str]) -> list[str]:
        """Make the index hold these paths as they stand; returns what is to be told."""
        gone = [path for path in changed if not self._is_file(path)]
        if gone:
            names = _stdin(gone)
            self._own.run("update-index", "--force-remove", "-z", "--stdin", stdin=names, timeout=TIME_LIMIT)
        standing = [path for path in (*changed, *new) if path not in set(gone)]
        for path in () if self._in_place else standing:
            status = (self._own.root / path).lstat()
            if stat.S_ISREG(status.st_mode) and not status.st_mode & 0o400:
                (self._own.root / path).chmod(status.st_mode | 0o400)
        self._add(standing)
        return self._notes

    def _is_file(self, path: str) -> bool:
        """Whether a file or a link stands there, and not by way of a link."""
        root = self._own.root
        if any((root / folder).is_symlink() for folder in folders_of([path])):
            return False
        with suppress(OSError):
            mode = (root / path).lstat().st_mode
            return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and self._is_submodule(path))
        return False

    def _is_submodule(self, path: str) -> bool:
        return self._own.text("ls-files", "-s", "--", f":(literal){path}").startswith(GITLINK)

    def _add(self, paths: Sequence[str]) -> None:
        if not paths:
            return
        try:
            order = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            self._own.run(*order, stdin=_stdin(paths), timeout=TIME_LIMIT)
        except GitError as error:
            if error.code < 0:  # it took too long
                raise
        else:
            return
        if len(paths) > 1:
            half = len(paths) // 2
            self._add(paths[:half])
            self._add(paths[half:])
            return
        self._add_unconverted(paths[0])

    def _add_unconverted(self, path: str) -> None:
        """A file whose conversion fails (an encoding, a filter) as it is; what no tree can hold is taken away."""
        try:
            mode = (self._own.root / path).lstat().st_mode
            if stat.S_ISREG(mode):
                oid = (
                    self._own.run("hash-object", "-w", "--no-filters", "--", path, timeout=TIME_LIMIT).decode().strip()
                )
                entry = f"{_FILES[bool(mode & 0o100)]},{oid},{path}"
                self._own.run("update-index", "--add", "--replace", "--cacheinfo", entry)
                return
        except GitError as error:
            if "invalid path" not in error.stderr.lower():  # a full disk is no fault of the file's
                raise
        if self._in_place:
            self._notes.append(f"{path}: git can hold no such file; it is left out")
            return
        with suppress(OSError):
            take_down(self._own.root / path)
        self._notes.append(f"{path}: git can hold no such file; it was taken away")


def _stdin(paths: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def tracked_of(repository: Repository, tree: str) -> Tracked:
    """What a tree has stand in a clone. Raises GitError."""
    return _tracked(repository.entries(tree))


def read_tracked(own: Repository) -> Tracked:
    """What the index says. Raises GitError."""
    lines = filter(None, os.fsdecode(own.run("ls-files", "-s", "-z")).split("\0"))
    fields = ((line.partition("\t")[2], line.split(" ", 2)) for line in lines)
    return _tracked({path: Entry(mode, oid) for path, (mode, oid, _) in fields})


def _tracked(entries: Mapping[str, Entry]) -> Tracked:
    """All but the state, which is left out of clones."""
    paths = frozenset(path for path in entries if not within_state(path))
    submodules = frozenset(path for path in paths if entries[path].mode == GITLINK)
    return Tracked(paths - submodules, frozenset(folders_of(paths)), submodules)
