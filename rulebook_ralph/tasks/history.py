"""`history/iteration-N.json`: one file for each pass. It is the commit point of the journal."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, json_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import ITERATION_NUMBER

ITERATION_KEYS = json_file.keys_of(Iteration)

_NAME = re.compile(rf"iteration-({ITERATION_NUMBER})\.json")
_SETTLED = re.compile(rb'"phase": ?"settled"')
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
    except (FileNotFoundError, NotADirectoryError):
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
    return decode(data, name=str(path))


def decode(data: bytes, *, name: str) -> Iteration:
    """The iteration in a file's bytes; keys it does not know are kept. Raises RalphError with file, line and what is
    wrong.
    """
    raw = json_file.decode(data, name)
    iteration = json_file.convert(json_file.with_extra(raw, ITERATION_KEYS), Iteration, data, name)
    if fault := next(json_file.nesting_faults(iteration.extra, ()), None):
        raise json_file.refusal(name, data, fault)
    return iteration


def encode(iteration: Iteration) -> bytes:
    """The bytes of an iteration file."""
    whole = json_file.merged_members(iteration, ITERATION_KEYS) if iteration.extra else iteration
    return json_file.encode(whole)


def unsettled(folder: StateFolder) -> Iterator[Iteration]:
    """Every iteration that a dead run left before its phase `settled`, oldest first. Raises RalphError."""
    for number in unsettled_numbers(folder):
        if (record := read(folder, number)).phase != "settled":
            _require_object_ids(record, str(folder.iteration(number)))
            yield record


def unsettled_numbers(folder: StateFolder) -> list[int]:
    """The numbers of the files that do not say `settled` where that stands, readable or not; ascending. Looks at the
    beginning of each file only: there may be thousands.
    """
    return [number for number in numbers(folder) if not _says_settled(folder.iteration(number))]


def _says_settled(path: Path) -> bool:
    try:
        return _SETTLED.search(disk.read_file(path, largest=_HEAD_BYTES, only_start=True)) is not None
    except OSError:
        return False


def _require_object_ids(record: Iteration, path: str) -> None:
    """Raises RalphError where what is to be finished names no objects of git: these words become arguments of git's."""
    for name in ("base_commit", "tree", "commit", "snapshot"):
        if (value := getattr(record, name)) and not _OBJECT_ID.fullmatch(value):
            told = f"$.{name.replace('_c', 'C')} is no object id of git"
            raise RalphError(f"{path}: {told}; restore the file from git, or remove it")
