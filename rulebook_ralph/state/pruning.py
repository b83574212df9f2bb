"""Iteration files of a long history: looked over in a moment, and removed."""

import os
from collections.abc import Collection
from contextlib import suppress

import msgspec

from rulebook_ralph.core.pruning import Past
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk, history
from rulebook_ralph.state.store import StateFolder


class _Outline(msgspec.Struct, rename="camel"):
    """As much of an iteration file as tells whose it is."""

    iteration_number: int
    phase: str
    task_id: str
    tasks_attempted: tuple[str, ...] = ()


def look_over(folder: StateFolder) -> dict[int, Past | None]:
    """Every iteration file by its number; None for one that cannot be read, or has another's number in it."""
    decoder = msgspec.json.Decoder(_Outline)
    found: dict[int, Past | None] = {}
    for number in history.numbers(folder):
        found[number] = None
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            outline = decoder.decode(disk.read_file(folder.iteration(number)))
            if outline.iteration_number == number:
                found[number] = Past(outline.task_id, outline.phase == "settled", outline.tasks_attempted)
    return found


def size(folder: StateFolder, numbers: Collection[int]) -> int:
    """The bytes of those iteration files."""
    total = 0
    for number in numbers:
        with suppress(OSError):
            total += folder.iteration(number).lstat().st_size
    return total


def remove(folder: StateFolder, numbers: Collection[int]) -> None:
    """Remove those iteration files, the oldest first. Raises RalphError."""
    path = folder.history
    try:
        for number in sorted(numbers):
            path = folder.iteration(number)
            path.unlink(missing_ok=True)
        _sync(folder)
    except OSError as error:
        raise RalphError(f"cannot remove {path}: {error.strerror}; make {folder.history} writable") from error


def _sync(folder: StateFolder) -> None:
    descriptor = os.open(folder.history, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
