"""The live display on a real pseudo terminal, its stream played on a small screen."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TextIO

import pytest
from msgspec.structs import replace

from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import (
    AgentActivity,
    Event,
    GateStarted,
    Notice,
    RunEnded,
    TaskLine,
    WithinIteration,
)
from tests.played import Played
from tests.unit.report.console_events import GATE_PASSED, GATE_STARTED, PLAN, opened, settled, used

TERMINAL = {"TERM": "xterm-256color"}
ENDED = RunEnded("complete", "", (TaskLine("t1", "T", "completed", 1, 0.1),), 1, 1, 0, 0.1, 9, 8100, ("ralph show 1",))


class Terminal:
    """A pseudo terminal whose output is collected."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(columns, rows)
        self.file: TextIO = os.fdopen(self._slave, "w", encoding="utf-8")
        self._chunks: list[bytes] = []
        self._reader = Thread(target=self._read)
        self._reader.start()

    def resize(self, columns: int, rows: int) -> None:
        self.columns = columns
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._master, 65536)
            except OSError:
                return
            if not chunk:
                return
            self._chunks.append(chunk)

    @property
    def stream(self) -> str:
        return b"".join(self._chunks).decode(errors="ignore")

    def shows(self, *texts: str) -> list[str]:
        """The rows as soon as they contain all of `texts`."""
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            rows = Played(self.columns).play(self._whole_tokens()).rows
            if all(any(text in row for row in rows) for text in texts):
                return rows
            time.sleep(0.02)
        pytest.fail(f"never shown together: {texts}; last:\n" + "\n".join(rows))

    def _whole_tokens(self) -> str:
        return re.sub(r"\x1b[^A-Za-z]*\Z", "", self.stream)

    def close(self) -> str:
        """Everything written."""
        self.file.close()
        self._reader.join()
        os.close(self._master)
        return self.stream


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    if not made.file.closed:
        made.close()


def now() -> datetime:
    return datetime.now(tz=UTC)


def show(terminal: Terminal, *events: Event) -> None:
    with Console(terminal.file, sys.stderr, environment=TERMINAL, now=now) as console:
        for event in events:
            console.report(event)


def test_what_is_finished_stays_once_and_the_live_lines_go(terminal: Terminal) -> None:
    show(
        terminal,
        *(PLAN, replace(GATE_STARTED, on_base=True), replace(GATE_PASSED, on_base=True)),
        *(
            opened(1),
            AgentActivity("tool", "Bash", "ls"),
            GATE_STARTED,
            GATE_PASSED,
            settled(1),
        ),
        *(Notice("warning", "look out"), opened(2), AgentActivity("text", "hello"), settled(2), ENDED),
    )
    screen = Played(80).play(terminal.close())
    text = "\n".join(screen.rows)
    gates = ("✔ gate tests on the base: ok · 1.2 s", "  tests passed 1.2 s")
    for once in ("9 of 12 tasks open", *gates, "✔ #1 t1: completed", "! look out", "✔ #2 t2: completed"):
        assert text.count(once) == 1, once
    assert "✔ all complete: 1 completed" in text
    assert [row for row in screen.rows if row][-1] == "  next: ralph show 1"
    assert "▸" not in text
    assert screen.cursor


def test_while_it_runs_one_sees_the_task_the_agent_and_the_gate(terminal: Terminal) -> None:
    with Console(terminal.file, sys.stderr, environment=TERMINAL, now=now) as console:
        console.report(PLAN)
        console.report(opened(1))
        terminal.shows(
            "▸ t1  A title",
            "#1 · coder · attempt 2 of 5",
            "3 of 12 tasks",
            "1 of at most 20 iterations · 0:0",
            "claude is at work",
        )
        console.report(AgentActivity("tool", "Bash", "ls -l"))
        console.report(AgentActivity("text", "I see it."))
        terminal.shows("● Bash  ls -l", "│ I see it.")
        console.report(GATE_STARTED)
        rows = terminal.shows(" tests  0:0", "make test")
        assert not any("I see" in row for row in rows)
        console.report(GATE_PASSED)
        terminal.shows("✔ tests  1.2 s")
        console.line("said between")
        terminal.shows("said between", "▸ t1")
        console.report(settled(1))
        assert not any("▸ t1" in row for row in terminal.shows("✔ #1")), "at once, and not with the next frame"


def test_an_exception_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    def interrupted_run() -> None:
        with Console(terminal.file, sys.stderr, environment=TERMINAL, now=now) as console:
            console.report(PLAN)
            console.report(opened(1))
            terminal.shows("▸ t1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    screen = Played(80).play(terminal.close())
    assert screen.cursor
    assert not any("▸" in row for row in screen.rows)


def test_hostile_text_neither_moves_the_cursor_nor_is_markup(terminal: Terminal) -> None:
    hostile = "[bold red]markup[/] \x1b[2J\x1b[H\x9b1A\r\n\x07\x1b]0;title\x07 \u202eoverride :smile: 漢" + "x" * 10_000
    show(
        terminal,
        PLAN,
        opened(1, title=hostile),
        AgentActivity("tool", hostile, hostile),
        AgentActivity("text", hostile),
        GateStarted("tests", hostile),
        settled(1),
        Notice("warning", hostile),
        ENDED,
    )
    stream = terminal.close()
    assert "[bold red]markup[/]" in stream
    assert ":smile:" in stream
    assert "\u202e" not in stream
    assert "\x07" not in stream
    Played(10_000).play(stream)


@pytest.mark.parametrize("columns", [1, 2, 10, 40])
def test_a_narrow_terminal(columns: int) -> None:
    terminal = Terminal(columns, 8)
    show(
        terminal,
        PLAN,
        opened(1, title="A title that is long" * 9),
        AgentActivity("tool", "Bash", "ls" * 99),
        settled(1),
        ENDED,
    )
    assert Played(columns).play(terminal.close()).cursor


def test_ten_thousand_activities_a_second_cost_little_and_draw_rarely(terminal: Terminal) -> None:
    with Console(terminal.file, sys.stderr, environment=TERMINAL, now=now) as console:
        console.report(PLAN)
        console.report(opened(1))
        began, worked = time.perf_counter(), time.thread_time()
        for number in range(20_000):
            console.report(AgentActivity("text", f"piece {number} "))
        took, worked = time.perf_counter() - began, time.thread_time() - worked
        terminal.shows("piece 19999")
    assert worked < 2
    assert terminal.close().count("of 12 tasks") < 8 + 5 * took


def test_four_threads_that_report_at_once_are_shown_together_and_end_one_by_one(terminal: Terminal) -> None:
    def work(number: int) -> None:
        console.report(opened(number))
        for count in range(2_500):
            console.report(used(number, f"Tool{number}", f"use {count}"))

    with Console(terminal.file, sys.stderr, environment=TERMINAL, now=now) as console:
        console.report(PLAN)
        threads = [Thread(target=work, args=(number,)) for number in range(1, 5)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        terminal.shows(*(f"● Tool{number}  use 2499" for number in range(1, 5)))
        console.report(WithinIteration(3, Notice("warning", "look out")))
        for number in (2, 4, 1):
            console.report(settled(number))
        rows = terminal.shows("▸ t3  A title", "#3 · coder · attempt 2 of 5", "t3: ! look out", "✔ #1")
        assert [row.split()[2] for row in rows if row.startswith("✔ #")] == ["t2:", "t4:", "t1:"]
    assert took < 2
    assert terminal.close().count("of 12 tasks") < 12 + 5 * took


def test_nothing_is_written_while_nothing_changes(terminal: Terminal) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with Console(terminal.file, sys.stderr, environment=TERMINAL, now=lambda: noon) as console:
        console.report(PLAN)
        console.report(opened(1))
        console.report(GATE_STARTED)
        terminal.shows("make test")
        before = len(terminal.stream)
        time.sleep(0.6)
        assert len(terminal.stream) == before


@pytest.mark.parametrize(
    ("environment", "quiet"),
    [
        ({**TERMINAL, "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
        (TERMINAL, True),
    ],
)
def test_plain_lines_where_they_are_wanted(terminal: Terminal, environment: dict[str, str], *, quiet: bool) -> None:
    with Console(terminal.file, sys.stderr, environment=environment, now=now, quiet=quiet) as console:
        for event in (PLAN, opened(1), settled(1), ENDED):
            console.report(event)
    stream = terminal.close()
    assert "\x1b" not in stream
    assert "#1 t1: completed" in stream


def test_a_terminal_that_vanishes_stops_nothing(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            """
            import signal, sys, time
            from datetime import UTC, datetime
            from rulebook_ralph.report.console import Console
            from rulebook_ralph.report.events import *
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            now = lambda: datetime.now(tz=UTC)
            with Console(sys.stdout, sys.stderr, environment={"TERM": "xterm"}, now=now) as c:
                c.report(RunPlanned("p", "b", "a", 1, 1, 0, 1, None, None))
                c.report(IterationOpened(1, 1, 1, "t1", "T", "coder", 1, 1, 0, 1))
                sys.stdin.read(1)
                for _ in range(3):
                    c.report(Notice("info", "x" * 5000))
                    time.sleep(0.1)
                c.line("said")
            open(sys.argv[1], "w").write("to the end")
            """
        )
    )
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "end")],
        stdin=subprocess.PIPE,
        stdout=slave,
        stderr=subprocess.PIPE,
    )
    os.close(slave)
    while b"b" not in os.read(master, 65536):
        pass
    os.close(master)
    _out, err = child.communicate(b"x", timeout=20)
    assert (child.returncode, err) == (0, b"")
    assert (tmp_path / "end").read_text() == "to the end"


def test_a_reader_that_leaves_a_pipe_stops_nothing(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from datetime import UTC, datetime
            from rulebook_ralph.report.console import Console
            from rulebook_ralph.report.events import Notice
            with Console(sys.stdout, sys.stderr, environment={}, now=lambda: datetime.now(tz=UTC)) as console:
                for number in range(20_000):
                    console.report(Notice("info", f"line {number}"))
            assert "rich" not in sys.modules
            sys.stderr.write("to the end")
            """
        )
    )
    command = f'"{sys.executable}" "{script}" | head -n 1; echo "${{PIPESTATUS[0]}}"'
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30)
    first, code = ended.stdout.splitlines()
    assert first.endswith(" line 0")
    assert (code, ended.stderr) == ("0", "to the end")
