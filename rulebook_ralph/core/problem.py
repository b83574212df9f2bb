"""What is wrong with a file, as a value: where, and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

JsonPath = tuple[str | int, ...]
"""Keys and indexes from the top of a document to one value of it."""

LONGEST_MESSAGE = 200


class Fault(NamedTuple):
    """Something wrong at one place of a document, before anyone knows which line that is."""

    path: JsonPath
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in a file. `line` counts from 1; `path` is a JSON path (`$.tasks[3].priority`), empty where none fits."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


def json_path(path: Sequence[str | int]) -> str:
    """The path as people write it: `$.tasks[3].priority`."""
    return "$" + dotted("", path)


def dotted(start: str, path: Sequence[str | int]) -> str:
    """`start` followed by every step of the path: `.key` or `[index]`."""
    return start + "".join(f"[{step}]" if isinstance(step, int) else f".{escaped(step)}" for step in path)


def escaped(text: str, longest: int = 80) -> str:
    """The text fit for one line of a message: cut, with control characters and lone surrogates escaped."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)
