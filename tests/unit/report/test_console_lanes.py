"""Several iterations at once: the frame of the live display, and plain lines in which each says whose it is."""

import io
import re
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import (
    AgentActivity,
    GateStarted,
    Notice,
    ReviewEnded,
    RunEnded,
    Waiting,
    WithinIteration,
)
from rulebook_ralph.report.live import LiveDisplay
from rulebook_ralph.tasks.review import ReviewLook, reviewed
from tests.unit.report.console_events import (
    GATE_PASSED,
    GATE_STARTED,
    NOON,
    PLAN,
    live,
    opened,
    plain,
    said,
    settled,
    used,
)

ENDED = RunEnded("complete", "", (), 3, 3, 0, 0.3, 30, 9000)
HOSTILE = "\x1b[2J\x1b[H\u202eevil\n12:00:00 two: forged\r\x9b1A\u200b"


# The live display


def test_a_frame_has_a_block_for_each_open_iteration() -> None:
    rows = live(
        *(PLAN, opened(6), settled(6)),
        *(opened(7, "read"), opened(8, "write"), opened(9, "parse")),
        *(used(7, "Edit", "a.py"), said(8, "I look."), used(7, "Bash", "ls")),
        *(WithinIteration(9, GATE_STARTED), WithinIteration(9, GATE_PASSED)),
        WithinIteration(9, GateStarted("lint", "ruff check")),
    )
    assert [re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*", row) for row in rows] == [
        "",
        "  ━━━━━━━─────────────────────── 3 of 12 tasks",
        "  9 of at most 20 iterations · 0:05 · $0.10 · 9 tokens",
        "▸ read  A title",
        "  #7 · coder · attempt 2 of 5 · 0:05",
        "  ● Edit  a.py",
        "  ● Bash  ls",
        "▸ write  A title",
        "  #8 · coder · attempt 2 of 5 · 0:05",
        "  │ I look.",
        "▸ parse  A title",
        "  #9 · coder · attempt 2 of 5 · 0:05",
        "  ✔ tests  1.2 s",
        "  * lint  0:05  ruff check",
    ]


@pytest.mark.parametrize("height", [23, 12, 10])
def test_eight_workers_have_a_line_each_on_a_low_terminal(height: int) -> None:
    several = [opened(number) for number in range(1, 9)]
    rows = live(PLAN, *several, *(used(number, f"Tool{number}") for number in range(1, 9)), height=height)
    assert rows[-8:] == [
        f"▸ t{number}  #{number} · coder · attempt 2 of 5 · 0:05  ● Tool{number}" for number in range(1, 9)
    ]


def test_where_not_even_a_line_is_left_for_each_it_says_how_many_more() -> None:
    rows = live(PLAN, *(opened(number) for number in range(1, 9)), height=5)
    assert [row.split("  ")[0] for row in rows[2:4]] == ["▸ t1", "▸ t2"]
    assert rows[4:] == ["  … and 6 more"]


def test_gates_that_run_at_once_share_the_one_line_there_is() -> None:
    gates = [WithinIteration(1, GateStarted(step, "make")) for step in ("tests", "lint", "types")]
    rows = live(PLAN, opened(1), opened(2), *gates, WithinIteration(1, GATE_PASSED), height=6)
    assert rows[3].endswith("lint, types  0:05")


def test_the_last_one_open_is_shown_as_if_it_were_alone() -> None:
    alone = live(PLAN, opened(2), AgentActivity("tool", "Edit", "a.py"))
    among = live(PLAN, opened(1), opened(2), used(2, "Edit", "a.py"), said(1, "x"), settled(1), said(1, "too late"))
    assert among[3:] == alone[3:]
    assert alone[5:] == ["  ● Edit  a.py"]


def test_one_that_waits_says_so_in_its_block_and_the_run_in_the_head() -> None:
    waiting = Waiting("limit", NOON + timedelta(seconds=90), 90.0)
    rows = live(PLAN, opened(1), opened(2), WithinIteration(2, waiting))
    assert rows[-1].startswith("  ◷ waiting until")
    rows = live(PLAN, opened(1), opened(2), waiting)
    assert rows[1].startswith("◷ waiting until")
    assert rows[-1] == "  … claude is at work"


def test_the_next_run_begins_with_no_iteration_open() -> None:
    assert len(live(PLAN, opened(1), opened(2), ENDED, PLAN)) == 2


# Plain lines


def test_interleaved_iterations_as_plain_lines() -> None:
    review = reviewed(
        [], [ReviewLook(tier="quick", reviewer="sonnet", decision="SHIP", duration_ms=1200)], ["x: binary"]
    )
    lines = plain(
        *(PLAN, opened(7, "read"), opened(8, "write")),
        *(said(7, "I look "), said(8, "Now "), used(8, "Edit", "b.py"), said(7, "at it.\n"), used(7, "Bash", "ls")),
        WithinIteration(8, Notice("warning", "look out")),
        *(WithinIteration(7, GATE_PASSED), WithinIteration(7, ReviewEnded(review))),
        *(said(7, "the end"), settled(7, "read"), said(8, "still"), ENDED),
    )
    assert lines[:-1] == [
        "sundial: 9 of 12 tasks open · branch ralph/sundial · agent demo",
        "at most 20 iterations, 3 at once · at most 1 h 00 min · no limit of cost",
        "read: A title · #7, 7 of at most 20 in this run · attempt 2 of 5",
        "write: A title · #8, 8 of at most 20 in this run · attempt 2 of 5",
        "write:   Edit  b.py",
        "read:   Bash  ls",
        "write: warning: look out",
        "read:   gate tests: ok · 1.2 s",
        "read:   quick review (sonnet): SHIP (no issues) · 1.2 s",
        "read:     not reviewed: x: binary",
        "#7 read: completed · 1 file · 2.3 s · $0.10 · commit 01234567 · 4 of 12 tasks completed",
    ]


def test_quiet_names_the_task_of_a_warning_and_says_no_more_than_else() -> None:
    happened = (opened(7, "read"), said(7, "I look.\n"), used(7, "Edit"), WithinIteration(7, GATE_PASSED))
    lines = plain(
        *happened, WithinIteration(7, Notice("warning", "w")), WithinIteration(7, Notice("info", "i")), quiet=True
    )
    assert lines == ["read: warning: w"]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["text", "tool", "note"])), max_size=60))
def test_whatever_the_interleaving_each_line_is_of_one_task_and_no_text_is_told(steps: list[tuple[int, str]]) -> None:
    happened = {
        "text": lambda number: said(number, HOSTILE),
        "tool": lambda number: used(number, f"Tool{number}", HOSTILE),
        "note": lambda number: WithinIteration(number, Notice("warning", f"note {number} {HOSTILE}")),
    }
    lines = plain(
        *(opened(number) for number in range(1, 5)), *(happened[what](number) for number, what in steps), ENDED
    )
    owners = Counter[tuple[int, str]]()
    for line in lines[4:-1]:
        owner = re.match(r"t([1-4]): (?:  Tool([1-4]) |warning: note ([1-4]) )", line)
        assert owner, line
        assert line.isprintable()
        number = int(owner[1])
        assert {number, int(owner[2] or number), int(owner[3] or number)} == {number}
        owners[number, "note" if owner[3] else "tool"] += 1
    assert owners == Counter(step for step in steps if step[1] != "text")


# Threads


def at_once(number_of_threads: int, work: Callable[[int], None]) -> None:
    together = Barrier(number_of_threads)

    def begin(number: int) -> None:
        together.wait()
        work(number)

    threads = [Thread(target=begin, args=(number,)) for number in range(1, number_of_threads + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Interruptible(io.StringIO):
    """A stream on which two threads that write at once mix up their lines."""

    def write(self, text: str) -> int:
        half = len(text) // 2
        super().write(text[:half])
        time.sleep(0)
        return half + super().write(text[half:])


def test_threads_that_report_at_once_mix_up_nothing() -> None:
    out = Interruptible()

    def work(number: int) -> None:
        console.report(opened(number))
        for count in range(200):
            console.report(WithinIteration(number, Notice("warning", f"<{number}.{count}>")))
        console.report(settled(number))

    with Console(out, io.StringIO(), environment={}, now=lambda: NOON) as console:
        at_once(4, work)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4 * 202
    for number in range(1, 5):
        spoken = [line for line in lines if line.startswith(f"12:00:00 t{number}: warning")]
        assert spoken == [f"12:00:00 t{number}: warning: <{number}.{count}>" for count in range(200)]


def test_the_first_events_of_several_threads_open_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    opens: list[LiveDisplay] = []

    class Slow(LiveDisplay):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            time.sleep(0.01)
            opens.append(self)
            super().__init__(*arguments, **named)

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("rulebook_ralph.report.live.LiveDisplay", Slow)
    with Console(Tty(), io.StringIO(), environment={"TERM": "xterm"}, now=lambda: NOON) as console:
        at_once(4, lambda number: console.report(opened(number)))
    assert len(opens) == 1
