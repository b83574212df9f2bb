"""The scripted agent: a genuine process that plays what a script says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.results import AgentResult, ToolResult, Usage
from tests.agent_runs import ran


def played(
    folder: Path,
    script: object,
    *,
    task: str = "t1",
    attempt: int = 1,
    wall_time: float = 10,
    report: Callable[[AgentActivity], None] = lambda _: None,
) -> AgentResult:
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    settings = Executor(id="player", type="scripted", args=(str(path),))
    told = {"RALPH_TASK": task, "RALPH_ATTEMPT": str(attempt), "RALPH_PROMISE": "ALL DONE"}
    limits = AgentLimits(wall_time=wall_time)
    return ran(folder, settings, "p" * 1_000_000, limits=limits, report=report, environment=told)


def one(**attempt: object) -> dict[str, Any]:
    return {"default": attempt}


def test_steps_have_real_effects_and_are_told(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "code.py").write_text("x = 1\nx = 1\n")
    activities: list[AgentActivity] = []
    steps = [
        {"say": "I begin.\nmore"},
        {"write": "a/b.txt", "content": "é\n"},
        {"replace": "code.py", "old": "x = 1", "new": "x = 2"},
        {"run": "echo ran; pwd"},
        {"replace": "code.py", "old": "absent", "new": ""},
        {"run": "echo no; exit 3"},
    ]
    got = played(tmp_path, one(steps=steps), report=activities.append)
    assert got.status == "finished"
    assert (workspace / "a" / "b.txt").read_text() == "é\n"
    assert (workspace / "code.py").read_text() == "x = 2\nx = 1\n"
    assert [(tool.name, tool.command, tool.success) for tool in got.tool_results] == [
        ("Write", "a/b.txt", True),
        ("Edit", "code.py", True),
        ("Bash", "echo ran; pwd", True),
        ("Edit", "code.py", False),
        ("Bash", "echo no; exit 3", False),
    ]
    assert got.tool_results[2].output == f"ran\n{workspace.resolve()}\n"
    assert activities[0] == AgentActivity("text", "I begin.", "I begin.\nmore")
    assert activities[1:3] == [AgentActivity("tool", "Write", "a/b.txt"), AgentActivity("tool", "Edit", "code.py")]


def test_the_final_message_carries_report_and_promise(tmp_path: Path) -> None:
    report = {"summary": "did it", "learnings": ["one"]}
    got = played(tmp_path, one(final="All is well.", report=report, promise=True, cost=0.01, tokens=1000))
    parsed = parser.parse(got)
    assert got.final_text.startswith("All is well.\n")
    assert (parsed.promises, parsed.summary, parsed.learnings) == (("ALL DONE",), "did it", ("one",))
    assert (got.cost_usd, got.usage) == (0.01, Usage(input_tokens=900, output_tokens=100))


@pytest.mark.parametrize(("promise", "expected"), [(False, ()), ("OTHER", ("OTHER",))])
def test_promises_can_be_withheld_or_wrong(tmp_path: Path, promise: object, expected: tuple[str, ...]) -> None:
    assert parser.parse(played(tmp_path, one(final="x", promise=promise))).promises == expected


@pytest.mark.parametrize(
    ("task", "attempt", "said"), [("t1", 1, "first"), ("t1", 2, "second"), ("t1", 9, "second"), ("t2", 1, "other")]
)
def test_task_and_attempt_choose(tmp_path: Path, task: str, attempt: int, said: str) -> None:
    script = {"tasks": {"t1": [{"final": "first"}, {"final": "second"}]}, "default": {"final": "other"}}
    assert played(tmp_path, script, task=task, attempt=attempt).final_text == said


@pytest.mark.parametrize(
    ("attempt", "status", "kind"),
    [
        ({"promise": True, "exit": 3}, "failed", "crash"),
        ({"promise": True, "crash": True}, "truncated", "cut-off"),
        ({"promise": True, "crash": True, "exit": 1}, "failed", "crash"),
        ({"steps": [{"dance": 1}]}, "failed", "crash"),
        ({"steps": 3}, "failed", "crash"),
    ],
)
def test_failures(tmp_path: Path, attempt: dict[str, object], status: str, kind: str) -> None:
    got = played(tmp_path, {"default": attempt})
    assert (got.status, got.fault and got.fault.kind) == (status, kind)


def test_it_waits_only_where_the_script_says_and_can_be_killed(tmp_path: Path) -> None:
    steps = [{"write": "done.txt", "content": "x"}, {"wait": 60}]
    got = played(tmp_path, one(steps=steps, promise=True), wall_time=1.5)
    assert (got.status, got.killed_by, got.final_text) == ("killed", "wall-time", "")
    assert got.tool_results == (ToolResult(name="Write", command="done.txt", success=True, output="wrote done.txt"),)


def test_modules_in_the_workspace_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    for name in ("json", "rulebook_ralph", "os", "subprocess"):
        (tmp_path / "workspace" / f"{name}.py").write_text("raise SystemExit(9)")
    assert played(tmp_path, one(steps=[{"run": "true"}])).status == "finished"
