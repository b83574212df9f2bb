"""`history/iteration-N.json`: one file for each pass, and the commit point of the redo log (DESIGN.md)."""

import re
from collections.abc import Iterator
from pathlib import Path

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, disk
from rulebook_ralph.state.store import StateFolder

_NAME = re.compile(r"iteration-([1-9][0-9]{0,8})\.json")
_PHASE = re.compile(rb'"phase": ?"([a-z]+)"')
_HEAD_BYTES = 512


def numbers(folder: StateFolder) -> list[int]:
    """The numbers of all iteration files, ascending."""
    try:
        found = (_NAME.fullmatch(path.name) for path in folder.history.iterdir())
        return sorted(int(match.group(1)) for match in found if match)
    except FileNotFoundError:
        return []


def read(folder: StateFolder, number: int) -> Iteration:
    """One iteration. Raises RalphError where it is missing or malformed."""
    path = folder.iteration(number)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise RalphError(f"there is no iteration {number}; 'ralph history' lists those there are") from None
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
    for number in numbers(folder):
        if _phase(folder.iteration(number)) != b"settled" and (record := read(folder, number)).phase != "settled":
            yield record


def _phase(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            match = _PHASE.search(file.read(_HEAD_BYTES))
    except OSError:
        return None
    return match.group(1) if match else None
