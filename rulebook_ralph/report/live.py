"""The live display: lines at the bottom of the terminal that follow the run; what is finished scrolls away above."""

import atexit
from collections import deque
from collections.abc import Callable
from datetime import datetime
from threading import Event as Signal
from threading import RLock, Thread
from typing import IO, cast

from rich.console import Console as RichConsole
from rich.console import ConsoleDimensions, ConsoleOptions, Group, RenderResult
from rich.control import Control
from rich.live import Live
from rich.text import Text

from rulebook_ralph.report import words
from rulebook_ralph.report.events import (
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
from rulebook_ralph.report.keys import Keyboard
from rulebook_ralph.report.scene import Lane, Scene
from rulebook_ralph.report.stream import Stream
from rulebook_ralph.tasks.results import CheckResult
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
_PAUSE = 0.25
"""Seconds between two frames."""
_MOST_REPAINTED = 200

Steer = Callable[[str, int], None]


class LiveDisplay:
    """Shows events on a terminal. Call `close` at the end, whatever happens: it puts the terminal back.

    `report` only notes an agent's activity; a thread draws, where something has changed. Safe to call from several
    threads, but not from a signal handler.
    """

    def __init__(
        self, stream: Stream, *, now: Callable[[], datetime], colour: bool = True, keyboard: int | None = None
    ) -> None:
        self._now = now
        self._scene = Scene()
        self._lock = RLock()
        self._console = _Terminal(stream, colour=colour)
        self._lasting: deque[Text] = deque(maxlen=_MOST_REPAINTED)
        self._steer: Steer | None = None
        self._keyboard = None if keyboard is None else Keyboard(keyboard, self._pressed)
        self._shown: tuple[list[Text], ConsoleDimensions] | None = None
        self._drawn = _Drawn()
        self._live = self._new_live()
        self._closing = Signal()
        self._drawing = Thread(target=self._draw_until_closed, name="ralph-display", daemon=True)
        atexit.register(self.close)
        self._live.start()
        self._drawing.start()
        if self._keyboard is not None:
            self._keyboard.open()

    def steered_by(self, steer: Steer | None) -> None:
        """Who is told of a key that is for the run: `p`, `q`, or `s` with the number of an iteration."""
        with self._lock:
            self._steer, self._scene.keys = steer, steer is not None and self._keyboard is not None

    def report(self, event: Event) -> None:
        with self._lock:
            lane = self._scene.lane_of(event)
            self._scene.apply(event, self._now())
            if rows := lasting_rows(event, lane, self._console.size.width):
                self._print(rows)

    def line(self, text: str) -> None:
        """A line that stays, above the live ones."""
        self._print([Text(text)])

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        if self._keyboard is not None:
            self._keyboard.close()
        self._drawing.join()
        self._live.stop()
        atexit.unregister(self.close)

    def _print(self, rows: list[Text]) -> None:
        """Above the live lines, which are drawn anew below them, in one write."""
        with self._lock:
            self._lasting.extend(rows)
            frame, size = self._frame()
            if self._has_shrunk(size):
                self._repaint(frame, size)
                return
            self._shown = frame, size
            self._drawn.rows = frame
            self._console.print(Group(*rows), soft_wrap=True)

    def _draw_until_closed(self) -> None:
        while not self._closing.wait(_PAUSE):
            with self._lock:
                shown = frame, size = self._frame()
                if self._has_shrunk(size):
                    self._repaint(frame, size)
                elif shown != self._shown:
                    self._shown, self._drawn.rows = shown, frame
                    self._live.refresh()

    def _has_shrunk(self, size: ConsoleDimensions) -> bool:
        """Then nobody knows any more where the lines are that were drawn: some terminals fold them, others cut them."""
        return self._shown is not None and (size.width < self._shown[1].width or size.height < self._shown[1].height)

    def _repaint(self, frame: list[Text], size: ConsoleDimensions) -> None:
        """The whole screen: the last lines that stay, and the live ones."""
        self._shown = frame, size
        room = size.height - 1 - len(frame)
        lasting: list[Text] = []
        for row in reversed(self._lasting):
            room -= max(-(-row.cell_len // size.width), 1)
            if room < 0:
                break
            lasting.insert(0, row)
        self._live.stop()
        self._console.control(Control.home(), Control.clear())
        if lasting:
            self._console.print(Group(*lasting), soft_wrap=True)
        self._live = self._new_live()  # the old one would go up to where it last drew
        self._drawn.rows = frame
        self._live.start(refresh=True)

    def _new_live(self) -> Live:
        return Live(
            self._drawn,
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _frame(self) -> tuple[list[Text], ConsoleDimensions]:
        size = self._console.size
        return frame(self._scene, self._now(), width=size.width, height=max(size.height - 1, 1)), size

    def _pressed(self, key: str) -> None:
        """In the keyboard's thread."""
        order: tuple[str, int] | None = None
        with self._lock:
            scene = self._scene
            asked, scene.question = bool(scene.question), ""
            working = [number for number, lane in scene.lanes.items() if not lane.gates][:9]
            if asked:
                chosen = 0 if key == "s" and len(working) == 1 else "123456789".find(key)
                order = ("s", working[chosen]) if 0 <= chosen < len(working) else None
            elif key == "o":
                scene.whole_output = not scene.whole_output
            elif key == "?":
                scene.help = not scene.help
            elif key == "s" and len(working) == 1:
                scene.question = f"stop the attempt of #{working[0]}? s: yes; any other key: no"
            elif key == "s" and working:
                opened = [scene.lanes[number].opened for number in working]
                names = ", ".join(f"{index} {clipped(each.task_id)}" for index, each in enumerate(opened, 1) if each)
                scene.question = f"stop which attempt? {names}; any other key: none"
            elif key in ("p", "q"):
                order = (key, 0)
            steer = self._steer
        if steer is not None and order is not None:
            steer(*order)


class _Drawn:
    """The live lines, as they are at the time of drawing."""

    def __init__(self) -> None:
        self.rows: list[Text] = []

    def __rich_console__(self, _console: RichConsole, _options: ConsoleOptions) -> RenderResult:
        yield from self.rows


class _Terminal(RichConsole):
    """Rich's console on a stream that never fails; the last column stays free, where terminals wrap."""

    def __init__(self, stream: Stream, *, colour: bool) -> None:
        self._stream = stream
        super().__init__(
            file=cast("IO[str]", stream),
            force_terminal=True,
            color_system="standard",
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    @property
    def size(self) -> ConsoleDimensions:
        columns, rows = self._stream.size()
        return ConsoleDimensions(max(columns - 1, 1), rows)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        raise NotImplementedError


def lasting_rows(event: Event, lane: Lane, width: int) -> list[Text]:
    """What is to stay on the screen of an event that happened in `lane`."""
    name = ""
    if isinstance(event, WithinIteration):
        name = clipped(lane.opened.task_id if lane.opened else f"#{event.iteration_number}") + ": "
        event = event.event
    if isinstance(event, GateEnded) and (event.about or not event.on_base):
        return []
    if not isinstance(event, _LASTING):
        return []
    mark, style = _mark(event)
    rows: list[Text] = []
    for line in words.lines_of(event, width=max(width - 2, 1)):
        text = line if rows else line.strip().removeprefix("warning: ")
        rows.append(Text.assemble((name, "bold"), ("  " if rows else mark, f"bold {style}"), text))
    if isinstance(event, IterationSettled):
        ended = [gate.result for gate in lane.gates.values() if gate.result is not None]
        if ended:
            facts = (
                f"{words.check_name(each)} {_ended(each, event)} {duration(each.duration_ms / 1000)}" for each in ended
            )
            rows.append(Text(f"  {' · '.join(facts)}", "dim"))
    return rows


def _ended(gate: CheckResult, settled: IterationSettled) -> str:
    """A gate that is red although the work was accepted was red before."""
    holds = settled.outcome in {"completed", "verified"}
    return "red before, not counted" if holds and gate.failed and gate.required else gate.ending


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
