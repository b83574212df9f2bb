"""A run at a real terminal: what is seen, what keys do, and how the terminal is left."""

import time
from pathlib import Path

import pytest

from tests.harness import HONEST, Project, make_project, task
from tests.terminal import Terminal

SLOW = 'test "$RALPH_TASK" = one && { echo "looking around"; test -e "$BESIDE/go" || sleep 30; }\n' + HONEST
"""Works at the task `one` until it is stopped, unless it may go on."""
ASKS = """
import sys
from datetime import UTC, datetime
from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import Notice
now = lambda: datetime.now(tz=UTC)
with Console(sys.stdout, sys.stderr, environment={"TERM": "xterm"}, now=now, keyboard=0) as console:
    console.report(Notice("info", "before the question"))
    console.rest()
    console.line("agreed: " + input("agree? "))
    console.report(Notice("info", "after it"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, agent=SLOW)
    made.tasks(task("one"), task("two"))
    return made


def run(project: Project, columns: int = 80, rows: int = 24) -> Terminal:
    return Terminal(project, "run", columns=columns, rows=rows)


def go_on(project: Project) -> None:
    (project.beside / "go").touch()


def test_p_lets_the_iteration_end_and_p_again_takes_it_back(project: Project) -> None:
    with run(project) as terminal:
        terminal.shows("▸ one", "looking around", "p pause", "next: two")
        terminal.press("p")
        terminal.shows("pausing: the run ends after iteration #1 (one)")
        terminal.press("p")
        terminal.shows("the pause is taken back")
        terminal.press("ls -l\n")  # stops nothing, and no shell is to see it
        terminal.press("pq")
        assert terminal.ended() == 130, terminal.stream
        assert (terminal.is_as_before, terminal.unread) == (True, 0)
    assert "ls -l" not in terminal.stream
    assert "stopping" not in terminal.stream
    assert terminal.stream.count("ending: the attempt is saved") == 1
    assert terminal.stream.count("\x1b[?25h") >= 1
    assert project.task().status == "pending"


def test_s_stops_the_attempt_and_the_next_one_goes_on_from_its_work(project: Project) -> None:
    with run(project) as terminal:
        terminal.shows("looking around")
        go_on(project)
        terminal.press("s")
        terminal.shows("stop the attempt of #1? s: yes")
        terminal.press("s")
        terminal.shows("stopping the attempt of #1", "a person stopped the attempt")
        assert terminal.ended() == 0
    assert [record.completion_status for record in project.records] == ["failed", "completed", "completed"]
    assert "A person stopped the attempt" in project.records[0].feedback


def test_o_and_the_question_mark_show_more(project: Project) -> None:
    with run(project, rows=30) as terminal:
        terminal.shows("looking around")
        terminal.press("?")
        terminal.shows("stop an attempt: its work is kept", "quit: the run ends now")
        terminal.press("?o")
        terminal.shows("p pause · o output", "looking around")
        terminal.press("q")
        terminal.ended()


def test_an_interrupt_is_said_once_and_a_second_one_names_the_way_on(project: Project) -> None:
    project.agent("trap '' INT TERM; echo looking around; for i in 1 2 3 4 5 6 7 8 9; do sleep 2; done\n")
    with run(project) as terminal:
        terminal.shows("looking around")
        terminal.press("\x03")
        terminal.shows("ending: the attempt is saved")
        terminal.press("\x03")
        assert terminal.ended() == 130
        assert terminal.is_as_before
    assert terminal.stream.count("ending: the attempt is saved") == 1
    assert "ralph resume" in terminal.stream
    assert "Traceback" not in terminal.stream


THOROUGH = [pytest.param(*sizes, marks=pytest.mark.thorough) for sizes in (((60, 20), (30, 9)), ((60, 20), (130, 40)))]


@pytest.mark.parametrize(("before", "after"), [((120, 30), (60, 20)), *THOROUGH])
def test_a_resize_leaves_no_stray_lines(project: Project, before: tuple[int, int], after: tuple[int, int]) -> None:
    with run(project, *before) as terminal:
        terminal.shows("▸ one")
        at = len(terminal.stream)
        terminal.resize(*after)
        terminal.shows("▸ one")
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and len(terminal.stream) == at:
            time.sleep(0.1)
        time.sleep(0.5)
        if after[0] < before[0]:
            rows = terminal.rows_since(terminal.stream.rindex("\x1b[2J"))
            assert sum("▸ one" in row for row in rows) == 1, rows
            assert sum("tasks ·" in row or " 2 tasks" in row for row in rows) <= 2
        terminal.press("q")
        assert terminal.ended() == 130


def test_a_person_can_be_asked_between_two_displays(project: Project) -> None:
    with Terminal(project, code=ASKS) as terminal:
        terminal.shows("before the question", "agree?")
        terminal.press("yes\n")
        terminal.shows("agreed: yes", "after it")
        assert terminal.ended() == 0
        assert terminal.is_as_before


def test_a_wide_terminal_lists_the_open_tasks_beside_and_no_color_takes_the_colour_only(project: Project) -> None:
    project.environment["NO_COLOR"] = "1"
    with run(project, 130, 30) as terminal:
        terminal.shows("│ open tasks", "│ ○ two", " │ ▸ one")
        terminal.press("q")
        terminal.ended()
