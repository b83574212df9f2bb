"""What the console says, as plain lines and as the frames of the live display."""

import io
import json
import os
import unicodedata
from collections.abc import Callable, Mapping
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import (
    AgentActivity,
    BranchWaiting,
    Event,
    GateEnded,
    GateStarted,
    IterationOpened,
    IterationSettled,
    Notice,
    OpenTask,
    ReviewEnded,
    ReviewStarted,
    RunEnded,
    RunPlanned,
    TaskLine,
    TasksListed,
    Waiting,
    WithinIteration,
)
from rulebook_ralph.report.live import lasting_rows
from rulebook_ralph.report.screen import Scene, frame
from rulebook_ralph.report.stream import table_lines
from rulebook_ralph.tasks.results import CheckResult, StopReason, Usage
from rulebook_ralph.tasks.review import Review, ReviewIssue, ReviewLook, Severity, reviewed
from tests.unit.report.console_events import GATE_STARTED, NOON, live, plain

PLAN = RunPlanned("sundial", "ralph/sundial", "demo", 2, 3, 1, 9, 3600, None)
OPENED = IterationOpened(7, 1, 9, "phase1_read", "Read numerals", "coder", 2, 5, 1, 3, "codex")
TESTS = CheckResult(step="tests", kind="test", command="make test", passed=False, exit_code=1, duration_ms=1234)
SETTLED = IterationSettled(
    7, "phase1_read", "completed", "", "0123456789ab", 2, 65_000, Usage(input_tokens=1500), 0.42, 0.5, 2000, 2, 3
)
ENDED = RunEnded(
    "blocked",
    "1 task is blocked",
    (
        TaskLine("phase1_read", "Read", "completed", 2, 0.42, "0123456789ab"),
        TaskLine("phase2_write", "Write", "blocked", 5, 0),
    ),
    7,
    1,
    1,
    0.5,
    2000,
    3_720_000,
    ("ralph show 7",),
)
DONE = "2 of 3 tasks completed"


class Screen:
    """A console on two files, at noon."""

    def __init__(
        self, *, quiet: bool = False, as_json: bool = False, events: bool = False, encoding: str = "utf-8"
    ) -> None:
        self.stdout, self.stderr = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n") for _ in range(2))
        self.console: Console = Console(
            self.stdout, self.stderr, environment={}, now=lambda: NOON, quiet=quiet, json=as_json, events=events
        )

    def show(self, *events: Event) -> list[str]:
        for event in events:
            self.console.report(event)
        return self.out.splitlines()

    @property
    def out(self) -> str:
        return written(self.stdout)

    @property
    def err(self) -> str:
        return written(self.stderr)


def written(file: io.TextIOWrapper) -> str:
    buffer = file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(file.encoding)


def test_a_run_as_plain_lines() -> None:
    lines = plain(
        PLAN,
        Notice("info", "using git identity Ada"),
        Notice("warning", "full permissions"),
        OPENED,
        AgentActivity("text", "thinking aloud"),
        AgentActivity("tool", "Bash", "make\ttest"),
        GATE_STARTED,
        GateEnded(TESTS),
        SETTLED,
        ENDED,
    )
    assert lines == [
        "sundial: 2 of 3 tasks open · branch ralph/sundial · agent demo",
        "at most 9 iterations · at most 1 h 00 min · no limit of cost",
        "using git identity Ada",
        "warning: full permissions",
        "phase1_read: Read numerals · #7, 1 of at most 9 in this run · attempt 2 of 5",
        "  Bash  make test",
        "  gate tests: FAILED (exit code 1) · 1.2 s",
        "#7 phase1_read: completed · 2 files · 1 min 05 s · $0.42 · 1.5k tokens · commit 01234567 · " + DONE,
        "ended with blocked tasks: 1 completed, 1 blocked · 7 iterations · 1 h 02 min · $0.50 · 2.0k tokens",
        "1 task is blocked",
        "Task          Title  Status     Attempts   Cost  Commit",
        "phase1_read   Read   completed         2  $0.42  01234567",
        "phase2_write  Write  blocked           5",
        "next: ralph show 7",
    ]


def test_quiet_says_ends_and_warnings_only() -> None:
    lines = plain(
        PLAN,
        Notice("info", "i"),
        Notice("warning", "w"),
        OPENED,
        AgentActivity("tool", "Bash"),
        GateEnded(TESTS),
        SETTLED,
        ENDED,
        quiet=True,
    )
    assert [line.split(":")[0] for line in lines] == [
        "warning",
        "#7 phase1_read",
        "ended with blocked tasks",
        "1 task is blocked",
        "next",
    ]


def test_json_leaves_stdout_to_the_object() -> None:
    screen = Screen(as_json=True)
    screen.show(PLAN, ENDED)
    screen.console.line("said")
    screen.console.json({"success": True, "title": "é \u202e \x9b"})
    assert json.loads(screen.out) == {"success": True, "title": "é \u202e \x9b"}
    assert "\u202e" not in screen.out
    assert "\x9b" not in screen.out
    assert "é" in screen.out
    assert "sundial" in screen.err
    assert screen.err.endswith("said\n")


def test_json_and_quiet_say_nothing_else() -> None:
    screen = Screen(as_json=True, quiet=True)
    screen.show(PLAN, SETTLED, ENDED)
    screen.console.line("said")
    screen.console.table(["a"], [["b"]])
    screen.console.verbatim("diff")
    screen.console.json([1])
    assert json.loads(screen.out) == [1]
    assert screen.err == ""


def test_events_are_lines_of_json_as_they_happen() -> None:
    screen = Screen(events=True)
    screen.console.report(WithinIteration(7, GateEnded(TESTS)))
    first = json.loads(screen.out)
    assert first == {"event": "GateEnded", "at": "2026-01-02T12:00:00.000+00:00", "iterationNumber": 7} | {
        "version": 1,
        "onBase": False,
        "about": "",
        "result": msgspec.to_builtins(TESTS),
    }
    screen.show(BranchWaiting("ralph/x", "refs/ralph/x/tip", "a file of yours is in the way", ("a\x1b[m.txt",)), ENDED)
    screen.console.json({"success": False})
    told = [json.loads(line) for line in screen.out.splitlines()]
    assert [each.get("event") for each in told] == ["GateEnded", "BranchWaiting", "RunEnded", None]
    assert told[1]["files"] == ["a\x1b[m.txt"]
    assert "\x1b" not in screen.out
    assert told[2]["tasks"][1]["taskId"] == "phase2_write"
    assert "ralph/x waits: a file of yours is in the way (a.txt)" in screen.err


@pytest.mark.parametrize("value", [{"a": "\ud800é"}, {"a": "漢"}])
def test_json_for_a_poor_encoding_and_for_lone_surrogates(value: Mapping[str, str]) -> None:
    screen = Screen(as_json=True, encoding="ascii")
    screen.console.json(value)
    assert json.loads(screen.out) == value


def test_errors_are_one_line_on_stderr() -> None:
    screen = Screen()
    screen.console.error("bad\x1b[2J thing\nin two lines")
    assert (screen.out, screen.err) == ("", "error: bad thing in two lines\n")


def test_an_ascii_stream_gets_ascii_marks_and_replacements() -> None:
    screen = Screen(encoding="ascii")
    screen.console.line("✔ done · 漢 → next…")
    assert screen.out == "+ done - ? > next~\n"


def test_verbatim_changes_nothing_off_a_terminal() -> None:
    screen = Screen()
    screen.console.verbatim("-\told\x1b[m\n+\tnew")
    assert screen.out == "-\told\x1b[m\n+\tnew\n"


def test_events_of_others_cannot_forge_a_line() -> None:
    lines = plain(AgentActivity("tool", "x\n12:00:00 all complete", "\r\x1b[A"), Notice("info", "a\nb"))
    assert lines == ["  x 12:00:00 all complete", "a b"]


def test_a_reader_that_is_gone_silences_and_does_not_raise() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stdout = os.fdopen(writing, "w", encoding="utf-8")
    console = Console(stdout, io.StringIO(), environment={}, now=lambda: NOON)
    console.report(PLAN)
    console.line("x" * 100_000)
    console.json({})
    with pytest.raises(BrokenPipeError):  # what stayed in the file's own buffer: proof that the pipe was broken
        stdout.close()


def test_a_table_is_aligned_and_fits() -> None:
    rows = [["phase1_read", "1", "$0.42"], ["p2", "12", ""]]
    assert table_lines(["Task", "Tries", "Cost"], rows, None) == [
        "Task         Tries   Cost",
        "phase1_read      1  $0.42",
        "p2              12",
    ]
    assert table_lines(["Task", "Tries", "Cost"], rows, 22) == [
        "Task      Tries   Cost",
        "phase1_…      1  $0.42",
        "p2           12",
    ]
    assert table_lines(["Task", "Tries"], [], None) == ["Task  Tries"]


def test_the_summary_of_many_tasks_shows_those_that_something_happened_to() -> None:
    tasks = [TaskLine(f"t{number}", "T", "pending", 0, 0) for number in range(10_000)]
    tasks[7777] = TaskLine("worked", "T", "completed", 1, 0.1)
    lines = plain(RunEnded("max-iterations", "", tuple(tasks), 1, 1, 0, 0.1, 1, 1000))
    assert any("worked" in line for line in lines)
    assert lines[-1] == "… and 9,950 more"


def review_of(text: str, *severities: Severity) -> Review:
    """A review with text that anybody may have written; one issue of high severity, unless told otherwise."""
    issues = [
        ReviewIssue(
            file=text,
            lines=(3, 7),
            type="logic_bug",
            severity=severity,
            description=text,
            suggestion=text,
            agent_prompt=text,
        )
        for severity in severities or ("high",)
    ]
    look = ReviewLook(tier="quick", reviewer=text, decision="REVISE", duration_ms=1200)
    return reviewed(issues, [look], [f"{text}: a binary file"])


def test_a_review_as_lines() -> None:
    happened = (ReviewStarted("quick", "Sonnet"), ReviewEnded(review_of("Sonnet", "low", "high")))
    assert plain(*happened) == [
        "  quick review (Sonnet)",
        "  quick review (Sonnet): REVISE (1 high, 1 low) · 1.2 s",
        "    high  Sonnet:3-7: Sonnet",
        "    low  Sonnet:3-7: Sonnet",
        "    not reviewed: Sonnet: a binary file",
    ]


STOP: StopReason = "complete"
ANY = st.text(st.characters() | st.sampled_from("\x1b[]m\x9b\r\n\t\u202e漢ABC "), max_size=120)
COUNT = st.integers(0, 10**6)


@st.composite
def events(draw: Callable[[st.SearchStrategy[object]], object]) -> list[Event]:
    """Events of a run, with text that anybody may have written."""

    def text() -> str:
        return str(draw(ANY))

    def count() -> int:
        return int(str(draw(COUNT)))

    result = CheckResult(step=text(), command=text(), passed=bool(draw(st.booleans())), reason=text())
    return [
        RunPlanned(text(), text(), text(), count(), count(), count(), count(), None, 1.5),
        Notice("warning", text()),
        GateStarted(text(), text(), on_base=True),
        IterationOpened(count(), count(), count(), text(), text(), text(), count(), count(), 1, 3),
        AgentActivity("text", text()),
        AgentActivity("tool", text(), text()),
        AgentActivity("retry", text(), text()),
        AgentActivity("failure", text()),
        GateStarted(result.step, result.command),
        GateStarted(text(), text()),
        GateEnded(result),
        TasksListed(tuple(OpenTask(text(), text(), "pending") for _ in range(3)), count()),
        IterationOpened(8, count(), count(), text(), text(), text(), count(), count(), 1, 3, text(), 900),
        WithinIteration(8, AgentActivity("text", text(), text())),
        WithinIteration(8, GateStarted(text(), text())),
        WithinIteration(8, Waiting(text(), NOON, 5.0)),
        ReviewStarted("quick", text()),
        ReviewEnded(review_of(text())),
        IterationSettled(count(), text(), "retry", text(), text(), 2, 3, Usage(), 0.1, 0.2, count(), 2, 3),
        RunEnded(
            STOP, text(), (TaskLine(text(), text(), text(), 1, 0.1, text(), text()),), 1, 1, 0, 0.1, 5, 6, (text(),)
        ),
    ]


@given(events(), st.integers(1, 200), st.integers(1, 50))
def test_frames_fit_the_terminal_and_rows_are_harmless_whatever_the_text(
    happened: list[Event], width: int, height: int
) -> None:
    scene = Scene(keys=width % 2 == 0, help=height % 2 == 0, whole_output=width % 3 == 0)
    for second, event in enumerate(happened):
        now = NOON + timedelta(seconds=40 * second)
        lane = scene.lane_of(event)
        scene.apply(event, now)
        for row in lasting_rows(event, lane, width):
            assert_harmless(row.plain)
        rows = frame(scene, now + timedelta(seconds=35), width=width, height=height)
        assert len(rows) <= height
        for row in rows:
            assert row.cell_len <= width
            assert_harmless(row.plain)


def assert_harmless(text: str) -> None:
    assert not {unicodedata.category(character) for character in text.replace("\u200c", "").replace("\u200d", "")} & {
        "Cc",
        "Cf",
        "Cs",
    }


def test_a_frame_tells_task_progress_and_what_the_agent_does() -> None:
    happened = (PLAN, OPENED, AgentActivity("text", "I look at it."), AgentActivity("tool", "Edit", "a.py"))
    rows = live(*happened, width=100)
    assert rows == [
        "",
        "  ━━━━━━━━━━──────────────────── 1 of 3 tasks · 1 of at most 9 iterations · 0:05",
        "▸ phase1_read  Read numerals",
        "  #7 · coder · attempt 2 of 5 · 0:05",
        "  │ I look at it.",
        "  ● Edit  a.py",
    ]


def test_a_frame_shows_gates_as_they_run_and_end() -> None:
    rows = live(PLAN, OPENED, GATE_STARTED, GateEnded(TESTS), GateStarted("lint", "ruff check"))
    assert rows[-2] == "  ✘ tests  1.2 s  exit code 1"
    assert rows[-1][3:] == " lint  0:05  ruff check"


def test_a_criterion_is_shown_like_a_gate_and_by_its_name() -> None:
    holds = CheckResult(step="coder/clean", method="external", command="make clean", passed=True, exit_code=0)
    rows = live(PLAN, OPENED, GateStarted("coder/clean", "make clean"), GateEnded(holds))
    assert rows[-1] == "  ✔ criterion coder/clean  0.0 s"
    assert plain(GateEnded(holds)) == ["  criterion coder/clean: ok · 0.0 s"]


def test_a_frame_says_when_the_agent_of_the_task_gives_no_sign() -> None:
    assert live(PLAN, OPENED, seconds=75)[-1] == "  … codex: silent 1 min 15 s"
    limited = replace(OPENED, idle_timeout=900)
    assert live(PLAN, limited, seconds=12)[-1] == "  … codex: silent 12 s of 15 min"


def test_a_frame_keeps_to_a_low_terminal() -> None:
    scene = Scene()
    scene.apply(OPENED, NOON)
    for number in range(9):
        scene.apply(AgentActivity("tool", f"t{number}"), NOON)
    rows = [row.plain for row in frame(scene, NOON, width=100, height=4)]
    assert rows[1] == "▸ phase1_read  Read numerals"
    assert rows[-1] == "  ● t8"


def test_the_table_at_the_end_fits_beside_its_mark() -> None:
    rows = [row.plain for row in lasting_rows(ENDED, Scene().lane_of(ENDED), 60)]
    assert "  phase1_read   Read   completed         2  $0.42  01234567" in rows
    narrow = [row.plain for row in lasting_rows(ENDED, Scene().lane_of(ENDED), 50)]
    assert all(len(row) <= 50 for row in narrow[2:5])


def test_text_in_huge_pieces_is_kept_short() -> None:
    scene = Scene()
    scene.apply(OPENED, NOON)
    for _ in range(3):
        scene.apply(AgentActivity("text", "x" * 1_000_000), NOON)
        scene.apply(AgentActivity("tool", "y" * 1_000_000, "z" * 1_000_000), NOON)
    assert sum(len(activity.text) + len(activity.detail) for activity in scene.lanes[7].activity) < 20_000
