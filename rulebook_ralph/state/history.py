"""`history/iteration-N.json`: one file for each pass, and the commit point of the redo log (DESIGN.md)."""

import os
import re
from collections.abc import Iterator

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.identifiers import ITERATION_NUMBER
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, disk
from rulebook_ralph.state.store import StateFolder

_NAME = re.compile(rf"iteration-({ITERATION_NUMBER})\.json")
_PHASE = re.compile(rb'"phase": ?"([a-z]+)"')
_HEAD_BYTES = 512
_OBJECT_ID = re.compile(r"[0-9a-f]{7,64}")


def name_of(number: int) -> str:
    """The file's name within the state folder."""
    return f"history/iteration-{number}.json"


def numbers(folder: StateFolder) -> list[int]:
    """The numbers of all iteration files, ascending."""
    try:
        found = map(_NAME.fullmatch, os.listdir(folder.history))  # noqa: PTH208 - there may be thousands
        return sorted(int(match.group(1)) for match in found if match)
    except FileNotFoundError:
        return []


def read(folder: StateFolder, number: int) -> Iteration:
    """One iteration. Raises RalphError where it is missing or malformed."""
    path = folder.iteration(number)
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        was = "was pruned" if number < max(numbers(folder)[-1:], default=0) else "is not there"
        raise RalphError(f"iteration {number} {was}; 'ralph history' lists those there are") from None
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error
    return codec.decode_iteration(data, name=str(path))


def create(folder: StateFolder, iteration: Iteration) -> None:
    """Write a new iteration file. Raises FileExistsError where its number is taken."""
    disk.make_folder(folder.history)
    disk.create_file(folder.iteration(iteration.iteration_number), codec.encode_iteration(iteration))


def update(folder: StateFolder, iteration: Iteration) -> None:
    """Replace an iteration's file by its next phase."""
    disk.make_folder(folder.history)
    disk.replace_file(folder.iteration(iteration.iteration_number), codec.encode_iteration(iteration))


def unsettled(folder: StateFolder) -> Iterator[Iteration]:
    """Every iteration a dead run left before its phase `settled`, oldest first."""
    for number in unsettled_numbers(folder):
        if (record := read(folder, number)).phase != "settled":
            _require_object_ids(record, str(folder.iteration(number)))
            yield record


def unsettled_numbers(folder: StateFolder) -> list[int]:
    """The numbers of the iteration files that do not say `settled` where that stands, readable or not; ascending."""
    if not (found := numbers(folder)):
        return []
    history = os.open(folder.history, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return [number for number in found if _phase(f"iteration-{number}.json", history) != b"settled"]
    finally:
        os.close(history)


def _require_object_ids(record: Iteration, path: str) -> None:
    """Raises RalphError where what is to be finished names no objects of git: these words become arguments of git's."""
    for name in ("base_commit", "tree", "commit", "snapshot"):
        if (value := getattr(record, name)) and not _OBJECT_ID.fullmatch(value):
            told = f"$.{name.replace('_c', 'C')} is no object id of git"
            raise RalphError(f"{path}: {told}; restore the file from git, or remove it")


def _phase(name: str, history: int) -> bytes | None:
    """The phase, of one file among thousands: plain system calls, within the open folder."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=history)
        try:
            match = _PHASE.search(os.read(descriptor, _HEAD_BYTES))
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return match.group(1) if match else None
