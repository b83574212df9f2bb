"""The commands that only look: status, history, show, graph, summary, completion, and the boundary of errors."""

from pathlib import Path

import pytest

from rulebook_ralph.cli import main as cli
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Totals
from rulebook_ralph.tasks.results import (
    AskedItem,
    ChangedCheck,
    CheckResult,
    Evidence,
    ParsedIteration,
    Verdict,
)
from tests.harness import CREATED, Project, make_project, save, task

TASKS = (
    task("one", status="completed", attempts={"coder": 2}, cost_usd=0.42, settled_iteration=2, summary="Made it."),
    task("two", status="blocked", attempts={"coder": 3}, blocked_reason="tests fail", dependencies=("one",)),
    task("three", title='Say "hi" & \x1b[31mgo', dependencies=("one", "two")),
)


def record(number: int, **more: object) -> Iteration:
    settings: dict[str, object] = {
        "iteration_number": number,
        "phase": "settled",
        "task_id": "one",
        "stage": "coder",
        "attempt": number,
        "agent": "script",
        "timestamp": CREATED,
        "started_at": CREATED,
        "base_commit": "0" * 40,
        "completion_status": "failed",
        "duration_ms": 65_000,
        "verdict": Verdict(action="continue", hook="gates", reason="tests failed"),
    }
    return Iteration(**(settings | more))  # type: ignore[arg-type]  # as named above


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, tasks=TASKS)
    made.tasks(*TASKS, totals=Totals(iterations=5, completed=1, failed=4, cost_usd=0.42, tokens=1500))
    save(made.folder, record(1, feedback="mend it\nnow", prompt="do one"))
    save(
        made.folder,
        record(
            2,
            completion_status="completed",
            tasks_completed=("one",),
            commit="a" * 40,
            cost_usd=0.42,
            files_changed=("app.txt",),
            parsed=ParsedIteration(summary="Made it.", learnings=("it is easy",)),
            changed_checks=(ChangedCheck(path="tests/test_a.py", reason="the wish changed"),),
            checks=(CheckResult(step="tests", command="make", passed=False, exit_code=1, reason="exit code 1"),),
            evidence=Evidence(
                turned=("test_new",),
                broken=("test_old",),
                asked=(AskedItem(item="test_old expects 3", answer="yes", reason="as asked", file="a.py", line=7),),
                judged_by="model",
            ),
        ),
    )
    return made


def test_status_tells_where_the_tasks_stand(project: Project) -> None:
    ran = project.ralph("status")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[:3] == [
        "toy: 1 of 3 tasks completed",
        "  0 in iteration, 1 pending, 1 blocked",
        "  5 iterations, $0.42, 1.5k tokens",
    ]
    assert "\x1b" not in ran.out
    shown = project.ralph("status", "--json").json
    assert (shown["iterationNumber"], shown["taskIndex"], shown["running"], shown["problem"]) == (2, 2, None, None)
    assert [each["status"] for each in shown["tasks"]] == ["completed", "blocked", "pending"]


def test_status_of_many_tasks_shows_the_telling_ones(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=[task(f"t{number}") for number in range(200)])
    assert project.ralph("status").out.splitlines()[-1] == "… 190 more; --all lists them"
    assert len(project.ralph("status", "--all").out.splitlines()) == 205


def test_work_that_waits_is_shown_without_saying_anything_twice(project: Project) -> None:
    reason = "needs approval: tests fails with the checks as they were"
    project.tasks(task("one", status="blocked", blocked_reason=reason, settled_iteration=1))
    asked = AskedItem(item=f"{reason.partition(': ')[2]}; does the task ask for that? (test_old)")
    save(project.folder, record(1, evidence=Evidence(broken=("test_old", "test_old"), asked=(asked,))))
    shown = project.ralph("approve", "--show", "one").out.splitlines()
    assert [line for line in shown if line.split()[0] in ("fails", "open")] == [
        "  fails now  test_old, with the checks of the base",
        "  open       tests fails with the checks as they were; does the task ask for that?",
    ]


def test_what_is_wrong_with_the_list_is_one_line(project: Project) -> None:
    project.folder.prd.write_text('{"version": 1, "project": "toy", "tasks": [}')
    ran = project.ralph("status")
    assert ran.code == ExitCode.INVALID
    assert len(ran.err.splitlines()) == 1
    assert "prd.json:1" in ran.err


def test_history_lists_iterations_and_show_tells_all_of_one(project: Project) -> None:
    ran = project.ralph("history")
    rows = ran.out.splitlines()
    assert rows[1].split()[:5] == ["#1", "one", "coder", "1", "failed"]
    assert rows[2].split()[:5] == ["#2", "one", "coder", "2", "completed"]
    brief = project.ralph("history", "--json", "-n", "1").json["iterations"]
    assert [each["iterationNumber"] for each in brief] == [2]
    assert project.ralph("history", "--task", "two").out == "no iterations yet; 'ralph run' starts\n"
    shown = project.ralph("show", "2").out
    for text in (
        "#2: one, coder, attempt 2",
        "  commit    aaaaaaaaaaaa",
        "  gate      tests: failed: exit code 1",
        "  proof     failed on the base and passes now: test_new",
        "  changed   passed with the base's checks and fails now: test_old",
        "  asked     test_old expects 3: yes, as asked (a.py:7)",
        "answered by: model",
        "  modified  tests/test_a.py, a check: the wish changed",
        "  learned   it is easy",
    ):
        assert text in shown
    assert "mend it\nnow\n" in project.ralph("show", "1").out
    assert project.ralph("show", "1", "--prompt").out == "do one\n"
    assert project.ralph("show", "2", "--json").json["evidence"]["judgedBy"] == "model"
    gone = project.ralph("show", "1", "--diff")
    assert (gone.code, gone.err) == (2, "error: #1 has no attempt to look at yet: its agent has not ended\n")
    assert "iteration 9 is not there" in project.ralph("show", "9").err


def test_summary_is_markdown_or_one_object(project: Project) -> None:
    text = project.ralph("summary").out
    assert text.startswith("## toy: 1 of 3 tasks completed")
    assert "### Blocked" in text
    assert "tests fail" in text
    story = project.ralph("summary", "--task", "one").out
    assert "coder, attempt 2, completed" in story
    assert project.ralph("summary", "--json").json["learnings"] == ["it is easy"]
    ran = project.ralph("summary", "--task", "ones")
    assert (ran.code, ran.err) == (2, "error: there is no task 'ones'; did you mean 'one'?\n")


def test_outside_of_a_project_it_is_said_what_to_do(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert "is not in a git repository" in project.ralph("status", cwd=tmp_path).err
    assert project.ralph("status", cwd=project.root / "docs").code == 0


def test_a_fault_of_ralphs_own_is_a_line_and_a_log_without_secrets(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    project.environment["SOME_TOKEN"] = "very-secret-value"

    def broken(*_: object) -> None:
        raise KeyError("very-secret-value")

    monkeypatch.setattr("rulebook_ralph.cli.status._list", broken)
    ran = project.ralph("status")
    assert ran.code == ExitCode.UNEXPECTED
    assert len(ran.err.splitlines()) == 1
    assert "very-secret" not in ran.err
    (log,) = tmp_path.glob("ralph-*.log")
    assert "Traceback" in log.read_text()
    assert "very-secret" not in log.read_text()


def test_every_command_of_the_help_is_one_that_exists() -> None:
    missing = [name for name in cli.COMMANDS if cli.root.get_command(None, name) is None]  # type: ignore[arg-type]
    assert missing == []


def test_an_interrupt_is_its_own_exit_code(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rulebook_ralph.cli.status._list", interrupted)
    assert project.ralph("status").code == ExitCode.INTERRUPTED
