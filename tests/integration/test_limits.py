"""Agents that are limited or broken, in the real loop: waits, fallbacks, ends, budgets.

`claude` is a program that plays what the real one prints. Where a run waits for long, waiting moves its clock.
"""

import json
import signal
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.cli import main as cli
from rulebook_ralph.cli.app import App
from rulebook_ralph.clock import Clock
from rulebook_ralph.run import scheduler
from rulebook_ralph.run.retry import free_again
from rulebook_ralph.run.scheduler import Run, Wait
from tests.harness import HONEST, TESTS, Project, Ran, finish, make_project, task

DONE = (
    'mkdir -p work && echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"\n'
    """printf '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":%s,"result":"%s"}\\n' """
    '"${COST:-0.1}" "<promise>$RALPH_PROMISE</promise>"\n'
)
LIMITED = (
    """printf '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":%s}}\\n' "$(cat """
    """"$BESIDE/resets")"\n"""
    """echo '{"type":"result","subtype":"success","is_error":true,"api_error":"usage_limit_reached",'"""
    """'"result":"You have hit your limit"}'\nexit 1\n"""
)
ONCE = 'if mkdir "$BESIDE/once" 2>/dev/null; then\n'
LIMITED_ONCE = f"{ONCE}{LIMITED}fi\n{DONE}"
CRASH = "echo broken >&2\nexit 9\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def claude(project: Project, script: str, *, fallback: str = "", **settings: Any) -> None:
    """The default agent is the claude adapter on a program that does as the script says, and takes down its words."""
    program = project.beside / "claude"
    program.write_text(
        f"#!/bin/sh\nBESIDE='{project.beside}'\ntest $1 != --version || exit 0\ncat >/dev/null\n"
        f'echo "$*" >> "$BESIDE/words"\n{script}'
    )
    program.chmod(0o755)
    played = {"id": "played", "type": "claude", "command": str(program)} | ({"fallback": fallback} if fallback else {})
    other = {"id": "script", "type": "command", "command": f"sh {project.beside}/agent.sh"}
    project.configure(tools={"executors": [played, other]}, defaults={"executor": "played"}, **settings)


def resets_in(project: Project, seconds: float) -> str:
    """The limit resets so many seconds from now, but not at a full minute; returns when, as Ralph writes it."""
    at = int(time.time() + seconds)
    at += at % 60 == 0
    (project.beside / "resets").write_text(str(at))
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting_at_once(project: Project, *arguments: str) -> Ran:
    """Run a command for which the time waited passes at once: its clock goes on by what it says it waits for."""
    app, out, err = project.app()
    waited = [0.0]

    def waits(run: Run, wait: Wait) -> None:
        waiting(run, wait)
        waited[0] += max(0.0, (wait.until - moment()).total_seconds()) if wait.until is not None else 0.0

    def moment() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=waited[0])

    waiting = Run._wait
    clock = Clock(now=moment, monotonic=time.monotonic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_wait", waits)
        patch.setattr(scheduler, "_LONGEST_WAIT", 0.01)
        code = cli.run(App(app.environment, app.cwd, app.home, out, err, clock), arguments)
    return Ran(int(code), out.getvalue(), err.getvalue())


def agents(project: Project) -> list[str]:
    return [record.agent for record in project.records]


def statuses(project: Project, tasks: Iterable[str]) -> list[str]:
    return [project.task(one).status for one in tasks]


# A usage limit


def test_a_run_waits_for_the_reset_and_completes_without_another_attempt(project: Project) -> None:
    claude(project, LIMITED_ONCE)
    reset = resets_in(project, 60)
    ran = waiting_at_once(project, "run")
    assert ran.code == 0, ran
    assert (project.task().attempts, project.task().retry_after) == ({"coder": 1}, None)
    first, last = project.records
    assert (first.completion_status, first.stop_reason) == ("limited", "rate-limited")
    assert (first.attempt, last.attempt) == (1, 1)
    asked_again, free = datetime.fromisoformat(last.started_at), free_again(reset)
    assert free is not None
    assert free <= asked_again < free + timedelta(seconds=20)
    assert f"the agent's usage limit is reached, until {reset}" in ran.out
    assert ran.out.count("waiting until ") == 1
    assert "the wait is over" in ran.out


def test_with_on_limit_stop_the_run_ends_and_the_next_one_waits(project: Project) -> None:
    claude(project, LIMITED_ONCE)
    reset = resets_in(project, 60)
    stopped = waiting_at_once(project, "run", "--json", "--on-limit", "stop")
    assert (stopped.code, stopped.json["stopReason"]) == (4, "rate-limited")
    assert reset in stopped.json["error"]
    one = project.task()
    assert (one.status, one.retry_after, one.attempts) == ("pending", reset, {})
    again = waiting_at_once(project, "run", "--json", "--on-limit", "stop")
    assert (again.code, again.json["stopReason"], again.json["iterations"]) == (4, "rate-limited", 0)
    resumed = waiting_at_once(project, "resume")
    assert resumed.code == 0, resumed
    assert "waiting until " in resumed.out
    assert (len(project.records), project.task().attempts, project.task().retry_after) == (2, {"coder": 1}, None)


def test_with_on_limit_fallback_the_fallback_goes_on(project: Project) -> None:
    project.tasks(task("one"), task("two"))
    claude(project, LIMITED, fallback="script", limits={"onLimit": "fallback"})
    project.agent(HONEST)
    resets_in(project, 3600)
    ran = project.ralph("run")
    assert ran.code == 0, ran
    assert agents(project) == ["played", "script", "script"]
    assert statuses(project, ("one", "two")) == ["completed", "completed"]
    assert project.task().attempts == {"coder": 1}
    assert (ran.out + ran.err).count("going on with script") == 1


@pytest.mark.parametrize(
    ("limits", "reason", "told"),
    [
        ({"maxLimitWait": "10m"}, "rate-limited", "limits.maxLimitWait"),
        ({"maxRunWallTime": "60s"}, "max-wall-time", "time limit comes before"),
    ],
)
def test_a_limit_that_lasts_longer_than_may_be_waited_for_ends_the_run(
    project: Project, limits: dict[str, str], reason: str, told: str
) -> None:
    claude(project, LIMITED, limits=limits)
    resets_in(project, 3600)
    for command in ("run", "resume"):
        ran = project.ralph(command, "--json")
        assert (ran.code, ran.json["stopReason"]) == (4, reason)
        assert told in ran.json["error"]
        assert ran.json["durationMs"] < 10_000
    assert len(project.records) == 1, "the second run did not ask"
    assert (project.task().status, project.task().attempts) == ("pending", {})


def test_an_interrupt_while_waiting_ends_at_once(project: Project) -> None:
    claude(project, LIMITED)
    resets_in(project, 3600)
    process = project.start("run", "--json")
    assert process.stderr is not None
    assert any("waiting until " in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    ran = finish(process)
    assert (ran.code, ran.json["stopReason"]) == (130, "interrupted"), ran
    assert time.monotonic() - began < 5
    assert (project.task().status, project.task().attempts) == ("pending", {})


def test_a_blocked_task_that_is_tried_once_more_is_so_after_a_wait_too(project: Project) -> None:
    """`one` is given up for its budget at a failure that is backed off from; the run goes on with `two` then."""
    lost = """echo '{"type":"result","is_error":true,"total_cost_usd":0.6,"api_error":"connection_failed"}'\nexit 1\n"""
    own = {"limits": {"maxCostUsd": 0.5}}
    project.tasks(task("one", overrides=own), task("two", status="blocked", blocked_reason="as it was"))
    claude(project, f"if test $RALPH_TASK = one; then\n{lost}fi\n{DONE}")
    ran = waiting_at_once(project, "run")
    assert "waiting until " in ran.out
    assert statuses(project, ("one", "two")) == ["blocked", "completed"], ran


# Crashes


def test_three_crashes_block_the_task_without_an_attempt_and_the_run_goes_on(project: Project) -> None:
    project.tasks(task("one"), task("two"))
    project.agent(f"if test $RALPH_TASK = one; then\n{CRASH}fi\n{HONEST}")
    ran = project.ralph("run", "--json", "--no-retry-blocked")
    assert (ran.code, ran.json["stopReason"]) == (3, "blocked")
    assert [record.task_id for record in project.records] == ["one", "one", "one", "two"]
    one = project.task()
    assert (one.status, one.attempts) == ("blocked", {})
    assert "3 times in a row" in (one.blocked_reason or "")
    assert "broken" in (one.blocked_reason or "")
    assert project.task("two").status == "completed"
    assert project.ralph("validate").code == 0
    for told in (ran.err, project.ralph("summary").out):
        assert "see to the agent" in told
        assert "edit its task" not in told


def test_crashes_do_not_use_up_the_iterations_of_the_run(project: Project) -> None:
    project.configure(attempts=1)
    project.agent(f"if mkdir $BESIDE/one || mkdir $BESIDE/two; then\n{CRASH}fi\n{HONEST}")
    ran = project.ralph("run")
    assert ran.code == 0, ran
    assert [record.completion_status for record in project.records] == ["failed", "failed", "completed"]
    assert project.task().attempts == {"coder": 1}


def test_crashes_at_two_tasks_in_a_row_end_the_run(project: Project) -> None:
    project.tasks(task("one"), task("two"), task("three"))
    project.agent(CRASH)
    ran = project.ralph("run", "--json")
    assert (ran.code, ran.json["stopReason"], ran.json["iterations"]) == (5, "error", 6)
    assert "at 2 tasks in a row" in ran.json["error"]
    assert statuses(project, ("one", "two", "three")) == ["blocked", "in_iteration", "pending"]
    assert [one.attempts for one in project.prd.tasks] == [{}, {}, {}]


def test_a_fallback_takes_over_from_an_agent_that_only_crashes(project: Project) -> None:
    project.tasks(task("one"), task("two"))
    claude(project, CRASH, fallback="script")
    project.agent(HONEST)
    ran = project.ralph("run")
    assert ran.code == 3, ran
    assert agents(project) == ["played"] * 6 + ["script"]
    assert statuses(project, ("one", "two")) == ["blocked", "completed"]


def test_an_agent_that_is_not_installed_is_replaced_at_the_start(project: Project) -> None:
    claude(project, CRASH, fallback="script")
    (project.beside / "claude").unlink()
    project.agent(HONEST)
    ran = project.ralph("run")
    assert ran.code == 0, ran
    assert agents(project) == ["script"]
    assert "going on with script" in ran.out + ran.err
    project.tasks(task("two"))
    claude(project, CRASH)
    (project.beside / "claude").unlink()
    assert project.ralph("run").code == 5


def test_a_refused_login_is_replaced_at_once(project: Project) -> None:
    refused = """echo '{"type":"result","is_error":true,"api_error_status":401,"result":"no key"}'\nexit 1\n"""
    claude(project, refused, fallback="script")
    project.agent(HONEST)
    ran = project.ralph("run")
    assert ran.code == 0, ran
    assert (agents(project), project.task().attempts) == (["played", "script"], {"coder": 1})


# Budgets


def scripted(project: Project, limits: dict[str, Any]) -> None:
    """An agent that spends $0.60 and 400 tokens, and never completes."""
    script = project.beside / "script.json"
    script.write_text(json.dumps({"default": {"cost": 0.6, "tokens": 400, "promise": False}}))
    executor = {"id": "played", "type": "scripted", "args": [str(script)]}
    project.configure(tools={"executors": [executor]}, defaults={"executor": "played"}, limits=limits, gates=[TESTS])


@pytest.mark.parametrize(
    ("limits", "code", "reason", "iterations", "told"),
    [
        ({"maxTokens": 700}, 4, "max-cost", 2, "700 tokens"),
        ({"maxCostUsd": 1}, 3, "blocked", 4, "maxCostUsd"),
        ({"maxTokens": 700}, 3, "blocked", 4, "maxTokens"),
    ],
    ids=["of the run", "money of a task", "tokens of a task"],
)
def test_budgets(project: Project, limits: dict[str, Any], code: int, reason: str, iterations: int, told: str) -> None:
    own = {} if reason == "max-cost" else {"overrides": {"limits": limits}}
    project.tasks(task("one", **own), task("two", **own))
    scripted(project, {} if own else limits)
    ran = project.ralph("run", "--json", "--no-retry-blocked")
    assert (ran.code, ran.json["stopReason"], ran.json["iterations"]) == (code, reason, iterations), ran
    blocked = [one.blocked_reason or "" for one in project.prd.tasks]
    assert told in (ran.json["error"] if reason == "max-cost" else blocked[0])
    if reason == "blocked":
        assert {record.stop_reason for record in project.records if record.completion_status == "blocked"} == {
            "max-cost"
        }


def test_claude_is_handed_what_is_left_of_the_budgets(project: Project) -> None:
    own = {"limits": {"maxCostUsd": 1.5}}
    project.tasks(task("one", overrides=own), task("two", overrides=own))
    claude(project, f"COST=0.75\n{DONE}", limits={"maxCostUsd": 2})
    ran = project.ralph("run")
    assert ran.code == 0, ran
    words = (project.beside / "words").read_text().splitlines()
    given = [line.split("--max-budget-usd ")[1].split()[0] for line in words]
    assert given == ["1.50", "1.25"]
    claude(project, DONE)
    project.tasks(task("three"))
    assert project.ralph("run").code == 0
    assert "--max-budget-usd" not in (project.beside / "words").read_text().splitlines()[-1], "without any"


def test_the_model_that_judges_is_paid_from_the_same_budget(project: Project) -> None:
    """It costs $0.25 a question and gives no judgement, so it is asked twice for each attempt."""
    judged = {"verificationMethod": "semantic", "verificationConfig": {"checkFor": ["there is a file"]}}
    project.tasks(task(completion={"coder": judged}), task("two"))
    answer = '{"type":"result","subtype":"success","is_error":false,"total_cost_usd":0.25,"result":"fine","usage":{"input_tokens":100}}'
    claude(
        project,
        f"if test -n \"$RALPH_TASK\"; then COST=0\n{DONE}exit 0; fi\necho '{answer}'\n",
        limits={"maxCostUsd": 0.4},
        judge={"executor": "played"},
    )
    ran = project.ralph("run", "--json")
    assert ran.code == 4, ran
    assert (ran.code, ran.json["stopReason"], ran.json["costUsd"], ran.json["tokens"]) == (4, "max-cost", 0.5, 200)
    assert (project.last.cost_usd, project.last.judge_cost_usd, project.last.judge_usage.total) == (0, 0.5, 200)
    assert (project.prd.totals.cost_usd, project.task().cost_usd, project.task().tokens) == (0.5, 0.5, 200)
    assert project.ralph("validate").code == 0
