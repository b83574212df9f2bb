"""Where each agent's key or login is found, without ever showing it; the setting that allows what was refused."""

import json
from pathlib import Path
from typing import Literal

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.access import ACCESS, Login, allowing, find_login
from rulebook_ralph.config.settings import Executor
from tests.cases import each_of

SECRET = "sk-very-secret-0123456789"
Permissions = Literal["full", "edit", "ask"]


def login(kind: str, home: Path, environment: dict[str, str] | None = None, **settings: object) -> Login:
    agent = Executor(id="mine", type=kind, **settings)  # type: ignore[arg-type]
    return find_login(agent, environment or {}, home=home, platform="linux", project=home / "project")


def test_every_agent_with_a_program_of_its_own_has_its_places() -> None:
    assert set(ACCESS) == set(registry.BUILT_IN) - {"command", "scripted"}
    assert all(access.variables for access in ACCESS.values())


@each_of("kind", ACCESS)
def test_each_variable_and_file_is_found_and_never_shown(kind: str, tmp_path: Path) -> None:
    places = ACCESS[kind]
    for variable in (name.replace("*", "ANY") for name in places.variables):
        assert login(kind, tmp_path, {variable: SECRET}) == Login("found", variable)
        assert login(kind, tmp_path, {variable: ""}).state in ("missing", "unknown")
    for number, file in enumerate(places.files):
        home = tmp_path / str(number)
        path = (home / "project" if file.folder.startswith("./") else home) / file.folder / file.name
        path.parent.mkdir(parents=True)
        for nothing in (b"", b"\xff nothing of the kind") if file.words else (b"",):
            path.write_bytes(nothing)
            assert login(kind, home).state in ("missing", "unknown")
        path.write_text(json.dumps({"token": SECRET, "words": file.words}).replace("\\", ""))
        assert login(kind, home) == Login("found", str(path))
        if file.variable:
            assert login(kind, tmp_path / "nowhere", {file.variable: str(home / file.folder)}).state == "found"


def test_where_a_login_may_be_out_of_sight_nothing_is_said_to_be_missing(tmp_path: Path) -> None:
    agent = Executor(id="mine", type="claude")
    states = [find_login(agent, {}, home=tmp_path, platform=platform).state for platform in ("linux", "darwin")]
    assert states == ["missing", "unknown"]


def test_a_login_in_the_agents_own_environment_counts_and_says_so(tmp_path: Path) -> None:
    found = login("claude", tmp_path, {"ANTHROPIC_API_KEY": SECRET}, env={"ANTHROPIC_API_KEY": SECRET})
    assert (found.state, "env of mine" in found.place) == ("found", True)
    assert login("aider", tmp_path, model="ollama/qwen").state == "not needed"
    assert login("aider", tmp_path, args=("--openai-api-key", SECRET)).place == "args of mine in the configuration"


@each_of(
    ("kind", "permissions", "told"),
    [
        ("claude", "edit", 'permissions: full, or args: [--allowedTools, "Bash(npm test:*)"]'),
        ("claude", "full", "no rule against it in claude's own configuration"),
        ("codex", "ask", "permissions: full, or args: [--sandbox, workspace-write]"),
        ("gemini", "edit", '[--allowed-tools, "run_shell_command(npm test)"]'),
        ("opencode", "edit", 'permissions: full, or env: {OPENCODE_PERMISSION: \'{"bash": "allow"}\'}'),
        ("cursor", "edit", "Shell(npm)"),
        ("amp", "full", "amp.permissions"),
        ("aider", "ask", "permissions: full"),
        ("command", "full", "set by its own command"),
    ],
)
def test_each_agent_has_its_own_setting(kind: str, permissions: Permissions, told: str) -> None:
    advice = allowing(Executor(id="mine", type=kind, permissions=permissions))
    assert told in advice
    assert "id mine" in advice or kind == "command"


def test_a_server_decides_by_itself_and_of_a_plug_in_nothing_is_known() -> None:
    advice = allowing(Executor(id="mine", type="opencode", permissions="ask", endpoint="http://127.0.0.1:1"))
    assert "server at http://127.0.0.1:1" in advice
    assert "permissions: full" not in advice
    assert allowing(Executor(id="mine", type="plugged-in")) == ""
