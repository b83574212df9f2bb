"""All that Ralph shows: the answers of commands, and a run as it happens: live, as plain lines or as lines of JSON.

The live display is imported when a run reports its first event: rich costs more than a whole `status`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Self, TextIO

import msgspec

from rulebook_ralph.report import words
from rulebook_ralph.report.events import Event, IterationOpened, WithinIteration, as_object
from rulebook_ralph.report.stream import Stream, table_lines
from rulebook_ralph.tasks.text import clipped, printable, printable_block
from rulebook_ralph.verify.redaction import cleaned

if TYPE_CHECKING:
    from rulebook_ralph.report.live import LiveDisplay

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_UNUSUAL = re.compile(r"[^ -~\n]")


class Console:
    """Where commands say what they have to say. A context manager: leaving it puts the terminal back.

    A run is live on a terminal, else plain lines; with `json` stdout has only the object, with `events` only events,
    each a line of JSON. Plain too with `quiet`, and where `CI` or a dumb `TERM` is set in `environment`; `NO_COLOR`
    takes the colour. Keys are read from the terminal `keyboard`; `terminal` is what a pager's pipe leads to. `clean`
    takes secrets out of whatever is shown.

    Text may come from anywhere, it is made printable here. Nothing raises when the reader is gone.
    Safe to call from several threads, but not from a signal handler.
    """

    def __init__(
        self,
        stdout: TextIO,
        stderr: TextIO,
        *,
        environment: Mapping[str, str],
        now: Callable[[], datetime],
        quiet: bool = False,
        json: bool = False,
        events: bool = False,
        keyboard: int | None = None,
        terminal: TextIO | None = None,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._out, self._err = Stream(stdout, terminal), Stream(stderr)
        self._lines: Stream | None = self._out
        if json or events:
            self._lines = None if quiet else self._err
        self._now, self._clean, self._keyboard = now, clean, keyboard
        self._quiet, self._tells_events = quiet, events
        knows_codes = environment.get("TERM", "dumb") != "dumb"
        self._colour = knows_codes and not environment.get("NO_COLOR")
        in_ci = environment.get("CI", "").lower() in {"1", "true"}
        self._is_live = knows_codes and not (quiet or json or events or in_ci) and self._out.isatty()
        self._live: LiveDisplay | None = None
        self._opening = Lock()
        self._steer: Callable[[str, int], None] | None = None
        self._tasks: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rest()

    def report(self, event: Event) -> None:
        """Show what happened in a run."""
        event = cleaned(event, self._clean)
        if self._tells_events:
            line = json_text(as_object(event, self._now()), ascii_only=not self._out.unicode, indent=0)
            self._out.write(line + "\n")
        if self._is_live:
            self._display().report(event)
        elif self._lines is not None:
            self._lines.write("".join(f"{line}\n" for line in self._told(event)))

    def _display(self) -> "LiveDisplay":
        from rulebook_ralph.report.live import LiveDisplay  # noqa: PLC0415 - see above

        with self._opening:
            if self._live is None:
                self._live = LiveDisplay(
                    self._out,
                    now=self._now,
                    colour=self._colour,
                    keyboard=self._keyboard,
                    steer=lambda: self._steer,
                )
            return self._live

    def _told(self, event: Event) -> Iterator[str]:
        """Lines for a log, with a clock time; what is done beside other work begins with the name of its task."""
        name, clock = "", f"{self._now():%H:%M:%S}"
        if isinstance(event, IterationOpened):
            self._tasks[event.iteration_number] = clipped(event.task_id)
        if isinstance(event, WithinIteration):
            name, event = f"{self._tasks.get(event.iteration_number, f'#{event.iteration_number}')}: ", event.event
        for line in words.lines_of(event, quiet=self._quiet):
            yield f"{clock} {name}{line}".rstrip()

    def rest(self) -> None:
        """Put the terminal back until something happens again, so that a person may be asked there."""
        with self._opening:
            if self._live is not None:
                self._live.close()
            self._live = None

    @contextmanager
    def steered_by(self, steer: Callable[[str, int], None]) -> Iterator[None]:
        """Keys for the run are told meanwhile, each with the iteration that it is about, or 0."""
        self._steer = steer
        try:
            yield
        finally:
            self._steer = None

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line of a command's answer (or several); with `--json` it goes to stderr, with `--quiet` too nowhere."""
        self._write(self._painted(printable_block(self._clean(text)), style))

    def table(
        self, headings: Sequence[str], rows: Iterable[Sequence[str]], *, styles: Mapping[str, Mapping[str, str]] = {}
    ) -> None:
        """Aligned columns, cut to the terminal's width where it is one. `styles`: heading -> word -> style of the cells
        that begin with it.
        """
        if self._lines is None:
            return

        def paint(column: int, text: str) -> str:
            found = styles.get(headings[column], {})
            return self._painted(text, next((found[word] for word in found if text.startswith(word)), ""))

        cells = [[self._clean(cell) for cell in row] for row in rows]
        width = self._lines.size()[0] if self._lines.isatty() else None
        for line in table_lines(headings, cells, width, paint):
            self._write(line)

    def verbatim(self, text: str, *, diff: bool = False) -> None:
        """A diff, a prompt or an output: every character as it is, except on a terminal; a last line feed is added."""
        if self._lines is None or not text:
            return
        text = self._clean(text)
        text = text if text.endswith("\n") else text + "\n"
        if self._lines.isatty():
            lines = printable_block(text).splitlines()
            text = "".join(f"{self._painted(line, _style_in_diff(line) if diff else '')}\n" for line in lines)
        self._lines.write(text)

    def raw(self, data: bytes) -> None:
        """Bytes as they are where nothing secret is in them; on a terminal what can be shown."""
        text = data.decode(errors="replace")
        if (
            self._lines is None
            or self._lines.isatty()
            or self._clean(text) != text
            or not self._lines.write_bytes(data)
        ):
            self.verbatim(text)

    def _painted(self, text: str, style: str) -> str:
        coloured = style and text and self._colour and self._lines is not None and self._lines.isatty()
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if coloured else text

    def _write(self, line: str) -> None:
        if self._live is not None:
            self._live.line(line)
        elif self._lines is not None:
            self._lines.write(line + "\n")

    def error(self, text: str) -> None:
        """What is wrong, as one line on stderr."""
        shown = f"error: {printable(self._clean(text))}"
        if self._live is not None and self._err.isatty():
            self._live.line(shown)
        else:
            self._err.write(shown + "\n")

    def json(self, value: object) -> None:
        """The one object of `--json` on stdout (dicts, lists, structs, dataclasses); with `--events` on one line."""
        plain = cleaned(msgspec.to_builtins(value), self._clean)
        indent = 0 if self._tells_events else 2
        self._out.write(json_text(plain, ascii_only=not self._out.unicode, indent=indent) + "\n")


def _style_in_diff(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def json_text(value: object, *, ascii_only: bool, indent: int = 2) -> str:
    """The value as JSON that is safe on a terminal; on one line where `indent` is 0."""
    try:
        text = msgspec.json.encode(value).decode()
        text = msgspec.json.format(text, indent=indent) if indent else text
    except UnicodeEncodeError:  # a lone surrogate
        text, ascii_only = json.dumps(msgspec.to_builtins(value), indent=indent or None), True

    def safe(found: re.Match[str]) -> str:
        char = found[0]
        return char if char.isprintable() and not ascii_only else json.dumps(char)[1:-1]

    return _UNUSUAL.sub(safe, text)
