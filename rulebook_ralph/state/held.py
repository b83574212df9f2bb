"""What was put back and is held for a person: edits made while an agent worked, which could be the agent's.

An agent can write here as well as Ralph. So nothing is followed, all is bounded, and only what a person edits counts:
the task list, the configuration, the templates.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.identifiers import ITERATION_NUMBER

FOLDER = "held"
"""The folder's name in Ralph's part of the git folder (loop/leftovers.py writes there)."""

MOST_BYTES = 32 * 1024 * 1024
MOST_EDITS = 200
_MOST_LOOKED_AT = 10_000
_DEEPEST = 4
_LONGEST_NAME = 200

_ITERATION = re.compile(f"iteration-(0|{ITERATION_NUMBER})")
_KINDS = re.compile(r"(prd\.json|config\.yaml)(?:\.([1-9][0-9]{0,5}))?|templates/.+", re.DOTALL)
_NUMBERED = re.compile(r"(.+)\.([1-9][0-9]{0,5})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an edit is held: of iteration `number` (0: before the first), and the file of the state folder it is of.

    `order` is its place among those of the same file and iteration, `base` what it began with, where that is there.
    """

    number: int
    name: str
    order: int
    path: Path
    base: Path


@dataclass(frozen=True, slots=True)
class Held:
    """An edit: what the file was put back to (None: there was none), and what a person or an agent had written there.

    With a `problem` neither could be read.
    """

    place: Place
    base: bytes | None
    other: bytes
    problem: str = ""


def find(folder: Path, numbers: Collection[int] = ()) -> tuple[Place, ...]:
    """Every edit held below `folder`, oldest iteration first, at most MOST_EDITS; with `numbers` of these alone."""
    found: list[Place] = []
    for number in _iterations(folder):
        if not numbers or number in numbers:
            found += _of_iteration(folder, number)
        if len(found) >= MOST_EDITS:
            break
    return tuple(found[:MOST_EDITS])


def read(place: Place) -> Held:
    """The edit's contents; never raises."""
    try:
        depth = len(Path(place.name).parts)
        other = _content(place.path, depth)
        base = _content(place.base, depth) if os.path.lexists(place.base) else None
    except _NotReadableError as error:
        return Held(place, None, b"", str(error))
    except OSError as error:
        return Held(place, None, b"", f"cannot be read: {error.strerror or error}")
    return Held(place, base, other)


def remove(held: Held) -> None:
    """Forget the edit, unless another one stands there by now. Raises OSError."""
    if read(held.place) != held:
        return
    for path in (held.place.path, held.place.base):
        path.unlink(missing_ok=True)
        for _ in Path(held.place.name).parts:
            path = path.parent  # noqa: PLW2901 - up to the iteration's folder
            with suppress(OSError):  # not empty, or gone
                path.rmdir()


def _iterations(folder: Path) -> list[int]:
    if not (_is_real_folder(folder.parent) and _is_real_folder(folder)):
        return []
    names = _listed(folder)
    return sorted(int(match[1]) for name in names if (match := _ITERATION.fullmatch(name)))


def _of_iteration(folder: Path, number: int) -> list[Place]:
    top = folder / f"iteration-{number}"
    names = {name for name in _files(top, "", 0) if _KINDS.fullmatch(name) and len(name) <= _LONGEST_NAME}
    found = []
    for name in names:
        of, order = _file_of(name, names)
        found.append(Place(number, of, order, top / name, folder / f"iteration-{number}.base" / name))
    return sorted(found, key=lambda place: (place.name.startswith("templates/"), place.name, place.order))


def _file_of(name: str, names: Collection[str]) -> tuple[str, int]:
    """Whose edit it is, and which: a second of the same file and iteration has a number after its name."""
    match = _NUMBERED.fullmatch(name)
    if match is None or (name.startswith("templates/") and match[1] not in names):
        return name, 1
    return match[1], int(match[2])


def _files(folder: Path, prefix: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or not _is_real_folder(folder):
        return
    for name in _listed(folder):
        path = folder / name
        if _is_real_folder(path):
            if prefix or name == "templates":
                yield from _files(path, f"{prefix}{name}/", depth + 1)
        elif not (name.startswith(".") and name.endswith(".tmp")):
            yield prefix + name


def _listed(folder: Path) -> list[str]:
    names = []
    with suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            names.append(item.name)
            if len(names) >= _MOST_LOOKED_AT:
                break
    return sorted(names)


class _NotReadableError(Exception):
    """What stands there is nothing that Ralph held."""


def _content(path: Path, depth: int) -> bytes:
    """A file's, so many folders below the one of all that is held. Raises OSError or _NotReadableError."""
    if not all(map(_is_real_folder, path.parents[: depth + 1])):
        raise _NotReadableError("stands below a symbolic link; Ralph did not put it there")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _NotReadableError("is no plain file; Ralph did not put it there")
        if status.st_size > MOST_BYTES:
            raise _NotReadableError(f"is larger than {MOST_BYTES // 1024**2} MB")
        return file.read(MOST_BYTES)


def _is_real_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
