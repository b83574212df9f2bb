"""`ralph agents`: every agent that can be used, whether it is installed, and what is supported. Starts no work."""

import time
from collections.abc import Collection, Mapping
from threading import Thread
from typing import Any

import click
import msgspec

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import open_project
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.config.layers import load_config
from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.disk import find_root

_TIMEOUT = 15.0
"""For all probes together, in seconds; each asks a program for its version, which has a shorter limit of its own."""

_NOT_SAID = "?"


@click.command()
@json_object
@click.pass_obj
def agents_command(app: App, *, json: bool) -> None:
    """List the built-in agents, the configured ones and those of plug-ins: installed or not, version, and what of each
    is supported. The default is marked with a star.

    Asks each program for its version, all at once. No model is asked, so it costs nothing.
    """
    if find_root(app.cwd) is None:
        config = load_config(None, app.home, app.environment).config
    else:
        opened = open_project(app)
        require_agreed(app, opened)
        config = opened.project.config
    configured = [each.id for each in config.tools.executors]  # one stands for its namesake
    names = dict.fromkeys((*configured, *registry.known_types(), config.defaults.executor))
    roster = Roster(config, {})
    asked = [roster.settings_of(name) for name in names]
    answers = probe_all(asked, app.environment)
    agents = [_described(each, answers[each.id], config) for each in asked]
    with app.console(json=json) as console:
        if json:
            console.json({"agents": agents})
            return
        console.table(
            ("", "agent", "type", "version", "permissions", "tokens", "cost", "session", "limits", "prompt"),
            map(_row, agents),
        )
        for agent in agents:
            if agent["problem"] and (agent["default"] or agent["configured"]):
                console.line(agent["problem"])


def probe_all(asked: Collection[Executor], environment: Mapping[str, str]) -> dict[str, Probe]:
    """How each agent's probe ended, or why there could be none. They run beside each other; one that hangs is left."""
    late = f"it gave no answer in {_TIMEOUT:.0f} s; start it yourself and see what it does"
    answers = {one.id: Probe(installed=False, misconfigured=True, problem=f"agent {one.id}: {late}") for one in asked}
    found: dict[str, Probe] = {}
    threads = [Thread(target=_probe, args=(one, environment, found), daemon=True) for one in asked]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return answers | dict(found)


def _probe(settings: Executor, environment: Mapping[str, str], probes: dict[str, Probe]) -> None:
    try:
        probes[settings.id] = registry.create(settings, {**environment, **settings.env}).probe()
    except RalphError as error:
        probes[settings.id] = Probe(installed=False, misconfigured=True, problem=str(error))
    except Exception as error:  # noqa: BLE001 - what a plug-in raises is not ours to foresee
        problem = f"agent {settings.id}: its adapter failed: {type(error).__name__}: {error}; mend or remove it"
        probes[settings.id] = Probe(installed=False, misconfigured=True, problem=problem)


def _described(settings: Executor, probe: Probe, config: Config) -> dict[str, Any]:
    """What is known of an agent. `installed` is null of one that cannot be made at all."""
    try:
        known = registry.capabilities_of(settings)
    except Exception:  # noqa: BLE001 - said by the probe already
        known = None
    configured = any(each.id == settings.id for each in config.tools.executors)
    if known and known.needs and not configured:
        probe = Probe(installed=False, misconfigured=True, problem=f"agent {settings.id}: set {known.needs}")
    return {
        "id": settings.id,
        "type": settings.type,
        "default": settings.id == config.defaults.executor,
        "configured": configured,
        "installed": None if probe.misconfigured else probe.installed,
        "version": probe.version,
        "problem": probe.problem,
        "supports": msgspec.to_builtins(known) if known else None,
    }


def _row(agent: Mapping[str, Any]) -> tuple[str, ...]:
    known = agent["supports"]
    name = ("*" if agent["default"] else "", agent["id"], agent["type"])
    state = agent["version"] or "installed" if agent["installed"] else "not installed"
    if agent["installed"] is None:
        state = "needs settings" if known and known["needs"] and not agent["configured"] else "unusable"
    if known is None:
        return (*name, state, *(_NOT_SAID for _ in range(6)))
    told = ("yes" if known[key] else "-" for key in ("tokens", "cost", "session"))
    return (*name, state, "|".join(known["permissions"]) or "-", *told, known["limits"] or "-", known["prompt"])
