"""amp, copilot, cursor and aider as processes: a stand-in on PATH takes down what it was given and plays an answer."""

import os
from pathlib import Path

import pytest

from rulebook_ralph.agents.agent import AgentLimits, AgentSettings, Assignment
from rulebook_ralph.agents.capabilities import BUILT_IN
from rulebook_ralph.agents.registry import create
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.errors import RalphError

STAND_IN = """#!/bin/sh
for word; do printf '%s\\n' "$word"; done > "$NOTES/argv"
cat > "$NOTES/stdin"
while [ $# -gt 0 ]; do
  if [ "$1" = --message-file ]; then cat "$2" > "$NOTES/file"; ls -l "$2" > "$NOTES/mode"; fi
  shift
done
mkdir -p .aider.tags.cache.v4 && echo x > .aider.tags.cache.v4/cache.db
echo "${COLUMNS:-}" > "$NOTES/columns"
cat "$NOTES/play"
echo "$SAY" >&2
exit ${CODE:-0}
"""
PROGRAMS = {"amp": "amp", "copilot": "copilot", "cursor": "cursor-agent", "aider": "aider"}
ANSWERS = {
    "amp": '{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"T-1"}\n',
    "copilot": '{"type":"assistant.message","data":{"content":"fine"}}\n{"type":"result","exitCode":0}\n',
    "cursor": (
        '{"type":"assistant","message":{"content":[{"type":"text","text":"fine"}]}}\n'
        '{"type":"result","subtype":"success","is_error":false,"result":"all of it"}\n'
    ),
    "aider": "Aider v0.86.2\n\nfine\nTokens: 2.5k sent, 34 received.\n",
}
LONG = "do é\n" * 60_000


def ran(tmp_path: Path, settings: AgentSettings, *, prompt: str = "do it", code: int = 0, say: str = "") -> AgentResult:
    program = tmp_path / "bin" / PROGRAMS[settings.type]
    program.parent.mkdir(exist_ok=True)
    program.write_text(STAND_IN)
    program.chmod(0o755)
    (tmp_path / "play").write_text(ANSWERS[settings.type])
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "NOTES": str(tmp_path),
        "CODE": str(code),
        "SAY": say,
    }
    assignment = Assignment(
        prompt=prompt,
        workspace=workspace,
        output_file=tmp_path / "raw",
        limits=AgentLimits(wall_time=10),
        environment=environment,
        cancelled=Cancellation(),
        report=lambda _: None,
    )
    return create(settings, environment).run(assignment)


def noted(tmp_path: Path, name: str) -> str:
    return (tmp_path / name).read_text()


AMP = ["-x", "--stream-json", "--dangerously-allow-all"]
COPILOT = ["-p", "do it", "--output-format", "json"]
CURSOR = ["-p", "--output-format", "stream-json"]


@pytest.mark.parametrize(
    ("settings", "argv", "stdin"),
    [
        (AgentSettings(id="a", type="amp"), AMP, "do it"),
        (AgentSettings(id="a", type="amp", model="deep", args=("-v",)), [*AMP, "--mode", "deep", "-v"], "do it"),
        (AgentSettings(id="a", type="copilot"), [*COPILOT, "--allow-all-tools"], ""),
        (
            AgentSettings(id="a", type="copilot", permissions="edit", model="gpt-5.5", args=("-s",)),
            [*COPILOT, "--allow-tool=write", "--model", "gpt-5.5", "-s"],
            "",
        ),
        (AgentSettings(id="a", type="copilot", permissions="ask"), COPILOT, ""),
        (AgentSettings(id="a", type="cursor"), [*CURSOR, "--force", "do it"], ""),
        (
            AgentSettings(id="a", type="cursor", permissions="edit", model="m", args=("--trust",)),
            [*CURSOR, "--model", "m", "--trust", "do it"],
            "",
        ),
        (AgentSettings(id="a", type="cursor", permissions="ask"), [*CURSOR, "--mode=ask", "do it"], ""),
    ],
    ids=lambda value: f"{value.type}-{value.permissions}" if isinstance(value, AgentSettings) else "",
)
def test_what_they_are_given(tmp_path: Path, settings: AgentSettings, argv: list[str], stdin: str) -> None:
    got = ran(tmp_path, settings)
    assert (got.status, got.final_text, got.agent) == ("finished", "fine", "a")
    assert noted(tmp_path, "argv").splitlines() == argv
    assert noted(tmp_path, "stdin") == stdin


@pytest.mark.parametrize("kind", ["amp", "copilot", "cursor"])
def test_a_prompt_too_long_for_an_argument_goes_to_stdin(tmp_path: Path, kind: str) -> None:
    assert ran(tmp_path, AgentSettings(id="a", type=kind), prompt=LONG).status == "finished"
    assert noted(tmp_path, "stdin") == LONG
    assert "-p" not in noted(tmp_path, "argv").splitlines() or kind == "cursor"


def test_aider_gets_the_prompt_by_a_file_of_this_users_and_leaves_nothing_behind(tmp_path: Path) -> None:
    settings = AgentSettings(id="a", type="aider", model="o/m", args=("--edit-format", "diff"))
    got = ran(tmp_path, settings, prompt=LONG)
    assert (got.status, got.final_text, got.usage.total) == ("finished", "fine", 2534)
    assert noted(tmp_path, "file") == LONG
    assert noted(tmp_path, "mode").startswith("-rw")
    assert noted(tmp_path, "stdin") == ""
    assert noted(tmp_path, "columns") == "1000\n"
    argv = noted(tmp_path, "argv").splitlines()
    assert not Path(argv[1]).parent.exists()
    assert argv[-4:] == ["--model", "o/m", "--edit-format", "diff"]
    assert {"--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-detect-urls"} <= set(argv)
    assert not [*(tmp_path / "workspace").iterdir()]


def test_aider_that_may_change_nothing_is_told_last(tmp_path: Path) -> None:
    cache = tmp_path / "workspace" / ".aider.tags.cache.v4"
    cache.mkdir(parents=True)
    ran(tmp_path, AgentSettings(id="a", type="aider", permissions="ask", args=("--edit-format", "diff")))
    assert noted(tmp_path, "argv").splitlines()[-3:] == ["--chat-mode", "ask", "--dry-run"]
    assert cache.exists(), "it was there before"


@pytest.mark.parametrize("kind", ["amp", "copilot", "cursor"])
def test_why_it_ended_with_a_bad_exit_code_may_stand_on_stderr_alone(tmp_path: Path, kind: str) -> None:
    got = ran(tmp_path, AgentSettings(id="a", type=kind), code=1, say="Error: Not logged in")
    assert got.fault
    assert (got.status, got.fault.kind) == ("failed", "authentication")
    assert "exit code 1: Error: Not logged in; " in got.fault.message
    odd = ran(tmp_path, AgentSettings(id="a", type=kind), code=1, say="oh")
    assert (odd.status, odd.fault and odd.fault.kind) == ("failed", "crash")


@pytest.mark.parametrize(
    "settings",
    [AgentSettings(id="a", type="amp", permissions=mode) for mode in ("edit", "ask")]
    + [
        AgentSettings(id="a", type=kind, endpoint="http://localhost:1", command="x", args=("x",))
        for kind, known in BUILT_IN.items()
        if not known.endpoint
    ],
    ids=lambda settings: f"{settings.type}-{settings.permissions}-{bool(settings.endpoint)}",
)
def test_what_an_agent_cannot_be_held_to_is_refused(settings: AgentSettings) -> None:
    with pytest.raises(RalphError, match=rf"agent a: {settings.type} cannot .*tools\.executors"):
        create(settings, {"PATH": "/nowhere"})
