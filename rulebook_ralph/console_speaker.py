"""What one agent does, as plain lines: a few tools a second. Its text is not told."""

from collections.abc import Iterable
from datetime import datetime

from rulebook_ralph import console_words as words
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.printable import clipped

_TOOLS_A_SECOND = 5


class Speaker:
    """Gives whole lines only, each with the name of its `task`; an agent that works alone has none."""

    def __init__(self, task: str = "") -> None:
        self._name = f"{clipped(task)}: " if task else ""
        self._second: datetime | None = None
        self._shown = 0
        self._left_out = 0

    def named(self, lines: Iterable[str]) -> list[str]:
        return [self._name + line for line in lines]

    def activity(self, event: AgentActivity, now: datetime) -> list[str]:
        """The line of a tool, after how many were left out before it."""
        if event.kind == "text":
            return []
        second = now.replace(microsecond=0)
        if second != self._second:
            self._second, self._shown = second, 0
        if self._shown >= _TOOLS_A_SECOND:
            self._left_out += 1
            return []
        self._shown += 1
        return [*self.rest(), *self.named([f"  {words.activity(event)}"])]

    def rest(self) -> list[str]:
        """How many activities were left out and have not been told of yet."""
        left_out, self._left_out = self._left_out, 0
        return self.named([f"  … {left_out:,} more"] if left_out else [])
