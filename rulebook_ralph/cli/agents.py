"""`ralph agents`: every agent that can be used, whether it is installed, and what is supported. Starts no work."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Thread

import click
import msgspec

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.registry import Capabilities
from rulebook_ralph.agents.roster import settings_of
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.options import json_object
from rulebook_ralph.cli.places import open_project, require_agreed
from rulebook_ralph.config.layers import load_config
from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.disk import find_root

_TIMEOUT = 15.0
"""For all probes together, in seconds; each asks a program for its version, which has a shorter limit of its own."""

_NOT_SAID = "?"


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent, what is known of it, and how its probe ended. `installed` is None of one that cannot be made at all."""

    settings: Executor
    default: bool
    configured: bool
    installed: bool | None
    version: str
    problem: str
    capabilities: Capabilities | None


@click.command()
@json_object
@click.pass_obj
def command(app: App, *, json: bool) -> int:
    """List the built-in agents, the configured ones and those of plug-ins: installed or not, version, and what of each
    is supported. The default is marked with a star.

    Asks each program for its version, all at once. No model is asked, so it costs nothing.
    """
    if find_root(app.cwd) is None:
        settings = load_config(None, app.home, app.environment).config
    else:
        opened = open_project(app)
        require_agreed(app, opened)
        settings = opened.project.config
    agents = listed(settings, app.environment)
    with app.console(json=json) as console:
        if json:
            console.json({"agents": [_as_json(agent) for agent in agents]})
            return 0
        console.table(
            ("", "agent", "type", "version", "permissions", "tokens", "cost", "session", "limits", "prompt"),
            map(_row, agents),
        )
        told = [agent.problem for agent in agents if agent.problem and (agent.default or agent.configured)]
        for problem in told:
            console.line(problem)
    return 0


def listed(settings: Config, environment: Mapping[str, str]) -> list[Listed]:
    """Every agent with the outcome of its probe; the probes run beside each other, and those that hang are left."""
    asked = [*_settings(settings)]
    answers = probe_all(asked, environment)
    configured = {executor.id for executor in settings.tools.executors}
    return [
        _listed(one, answers[one.id], default=one.id == settings.defaults.executor, configured=one.id in configured)
        for one in asked
    ]


def probe_all(asked: Iterable[Executor], environment: Mapping[str, str]) -> dict[str, Probe | str]:
    """How each agent's probe ended, or why there could be none. They run beside each other; one that hangs is left."""
    late = f"it gave no answer in {_TIMEOUT:.0f} s; start it yourself and see what it does"
    answers: dict[str, Probe | str] = {one.id: f"agent {one.id}: {late}" for one in asked}
    found: dict[str, Probe | str] = {}
    threads = [Thread(target=_probe, args=(one, environment, found), daemon=True) for one in asked]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return answers | dict(found)


def _settings(settings: Config) -> Iterator[Executor]:
    """The configured agents first, then those that need no configuration; a configured one stands for its namesake."""
    ids = [executor.id for executor in settings.tools.executors]
    for executor in dict.fromkeys((*ids, *registry.known_types(), settings.defaults.executor)):
        yield settings_of(settings, executor)


def _probe(settings: Executor, environment: Mapping[str, str], probes: dict[str, Probe | str]) -> None:
    """How the probe ended, or why there could be none."""
    try:
        agent = registry.create(settings, {**environment, **settings.env})
        probes[settings.id] = agent.probe()
    except RalphError as error:
        probes[settings.id] = str(error)
    except Exception as error:  # noqa: BLE001 - what a plug-in raises is not ours to foresee
        problem = f"its adapter failed: {type(error).__name__}: {error}; mend or remove it"
        probes[settings.id] = f"agent {settings.id}: {problem}"


def _listed(settings: Executor, probe: Probe | str, *, default: bool, configured: bool) -> Listed:
    try:
        known = registry.capabilities_of(settings)
    except Exception:  # noqa: BLE001 - said by the probe already
        known = None
    if known and known.needs and not configured:
        probe = f"agent {settings.id}: set {known.needs}"
    if isinstance(probe, str):
        return Listed(settings, default, configured, None, "", probe, known)
    return Listed(settings, default, configured, probe.installed, probe.version, probe.problem, known)


def _row(agent: Listed) -> tuple[str, ...]:
    known = agent.capabilities
    name = ("*" if agent.default else "", agent.settings.id, agent.settings.type)
    state = agent.version or "installed" if agent.installed else "not installed"
    if agent.installed is None:
        state = "needs settings" if known and known.needs and not agent.configured else "unusable"
    if known is None:
        return (*name, state, *(_NOT_SAID for _ in range(6)))
    return (
        *name,
        state,
        "|".join(known.permissions) or "-",
        *("yes" if told else "-" for told in (known.tokens, known.cost, known.session)),
        known.limits or "-",
        known.prompt,
    )


def _as_json(agent: Listed) -> dict[str, object]:
    known = agent.capabilities
    return {
        "id": agent.settings.id,
        "type": agent.settings.type,
        "default": agent.default,
        "configured": agent.configured,
        "installed": agent.installed,
        "version": agent.version,
        "problem": agent.problem,
        "supports": msgspec.to_builtins(known) if known else None,
    }
