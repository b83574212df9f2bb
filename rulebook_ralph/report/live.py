"""The live display: lines at the bottom of the terminal that follow the run; what is finished scrolls away above."""

import atexit
from collections.abc import Callable
from datetime import datetime
from threading import Event as Signal
from threading import RLock, Thread
from typing import IO, cast

from rich.console import Console as RichConsole
from rich.console import ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from rulebook_ralph.report import words
from rulebook_ralph.report.events import (
    AgentActivity,
    BranchWaiting,
    Event,
    GateEnded,
    IterationSettled,
    Notice,
    ReviewEnded,
    RunEnded,
    RunPlanned,
    WithinIteration,
)
from rulebook_ralph.report.frame import frame
from rulebook_ralph.report.lines import lines_of
from rulebook_ralph.report.scene import Lane, Scene
from rulebook_ralph.report.stream import Stream
from rulebook_ralph.tasks.text import clipped, duration

_LASTING = Notice | BranchWaiting | RunPlanned | GateEnded | ReviewEnded | IterationSettled | RunEnded
_MARKS = {
    "completed": ("✔ ", "green"),
    "verified": ("✔ ", "cyan"),
    "retry": ("✘ ", "yellow"),
    "sent-back": ("✘ ", "yellow"),
    "blocked": ("■ ", "red"),
    "interrupted": ("■ ", "yellow"),
    "limited": ("■ ", "yellow"),
}
_SHORTEST_PAUSE = 0.25
_SECOND = 1.0


class LiveDisplay:
    """Shows events on a terminal. Call `close` at the end, whatever happens: it puts the terminal back.

    `report` only notes an agent's activity; a thread draws, four times a second at most, and not at all while nothing
    can have changed. Safe to call from several threads, but not from a signal handler.
    """

    def __init__(self, stream: Stream, *, now: Callable[[], datetime]) -> None:
        self._now = now
        self._scene = Scene()
        self._scene_lock = RLock()
        self._drawing_lock = RLock()
        self._console = _Terminal(stream)
        self._shown: tuple[list[Text], ConsoleDimensions] | None = None
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._changed = Signal()
        self._closing = Signal()
        self._drawing = Thread(target=self._draw_until_closed, name="ralph-display", daemon=True)
        atexit.register(self.close)
        self._live.start()
        self._drawing.start()

    def report(self, event: Event) -> None:
        now = self._now()
        with self._scene_lock:
            lane = self._scene.lane_of(event)
            self._scene.apply(event, now)
        happened = event.event if isinstance(event, WithinIteration) else event
        rows: list[Text] = (
            [] if isinstance(happened, AgentActivity) else lasting_rows(event, lane, self._console.columns)
        )
        if rows:
            self._print(rows)
        self._changed.set()

    def line(self, text: str) -> None:
        """A line that stays, above the live ones."""
        self._print([Text(text)])

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._changed.set()
        self._drawing.join()
        self._live.stop()
        atexit.unregister(self.close)

    def _print(self, rows: list[Text]) -> None:
        """Above the live lines, which are drawn anew below them, in one write."""
        with self._drawing_lock:
            self._shown = self._frame()
            self._live.update(Group(*self._shown[0]))
            self._console.print(Group(*rows), soft_wrap=True)

    def _draw_until_closed(self) -> None:
        while not self._closing.is_set():
            self._changed.wait(self._longest_pause())
            self._changed.clear()
            self._draw()
            self._closing.wait(_SHORTEST_PAUSE)

    def _draw(self) -> None:
        with self._drawing_lock:
            if (frame := self._frame()) != self._shown:
                self._shown = frame
                self._live.update(Group(*frame[0]), refresh=True)

    def _longest_pause(self) -> float | None:
        """A spinner turns, else a clock ticks, else nothing moves until something is reported."""
        with self._scene_lock:
            if self._scene.running_gate:
                return 0
            return _SECOND if self._scene.lanes else None

    def _frame(self) -> tuple[list[Text], ConsoleDimensions]:
        with self._scene_lock:
            scene = self._scene.copy()
        size = self._console.size
        return frame(scene, self._now(), width=size.width, height=max(size.height - 1, 1)), size


class _Terminal(RichConsole):
    """Rich's console on a stream that never fails; the last column stays free, where terminals wrap."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        super().__init__(
            file=cast("IO[str]", _File(stream)),
            force_terminal=True,
            color_system="standard",
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def columns(self) -> int:
        return self.size.width

    @property
    def size(self) -> ConsoleDimensions:
        columns, rows = self._stream.size()
        return ConsoleDimensions(max(columns - 1, 1), rows)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        raise NotImplementedError


class _File:
    """What rich needs of a file."""

    encoding = "utf-8"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Every write is flushed."""

    def isatty(self) -> bool:
        return True


def lasting_rows(event: Event, lane: Lane, width: int) -> list[Text]:
    """What is to stay on the screen of an event that happened in `lane`."""
    name = ""
    if isinstance(event, WithinIteration):
        name = clipped(lane.iteration.task_id if lane.iteration else f"#{event.iteration_number}") + ": "
        event = event.event
    if isinstance(event, GateEnded) and (event.about or not event.on_base):
        return []
    if not isinstance(event, _LASTING):
        return []
    mark, style = _mark(event)
    rows: list[Text] = []
    for line in lines_of(event, width=width):
        text = line if rows else line.strip().removeprefix("warning: ")
        rows.append(Text.assemble((name, "bold"), ("  " if rows else mark, f"bold {style}"), text))
    if isinstance(event, IterationSettled):
        rows += [Text(f"  {gates}", "dim")] if (gates := _gates(lane)) else []
    return rows


def _mark(event: Event) -> tuple[str, str]:
    """What an event's first line begins with, and its colour."""
    match event:
        case IterationSettled():
            return _MARKS[event.outcome]
        case RunEnded():
            return ("✔ ", "green") if event.stop_reason in {"complete", "paused"} else ("■ ", "yellow")
        case GateEnded():
            return ("✔ ", "green") if event.result.passed else ("✘ ", "yellow")
        case Notice() | BranchWaiting():
            return ("! ", "yellow") if words.remark(event)[1] else ("  ", "")
        case _:
            return "  ", ""


def _gates(lane: Lane) -> str:
    """How the gates of an iteration ended, in a line."""
    ended = [gate.result for gate in lane.gates.values() if gate.result is not None]
    return " · ".join(f"{clipped(each.step)} {each.ending} {duration(each.duration_ms / 1000)}" for each in ended)
