"""`ralph agents`: every agent that can be used, whether it is installed, and what is supported. Starts no work."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Thread

import click
import msgspec

from rulebook_ralph import config
from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import AgentSettings, Probe
from rulebook_ralph.agents.capabilities import Capabilities
from rulebook_ralph.app import App
from rulebook_ralph.commands.trusting import refused_at
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.crew import settings_of
from rulebook_ralph.state import store

_TIMEOUT = 15.0
"""For all probes together, in seconds; each asks a program for its version, which has a shorter limit of its own."""

_NOT_SAID = "?"


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent, what is known of it, and how its probe ended. `installed` is None of one that cannot be made at all."""

    settings: AgentSettings
    default: bool
    configured: bool
    installed: bool | None
    version: str
    problem: str
    capabilities: Capabilities | None


@click.command()
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, json: bool) -> int:
    """List the built-in agents, the configured ones and those of plug-ins: installed or not, version, and what of each
    is supported. The default is marked with a star.

    Asks each program for its version, all at once. No model is asked, so it costs nothing.
    """
    root = store.find_root(app.cwd)
    loaded = config.load_with_origins(root, environment=app.environment, home=app.home)
    if root is not None and (refused := refused_at(app, root.resolve(), loaded)):
        raise RalphError(refused)
    agents = listed(loaded.config, app.environment)
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
    probes: dict[str, Probe | str] = {}
    threads = [Thread(target=_probe, args=(one, environment, probes), daemon=True) for one in asked]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answers = dict(probes)
    configured = {executor.id for executor in settings.tools.executors}
    return [
        _listed(one, answers.get(one.id), default=one.id == settings.defaults.executor, configured=one.id in configured)
        for one in asked
    ]


def _settings(settings: Config) -> Iterator[AgentSettings]:
    """The configured agents first, then those that need no configuration; a configured one stands for its namesake."""
    ids = [executor.id for executor in settings.tools.executors]
    for executor in dict.fromkeys((*ids, *registry.known_types(), settings.defaults.executor)):
        yield settings_of(settings, executor)


def _probe(settings: AgentSettings, environment: Mapping[str, str], probes: dict[str, Probe | str]) -> None:
    """How the probe ended, or why there could be none."""
    try:
        agent = registry.create(settings, {**environment, **settings.env})
        probes[settings.id] = agent.probe()
    except RalphError as error:
        probes[settings.id] = str(error)
    except Exception as error:  # noqa: BLE001 - what a plug-in raises is not ours to foresee
        problem = f"its adapter failed: {type(error).__name__}: {error}; mend or remove it"
        probes[settings.id] = f"agent {settings.id}: {problem}"


def _listed(settings: AgentSettings, probe: Probe | str | None, *, default: bool, configured: bool) -> Listed:
    try:
        known = registry.capabilities_of(settings)
    except Exception:  # noqa: BLE001 - said by the probe already
        known = None
    if known and known.needs and not configured:
        probe = f"agent {settings.id}: set {known.needs}"
    if probe is None:
        probe = f"agent {settings.id}: it gave no answer in {_TIMEOUT:.0f} s; see what {settings.command or 'it'} does"
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
