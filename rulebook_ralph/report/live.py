"""The live display: lines at the bottom of the terminal that follow the run; what is finished scrolls away above."""

import atexit
import os
import select
import termios
import tty
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from threading import Event, RLock, Thread
from typing import IO, cast

from rich.console import Console as RichConsole
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from rulebook_ralph.report import events, words
from rulebook_ralph.report.screen import Lane, Scene, frame
from rulebook_ralph.report.stream import Stream
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import clipped, duration

_PASSING = events.IterationOpened | events.AgentActivity | events.ReviewStarted | events.Waiting
"""What the live lines show, and nothing else."""
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
_LOOK = 0.5
"""Seconds after which it is looked whether the terminal is still our own: ^Z and `fg` change that."""

Steer = Callable[[str, int], None]


class LiveDisplay:
    """Shows events on a terminal. Call `close` at the end, whatever happens: it puts the terminal back.

    `report` only notes an agent's activity; a thread draws, where something has changed. `steer` gives who is told of a
    key that is for the run: `p`, `q`, or `s` with the number of an iteration. Safe to call from several threads, but
    not from a signal handler.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        now: Callable[[], datetime],
        colour: bool,
        keyboard: int | None,
        steer: Callable[[], Steer | None],
    ) -> None:
        self._stream = stream
        self._now = now
        self._steer = steer
        self._scene = Scene()
        self._lock = RLock()
        self._console = RichConsole(
            file=cast("IO[str]", stream),
            force_terminal=True,
            color_system="standard",
            no_color=not colour,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._lasting: deque[Text] = deque(maxlen=_MOST_REPAINTED)
        self._shown: list[Text] = []
        self._size = stream.size()
        self._keyboard = None if keyboard is None else Keyboard(keyboard, self._pressed)
        self._closing = Event()
        self._drawing = Thread(target=self._draw_until_closed, name="ralph-display", daemon=True)
        atexit.register(self.close)
        self._console.show_cursor(show=False)
        self._drawing.start()
        if self._keyboard is not None:
            self._keyboard.open()

    def report(self, event: events.Event) -> None:
        with self._lock:
            lane = self._scene.lane_of(event)
            self._scene.apply(event, self._now())
            if rows := lasting_rows(event, lane, self._stream.size()[0] - 1):
                self._draw(rows)

    def line(self, text: str) -> None:
        """A line that stays, above the live ones."""
        self._draw([Text(text)])

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        if self._keyboard is not None:
            self._keyboard.close()
        self._drawing.join()
        self._draw()
        self._console.show_cursor()
        atexit.unregister(self.close)

    def _draw_until_closed(self) -> None:
        while not self._closing.wait(_PAUSE):
            self._draw()

    def _draw(self, lasting: Sequence[Text] = ()) -> None:
        """What is to stay, and below it the live lines anew, in one write; nothing where nothing has changed.

        When the terminal has shrunk nobody knows any more where the lines are that were drawn, as some fold them and
        others cut them: then the whole screen is drawn.
        """
        with self._lock:
            self._lasting.extend(lasting)
            size, before = self._stream.size(), self._size
            rows = self._frame(*size)
            if not lasting and (rows, size) == (self._shown, before):
                return
            with self._console:
                if size[0] < before[0] or size[1] < before[1]:
                    lasting = self._last_lasting(size[0], size[1] - 1 - len(rows))
                    self._console.control(Control.home(), Control.clear())
                else:
                    up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
                    self._console.control(Control(*up * len(self._shown)))
                for row in (*lasting, *rows):
                    self._console.print(row, soft_wrap=True)
            self._shown, self._size = rows, size

    def _frame(self, columns: int, height: int) -> list[Text]:
        """The live lines. The last column and row stay free: terminals wrap and scroll there."""
        if self._closing.is_set():
            return []
        self._scene.keys = self._keyboard is not None and self._steer() is not None
        return frame(self._scene, self._now(), width=max(columns - 1, 1), height=max(height - 1, 1))

    def _last_lasting(self, columns: int, room: int) -> list[Text]:
        """The last lines that stay, as many as there is room for."""
        rows: list[Text] = []
        for row in reversed(self._lasting):
            room -= max(-(-row.cell_len // columns), 1)
            if room < 0:
                break
            rows.insert(0, row)
        return rows

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
        if order is not None and (steer := self._steer()):
            steer(*order)


class Keyboard:
    """Reads single keys from a terminal, in a thread of its own, from `open` to `close`. ^C stays what it is, and
    nothing is touched while another process group has the terminal.
    """

    def __init__(self, terminal: int, pressed: Callable[[str], None]) -> None:
        self._terminal = terminal
        self._pressed = pressed
        self._closing, self._close = os.pipe()
        self._before: list[object] | None = None
        self._thread = Thread(target=self._read, name="ralph-keys", daemon=True)

    def open(self) -> None:
        with suppress(termios.error, OSError):
            self._take()
        self._thread.start()

    def close(self) -> None:
        """Put the terminal back as it was; what was typed and not read is thrown away."""
        os.write(self._close, b"\0")
        self._thread.join()
        os.close(self._close)
        os.close(self._closing)
        with suppress(termios.error, OSError):
            if self._before is not None and self._is_ours():
                termios.tcsetattr(self._terminal, termios.TCSAFLUSH, self._before)  # type: ignore[arg-type]

    def _read(self) -> None:
        with suppress(termios.error, OSError):  # the terminal is gone
            while True:
                watched = [self._closing, self._terminal] if self._take() else [self._closing]
                ready, _, _ = select.select(watched, [], [], _LOOK)
                if self._closing in ready:
                    return
                if self._terminal in ready and self._is_ours():
                    typed = os.read(self._terminal, 1024)
                    if not typed:
                        return
                    for key in "" if typed.startswith(b"\x1b") else typed.decode("utf-8", "replace"):
                        self._pressed(key)

    def _is_ours(self) -> bool:
        return os.tcgetpgrp(self._terminal) == os.getpgrp()

    def _take(self) -> bool:
        """Have each key come at once, unseen, also after somebody else put the terminal back; whether it is ours."""
        if not self._is_ours():
            return False
        mode = termios.tcgetattr(self._terminal)
        if mode[3] & (termios.ICANON | termios.ECHO):
            self._before = self._before or mode
            tty.setcbreak(self._terminal, termios.TCSADRAIN)
        return True


def lasting_rows(event: events.Event, lane: Lane, width: int) -> list[Text]:
    """What is to stay on the screen of an event that happened in `lane`."""
    name = ""
    if isinstance(event, events.WithinIteration):
        name = clipped(lane.opened.task_id if lane.opened else f"#{event.iteration_number}") + ": "
        event = event.event
    if isinstance(event, _PASSING) or (isinstance(event, events.GateEnded) and (event.about or not event.on_base)):
        return []
    mark, style = _mark(event)
    rows: list[Text] = []
    for line in words.lines_of(event, width=max(width - 2, 1)):
        text = line if rows else line.strip().removeprefix("warning: ")
        rows.append(Text.assemble((name, "bold"), ("  " if rows else mark, f"bold {style}"), text))
    if isinstance(event, events.IterationSettled):
        ended = [gate.result for gate in lane.gates.values() if gate.result is not None]
        facts = [
            f"{words.check_name(each)} {_ended(each, event)} {duration(each.duration_ms / 1000)}" for each in ended
        ]
        rows += [Text(f"  {' · '.join(facts)}", "dim")] if facts else []
    return rows


def _ended(gate: CheckResult, settled: events.IterationSettled) -> str:
    """A gate that is red although the work was accepted was red before."""
    holds = settled.outcome in {"completed", "verified"}
    return "red before, not counted" if holds and gate.failed and gate.required else gate.ending


def _mark(event: events.Event) -> tuple[str, str]:
    """What an event's first line begins with, and its colour."""
    match event:
        case events.IterationSettled():
            return _MARKS[event.outcome]
        case events.RunEnded():
            return ("✔ ", "green") if event.stop_reason in {"complete", "paused"} else ("■ ", "yellow")
        case events.GateEnded():
            return ("✔ ", "green") if event.result.passed else ("✘ ", "yellow")
        case events.BranchWaiting() | events.Notice(level="warning"):
            return "! ", "yellow"
    return "  ", ""
