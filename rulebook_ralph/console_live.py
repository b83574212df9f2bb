"""The live display: lines at the bottom of the terminal that follow the run; what is finished scrolls away above."""

import atexit
import io
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event as Signal
from threading import RLock, Thread

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from rulebook_ralph import console_record as record
from rulebook_ralph.console_frame import frame
from rulebook_ralph.console_scene import Lane, Scene
from rulebook_ralph.console_stream import Stream
from rulebook_ralph.core.events import (
    AgentActivity,
    Event,
    GateEnded,
    IterationSettled,
    Notice,
    ReviewEnded,
    RunEnded,
    RunPlanned,
    WithinIteration,
)

_SHORTEST_PAUSE = 0.25
_SECOND = 1.0

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE_BELOW, _ERASE_LINE = "\x1b[J", "\x1b[K"


class LiveDisplay:
    """Shows events on a terminal. Call `close` at the end, whatever happens: it puts the terminal back.

    `report` only notes an agent's activity; a thread draws, four times a second at most, and not at all while nothing
    can have changed. Safe to call from several threads, but not from a signal handler.
    """

    def __init__(self, stream: Stream, *, now: Callable[[], datetime]) -> None:
        self._stream = stream
        self._now = now
        self._scene = Scene()
        self._scene_lock = RLock()
        self._screen = _Screen(stream)
        self._changed = Signal()
        self._closing = Signal()
        self._drawing = Thread(target=self._draw_until_closed, name="ralph-display", daemon=True)
        atexit.register(self.close)
        self._drawing.start()

    def report(self, event: Event) -> None:
        now = self._now()
        with self._scene_lock:
            lane = self._scene.lane_of(event)
            self._scene.apply(event, now)
        happened = event.event if isinstance(event, WithinIteration) else event
        if not isinstance(happened, AgentActivity) and (rows := _lasting_rows(event, lane, self._screen.width)):
            self._draw(above=rows)
        else:
            self._changed.set()

    def line(self, text: str) -> None:
        """A line that stays, above the live ones."""
        self._draw(above=[Text(text)])

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._changed.set()
        self._drawing.join()
        self._screen.close()
        atexit.unregister(self.close)

    def _draw_until_closed(self) -> None:
        while not self._closing.is_set():
            self._changed.wait(self._longest_pause())
            self._changed.clear()
            self._draw()
            self._closing.wait(_SHORTEST_PAUSE)

    def _longest_pause(self) -> float | None:
        """A spinner turns, else a clock ticks, else nothing moves until something is reported."""
        with self._scene_lock:
            if self._scene.running_gate:
                return 0
            return _SECOND if self._scene.lanes else None

    def _draw(self, above: record.Rows | None = None) -> None:
        self._screen.draw(self._frame, above or [])

    def _frame(self, width: int, height: int) -> list[Text]:
        """The scene as it is when it is this drawing's turn: one taken earlier could be drawn over a later one."""
        with self._scene_lock:
            scene = self._scene.copy()
        scene.ended = scene.ended or self._closing.is_set()
        return frame(scene, self._now(), width=width, height=height)


def _lasting_rows(event: Event, lane: Lane, width: int) -> record.Rows:
    """What is to stay of an event that happened in `lane`."""
    rows: record.Rows = []
    match event:
        case WithinIteration():
            task = lane.iteration.task_id if lane.iteration else f"#{event.iteration_number}"
            rows = record.of_task(task, lambda left: _lasting_rows(event.event, lane, left), width)
        case Notice():
            rows = record.notice(event, width)
        case RunPlanned():
            rows = record.planned(event, width)
        case GateEnded() if event.on_base:
            rows = record.base_gate(event, width)
        case ReviewEnded():
            rows = record.reviewed(event, width)
        case IterationSettled():
            attempt = lane.iteration.attempt if lane.iteration else None
            rows = record.settled(event, list(lane.gates.values()), attempt, width)
        case RunEnded():
            rows = record.ended(event, width)
        case _:
            pass
    return rows


class _Screen:
    """Draws lines at the bottom over those drawn last, and lets others scroll away above. One write per drawing."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._lock = RLock()
        self._drawn: list[str] = []
        self._drawn_size = (0, 0)
        self._widths: list[int] = []
        self._painter = RichConsole(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard",
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def width(self) -> int:
        return max(self._stream.size()[0] - 1, 1)

    def draw(self, render: Callable[[int, int], list[Text]], above: record.Rows) -> None:
        with self._lock:
            size = columns, rows = self._stream.size()
            texts = render(max(columns - 1, 1), max(rows - 1, 1))
            lines = [self._painted(text) for text in texts]
            if not above and lines == self._drawn and size == self._drawn_size:
                return
            lasting = "".join(self._painted(row) + "\n" for row in above)
            start = self._back_to_the_top(columns)
            if lasting:
                start += _ERASE_BELOW + lasting
            self._stream.write(
                _HIDE_CURSOR + start + _NO_WRAP + _region(lines) + _WRAP + ("" if lines else _SHOW_CURSOR)
            )
            self._drawn, self._drawn_size = lines, size
            self._widths = [cell_len(text.plain) for text in texts]

    def close(self) -> None:
        with self._lock:
            if self._drawn:
                self._stream.write(self._back_to_the_top(self._stream.size()[0]) + _ERASE_BELOW + _SHOW_CURSOR)
            self._drawn, self._widths = [], []

    def _back_to_the_top(self, columns: int) -> str:
        """Most terminals break lines anew when they get narrower, so that what was one line may be several now."""
        rows = sum(max(-(-width // columns), 1) for width in self._widths)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "")

    def _painted(self, row: Text | Table) -> str:
        self._painter.width = max(self._stream.size()[0] - 1, 1)
        with self._painter.capture() as capture:
            self._painter.print(row, soft_wrap=isinstance(row, Text), end="")
        return capture.get()


def _region(lines: Sequence[str]) -> str:
    return (_ERASE_LINE + "\n").join(lines) + _ERASE_BELOW
