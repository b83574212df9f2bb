"""What an attempt changed, line by line, as values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file; `number` counts from 1, in the version that the line belongs to."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file between two trees: A added, M modified, D deleted, R renamed (maybe modified too).

    `path` is the new path (of a deleted file its old one), `old_path` the one before, None for an added file. Of a
    binary file `added` and `removed` are empty. `cut` says that it is a text whose lines were left out for their size;
    `binary` is then set too. `is_link`: it is a symbolic link now; its text is where it leads.
    """

    kind: Literal["A", "M", "D", "R"]
    path: str
    old_path: str | None
    added: tuple[Line, ...] = ()
    removed: tuple[Line, ...] = ()
    binary: bool = False
    cut: bool = False
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Versions:
    """A file's text at the base and in the tree that is judged; None where it is not there, or no text."""

    before: str | None
    after: str | None
