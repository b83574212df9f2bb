"""A run as plain lines that read well in a log: a clock time, no colour, no cursor movement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import RLock

from rulebook_ralph.report import words
from rulebook_ralph.report.events import (
    AgentActivity,
    Event,
    IterationOpened,
    IterationSettled,
    RunEnded,
    Waiting,
    WithinIteration,
)
from rulebook_ralph.report.stream import Stream
from rulebook_ralph.tasks.text import clipped

_TOOLS_A_SECOND = 5


@dataclass(slots=True)
class _Tools:
    """What one agent uses, a few a second; `name` begins its lines, and is empty for one that works alone."""

    name: str = ""
    second: datetime | None = None
    shown: int = 0
    left_out: int = 0

    def used(self, event: AgentActivity, now: datetime) -> list[str]:
        """The line of a tool, after how many were left out before it."""
        if event.kind in ("text", "failure"):
            return []
        if (second := now.replace(microsecond=0)) != self.second:
            self.second, self.shown = second, 0
        if self.shown >= _TOOLS_A_SECOND:
            self.left_out += 1
            return []
        self.shown += 1
        return [*self.rest(), f"{self.name}  {words.activity(event)}"]

    def rest(self) -> list[str]:
        """How many were left out and have not been told of yet."""
        left_out, self.left_out = self.left_out, 0
        return [f"{self.name}  … {left_out:,} more"] if left_out else []


class PlainDisplay:
    """Shows events on a stream. With `quiet` only how iterations end, warnings, and the end of the run.

    `stream` None shows nothing at all. Safe to call from several threads; never raises for the stream's sake.
    """

    def __init__(self, stream: Stream | None, *, now: Callable[[], datetime], quiet: bool) -> None:
        self._stream = stream
        self._now = now
        self._quiet = quiet
        self._lock = RLock()
        self._alone = _Tools()
        self._beside: dict[int, _Tools] = {}

    def report(self, event: Event) -> None:
        if self._stream is None or (self._quiet and not _for_the_quiet(event)):
            return
        with self._lock:
            now = self._now()
            self._write(self._lines(event, now), now)

    def line(self, text: str) -> None:
        """A line that is no event, without a clock time."""
        if self._stream is not None:
            with self._lock:
                self._stream.write(text + "\n")

    def steered_by(self, steer: Callable[[str, int], None] | None) -> None:
        """No keys are read."""

    def close(self) -> None:
        """Tells how much was left out of what agents did."""
        with self._lock:
            self._write(self._rest(), self._now())

    def _lines(self, event: Event, now: datetime) -> list[str]:
        tools, before = self._alone, []
        match event:
            case WithinIteration(number, within):
                tools = self._beside.setdefault(number, _Tools(f"#{number}: "))  # settled before its last word came
                event = within
            case IterationOpened():
                self._beside[event.iteration_number] = _Tools(f"{clipped(event.task_id)}: ")
            case IterationSettled():
                before = self._beside.pop(event.iteration_number, _Tools()).rest()
            case RunEnded():
                before = self._rest()
            case _:
                pass
        if isinstance(event, AgentActivity):
            return tools.used(event, now)
        told = words.lines_of(event, quiet=self._quiet)
        return [*before, *tools.rest(), *(tools.name + line for line in told)]

    def _rest(self) -> list[str]:
        beside, self._beside = self._beside, {}
        return [line for tools in beside.values() for line in tools.rest()]

    def _write(self, lines: Sequence[str], now: datetime) -> None:
        if lines and self._stream is not None:
            clock = now.strftime("%H:%M:%S")
            self._stream.write("".join(f"{clock} {line}".rstrip() + "\n" for line in lines))


def _for_the_quiet(event: Event) -> bool:
    """An iteration's begin is not told, but its task names what is."""
    if isinstance(event, WithinIteration):
        event = event.event
    if isinstance(event, words.Remark):
        return words.remark(event)[1]
    return isinstance(event, IterationOpened | IterationSettled | RunEnded | Waiting)
