"""What a reviewer is given to review: a change, and what it is for. Values and functions that the loop hands in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.core.diff import FileDiff, Versions


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """`versions` reads files before and after. `commit_messages` are the author's own words. `may_hold_secrets` says of
    a path whether nobody minds secrets in that file, or whoever minds has looked.
    """

    title: str
    files: tuple[FileDiff, ...]
    versions: Callable[[Sequence[FileDiff]], Mapping[str, Versions]]
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    commit_messages: tuple[str, ...] = ()
    may_hold_secrets: Callable[[str], bool] = lambda _: True
