"""The agent CLIs as processes: a stand-in on PATH takes down what it was given and plays what the genuine one printed."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.agents.cli import last_change
from rulebook_ralph.agents.registry import BUILT_IN, create
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import Box, probe_box
from rulebook_ralph.tasks.results import AgentResult
from tests.agent_runs import ran
from tests.cases import each_of

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
PROGRAMS = {"cursor": "cursor-agent"}
FOLDERS = {"claude": "claude-2.1.330"}
STAND_IN = """#!/bin/sh
if [ "$1" = --version ]; then echo "$SAY"; exit; fi
for word; do printf '%s\\n' "$word"; done > "$NOTES/argv"
cat > "$NOTES/stdin"
env > "$NOTES/env"
while [ $# -gt 0 ]; do
  if [ "$1" = --message-file ]; then cat "$2" > "$NOTES/file"; ls -l "$2" > "$NOTES/mode"; fi
  shift
done
case $0 in *aider) mkdir -p .aider.tags.cache.v4 && echo x > .aider.tags.cache.v4/cache.db;; esac
cat "$PLAY.out"
[ -f "$PLAY.err" ] && cat "$PLAY.err" >&2
echo "$SAY" >&2
exit ${CODE:-0}
"""
DOCUMENTED = {
    "amp": '{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"T-1"}\n',
    "copilot": '{"type":"assistant.message","data":{"content":"fine"}}\n{"type":"result","exitCode":0}\n',
    "cursor": (
        '{"type":"assistant","message":{"content":[{"type":"text","text":"fine"}]}}\n'
        '{"type":"result","subtype":"success","is_error":false,"result":"all of it"}\n'
    ),
}
LONG = "do é\n" * 60_000


def agent(kind: str, permissions: str = "full", *args: str, model: str = "", endpoint: str = "") -> Executor:
    made = Executor(id="a", type=kind, args=args, model=model, endpoint=endpoint)
    return replace(made, permissions=permissions)


def stand_in(folder: Path, kind: str) -> dict[str, str]:
    program = folder / "bin" / PROGRAMS.get(kind, kind)
    program.parent.mkdir(exist_ok=True)
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def played(
    folder: Path,
    settings: Executor,
    prompt: str = "do it",
    *,
    play: str = "success",
    code: int = 0,
    say: str = "",
    limits: AgentLimits | None = None,
    **environment: str,
) -> AgentResult:
    kind = settings.type
    script = CAPTURES / FOLDERS.get(kind, kind) / play
    if kind in DOCUMENTED:
        script = folder / "play"
        script.with_suffix(".out").write_text(DOCUMENTED[kind])
    given = {"NOTES": str(folder), "PLAY": str(script), "CODE": str(code), "SAY": say}
    return ran(folder, settings, prompt, limits=limits, environment={**stand_in(folder, kind), **given, **environment})


def noted(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().splitlines()


CLAUDE = ["-p", "--output-format", "stream-json", "--verbose"]
CODEX = ["exec", "--json", "--skip-git-repo-check"]
STREAM = ["--output-format", "stream-json"]
AMP = ["-x", "--stream-json", "--dangerously-allow-all"]
COPILOT = ["--output-format", "json"]
CURSOR = ["-p", "--output-format", "stream-json"]
BYPASS = "--dangerously-bypass-approvals-and-sandbox"


@pytest.mark.parametrize(
    ("settings", "argv"),
    [
        (agent("claude"), [*CLAUDE, "--dangerously-skip-permissions"]),
        (agent("claude", "edit"), [*CLAUDE, "--permission-mode", "acceptEdits"]),
        (agent("claude", "ask", "--max-turns", "9", model="opus"), [*CLAUDE, "--model", "opus", "--max-turns", "9"]),
        (agent("codex"), [*CODEX, BYPASS]),
        (agent("codex", "edit", model="m"), [*CODEX, "--sandbox", "workspace-write", "--model", "m"]),
        (agent("codex", "ask", "-m", "n", model="m"), [*CODEX, "--sandbox", "read-only", "-m", "n"]),
        (agent("codex", "full", "--sandbox=read-only"), [*CODEX, "--sandbox=read-only"]),
        (agent("codex", "full", "-c", "sandbox_mode='x'"), [*CODEX, "-c", "sandbox_mode='x'"]),
        (agent("gemini"), [*STREAM, "--approval-mode", "yolo"]),
        (agent("gemini", "edit", "-m", "n", model="m"), [*STREAM, "--approval-mode", "auto_edit", "-m", "n"]),
        (agent("qwen", model="m"), [*STREAM, "--approval-mode", "yolo", "--model", "m"]),
        (agent("qwen", "edit"), [*STREAM, "--approval-mode", "auto-edit"]),
        (agent("opencode"), ["run", "--format", "json", "--auto"]),
        (agent("opencode", "edit", model="p/m"), ["run", "--format", "json", "--model", "p/m"]),
        (agent("amp", "full", "-v", model="deep"), [*AMP, "--mode", "deep", "-v"]),
        (agent("copilot"), [*COPILOT, "--allow-all-tools", "-p", "do it"]),
        (agent("copilot", "edit", model="m"), [*COPILOT, "--allow-tool=write", "--model", "m", "-p", "do it"]),
        (agent("copilot", "ask"), [*COPILOT, "-p", "do it"]),
        (agent("cursor"), [*CURSOR, "--force", "do it"]),
        (agent("cursor", "edit", "--trust", model="m"), [*CURSOR, "--model", "m", "--trust", "do it"]),
        (agent("cursor", "ask"), [*CURSOR, "--mode=ask", "do it"]),
    ],
    ids=lambda value: f"{value.type}-{value.permissions}" if isinstance(value, Executor) else "",
)
def test_what_it_is_given(tmp_path: Path, settings: Executor, argv: list[str]) -> None:
    got = played(tmp_path, settings)
    assert (got.agent, got.status) == ("a", "finished")
    assert noted(tmp_path, "argv") == argv
    assert noted(tmp_path, "stdin") == ([] if argv[-1] == "do it" else ["do it"])


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "opencode", "qwen", "amp", "copilot", "cursor"])
def test_a_prompt_may_be_long(tmp_path: Path, kind: str) -> None:
    assert played(tmp_path, agent(kind), prompt=LONG).status == "finished"
    assert (tmp_path / "stdin").read_text() == LONG


def test_the_result_carries_the_run(tmp_path: Path) -> None:
    got = played(tmp_path, agent("claude"))
    raw = (CAPTURES / "claude-2.1.330" / "success.out").read_bytes()
    assert (tmp_path / "raw").read_bytes().startswith(raw)
    assert (got.output_bytes, got.session_id) == (len(raw), "cd301f60-8335-47d3-b139-4b0b46d8f084")
    assert got.final_text.endswith("<promise>DONE</promise>")


def test_a_budget_is_handed_to_claude(tmp_path: Path) -> None:
    played(tmp_path, agent("claude"), limits=AgentLimits(wall_time=20, cost_usd=1.5))
    argv = noted(tmp_path, "argv")
    assert argv[argv.index("--max-budget-usd") + 1] == "1.50"


@pytest.mark.parametrize("permissions", ["full", "edit"])
def test_what_is_in_the_environment_of_the_agents_that_need_something_there(tmp_path: Path, permissions: str) -> None:
    full = permissions == "full"
    played(tmp_path, agent("claude", permissions))
    assert ("IS_SANDBOX=1" in noted(tmp_path, "env")) == (full and os.geteuid() == 0)
    played(tmp_path, agent("gemini", permissions))
    assert ("GEMINI_CLI_TRUST_WORKSPACE=true" in noted(tmp_path, "env")) == full
    played(tmp_path, agent("opencode", permissions))
    rules = [line.partition("=")[2] for line in noted(tmp_path, "env") if line.startswith("OPENCODE_PERMISSION=")]
    assert [json.loads(rule)["bash"] for rule in rules] == ([] if full else ["deny"])
    played(tmp_path, agent("claude", permissions), CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS="0")
    assert "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS=0" in noted(tmp_path, "env"), "the user's own goes before"


def test_opencode_attaches_to_a_server(tmp_path: Path) -> None:
    played(tmp_path, agent("opencode", endpoint="http://127.0.0.1:1"))
    assert noted(tmp_path, "argv")[-4:] == ["--attach", "http://127.0.0.1:1", "--dir", str(tmp_path / "workspace")]


def test_a_key_that_is_refused_again_and_again_is_not_waited_for(tmp_path: Path) -> None:
    """claude would try for three minutes, and here it never ends."""
    program = tmp_path / "never"
    program.write_text(f"#!/bin/sh\ncat > /dev/null; cat {CAPTURES}/claude-2.1.330/http401.out; exec sleep 60\n")
    program.chmod(0o755)
    got = played(tmp_path, replace(agent("claude"), command=str(program)))
    assert (got.status, got.killed_by, got.fault and got.fault.kind) == ("failed", None, "authentication")
    assert got.output_bytes > 0
    assert got.duration_ms < 15_000


def test_a_local_time_is_that_of_the_agent(tmp_path: Path) -> None:
    just_passed = datetime.now(UTC).hour == 12  # what it says would be told in another way
    zone, at = ("Asia/Kolkata", "T15:53:00Z") if just_passed else ("Asia/Tokyo", "T12:23:00Z")
    got = played(tmp_path, agent("codex"), play="usage_limit", code=1, TZ=zone)
    assert got.fault
    assert (got.fault.kind, (got.fault.resets_at or "")[10:]) == ("usage-limit", at)


@pytest.mark.parametrize(
    ("kind", "play", "code", "fault"),
    [
        ("gemini", "untrusted", 55, "permission"),
        ("qwen", "max_turns", 53, "max-turns"),
        ("qwen", "credit", 0, "billing"),
        ("aider", "http401", 0, "authentication"),
    ],
)
def test_what_stands_beside_the_stream_is_heard(tmp_path: Path, kind: str, play: str, code: int, fault: str) -> None:
    got = played(tmp_path, agent(kind), play=play, code=code)
    assert (got.status, got.fault and got.fault.kind) == ("failed", fault)


def test_a_refusal_that_codex_logs_is_named(tmp_path: Path) -> None:
    got = played(tmp_path, agent("codex", "ask"), play="default_sandbox")
    assert got.permission_denials[0].startswith("patch rejected: writing is blocked by read-only sandbox")


@pytest.mark.parametrize("kind", ["amp", "copilot", "cursor"])
def test_why_it_ended_with_a_bad_exit_code_may_stand_on_stderr_alone(tmp_path: Path, kind: str) -> None:
    got = played(tmp_path, agent(kind), code=1, say="Error: Not logged in")
    assert got.fault
    assert (got.status, got.fault.kind) == ("failed", "authentication")
    assert "exit code 1: Error: Not logged in; " in got.fault.message
    odd = played(tmp_path, agent(kind), code=1, say="oh")
    assert (odd.status, odd.fault and odd.fault.kind) == ("failed", "crash")


@pytest.mark.parametrize(
    ("kind", "says", "version"),
    [
        ("claude", "2.1.330 (Claude Code)", "2.1.330"),
        ("codex", "codex-cli 0.169.0", "0.169.0"),
        ("opencode", "1.18.33", "1.18.33"),
        ("aider", "aider 0.86.2", "0.86.2"),
    ],
)
def test_the_version_is_told(tmp_path: Path, kind: str, says: str, version: str) -> None:
    assert create(agent(kind), {**stand_in(tmp_path, kind), "SAY": says}).probe().version == version


@each_of("kind", ["claude", "codex", "gemini", "qwen", "opencode", "command", "scripted"])
def test_a_program_that_is_not_there_is_one_line(kind: str) -> None:
    settings = replace(agent(kind, "full", "/no/script"), command=f"no-such-{kind}")
    probe = create(settings, {"PATH": "/nonexistent"}).probe()
    missing = "there is no script /no/script" if kind == "scripted" else f"no-such-{kind} was not found on PATH; "
    assert (probe.installed, probe.problem.startswith(f"agent a: {missing}")) == (False, True)
    assert kind in ("command", "scripted") or "install it with: npm install -g " in probe.problem
    assert "\n" not in probe.problem


@pytest.mark.parametrize(
    "settings",
    [agent("amp", mode) for mode in ("edit", "ask")]
    + [
        replace(agent(kind, "full", "x", endpoint="http://localhost:1"), command="x")
        for kind, known in BUILT_IN.items()
        if not known.endpoint
    ],
    ids=lambda settings: f"{settings.type}-{settings.permissions}-{bool(settings.endpoint)}",
)
def test_what_an_agent_cannot_be_held_to_is_refused(settings: Executor) -> None:
    with pytest.raises(RalphError, match=rf"agent a: {settings.type} cannot .*tools\.executors"):
        create(settings, {"PATH": "/nowhere"})


def test_aider_gets_the_prompt_by_a_file_of_this_users_and_leaves_nothing_behind(tmp_path: Path) -> None:
    got = played(tmp_path, agent("aider", "full", "--edit-format", "diff", model="o/m"), prompt=LONG)
    assert (got.status, got.usage.total) == ("finished", 2534)
    assert (tmp_path / "file").read_text() == LONG
    assert noted(tmp_path, "mode")[0].startswith("-rw")
    assert noted(tmp_path, "stdin") == []
    assert "COLUMNS=1000" in noted(tmp_path, "env")
    *argv, option, file = noted(tmp_path, "argv")
    assert option == "--message-file"
    assert not Path(file).parent.exists()
    assert argv[-4:] == ["--model", "o/m", "--edit-format", "diff"]
    assert {"--yes-always", "--no-auto-commits", "--no-dirty-commits", "--no-detect-urls"} <= set(argv)
    assert not [*(tmp_path / "workspace").iterdir()]


def test_aider_that_may_change_nothing_is_told_last_and_an_older_cache_stays(tmp_path: Path) -> None:
    cache = tmp_path / "workspace" / ".aider.tags.cache.v4"
    cache.mkdir(parents=True)
    played(tmp_path, agent("aider", "ask", "--edit-format", "diff"))
    assert noted(tmp_path, "argv")[-5:-2] == ["--chat-mode", "ask", "--dry-run"]
    assert cache.exists()


# idle or not


def test_a_change_of_a_file_is_seen_wherever_it_lies_but_for_git(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (tmp_path / ".git").mkdir()
    for path in (tmp_path / "a", deep, deep / "file"):
        os.utime(path, (1000, 1000))
    assert last_change(tmp_path) == 1000
    os.utime(deep / "file", (3000, 3000))
    assert last_change(tmp_path) == 3000
    shutil.rmtree(tmp_path / "a")
    assert last_change(tmp_path) == 0.0
    assert last_change(tmp_path / "gone") == 0.0


@pytest.mark.parametrize("works", [True, False])
def test_a_silent_agent_that_changes_files_is_not_idle(tmp_path: Path, works: bool) -> None:
    work = "echo x >> work.txt;" if works else ""
    script = f"for i in 1 2 3 4 5 6 7 8; do {work} sleep 0.2; done; echo done"
    settings = Executor(id="a", type="command", command="sh", args=("-c", script))
    got = ran(tmp_path, settings, limits=AgentLimits(wall_time=20, idle_time=0.6))
    assert got.status == ("finished" if works else "killed")
    if not works:
        assert (got.killed_by, got.killed_for) == ("idle-time", "gave no output and changed no file for 0.6 s")


# in the sandbox


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A clone that stands in the place of the project; the state folder is hidden."""
    bwrap = probe_box(dict(os.environ))
    if not isinstance(bwrap, Path):
        pytest.skip(bwrap.reason)
    for name in ("clone", "project", "state"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "real").write_text("the user's own")
    (tmp_path / "state" / "secret").write_text("x")
    return Box(bwrap, (tmp_path / "state",), ((tmp_path / "clone", tmp_path / "project"),), ())


@pytest.mark.parametrize("via", ["stdin", "file", "argument"])
def test_a_command_in_the_box_gets_its_prompt_and_works_in_the_clone(tmp_path: Path, box: Box, via: str) -> None:
    read = {"stdin": "cat", "file": 'cat "$0"', "argument": 'echo "$0"'}[via]
    script = f"{read} > prompt; ls; ls ../state; pwd"
    settings = replace(Executor(id="a", type="command", command="sh", args=("-c", script)), prompt_via=via)
    got = ran(tmp_path, settings, box=box)
    assert got.fault is None
    assert got.final_text.splitlines() == ["prompt", str(tmp_path / "project")]
    assert (tmp_path / "clone" / "prompt").read_text().strip() == "do it"


def test_a_script_is_played_in_the_box_wherever_it_lies(tmp_path: Path, box: Box) -> None:
    script = tmp_path / "state" / "script.json"
    script.write_text(json.dumps({"default": {"steps": [{"write": "a.txt", "content": "x"}], "final": "fine"}}))
    got = ran(tmp_path, Executor(id="a", type="scripted", args=(str(script),)), box=box)
    assert (got.status, got.final_text) == ("finished", "fine")
    assert (tmp_path / "clone" / "a.txt").read_text() == "x"


def test_a_program_that_is_not_in_the_box_is_not_installed(tmp_path: Path, box: Box) -> None:
    program = tmp_path / "state" / "agent"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    got = ran(tmp_path, Executor(id="a", type="command", command=str(program)), box=box)
    assert (got.status, got.fault and got.fault.kind) == ("failed", "not-installed")
