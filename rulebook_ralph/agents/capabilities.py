"""What each kind of agent can tell and be told: static, so that `ralph agents` costs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What Ralph can do with an agent. A plug-in's class may carry one as `capabilities`.

    `prompt` is how the prompt goes in. `tokens`, `cost` (in dollars) and `session` are told by the agent. `permissions`
    are the modes it can be held to; empty where that is left to its command. `limits`: how a usage or rate limit is
    recognised (`fields`, by its error's `words`, or not at all where empty). `endpoint`: whether it can attach to a
    server. `needs` is the setting without which it cannot be used.
    """

    prompt: str
    tokens: bool = False
    cost: bool = False
    session: bool = False
    permissions: tuple[str, ...] = ("full", "edit", "ask")
    limits: str = ""
    endpoint: bool = False
    needs: str = ""


BUILT_IN: Mapping[str, Capabilities] = MappingProxyType(
    {
        "claude": Capabilities(prompt="stdin", tokens=True, cost=True, session=True, limits="fields"),
        "codex": Capabilities(prompt="stdin", tokens=True, session=True, limits="words"),
        "gemini": Capabilities(prompt="stdin", tokens=True, session=True, limits="fields"),
        "opencode": Capabilities(prompt="stdin", tokens=True, cost=True, session=True, limits="fields", endpoint=True),
        "qwen": Capabilities(prompt="stdin", tokens=True, session=True, limits="words"),
        "amp": Capabilities(prompt="stdin", tokens=True, session=True, permissions=("full",), limits="words"),
        "copilot": Capabilities(prompt="argument", session=True, limits="fields"),
        "cursor": Capabilities(prompt="argument", tokens=True, session=True, limits="words"),
        "aider": Capabilities(prompt="file", tokens=True, cost=True, limits="words"),
        "command": Capabilities(prompt="stdin, file or argument", permissions=(), needs="tools.executors[].command"),
        "scripted": Capabilities(
            prompt="stdin", tokens=True, cost=True, permissions=(), needs="tools.executors[].args"
        ),
    }
)


def objection(kind: str, capabilities: Capabilities | None, *, permissions: str, endpoint: str) -> str:
    """Why an agent of that kind cannot be run as asked for, with what to do; empty where nothing speaks against it."""
    if capabilities is None:
        return ""
    modes = capabilities.permissions
    if modes and permissions not in modes:
        return (
            f"{kind} cannot be held to permissions: {permissions} (it knows {', '.join(modes)}); "
            "set tools.executors[].permissions, or use another agent"
        )
    if endpoint and not capabilities.endpoint:
        able = ", ".join(name for name, known in BUILT_IN.items() if known.endpoint)
        return f"{kind} cannot attach to a server; remove tools.executors[].endpoint (only {able} takes one)"
    return ""
