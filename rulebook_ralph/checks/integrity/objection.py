"""What an attempt may not have done, as it is told to the agent."""

from collections.abc import Sequence
from dataclasses import dataclass

from rulebook_ralph.core.printable import clipped

_MOST_TOLD = 20

UNDO = (
    "Undo these changes. Where the task cannot be done without them, say so and end as blocked; "
    "a person can name the file in the task, or in integrity.allow of .rulebook-ralph/config.yaml."
)


@dataclass(frozen=True, slots=True)
class Objection:
    """One thing that was seen. `line` counts from 1, in the new version or, of what is gone, in the old one."""

    path: str
    line: int | None
    what: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{clipped(place)}: {clipped(self.what)}"


def listed(objections: Sequence[Objection]) -> str:
    """One line for each, at most 20, and how many more there are."""
    lines = [f"- {objection}" for objection in objections[:_MOST_TOLD]]
    if len(objections) > _MOST_TOLD:
        lines.append(f"- and {len(objections) - _MOST_TOLD} more")
    return "\n".join(lines)
