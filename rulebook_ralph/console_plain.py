"""A run as plain lines that read well in a log: a clock time, no colour, no cursor movement."""

from collections.abc import Callable
from datetime import datetime
from threading import RLock

from rulebook_ralph import console_words as words
from rulebook_ralph.console_stream import Stream
from rulebook_ralph.console_table import table_lines
from rulebook_ralph.core.amounts import duration
from rulebook_ralph.core.events import (
    AgentActivity,
    Event,
    GateEnded,
    IterationOpened,
    IterationSettled,
    Notice,
    ReviewEnded,
    ReviewStarted,
    RunEnded,
    RunPlanned,
    Waiting,
)
from rulebook_ralph.core.printable import clipped

_TOOLS_A_SECOND = 5
_MOST_TASKS = 50


class PlainDisplay:
    """Shows events on a stream. With `quiet` only how iterations end, warnings, and the end of the run.

    `stream` None shows nothing at all. Safe to call from several threads; never raises for the stream's sake.
    """

    def __init__(self, stream: Stream | None, *, now: Callable[[], datetime], quiet: bool) -> None:
        self._stream = stream
        self._now = now
        self._quiet = quiet
        self._lock = RLock()
        self._tools = _Throttle()

    def report(self, event: Event) -> None:
        if self._stream is None or (self._quiet and not _for_the_quiet(event)):
            return
        with self._lock:
            now = self._now()
            lines = self._lines(event, now)
            if lines:
                clock = now.strftime("%H:%M:%S")
                self._stream.write("".join(f"{clock} {line}".rstrip() + "\n" for line in lines))

    def line(self, text: str) -> None:
        """A line that is no event, without a clock time."""
        if self._stream is not None:
            with self._lock:
                self._stream.write(text + "\n")

    def close(self) -> None:
        """Nothing to put back."""

    def _lines(self, event: Event, now: datetime) -> list[str]:
        if isinstance(event, AgentActivity):
            return self._tools.admit(event, now)
        left_out = self._tools.flush()
        return left_out + _event_lines(event, quiet=self._quiet)


class _Throttle:
    """Lets a few lines of agent activity through per second and counts the others."""

    def __init__(self) -> None:
        self._second: datetime | None = None
        self._shown = 0
        self._left_out = 0

    def admit(self, event: AgentActivity, now: datetime) -> list[str]:
        if event.kind == "text":
            return []
        second = now.replace(microsecond=0)
        if second != self._second:
            self._second, self._shown = second, 0
        if self._shown >= _TOOLS_A_SECOND:
            self._left_out += 1
            return []
        self._shown += 1
        return [*self.flush(), f"  {words.activity(event)}"]

    def flush(self) -> list[str]:
        left_out, self._left_out = self._left_out, 0
        return [f"  … {left_out:,} more"] if left_out else []


def _for_the_quiet(event: Event) -> bool:
    if isinstance(event, Notice):
        return event.level == "warning"
    return isinstance(event, IterationSettled | RunEnded | Waiting)


def _event_lines(event: Event, *, quiet: bool) -> list[str]:
    lines: list[str] = []
    match event:
        case Notice():
            lines = [("warning: " if event.level == "warning" else "") + clipped(event.text)]
        case RunPlanned():
            what, most = words.plan(event)
            lines = [f"{clipped(event.project)}: {what}", most]
        case IterationOpened():
            lines = [f"{clipped(event.task_id)}: {clipped(event.title)} · {words.place(event)}"]
        case GateEnded():
            lines = [_gate_line(event)]
        case ReviewStarted() | ReviewEnded():
            lines = _review_lines(event)
        case IterationSettled():
            lines = [_settled_line(event)]
        case Waiting() if event.begins:
            lines = [words.waiting(event)]
        case Waiting() if event.seconds == 0:
            lines = ["waited long enough, going on"]
        case RunEnded():
            lines = _ending_lines(event, quiet=quiet)
        case _:
            pass
    return lines


def _gate_line(event: GateEnded) -> str:
    result = event.result
    base = " on the base" if event.on_base else ""
    if result.skipped:
        return f"  gate {clipped(result.step)}{base}: {words.gate_failure(result)}"
    outcome = f"ok{words.flakiness(result)}" if result.passed else f"FAILED ({words.gate_failure(result)})"
    return f"  gate {clipped(result.step)}{base}: {outcome} · {duration(result.duration_ms / 1000)}"


def _review_lines(event: ReviewStarted | ReviewEnded) -> list[str]:
    if isinstance(event, ReviewStarted):
        return [f"  {words.review_step(event.tier, event.reviewer)}"]
    ending = words.review_ending(event)
    first = f"  {ending.step}: {clipped(ending.reason)} · {duration(ending.duration_ms / 1000)}"
    return [first, *(f"    {line}" for line in words.issue_lines(event))]


def _settled_line(event: IterationSettled) -> str:
    reason = clipped(event.reason)
    because = f" ({reason})" if reason and event.outcome != "completed" else ""
    done = f"{event.completed_tasks:,} of {words.count(event.total_tasks, 'task')} completed"
    facts = " · ".join([*words.settled_facts(event), done])
    task = clipped(event.task_id)
    return f"#{event.iteration_number} {task}: {words.OUTCOMES[event.outcome]}{because} · {facts}"


def _ending_lines(event: RunEnded, *, quiet: bool) -> list[str]:
    lines = [words.ending(event)]
    if reason := words.ending_reason(event):
        lines.append(reason)
    if event.tasks and not quiet:
        shown, left_out = words.telling(event.tasks, _MOST_TASKS)
        lines += table_lines(words.SUMMARY_HEADINGS, map(words.summary_row, shown), None)
        if left_out:
            lines.append(f"… and {left_out:,} more")
    return lines + [f"next: {clipped(step)}" for step in event.next_steps]
