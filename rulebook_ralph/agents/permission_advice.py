"""Which setting would allow an agent what it was refused: for a person, in the words of that agent's own options. Pure.

What was refused is untrusted text, so only plain words of it are put into an example.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from rulebook_ralph.agents.agent import AgentSettings
from rulebook_ralph.agents.capabilities import BUILT_IN

_PLAIN = re.compile(r"[A-Za-z0-9][\w./-]{0,40}")
_SUBCOMMAND = re.compile(r"[a-z][\w:-]{0,30}")
_TOOL = re.compile(r"[A-Za-z]\w{0,80}")
_MOST_RULES = 3
_EDITS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "edit", "create"})
_SHELLS = frozenset({"Bash", "bash", "shell", "run_shell_command"})

Denied = Sequence[tuple[str, str]]
"""The name of each tool that was refused, and what it was to do."""


def allowing(settings: AgentSettings, denials: Iterable[str] = ()) -> str:
    """The setting, with where it stands; empty for an agent of a plug-in, which Ralph knows nothing of."""
    if settings.type not in BUILT_IN:
        return ""
    denied = [(name, detail) for name, _, detail in (denial.partition(" ") for denial in denials)]
    ways = [_more(settings, denied), _OWN[settings.type](settings, denied) if settings.type in _OWN else ""]
    told = ", or ".join(filter(None, ways))
    if not told:
        return f"what {settings.type} may do is set by its own command and configuration"
    return f"tools.executors (id {settings.id}) in .rulebook-ralph/config.yaml: {told}"


def _more(settings: AgentSettings, denied: Denied) -> str:
    """The wider mode of the agent, where it has one and would heed it."""
    modes = BUILT_IN[settings.type].permissions
    if settings.endpoint or settings.permissions == "full" or "full" not in modes:
        return ""
    edits_only = bool(denied) and all(name in _EDITS for name, _ in denied)
    if edits_only and settings.permissions == "ask" and "edit" in modes:
        return "permissions: edit"
    return "permissions: full"


def _claude(settings: AgentSettings, denied: Denied) -> str:
    if settings.permissions == "full" and not settings.args:
        return "no deny rule for it in claude's own settings (permissions.deny in .claude/settings.json)"
    return f'args: [--allowedTools, "{_rules(denied, "Bash({}:*)", otherwise="Bash(npm test:*)")}"]'


def _codex(settings: AgentSettings, _: Denied) -> str:
    if settings.permissions == "full" and not settings.args:
        return "no rule against it in codex's own configuration (~/.codex)"
    if settings.permissions == "edit":
        return "args: [-c, sandbox_workspace_write.network_access=true] for the network"
    return "args: [--sandbox, workspace-write]"


def _gemini(settings: AgentSettings, denied: Denied) -> str:
    if settings.permissions == "full" and not settings.args:
        return f"no rule against it in {settings.type}'s own settings (tools.exclude in .{settings.type}/settings.json)"
    if denied and all(name in _EDITS for name, _ in denied):
        auto = "auto_edit" if settings.type == "gemini" else "auto-edit"
        return f"args: [--approval-mode, {auto}]"
    rules = _rules(denied, "run_shell_command({})", otherwise="run_shell_command(npm test)")
    return f'args: [--allowed-tools, "{rules}"]'


def _opencode(settings: AgentSettings, denied: Denied) -> str:
    if settings.endpoint:
        return f"the `permission` rules of the server at {settings.endpoint}, which alone decide"
    names = list(dict.fromkeys(name for name, _ in denied if _TOOL.fullmatch(name)))[:_MOST_RULES] or ["bash"]
    rules = ", ".join(f'"{name}": "allow"' for name in names)
    return f"env: {{OPENCODE_PERMISSION: '{{{rules}}}'}}"


def _copilot(_: AgentSettings, denied: Denied) -> str:
    command = next((prefix for name, detail in denied if name in _SHELLS and (prefix := _prefix(detail))), "")
    edits = bool(denied) and all(name in _EDITS for name, _ in denied)
    return "args: [--allow-tool=write]" if edits else f'args: ["--allow-tool=shell({command or "npm test"})"]'


def _cursor(_: AgentSettings, denied: Denied) -> str:
    command = next((prefix.split()[0] for _, detail in denied if (prefix := _prefix(detail))), "npm")
    return f'`"permissions": {{"allow": ["Shell({command})"]}}` in .cursor/cli.json'


def _amp(_: AgentSettings, __: Denied) -> str:
    return "amp.permissions in amp's own settings (~/.config/amp/settings.json)"


_OWN: dict[str, Callable[[AgentSettings, Denied], str]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _gemini,
    "opencode": _opencode,
    "copilot": _copilot,
    "cursor": _cursor,
    "amp": _amp,
}


def _rules(denied: Denied, shell: str, *, otherwise: str) -> str:
    """One rule for each tool that was refused, as far as they can be named."""
    rules = []
    for name, detail in denied:
        prefix = _prefix(detail) if name in _SHELLS else ""
        if prefix:
            rules.append(shell.format(prefix))
        elif _TOOL.fullmatch(name):
            rules.append(name)
    return ",".join(list(dict.fromkeys(rules))[:_MOST_RULES]) or otherwise


def _prefix(command: str) -> str:
    """The program and its subcommand: what a person would allow of a command line. Empty where they are not plain."""
    program, *rest = command.split() or [""]
    if not _PLAIN.fullmatch(program):
        return ""
    return f"{program} {rest[0]}" if rest and _SUBCOMMAND.fullmatch(rest[0]) else program
