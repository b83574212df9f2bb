"""Which adapter an agent's type names: a built-in one, or an entry point of the group `rulebook_ralph.agents`."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from rulebook_ralph.agents import capabilities
from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.agents.capabilities import Capabilities
from rulebook_ralph.errors import ExitCode, RalphError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "rulebook_ralph.agents"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "claude": "rulebook_ralph.agents.claude:Claude",
        "codex": "rulebook_ralph.agents.codex:Codex",
        "gemini": "rulebook_ralph.agents.gemini:Gemini",
        "opencode": "rulebook_ralph.agents.opencode:OpenCode",
        "qwen": "rulebook_ralph.agents.qwen:Qwen",
        "amp": "rulebook_ralph.agents.amp:Amp",
        "copilot": "rulebook_ralph.agents.copilot:Copilot",
        "cursor": "rulebook_ralph.agents.cursor:Cursor",
        "aider": "rulebook_ralph.agents.aider:Aider",
        "command": "rulebook_ralph.agents.command:CommandAgent",
        "scripted": "rulebook_ralph.agents.scripted:Scripted",
    }
)

Factory = Callable[[AgentSettings, Mapping[str, str]], Agent]


def create(settings: AgentSettings, environment: Mapping[str, str]) -> Agent:
    """The agent as configured. `environment` is the one it will run in; its PATH decides where programs are found.

    Raises RalphError (INVALID) for a type that is unknown, or settings that the adapter cannot use.
    """
    factory = _factory(settings)
    known = _capabilities(settings.type, factory)
    problem = capabilities.objection(settings.type, known, permissions=settings.permissions, endpoint=settings.endpoint)
    if problem:
        raise RalphError(f"agent {settings.id}: {problem}", exit_code=ExitCode.INVALID)
    return factory(settings, environment)


def capabilities_of(settings: AgentSettings) -> Capabilities | None:
    """What agents of that type can do; None for a plug-in that does not say. Raises RalphError as `create` does."""
    return capabilities.BUILT_IN.get(settings.type) or _capabilities(settings.type, _factory(settings))


def known_types() -> tuple[str, ...]:
    """The types that there are: the built-in ones, then those of plug-ins."""
    return (*BUILT_IN, *sorted(_entry_points().keys() - BUILT_IN.keys()))


def _capabilities(kind: str, factory: Factory) -> Capabilities | None:
    if kind in capabilities.BUILT_IN:
        return capabilities.BUILT_IN[kind]
    told = getattr(factory, "capabilities", None)
    return told if isinstance(told, Capabilities) else None


def _factory(settings: AgentSettings) -> Factory:
    dotted = BUILT_IN.get(settings.type)
    if dotted:
        module, _, name = dotted.partition(":")
        return cast("Factory", getattr(import_module(module), name))
    return _plugged_in(settings)


def _entry_points() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - 38 ms, only for a type that is not built in

    return {point.name: point for point in entry_points(group=GROUP)}


def _plugged_in(settings: AgentSettings) -> Factory:
    found = _entry_points()
    point = found.get(settings.type)
    if point is None:
        raise RalphError(_unknown(settings, (*BUILT_IN, *sorted(found))), exit_code=ExitCode.INVALID)
    try:
        return cast("Factory", point.load())
    except Exception as error:  # what a plug-in raises is not ours to foresee
        problem = f"agent {settings.id}: its plug-in {point.value} cannot be loaded: {error}; reinstall or remove it"
        raise RalphError(problem, exit_code=ExitCode.INVALID) from error


def _unknown(settings: AgentSettings, known: tuple[str, ...]) -> str:
    near = get_close_matches(settings.type, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else "; set tools.executors[].type"
    return f"agent {settings.id}: unknown type {settings.type!r}, known are {', '.join(known)}{hint}"
