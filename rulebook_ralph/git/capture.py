"""What stands in a clone as a tree, read with Ralph's own git folder: nothing that an agent arranged decides it.

Ignored is what the base's rules ignore: an agent that edits them drags nothing in. A new file that only new rules name
is left out too, as a build's products are; it is absent then wherever the work is judged.
"""

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.git.cache import take_down
from rulebook_ralph.git.objects import GITLINK, Entry
from rulebook_ralph.git.repository import GitError, Repository, within_state
from rulebook_ralph.git.trees import folders_of
from rulebook_ralph.tasks.text import some

TIME_LIMIT = 300.0
"""Seconds for a git command over a tree that an agent left."""
_LONGEST_PATH = 3000
"""Characters; systems give up at 4096, and git within its own files before that."""


@dataclass(frozen=True, slots=True)
class Captured:
    """The tree; `notes` say what is not as it stood."""

    tree: str
    notes: tuple[str, ...] = ()


def capture(own: Repository, prepared: Collection[str]) -> Captured:
    """The tree that stands in the clone, without what is in `prepared`. Raises GitError, OSError."""
    _, special = walk(own.root, None, prepared)
    for path in special:
        take_down(own.root / path)
    notes = [f"{some(special)}: no files that git can hold (pipes, for instance); taken away"] if special else []
    changed, new = listed(own, prepared)
    while nested := [path for path in (*changed, *new) if os.path.lexists(own.root / path / ".git")]:
        for path in nested:
            take_down(own.root / path / ".git")
            notes.append(f"{path.rstrip('/')}: a git repository of its own; its files were taken, not its history")
        changed, new = listed(own, prepared)
    if any(path.rpartition("/")[2] == ".gitignore" for path in (*changed, *new)):
        new = _left_by_new_rules(own, new)
    notes += _stage(own, changed, new)
    return Captured(own.text("write-tree"), tuple(notes))


def capture_in_place(own: Repository, left_out: Collection[str]) -> Captured:
    """The same of a person's own work tree, without what is `left_out`; nothing there is changed or taken away."""
    changed, new = listed(own, left_out)
    notes = [f"{path}: a git repository of its own; it is left out" for path in new if path.endswith("/")]
    # An earlier capture may have taken in the new rules already, so that they look unchanged.
    notes += _stage(own, changed, _left_by_new_rules(own, new), in_place=True)
    return Captured(own.text("write-tree"), tuple(notes))


# What stands there


@dataclass(frozen=True, slots=True)
class Tracked:
    """What is to stand in a clone: files and links, the folders that lead there, and those of submodules."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    submodules: frozenset[str] = frozenset()


def tracked_of(entries: dict[str, Entry]) -> Tracked:
    """What a tree's entries have stand in a clone: all but the state."""
    paths = frozenset(path for path in entries if not within_state(path))
    submodules = frozenset(path for path in paths if entries[path].mode == GITLINK)
    return Tracked(paths - submodules, frozenset(folders_of(paths)), submodules)


def walk(root: Path, tracked: Tracked | None, prepared: Collection[str]) -> tuple[list[str], list[str]]:
    """Look through a clone, without git: the topmost paths that hold nothing tracked (none without `tracked`), and what
    no tree can hold: pipes, folders without end. Folders are opened.
    """
    top = f"{root}/"
    extra: list[str] = []
    special: list[str] = []
    left = [""]
    while left:
        above = left.pop()
        if not os.access(top + above, os.R_OK | os.W_OK | os.X_OK):
            with suppress(PermissionError):  # somebody else's, as a container leaves it
                Path(top + above).chmod(0o755)
        with os.scandir(top + above) as entries:
            for entry in entries:
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
    return extra, special


def listed(own: Repository, left_out: Collection[str]) -> tuple[list[str], list[str]]:
    """The tracked paths that changed, and the new ones that the base's rules do not ignore. Raises GitError."""
    rules = own.git_dir / "info" / "exclude"
    output = own.run("ls-files", "-t", "-o", "-m", "-z", f"--exclude-from={rules}", timeout=TIME_LIMIT)
    found: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for line in filter(None, os.fsdecode(output).split("\0")):
        path = line[2:]
        is_left_out = left_out and not {path.rstrip("/"), *folders_of([path])}.isdisjoint(left_out)
        if not is_left_out and not within_state(path):
            found[line[0] == "?"][path] = None
    return list(found[False]), list(found[True])


def _left_by_new_rules(own: Repository, new: Sequence[str]) -> list[str]:
    asked = b"\0".join(b"./" + os.fsencode(path) for path in new)  # a leading ':' would be taken for magic
    try:
        output = own.run("check-ignore", "--no-index", "-z", "--stdin", stdin=asked, timeout=TIME_LIMIT) if new else b""
    except GitError as error:
        if error.code != 1 or error.stderr:
            raise
        output = b""  # none of them is
    ignored = {os.fsdecode(path).removeprefix("./") for path in output.split(b"\0")}
    return [path for path in new if path not in ignored]


# Into the index


def _stage(own: Repository, changed: Sequence[str], new: Sequence[str], *, in_place: bool = False) -> list[str]:
    """Make the index hold these paths as they stand; returns what is to be told."""
    gone = {path for path in changed if not _is_file(own, path)}
    if gone:
        own.run("update-index", "--force-remove", "-z", "--stdin", stdin=_stdin(gone), timeout=TIME_LIMIT)
    standing = [path for path in (*changed, *new) if path not in gone and not path.endswith("/")]
    if not in_place:
        for path in standing:
            mode = (own.root / path).lstat().st_mode
            if stat.S_ISREG(mode) and not mode & 0o400:
                (own.root / path).chmod(mode | 0o400)
    notes = []
    for path in _add(own, standing):
        notes.append(f"{path}: git can hold no such file; it {'is left out' if in_place else 'was taken away'}")
        if not in_place:
            with suppress(OSError):
                take_down(own.root / path)
    return notes


def _is_file(own: Repository, path: str) -> bool:
    """Whether a file, a link or a submodule stands there, and not by way of a link."""
    if any((own.root / folder).is_symlink() for folder in folders_of([path])):
        return False
    with suppress(OSError):
        mode = (own.root / path).lstat().st_mode
        if not stat.S_ISDIR(mode):
            return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
        return own.text("ls-files", "-s", "--", f":(literal){path}").startswith(GITLINK)
    return False


def _add(own: Repository, paths: Sequence[str]) -> list[str]:
    """Have the index hold them, one by one where git refuses them as a whole; returns those that it cannot hold."""
    if not paths:
        return []
    try:
        order = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        own.run(*order, stdin=_stdin(paths), timeout=TIME_LIMIT)
    except GitError as error:
        if error.code < 0:  # it took too long
            raise
        half = len(paths) // 2
        return [*_add(own, paths[:half]), *_add(own, paths[half:])] if half else _add_unconverted(own, paths[0])
    return []


def _add_unconverted(own: Repository, path: str) -> list[str]:
    """A file whose conversion fails (an encoding, a filter) as it is; the path where git cannot hold it."""
    try:
        mode = (own.root / path).lstat().st_mode
        if not stat.S_ISREG(mode):
            return [path]
        oid = os.fsdecode(own.run("hash-object", "-w", "--no-filters", "--", path, timeout=TIME_LIMIT)).strip()
        entry = f"{'100755' if mode & 0o100 else '100644'},{oid},{path}"
        own.run("update-index", "--add", "--replace", "--cacheinfo", entry)
    except GitError as error:
        if "invalid path" not in error.stderr.lower():  # a full disk is no fault of the file's
            raise
        return [path]
    return []


def _stdin(paths: Collection[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)
