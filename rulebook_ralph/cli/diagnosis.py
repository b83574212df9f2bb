"""What `ralph doctor` says of one matter, as a value; and of the agents and models that a run would use."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Literal

from rulebook_ralph.agents.access import Login, find_login
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.models import FoundModel
from rulebook_ralph.agents.prices import cost_problem
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.agents import probe_all
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import OpenedProject
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.verify import reviewers


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One matter. An `error` keeps a run from starting or its tasks from being completed, `unknown` is what nobody can
    tell from here. `advice` is what to do, `output` what a command said; `exit_code` is what a run would end with.
    """

    state: Literal["ok", "warning", "error", "unknown"]
    text: str
    advice: str = ""
    exit_code: ExitCode = ExitCode.INVALID
    output: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.advice}" if self.advice else self.text


def ok(text: str) -> Diagnosis:
    return Diagnosis("ok", text)


def warning(text: str, advice: str = "", *, output: str = "") -> Diagnosis:
    return Diagnosis("warning", text, advice, output=output)


def wrong(text: str, advice: str = "", exit_code: ExitCode = ExitCode.INVALID, *, output: str = "") -> Diagnosis:
    return Diagnosis("error", text, advice, exit_code, output)


def refused(problem: str, exit_code: ExitCode = ExitCode.INVALID) -> Diagnosis:
    """What a run would be refused with: a line that may end with what to do."""
    text, _, advice = problem.rpartition("; ")
    return wrong(text or advice, advice if text else "", exit_code)


@dataclass(frozen=True, slots=True)
class _Member:
    """An agent, and what was found of it."""

    settings: Executor
    probe: Probe
    login: Login

    @property
    def fault(self) -> Diagnosis | None:
        """Why it cannot work."""
        if not self.probe.installed:
            return refused(self.probe.problem, ExitCode.INVALID if self.probe.misconfigured else ExitCode.AGENT)
        if self.login.state == "missing":
            return wrong(f"{self.settings.id}: no key and no login was found", self.login.advice, ExitCode.AGENT)
        return None


def of_agents(app: App, opened: OpenedProject, prd: Prd | None) -> Iterator[Diagnosis]:
    """Each agent that would be used, then who judges and reviews."""
    config, roster = opened.project.config, Roster(opened.project.config, app.environment)
    judge = roster.judging_model(Event())
    reviews = {
        (f"the {tier} reviewer {reviewer.id}", key): roster.model(
            reviewers.with_model(config, reviewer, tier), Event(), named_by=reviewers.key_of(reviewer)
        )
        for key, tier, reviewer in reviewers.in_use(config, prd)
    }
    roles = _roles(config, prd)
    fallbacks = {
        other: before for name in roles for before, other in pairwise(roster.chain(name)) if other not in roles
    }
    settings = {
        each.executor: roster.settings_of(each.executor) for each in (judge, *reviews.values()) if each.executor
    }
    settings |= {name: roster.settings_of(name) for name in fallbacks}
    settings |= {name: roster.settings_of(name, model) for name, (_, model) in roles.items()}
    answers = probe_all(list(settings.values()), roster.given)
    members = {
        name: _Member(
            each,
            answers[each.id],
            find_login(
                each, {**roster.given, **each.env}, home=app.home, platform=sys.platform, project=opened.project.root
            ),
        )
        for name, each in settings.items()
    }
    for name, (role, _) in roles.items():
        stands_in = next((other for other in roster.chain(name)[1:] if members[other].fault is None), "")
        yield from _of_member(
            config, members[name], role, f"its fallback {stands_in} would work instead" if stands_in else ""
        )
    for name, before in fallbacks.items():
        yield from _of_member(config, members[name], f"the fallback of {before}", f"it is the fallback of {before}")
    if problem := _problem(judge, members):
        yield warning(
            f"no judging model: {problem}", "without one, what tests cannot decide waits for you (ralph approve)"
        )
    else:
        yield ok(f"the judging model: {_told(judge)}")
    for (who, key), model in reviews.items():
        if problem := _problem(model, members):
            yield wrong(f"{who}: {problem}", f"or name another in {key}", ExitCode.AGENT)
        else:
            yield ok(f"{who}: {_told(model)}")


def _roles(config: Config, prd: Prd | None) -> dict[str, tuple[str, str]]:
    """Who works at the open tasks' stages, at which and with which model; the default agent where no task is open."""
    found: dict[str, tuple[str, str]] = {}
    for task in prd.tasks if prd else ():
        for stage in requirements.stages_of(config, task) if task.status != "completed" else ():
            model = requirements.model_for(config, task, stage)
            found.setdefault(requirements.executor_for(config, task, stage), (f"for {stage}", model))
    return found or {config.defaults.executor: ("the default", config.defaults.model)}


def _of_member(config: Config, member: _Member, role: str, dispensable: str) -> Iterator[Diagnosis]:
    """Whether an agent can work; `dispensable` says why a run could do without it, if it could."""
    settings, login = member.settings, member.login
    if member.probe.installed:
        kind = f" ({settings.type})" if settings.type != settings.id else ""
        yield ok(f"{settings.id}{kind}, {role}: {member.probe.version or 'there'}, permissions {settings.permissions}")
        if config.limits.max_cost_usd and (problem := cost_problem(config.prices, settings)):
            yield refused(problem)
    if fault := member.fault:
        yield warning(f"{fault.text}; {dispensable}", fault.advice) if dispensable else fault
    elif login.state == "unknown":
        yield Diagnosis(
            "unknown", f"{settings.id}: whether it has a key or login cannot be told: {login.place}", login.advice
        )
    elif login.state == "found":
        yield ok(f"{settings.id}: key or login in {login.place}")
    else:
        yield ok(f"{settings.id}: needs no login{f', as {login.place}' if login.place else ''}")


def _problem(model: FoundModel, members: dict[str, _Member]) -> str:
    """Why a model cannot be asked; empty where it can."""
    if model.ask is None:
        return model.missing
    fault = members[model.executor].fault if model.executor else None
    return "" if fault is None else str(fault)


def _told(model: FoundModel) -> str:
    return f"agent {model.executor}, without tools" if model.executor else f"{model.name}, by the Anthropic API"
