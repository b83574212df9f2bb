"""Why runs end and attempts go on, in the real loop: every stop reason, being stuck, the user's hooks and stop criteria."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import HONEST, PROMISE, TESTS, Project, Ran, finish, make_project, task, wait_for

CAPTURES = Path(__file__).parent.parent / "data" / "captures" / "claude-2.1.330"
WRONG = "echo same > work.txt\necho unsound > app.txt\n" + PROMISE


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def hook(name: str, command: str, **settings: Any) -> dict[str, Any]:
    return {"name": name, "command": command, **settings}


def stops(reason: str) -> dict[str, Any]:
    return hook("mine", f"""echo '{{"action": "stop", "reason": "{reason}", "message": "that is enough"}}'""")


def play(project: Project, capture: str) -> None:
    """The agent is the claude adapter on a program that plays what the real one printed."""
    program = project.beside / "claude"
    program.write_text(
        f"#!/bin/sh\ntest $1 != --version || exit 0\ncat >/dev/null\ncat '{CAPTURES}/{capture}.out'\nexit 1\n"
    )
    program.chmod(0o755)
    executor = {"id": "played", "type": "claude", "command": str(program)}
    project.configure(tools={"executors": [executor]}, defaults={"executor": "played"})


def spend(project: Project) -> None:
    script = project.beside / "script.json"
    script.write_text(json.dumps({"default": {"cost": 0.6, "tokens": 100}}))
    executor = {"id": "played", "type": "scripted", "args": [str(script)]}
    project.configure(tools={"executors": [executor]}, defaults={"executor": "played"}, limits={"maxCostUsd": 1})


# Every stop reason (DESIGN.md, Words), with its exit code and the status of the task afterwards

ENDS: dict[str, tuple[Callable[[Project], object], list[str], int, str]] = {
    "complete": (lambda project: project.agent(HONEST), [], 0, "completed"),
    "blocked": (lambda project: project.agent("echo '<ralph>BLOCKED: no key</ralph>'\n"), [], 3, "blocked"),
    "max-iterations": (
        lambda project: project.agent("echo begun > work.txt\n"),
        ["--max-iterations", "1"],
        4,
        "in_iteration",
    ),
    "max-wall-time": (lambda project: project.agent("sleep 30\n"), ["--max-wall-time", "1s"], 4, "pending"),
    "max-cost": (spend, [], 4, "in_iteration"),
    "stuck": (lambda project: project.agent(WRONG), [], 3, "blocked"),
    "rate-limited": (lambda project: play(project, "oauth_usage_limit"), ["--on-limit", "stop"], 4, "pending"),
    "paused": (lambda project: project.configure(hooks=[stops("paused")]), [], 0, "pending"),
    "cancelled": (lambda project: project.configure(hooks=[stops("cancelled")]), [], 130, "pending"),
    "error": (lambda project: play(project, "http401"), [], 5, "pending"),
}


@pytest.mark.parametrize("reason", ENDS)
def test_stop_reason(project: Project, reason: str) -> None:
    arrange, arguments, code, status = ENDS[reason]
    arrange(project)
    ran = project.ralph("run", "--json", *arguments)
    assert_ended(project, ran, reason, code, status)


def test_stop_reason_interrupted(project: Project) -> None:
    project.agent('touch "$BESIDE/started"\nsleep 30\n')
    process = project.start("run", "--json")
    wait_for((project.beside / "started").exists, "the agent")
    process.send_signal(signal.SIGINT)
    assert_ended(project, finish(process), "interrupted", 130, "pending")


def assert_ended(project: Project, ran: Ran, reason: str, code: int, status: str) -> None:
    assert ran.code == code, ran
    told = ran.json
    assert told["stopReason"] == reason
    assert told["success"] == (reason == "complete")
    assert (told["error"] is None) == (reason == "complete")
    assert (told["completedCount"], told["failedCount"]) == (int(status == "completed"), int(status == "blocked"))
    assert (told["blockingIssue"] is not None) == (status == "blocked")
    assert told["iterations"] == len(project.records)
    assert project.task().status == status
    counted = reason not in ("max-wall-time", "rate-limited", "paused", "cancelled", "error", "interrupted")
    assert bool(project.task().attempts) == counted
    assert {record.phase for record in project.records} == {"settled"}
    assert project.ralph("validate").code == 0


# Stuck


def test_the_same_failure_starts_again_from_the_base_and_then_blocks(project: Project) -> None:
    """Timings in the output make no new failure."""
    project.configure(gates=[{**TESTS, "command": "echo took 0.$$ s; sh check.sh"}])
    project.agent('test ! -e work.txt || echo found >> "$BESIDE/$RALPH_ATTEMPT"\ncat > "$BESIDE/prompt"\n' + WRONG)
    assert project.ralph("run").code == 3
    assert [(record.repeats, record.completion_status) for record in project.records] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
        (4, "blocked"),
    ]
    assert [(project.beside / str(attempt)).exists() for attempt in (1, 2, 3, 4)] == [False, True, True, False]
    prompt = (project.beside / "prompt").read_text()
    assert "3 attempts in a row ended the same way, so the tree was put back" in prompt
    assert "app.txt: not sound" in prompt
    assert project.last.stop_reason == "stuck"
    assert "stuck, also after starting again" in (project.task().blocked_reason or "")
    assert project.status() == []


def test_stuck_is_counted_over_a_crash(project: Project) -> None:
    project.agent(
        f'if test $RALPH_ATTEMPT = 3 && mkdir "$BESIDE/halted"; then touch "$BESIDE/started"; sleep 30; fi\n{WRONG}'
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the third attempt")
    process.kill()
    finish(process)
    assert project.ralph("resume").code == 3
    assert [(record.attempt, record.repeats) for record in project.records] == [(1, 1), (2, 2), (3, 2), (3, 3), (4, 4)]


def test_progress_that_a_check_tells_of_is_never_stuck(project: Project) -> None:
    """The file grows by a line at each attempt, and the check prints it; numbers alone would not do."""
    check = {"command": "cat steps.txt 2>/dev/null; test $(cat steps.txt 2>/dev/null | wc -l) -ge 6"}
    project.tasks(task(completion={"coder": {"verificationMethod": "external", "verificationConfig": check}}))
    project.configure(attempts=6)
    project.agent('echo "step $(printf "x%.0s" $(seq $RALPH_ATTEMPT))" >> steps.txt\n' + PROMISE)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert [record.repeats for record in project.records] == [1] * 6


# Completion hooks of the user's


def test_hooks_ask_for_another_attempt_and_break_nothing(project: Project) -> None:
    meddle = "echo x > app.txt; echo y > new.txt; git branch sneaky"
    hooks = [
        hook("again", "grep -q '\"attempt\": 2' || { echo 'not round enough' >&2; exit 2; }"),
        hook("meddle", meddle, priority=65),
        hook("broken", "echo oh no >&2; exit 9", priority=66),
    ]
    project.configure(hooks=hooks)
    project.agent('cat > "$BESIDE/prompt"\n' + HONEST)
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    assert [record.completion_status for record in project.records] == ["failed", "completed"]
    assert "asks for another attempt:\nnot round enough" in (project.beside / "prompt").read_text()
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]
    assert project.status() == []
    assert project.refs("refs/heads").keys() == {"refs/heads/main", "refs/heads/ralph/toy"}
    assert "warning: the hook 'broken' failed: ended with exit code 9: oh no" in ran.out
    checks = {check.step: (check.passed, check.reason) for check in project.last.checks if check.method == "hook"}
    assert checks == {
        "again": (True, ""),
        "meddle": (True, ""),
        "broken": (False, "failed: ended with exit code 9: oh no"),
    }


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ([stops("blocked")], "the hook 'mine' says: that is enough"),
        ([hook("mine", "exit 9", required=True)], "3 times in a row: the hook 'mine' gave no verdict"),
    ],
)
def test_hooks_block(project: Project, hooks: list[dict[str, Any]], why: str) -> None:
    project.configure(hooks=hooks, attempts=1)
    assert project.ralph("run").code == 3
    assert why in (project.task().blocked_reason or "")


def test_work_that_a_hook_paused_is_gone_on_with(project: Project) -> None:
    project.configure(hooks=[stops("paused")], attempts=1)
    project.agent("test -e work/one.txt || " + HONEST + "echo more >> work/one.txt\n" + PROMISE)
    assert project.ralph("run").code == 0
    project.configure(attempts=1)
    assert project.ralph("resume").code == 0
    assert [record.completion_status for record in project.records] == ["interrupted", "completed"]
    assert project.git("show", f"{project.task_commits()['one']}:work/one.txt") == "one\nmore"


# Stop criteria


def test_stop_criteria_of_the_project_and_of_a_task(tmp_path: Path) -> None:
    """The project asks for lint and for no promise; one task asks for a promise or a text, one is blocked by a text."""
    types = {"name": "types", "kind": "typecheck", "command": "test -e typed", "required": False}
    lint = {"name": "lint", "kind": "lint", "command": "test ! -e messy", "required": False}
    tasks = [
        task("one"),
        task("two", overrides={"stopCriteria": {"requirePromise": True, "successRegex": "^ALL (GOOD|WELL)$"}}),
        task("three", overrides={"stopCriteria": {"requireTypeCheck": True}}),
        task("four", overrides={"stopCriteria": {"requireLint": False, "blockedRegex": "^I need (.*)$"}}),
    ]
    script = (
        'echo "$RALPH_TASK" > "$RALPH_TASK.txt"\n'
        "case $RALPH_TASK$RALPH_ATTEMPT in\n"
        "one1) touch messy ;;\none2) rm messy ;;\n"
        "two2) echo ALL WELL ;;\n"
        "three2) touch typed ;;\n"
        "four1) touch messy; echo I need a key ;;\nesac\n"
    )
    project = make_project(
        tmp_path,
        agent='cat > "$BESIDE/prompt-$RALPH_TASK"\n' + script,
        tasks=tasks,
        gates=[TESTS, lint, types],
        attempts=2,
        stopCriteria={"requirePromise": False, "requireLint": True},
    )
    assert project.ralph("run", "--no-retry-blocked").code == 3
    told = (project.beside / "prompt-two").read_text()
    assert "A gate of the kind lint must have run and passed" in told
    assert "stopCriteria.successRegex" in told
    assert "ALL (GOOD" not in told, "an agent that repeats its prompt claims nothing"
    ends = [
        (record.task_id, record.completion_status, record.verdict and record.verdict.reason)
        for record in project.records
    ]
    assert ends == [
        ("one", "failed", "stopCriteria.requireLint: lint did not pass"),
        ("one", "completed", "everything that is configured holds"),
        ("two", "failed", "the promise IMPLEMENTATION_COMPLETE was not given"),
        ("two", "completed", "everything that is configured holds"),
        ("three", "failed", "stopCriteria.requireTypeCheck: types did not pass"),
        ("three", "completed", "everything that is configured holds"),
        ("four", "blocked", "the agent is blocked: a key"),
    ]
