"""The setting that would allow an agent what it was refused."""

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.agent import AgentSettings
from rulebook_ralph.agents.capabilities import BUILT_IN
from rulebook_ralph.agents.permission_advice import allowing
from tests.cases import each_of


@each_of(
    ("kind", "permissions", "denied", "told"),
    [
        ("claude", "edit", ["Bash npm test -- --watch"], 'permissions: full, or args: [--allowedTools, "Bash(npm test:*)"]'),
        ("claude", "ask", ["Write /x/a.txt"], 'permissions: edit, or args: [--allowedTools, "Write"]'),
        ("claude", "ask", ["Bash make; rm -rf /", "WebFetch x"], '"Bash,WebFetch"'),
        ("claude", "edit", ["Bash ls", "Bash ls"], '"Bash(ls:*)"]'),
        ("claude", "full", ["Bash ls"], "permissions.deny in .claude/settings.json"),
        ("codex", "ask", ["apply_patch a.txt"], "permissions: full, or args: [--sandbox, workspace-write]"),
        ("codex", "edit", ["shell curl x"], "network_access=true"),
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
def test_each_agent_has_its_own(kind: str, permissions: str, denied: list[str], told: str) -> None:
    advice = allowing(AgentSettings("mine", kind, permissions=permissions), denied)
    assert told in advice
    assert "id mine" in advice or kind == "command"


def test_a_server_decides_by_itself() -> None:
    attached = AgentSettings("mine", "opencode", permissions="ask", endpoint="http://127.0.0.1:1")
    advice = allowing(attached, ["bash ls"])
    assert "server at http://127.0.0.1:1" in advice
    assert "permissions: full" not in advice


def test_of_a_plug_in_nothing_is_known() -> None:
    assert allowing(AgentSettings("mine", "plugged-in"), ["x"]) == ""


@given(st.sampled_from(sorted(BUILT_IN)), st.sampled_from(["full", "edit", "ask"]), st.lists(st.text(max_size=30)))
def test_what_was_refused_brings_no_line_ends_and_no_quotes_into_it(
    kind: str, permissions: str, denied: list[str]
) -> None:
    settings = AgentSettings("mine", kind, permissions=permissions)
    advice = allowing(settings, [f"Bash {one}" for one in denied] + denied)
    assert "\n" not in advice
    assert advice.count('"') % 2 == 0
