"""What a reviewer is given to review: a change, and what it is for. Values and functions that the loop hands in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.core.diff import FileDiff, Versions


@dataclass(frozen=True, slots=True)
class Change:
    """`versions` reads files before and after. `commit_messages` are the author's own words."""

    title: str
    files: tuple[FileDiff, ...]
    versions: Callable[[Sequence[FileDiff]], Mapping[str, Versions]]
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    commit_messages: tuple[str, ...] = ()
