"""The adapters of codex, gemini, qwen and opencode as processes: a stand-in on PATH notes what it got and plays a capture."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rulebook_ralph.agents.agent import AgentLimits, AgentSettings, Assignment
from rulebook_ralph.agents.registry import create
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.core.evidence import AgentResult

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
PROMPT = "do é" * 100_000

STAND_IN = """#!/bin/sh
if [ "$1" = --version ]; then echo "$SAYS"; exit; fi
for word; do echo "$word"; done > argv
cat > prompt
env > env
cat "$PLAY.out"
[ -f "$PLAY.err" ] && cat "$PLAY.err" >&2
exit ${CODE:-0}
"""


def stand_in(tmp_path: Path, kind: str) -> dict[str, str]:
    program = tmp_path / "bin" / kind
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def ran(tmp_path: Path, settings: AgentSettings, *, play: str = "success", code: int = 0, tz: str = "") -> AgentResult:
    environment = {
        **stand_in(tmp_path, settings.type),
        "PLAY": str(CAPTURES / settings.type / play),
        "CODE": str(code),
        **({"TZ": tz} if tz else {}),
    }
    assignment = Assignment(
        prompt=PROMPT,
        workspace=tmp_path,
        output_file=tmp_path / "raw",
        limits=AgentLimits(wall_time=10),
        environment=environment,
        cancelled=Cancellation(),
        report=lambda _: None,
    )
    return create(settings, environment).run(assignment)


CODEX = ["exec", "--json", "--skip-git-repo-check"]
STREAM = ["--output-format", "stream-json"]
BYPASS = "--dangerously-bypass-approvals-and-sandbox"


def agent(kind: str, permissions: str = "full", *args: str, model: str = "") -> AgentSettings:
    return AgentSettings(id="a", type=kind, permissions=permissions, args=args, model=model)


@pytest.mark.parametrize(
    ("settings", "argv", "variable"),
    [
        (agent("codex"), [*CODEX, BYPASS], ""),
        (agent("codex", "edit", model="m"), [*CODEX, "--sandbox", "workspace-write", "--model", "m"], ""),
        (agent("codex", "ask", "-m", "n", model="m"), [*CODEX, "--sandbox", "read-only", "-m", "n"], ""),
        (agent("codex", "full", "--sandbox=read-only"), [*CODEX, "--sandbox=read-only"], ""),
        (agent("codex", "full", "-c", "sandbox_mode='x'"), [*CODEX, "-c", "sandbox_mode='x'"], ""),
        (agent("gemini"), [*STREAM, "--approval-mode", "yolo"], "GEMINI_CLI_TRUST_WORKSPACE=true"),
        (agent("gemini", "edit", "-m", "n", model="m"), [*STREAM, "--approval-mode", "auto_edit", "-m", "n"], ""),
        (agent("gemini", "ask", "--yolo", "-o", "json"), ["--yolo", "-o", "json"], ""),
        (agent("qwen", model="m"), [*STREAM, "--approval-mode", "yolo", "--model", "m"], ""),
        (
            agent("qwen", "edit", "--auth-type", "openai"),
            [*STREAM, "--approval-mode", "auto-edit", "--auth-type", "openai"],
            "",
        ),
        (agent("opencode"), ["run", "--format", "json", "--auto"], ""),
        (agent("opencode", "edit", model="p/m"), ["run", "--format", "json", "--model", "p/m"], "OPENCODE_PERMISSION"),
    ],
)
def test_what_it_is_given(tmp_path: Path, settings: AgentSettings, argv: list[str], variable: str) -> None:
    got = ran(tmp_path, settings)
    assert (got.agent, got.status, got.output_bytes) == ("a", "finished", (tmp_path / "raw").stat().st_size)
    assert (tmp_path / "argv").read_text().splitlines() == argv
    assert (tmp_path / "prompt").read_text() == PROMPT
    given = [line for line in (tmp_path / "env").read_text().splitlines() if line.startswith(("GEMINI_", "OPENCODE_"))]
    assert [line for line in given if line.startswith(variable or "-")] == given


@pytest.mark.parametrize(("permissions", "edit"), [("edit", "allow"), ("ask", "deny")])
def test_opencode_is_held_by_rules(tmp_path: Path, permissions: str, edit: str) -> None:
    ran(tmp_path, agent("opencode", permissions))
    (line,) = [one for one in (tmp_path / "env").read_text().splitlines() if one.startswith("OPENCODE_PERMISSION=")]
    rules = json.loads(line.partition("=")[2])
    assert (rules["edit"], rules["bash"]) == (edit, "deny")


def test_opencode_attaches_to_a_server(tmp_path: Path) -> None:
    ran(tmp_path, AgentSettings(id="a", type="opencode", endpoint="http://127.0.0.1:1"))
    argv = (tmp_path / "argv").read_text().splitlines()
    assert argv[-4:] == ["--attach", "http://127.0.0.1:1", "--dir", str(tmp_path)]


def test_a_local_time_is_that_of_the_agent(tmp_path: Path) -> None:
    just_passed = datetime.now(UTC).hour == 12  # what it says would be told in another way
    zone, at = ("Asia/Kolkata", "T15:53:00Z") if just_passed else ("Asia/Tokyo", "T12:23:00Z")
    got = ran(tmp_path, agent("codex"), play="usage_limit", code=1, tz=zone)
    assert got.fault
    assert (got.fault.kind, (got.fault.resets_at or "")[10:]) == ("usage-limit", at)


@pytest.mark.parametrize(
    ("kind", "play", "code", "fault"),
    [
        ("gemini", "untrusted", 55, "permission"),
        ("qwen", "max_turns", 53, "max-turns"),
        ("qwen", "credit", 0, "billing"),
    ],
)
def test_what_stands_beside_the_stream_is_heard(tmp_path: Path, kind: str, play: str, code: int, fault: str) -> None:
    got = ran(tmp_path, agent(kind), play=play, code=code)
    assert (got.status, got.fault and got.fault.kind) == ("failed", fault)


def test_a_refusal_that_codex_logs_is_named(tmp_path: Path) -> None:
    got = ran(tmp_path, agent("codex", "ask"), play="default_sandbox")
    assert got.permission_denials[0].startswith("patch rejected: writing is blocked by read-only sandbox")


@pytest.mark.parametrize(
    ("kind", "says", "version"), [("codex", "codex-cli 0.169.0", "0.169.0"), ("opencode", "1.18.33", "1.18.33")]
)
def test_the_version_is_told(tmp_path: Path, kind: str, says: str, version: str) -> None:
    environment = {**stand_in(tmp_path, kind), "SAYS": says}
    assert create(agent(kind), environment).probe().version == version


@pytest.mark.parametrize("kind", ["codex", "gemini", "qwen", "opencode"])
def test_a_program_that_is_not_there_is_one_line(kind: str) -> None:
    probe = create(agent(kind), {"PATH": "/nonexistent"}).probe()
    assert not probe.installed
    assert probe.problem.startswith(f"agent a: {kind} was not found on PATH; install it with: npm install -g ")
    assert "\n" not in probe.problem
