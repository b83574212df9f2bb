"""Which adapter an agent's type names: a built-in one, or an entry point of the group `rulebook_ralph.agents`."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import cast

from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.errors import ExitCode, RalphError

GROUP = "rulebook_ralph.agents"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "claude": "rulebook_ralph.agents.claude:Claude",
        "command": "rulebook_ralph.agents.command:CommandAgent",
        "scripted": "rulebook_ralph.agents.scripted:Scripted",
    }
)

Factory = Callable[[AgentSettings, Mapping[str, str]], Agent]


def create(settings: AgentSettings, environment: Mapping[str, str]) -> Agent:
    """The agent as configured. `environment` is the one it will run in; its PATH decides where programs are found.

    Raises RalphError (INVALID) for a type that is unknown, or settings that the adapter cannot use.
    """
    return _factory(settings)(settings, environment)


def _factory(settings: AgentSettings) -> Factory:
    dotted = BUILT_IN.get(settings.type)
    if dotted:
        module, _, name = dotted.partition(":")
        return cast("Factory", getattr(import_module(module), name))
    return _plugged_in(settings)


def _plugged_in(settings: AgentSettings) -> Factory:
    from importlib.metadata import entry_points  # noqa: PLC0415 - 38 ms, only for a type that is not built in

    found = {point.name: point for point in entry_points(group=GROUP)}
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
