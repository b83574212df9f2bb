"""Work that an iteration left unfinished, for the next one at the same task to go on from."""

from dataclasses import dataclass

from rulebook_ralph.core.evidence import Iteration

_GOES_ON = ("failed", "interrupted", "limited")


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The tree with it, and the commit that it is a change of."""

    tree: str
    base: str


def left_by(last: Iteration) -> Unfinished | None:
    """What a settled iteration left, unless it was completed or put back to the base."""
    if last.tree is None or last.rolled_back:
        return None
    return Unfinished(last.tree, last.base_commit) if goes_on(last) else None


def goes_on(last: Iteration) -> bool:
    """Whether the task was not ended by it: it failed for now, or verified a stage but not yet the whole task."""
    verified = last.completion_status == "completed" and not last.tasks_completed
    return verified or last.completion_status in _GOES_ON
