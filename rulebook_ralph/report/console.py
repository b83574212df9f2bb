"""All that Ralph shows: the answers of commands, and a run as it happens: live, as plain lines or as lines of JSON.

A display is imported when a run reports its first event: most commands need none, and rich costs more than a whole
`status`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

import msgspec

from rulebook_ralph.report.stream import Stream, table_lines
from rulebook_ralph.tasks.text import printable, printable_block
from rulebook_ralph.verify.redaction import cleaned

if TYPE_CHECKING:
    from rulebook_ralph.report.events import Event

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_UNUSUAL = re.compile(r"[^ -~\n]")


class Display(Protocol):
    """Shows events; `line` takes printable text, `close` puts the terminal back."""

    def report(self, event: "Event") -> None: ...

    def line(self, text: str) -> None: ...

    def steered_by(self, steer: "Callable[[str, int], None] | None") -> None: ...

    def close(self) -> None: ...


class Console:
    """Where commands say what they have to say. A context manager: leaving it puts the terminal back.

    Text may come from anywhere, it is made printable here. Nothing raises when the reader is gone.
    Safe to call from several threads, but not from a signal handler.
    """

    def __init__(
        self,
        *,
        out: Stream,
        err: Stream,
        lines: Stream | None,
        events: "Callable[[Event], None] | None",
        open_display: Callable[[], Display],
        clean: Callable[[str], str],
        colour: bool = False,
    ) -> None:
        self._clean = clean
        self._colour = colour
        self._out = out
        self._err = err
        self._lines = lines
        self._events = events
        self._open_display = open_display
        self._display: Display | None = None
        self._opening = Lock()
        self._steer: Callable[[str, int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()

    def report(self, event: "Event") -> None:
        """Show what happened in a run."""
        event = cleaned(event, self._clean)
        with self._opening:
            if self._display is None:
                self._display = self._open_display()
                self._display.steered_by(self._steer)
            display = self._display
            if self._events is not None:
                self._events(event)
        display.report(event)

    def rest(self) -> None:
        """Put the terminal back until something happens again, so that a person may be asked there."""
        with self._opening:
            if self._display is not None:
                self._display.close()
            self._display = None

    @contextmanager
    def steered_by(self, steer: Callable[[str, int], None]) -> Iterator[None]:
        """Keys for the run are told meanwhile, each with the iteration that it is about, or 0."""
        try:
            self._steered(steer)
            yield
        finally:
            self._steered(None)

    def _steered(self, steer: Callable[[str, int], None] | None) -> None:
        with self._opening:
            self._steer = steer
            if self._display is not None:
                self._display.steered_by(steer)

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line of a command's answer (or several); with `--json` it goes to stderr, with `--quiet` too nowhere."""
        shown = self._painted(printable_block(self._clean(text)), style)
        if self._display is not None:
            self._display.line(shown)
        elif self._lines is not None:
            self._lines.write(shown + "\n")

    def table(
        self, headings: Sequence[str], rows: Iterable[Sequence[str]], *, styles: Mapping[str, Mapping[str, str]] = {}
    ) -> None:
        """Aligned columns, cut to the terminal's width where it is one. `styles`: heading -> word -> style of the cells
        that begin with it.
        """
        if self._lines is None:
            return
        of_column = [styles.get(heading, {}) for heading in headings]

        def paint(column: int, text: str) -> str:
            return self._painted(
                text, next((of_column[column][w] for w in of_column[column] if text.startswith(w)), "")
            )

        cells = [[self._clean(cell) for cell in row] for row in rows]
        width = self._lines.size()[0] if self._lines.isatty() else None
        for line in table_lines(headings, cells, width, paint):
            if self._display is not None:
                self._display.line(line)
            else:
                self._lines.write(line + "\n")

    def verbatim(self, text: str, *, diff: bool = False) -> None:
        """A diff, a prompt or an output: every character as it is, except on a terminal; a last line feed is added."""
        if self._lines is None or not text:
            return
        text = self._clean(text)
        text = text if text.endswith("\n") else text + "\n"
        if not self._lines.isatty():
            self._lines.write(text)
        elif not diff:
            self._lines.write(printable_block(text))
        else:
            for line in printable_block(text).splitlines():
                self._lines.write(self._painted(line, _style_in_diff(line)) + "\n")

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

    def error(self, text: str) -> None:
        """What is wrong, as one line on stderr."""
        shown = f"error: {printable(self._clean(text))}"
        if self._display is not None and self._err.isatty():
            self._display.line(shown)
        else:
            self._err.write(shown + "\n")

    def json(self, value: object) -> None:
        """The one object of `--json` on stdout (dicts, lists, structs, dataclasses); with `--events` on one line."""
        plain = cleaned(msgspec.to_builtins(value), self._clean)
        indent = 2 if self._events is None else 0
        self._out.write(json_text(plain, ascii_only=not self._out.unicode, indent=indent) + "\n")


def open_console(
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
) -> Console:
    """The console for one command: live on a terminal, else plain lines; with `json` only the object on stdout, with
    `events` only events there, each a line of JSON, as they happen.

    Plain too with `quiet`, and where `CI` or a dumb `TERM` is set in `environment`; `NO_COLOR` takes the colour. Keys
    are read from the terminal `keyboard`; `terminal` is what a pager's pipe leads to. `clean` takes secrets out of
    whatever is shown.
    """
    out, err = Stream(stdout, terminal), Stream(stderr)
    lines: Stream | None = out
    if json or events:
        lines = None if quiet else err

    def open_display() -> Display:
        if quiet or json or events or not _may_move_the_cursor(out, environment):
            from rulebook_ralph.report.plain import PlainDisplay  # noqa: PLC0415 - see above

            return PlainDisplay(lines, now=now, quiet=quiet)
        from rulebook_ralph.report.live import LiveDisplay  # noqa: PLC0415 - see above

        return LiveDisplay(out, now=now, colour=not environment.get("NO_COLOR"), keyboard=keyboard)

    def write_event(event: "Event") -> None:
        line = json_text(_event_object(event, now()), ascii_only=not out.unicode, indent=0)
        out.write(line + "\n")

    return Console(
        out=out,
        err=err,
        lines=lines,
        events=write_event if events else None,
        open_display=open_display,
        clean=clean,
        colour=not environment.get("NO_COLOR") and environment.get("TERM", "dumb") != "dumb",
    )


def _style_in_diff(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _may_move_the_cursor(stream: Stream, environment: Mapping[str, str]) -> bool:
    return (
        stream.isatty()
        and environment.get("TERM", "dumb") != "dumb"
        and environment.get("CI", "").lower() not in {"1", "true"}
    )


def _event_object(event: "Event", now: datetime) -> dict[str, object]:
    """`{event: "GateEnded", at, ...}`; what happened within an iteration has its number beside its own fields."""
    from rulebook_ralph.report.events import WithinIteration  # noqa: PLC0415 - not for commands that only answer

    number = {}
    if isinstance(event, WithinIteration):
        number, event = {"iterationNumber": event.iteration_number}, event.event
    fields = msgspec.to_builtins(event)
    return {"event": fields.pop("event"), "at": now.isoformat(timespec="milliseconds"), **number, **fields}


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
