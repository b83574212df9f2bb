"""The claude adapter as a process: a stand-in on PATH takes down what it was given and plays a capture."""

import os
from pathlib import Path

import pytest

from rulebook_ralph.agents.agent import AgentLimits, AgentSettings, Assignment
from rulebook_ralph.agents.registry import create
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.core.evidence import AgentResult

CAPTURES = Path(__file__).parent.parent / "data" / "captures"

STAND_IN = """#!/bin/sh
for word; do echo "$word"; done > argv
cat > prompt
env > env
cat "$PLAY"
exit ${CODE:-0}
"""


def ran(tmp_path: Path, settings: AgentSettings, *, play: str = "success", code: int = 0) -> AgentResult:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PLAY": str(CAPTURES / "claude-2.1.330" / f"{play}.out"),
        "CODE": str(code),
    }
    assignment = Assignment(
        prompt="do é" * 250_000,
        workspace=tmp_path,
        output_file=tmp_path / "raw",
        limits=AgentLimits(wall_time=10),
        environment=environment,
        cancelled=Cancellation(),
        report=lambda _: None,
    )
    return create(settings, environment).run(assignment)


BASE = ["-p", "--output-format", "stream-json", "--verbose"]


@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        (AgentSettings(id="c", type="claude"), [*BASE, "--dangerously-skip-permissions"]),
        (AgentSettings(id="c", type="claude", permissions="edit"), [*BASE, "--permission-mode", "acceptEdits"]),
        (
            AgentSettings(id="c", type="claude", permissions="ask", model="opus", args=("--max-turns", "9")),
            [*BASE, "--model", "opus", "--max-turns", "9"],
        ),
    ],
    ids=["full", "edit", "ask"],
)
def test_what_claude_is_given(tmp_path: Path, settings: AgentSettings, argv: list[str]) -> None:
    got = ran(tmp_path, settings)
    assert got.status == "finished"
    assert (tmp_path / "argv").read_text().splitlines() == argv
    assert (tmp_path / "prompt").read_text() == "do é" * 250_000
    sandboxed = "IS_SANDBOX=1" in (tmp_path / "env").read_text().splitlines()
    assert sandboxed == (settings.permissions == "full" and os.geteuid() == 0)


def test_the_result_carries_the_run(tmp_path: Path) -> None:
    got = ran(tmp_path, AgentSettings(id="c", type="claude"))
    raw = (CAPTURES / "claude-2.1.330" / "success.out").read_bytes()
    assert (tmp_path / "raw").read_bytes() == raw
    assert (got.agent, got.output_bytes, got.session_id) == ("c", len(raw), "cd301f60-8335-47d3-b139-4b0b46d8f084")
    assert got.final_text.endswith("<promise>DONE</promise>")


def test_success_in_the_stream_and_a_bad_exit_is_a_failure(tmp_path: Path) -> None:
    got = ran(tmp_path, AgentSettings(id="c", type="claude"), code=1)
    assert (got.status, got.fault and got.fault.kind) == ("failed", "crash")
