"""Where each agent's key or login is found, without ever showing it; the setting that allows what was refused."""

import json
from pathlib import Path
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.access import PLACES, Login, allowing, find_login
from rulebook_ralph.agents.registry import BUILT_IN
from rulebook_ralph.config.settings import Executor
from tests.cases import each_of

SECRET = "sk-very-secret-0123456789"
Permissions = Literal["full", "edit", "ask"]


def login(kind: str, home: Path, environment: dict[str, str] | None = None, **settings: object) -> Login:
    agent = Executor(id="mine", type=kind, **settings)  # type: ignore[arg-type]
    return find_login(agent, environment or {}, home=home, platform="linux", project=home / "project")


def test_every_agent_with_a_program_of_its_own_has_its_places() -> None:
    assert set(PLACES) == set(registry.BUILT_IN) - {"command", "scripted"}
    assert all(places.variables and places.advice for places in PLACES.values())


@each_of("kind", PLACES)
def test_each_variable_and_file_is_found_and_never_shown(kind: str, tmp_path: Path) -> None:
    places = PLACES[kind]
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
    ("kind", "permissions", "denied", "told"),
    [
        ("claude", "edit", ["Bash npm test -- --watch"], 'permissions: full, or args: [--allowedTools, "Bash(npm test:*)"]'),
        ("claude", "ask", ["Write /x/a.txt"], 'permissions: edit, or args: [--allowedTools, "Write"]'),
        ("claude", "ask", ["Bash make; rm -rf /", "WebFetch x"], '"WebFetch"'),
        ("claude", "full", ["Bash ls"], "no rule against it in claude's own configuration"),
        ("codex", "ask", ["apply_patch a.txt"], "permissions: full, or args: [--sandbox, workspace-write]"),
        ("gemini", "edit", ["run_shell_command npm test"], '[--allowed-tools, "run_shell_command(npm test)"]'),
        ("gemini", "ask", ["write_file a"], "permissions: edit, or args: [--approval-mode, auto_edit]"),
        ("qwen", "ask", ["write_file a"], "args: [--approval-mode, auto-edit]"),
        ("opencode", "edit", ["bash ls"], "permissions: full, or env: {OPENCODE_PERMISSION: '{\"bash\": \"allow\"}'}"),
        ("copilot", "edit", ["bash npm test"], '"--allow-tool=shell(npm test)"'),
        ("cursor", "edit", ["shell make test"], "Shell(make)"),
        ("amp", "full", [], "amp.permissions"),
        ("aider", "ask", [], "permissions: full"),
        ("command", "full", [], "set by its own command"),
        ("claude", "ask", [], '"Bash(npm test:*)"'),
    ],
)  # fmt: skip
def test_each_agent_has_its_own_setting(kind: str, permissions: Permissions, denied: list[str], told: str) -> None:
    advice = allowing(Executor(id="mine", type=kind, permissions=permissions), denied)
    assert told in advice
    assert "id mine" in advice or kind == "command"


def test_a_server_decides_by_itself_and_of_a_plug_in_nothing_is_known() -> None:
    attached = Executor(id="mine", type="opencode", permissions="ask", endpoint="http://127.0.0.1:1")
    advice = allowing(attached, ["bash ls"])
    assert "server at http://127.0.0.1:1" in advice
    assert "permissions: full" not in advice
    assert allowing(Executor(id="mine", type="plugged-in"), ["x"]) == ""


@given(st.sampled_from(sorted(BUILT_IN)), st.sampled_from(["full", "edit", "ask"]), st.lists(st.text(max_size=30)))
def test_what_was_refused_brings_no_line_ends_and_no_quotes_into_it(
    kind: str, permissions: Permissions, denied: list[str]
) -> None:
    settings = Executor(id="mine", type=kind, permissions=permissions)
    advice = allowing(settings, [f"Bash {one}" for one in denied] + denied)
    assert "\n" not in advice
    assert advice.count('"') % 2 == 0
