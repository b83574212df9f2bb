"""A run as plain lines that read well in a log: a clock time, no colour, no cursor movement."""

from collections.abc import Callable, Iterable, Sequence
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
from rulebook_ralph.report.lines import lines_of
from rulebook_ralph.report.stream import Stream
from rulebook_ralph.tasks.text import clipped

_TOOLS_A_SECOND = 5


class _Agent:
    """What one agent does, as whole lines: a few tools a second, its text not at all. Each line begins with the name of
    its `task`; an agent that works alone has none.
    """

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


class PlainDisplay:
    """Shows events on a stream. With `quiet` only how iterations end, warnings, and the end of the run.

    `stream` None shows nothing at all. Safe to call from several threads; never raises for the stream's sake.
    """

    def __init__(self, stream: Stream | None, *, now: Callable[[], datetime], quiet: bool) -> None:
        self._stream = stream
        self._now = now
        self._quiet = quiet
        self._lock = RLock()
        self._alone = _Agent()
        self._beside: dict[int, _Agent] = {}

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

    def close(self) -> None:
        """Tells how much was left out of what agents did."""
        with self._lock:
            self._write(self._rest(*self._beside), self._now())

    def _lines(self, event: Event, now: datetime) -> list[str]:
        if isinstance(event, WithinIteration):
            return self._words(event.event, now, self._agent(event.iteration_number))
        before: list[str] = []
        match event:
            case IterationOpened():
                self._beside[event.iteration_number] = _Agent(event.task_id)
            case IterationSettled():
                before = self._rest(event.iteration_number)
            case RunEnded():
                before = self._rest(*self._beside)
            case _:
                pass
        return before + self._words(event, now, self._alone)

    def _words(self, event: Event, now: datetime, agent: _Agent) -> list[str]:
        if isinstance(event, AgentActivity):
            return agent.activity(event, now)
        return [*agent.rest(), *agent.named(lines_of(event, quiet=self._quiet))]

    def _agent(self, number: int) -> _Agent:
        """That of an open iteration; of one that was settled before its last word arrived only the number is known."""
        if number not in self._beside:
            self._beside[number] = _Agent(f"#{number}")
        return self._beside[number]

    def _rest(self, *numbers: int) -> list[str]:
        """How much was left out of what the agents of these iterations, which have ended, did."""
        agents = [self._beside.pop(number) for number in numbers if number in self._beside]
        return [line for agent in agents for line in agent.rest()]

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
