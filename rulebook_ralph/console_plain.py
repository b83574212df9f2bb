"""A run as plain lines that read well in a log: a clock time, no colour, no cursor movement."""

from collections.abc import Callable, Sequence
from datetime import datetime
from threading import RLock

from rulebook_ralph import console_words as words
from rulebook_ralph.console_speaker import Speaker
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
    WithinIteration,
)
from rulebook_ralph.core.printable import clipped

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
        self._alone = Speaker()
        self._beside: dict[int, Speaker] = {}

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
            return self._told(event.event, now, self._speaker(event.iteration_number))
        before: list[str] = []
        match event:
            case IterationOpened():
                self._beside[event.iteration_number] = Speaker(event.task_id)
            case IterationSettled():
                before = self._rest(event.iteration_number)
            case RunEnded():
                before = self._rest(*self._beside)
            case _:
                pass
        return before + self._told(event, now, self._alone)

    def _told(self, event: Event, now: datetime, speaker: Speaker) -> list[str]:
        if isinstance(event, AgentActivity):
            return speaker.activity(event, now)
        return [*speaker.rest(), *speaker.named(_event_lines(event, quiet=self._quiet))]

    def _speaker(self, number: int) -> Speaker:
        """That of an open iteration; of one that was settled before its last word arrived only the number is known."""
        if number not in self._beside:
            self._beside[number] = Speaker(f"#{number}")
        return self._beside[number]

    def _rest(self, *numbers: int) -> list[str]:
        """How much was left out of what the agents of these iterations, which have ended, did."""
        speakers = [self._beside.pop(number) for number in numbers if number in self._beside]
        return [line for speaker in speakers for line in speaker.rest()]

    def _write(self, lines: Sequence[str], now: datetime) -> None:
        if lines and self._stream is not None:
            clock = now.strftime("%H:%M:%S")
            self._stream.write("".join(f"{clock} {line}".rstrip() + "\n" for line in lines))


def _for_the_quiet(event: Event) -> bool:
    """An iteration's begin is not told, but its task names what is."""
    if isinstance(event, WithinIteration):
        event = event.event
    if isinstance(event, Notice):
        return event.level == "warning"
    return isinstance(event, IterationOpened | IterationSettled | RunEnded | Waiting)


def _event_lines(event: Event, *, quiet: bool) -> list[str]:
    lines: list[str] = []
    match event:
        case Notice():
            lines = [("warning: " if event.level == "warning" else "") + clipped(event.text)]
        case RunPlanned():
            what, most = words.plan(event)
            lines = [f"{clipped(event.project)}: {what}", most]
        case IterationOpened() if not quiet:
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
