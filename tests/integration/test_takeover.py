"""Ralph is killed by SIGKILL while a claude works that has told its cost: the next run ends it and takes its cost over."""

import signal
from pathlib import Path

import psutil

from tests.harness import HONEST, Project, finish, make_project, wait_for

CAPTURE = Path(__file__).parent.parent / "data" / "captures" / "claude-2.1.330" / "success.out"
COST, TOKENS = 0.00944, 2468


def killed_run(folder: Path) -> tuple[Project, list[int]]:
    """A project whose run was killed, and the ids of processes that its agent left, in sessions of their own, one of
    them without any environment.
    """
    project = make_project(folder)
    claude, left = project.beside / "claude", project.beside / "left"
    left.touch()
    claude.write_text(
        f"#!/bin/sh\ncase $1 in --version) echo '2.1.330 (Claude Code)'; exit;; esac\ncat > /dev/null; cat {CAPTURE}\n"
        "echo half > half.txt\n"
        f"setsid sh -c 'echo $$ > {left}; env -i setsid sleep 60 & echo $! >> {left}; echo >> {left}; wait' &\n"
        f"while test $(wc -l < {left}) -lt 3; do sleep 0.02; done; touch {project.beside}/started; sleep 60\n"
    )
    claude.chmod(0o755)
    script = {"id": "script", "type": "command", "command": f"sh {project.beside}/agent.sh"}
    executors = [{"id": "real", "type": "claude", "command": str(claude)}, script]
    project.configure(tools={"executors": executors})
    process = project.start("run", "--agent", "real")
    wait_for((project.beside / "started").exists, "the agent's start")
    wait_for(lambda: (project.root / ".git/ralph/output-1.log").stat().st_size >= CAPTURE.stat().st_size, "its output")
    process.send_signal(signal.SIGKILL)
    finish(process)
    return project, [int(pid) for pid in left.read_text().split()]


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_run_is_taken_over_with_its_cost(tmp_path: Path) -> None:
    project, left = killed_run(tmp_path)
    assert list(map(runs, left)) == [True, True]
    assert project.last.cost_usd is None
    project.agent(HONEST)
    project.environment["RALPH_LIMITS__MAX_COST_USD"] = str(COST)
    stopped = project.ralph("resume", "--json")
    assert (stopped.code, stopped.json["stopReason"], stopped.json["costUsd"]) == (4, "max-cost", COST)
    assert list(map(runs, left)) == [False, False]
    assert "that the dead run" in stopped.err
    record = project.last
    assert (record.phase, record.completion_status, record.agent_status) == ("settled", "interrupted", "truncated")
    assert (record.cost_usd, record.usage.total, record.session_id != "") == (COST, TOKENS, True)
    assert record.parsed
    assert (record.parsed.summary, record.tasks_completed) == ("The file is written.", ())
    assert '"type":"result"' in record.output
    assert (project.prd.totals.cost_usd, project.prd.totals.tokens) == (COST, TOKENS)
    assert (project.task().cost_usd, project.task().tokens, project.task().attempts) == (COST, TOKENS, {})
    assert "$0.0094" in project.ralph("status").out
    del project.environment["RALPH_LIMITS__MAX_COST_USD"]
    ran = project.ralph("resume")
    assert ran.code == 0, ran.out + ran.err
    assert project.changed(project.task_commits()["one"]) == ["half.txt", "work/one.txt"]
    assert project.prd.totals.cost_usd == COST
