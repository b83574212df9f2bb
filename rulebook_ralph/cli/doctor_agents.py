"""The agents and models that a run of this project would use: installed, logged in, their limits kept."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from threading import Event

from rulebook_ralph.agents.access import Login, find_login
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.models import FoundModel
from rulebook_ralph.agents.prices import cost_problem
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.cli.agents import probe_all
from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.diagnosis import Diagnosis, ok, unknown, warning, wrong
from rulebook_ralph.cli.places import OpenedProject
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Executor
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.verify import reviewers

_WAITS = "what tests cannot decide waits for you (ralph approve)"


@dataclass(frozen=True, slots=True)
class _Use:
    """An agent and what it is there for. One that is not `vital` can be done without, if less well; `fallbacks` stand
    in for it, in that order.
    """

    executor: str
    role: str
    model: str = ""
    vital: bool = True
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Member:
    """What was found of an agent."""

    settings: Executor
    answer: Probe
    login: Login

    @property
    def able(self) -> bool:
        return self.answer.installed and self.login.state != "missing"


def examine(app: App, opened: OpenedProject | None, prd: Prd | None) -> Iterator[Diagnosis]:
    """Each agent that would be used, then who judges and reviews."""
    if opened is None:
        yield unknown("not looked at: the project or its configuration cannot be used")
        return
    config, project = opened.project.config, opened.project.root
    roster = Roster(config, app.environment)
    uses = _used(config, roster, prd)
    judge = roster.judging_model(Event())
    reviews = {
        (f"the {tier} reviewer {reviewer.id}", key): roster.model(
            reviewers.with_model(config, reviewer, tier), Event(), named_by=reviewers.key_of(reviewer)
        )
        for key, tier, reviewer in reviewers.in_use(config, prd)
    }
    asked = [model.executor for model in (judge, *reviews.values()) if model.executor]
    settings = {name: roster.settings_of(name) for name in asked}
    settings |= {use.executor: roster.settings_of(use.executor, use.model) for use in uses}
    answers = probe_all(list(settings.values()), roster.given)

    def member(each: Executor) -> _Member:
        environment = {**roster.given, **each.env}
        login = find_login(each, environment, home=app.home, platform=sys.platform, project=project)
        return _Member(each, answers[each.id], login)

    members = {name: member(each) for name, each in settings.items()}
    for use in uses:
        found = members[use.executor]
        other = next((each for each in use.fallbacks if members[each].able), "")
        yield _of_probe(use, found, other=other)
        if found.answer.installed:
            yield _of_login(use, found.login, other=other)
            if config.limits.max_cost_usd and (problem := cost_problem(config.prices, found.settings)):
                text, _, advice = problem.rpartition("; ")
                yield wrong(text, advice)
    yield _judge(judge, members)
    for (who, key), model in reviews.items():
        if problem := _problem(model, members):
            yield wrong(f"{who}: {problem}", f"or name another in {key}", ExitCode.AGENT)
        else:
            yield ok(f"{who}: {_told(model)}")


def _used(config: Config, roster: Roster, prd: Prd | None) -> tuple[_Use, ...]:
    """Who works at the open tasks' stages, the default agent where none is open, and those that stand in for them."""
    found: dict[str, tuple[str, str]] = {}
    for task in prd.tasks if prd else ():
        for stage in requirements.stages_of(config, task) if task.status != "completed" else ():
            model = requirements.model_for(config, task, stage)
            found.setdefault(requirements.executor_for(config, task, stage), (f"for {stage}", model))
    found = found or {config.defaults.executor: ("the default", config.defaults.model)}
    uses = {name: _Use(name, role, model, fallbacks=roster.chain(name)[1:]) for name, (role, model) in found.items()}
    for executor in found:
        for before, other in pairwise(roster.chain(executor)):
            uses.setdefault(other, _Use(other, f"the fallback of {before}", vital=False))
    return tuple(uses.values())


def _judge(model: FoundModel, members: dict[str, _Member]) -> Diagnosis:
    problem = _problem(model, members)
    if problem:
        return warning(f"no judging model: {problem}", f"without one, {_WAITS}")
    return ok(f"the judging model: {_told(model)}")


def _problem(model: FoundModel, members: dict[str, _Member]) -> str:
    """Why a model cannot be asked; empty where it can."""
    if model.ask is None:
        return model.missing
    agent = members.get(model.executor)
    if agent is None or agent.able:
        return ""
    return agent.answer.problem or f"agent {model.executor} has no key and no login; {agent.login.advice}"


def _told(model: FoundModel) -> str:
    return f"agent {model.executor}, without tools" if model.executor else f"{model.name}, by the Anthropic API"


def _of_probe(use: _Use, found: _Member, *, other: str) -> Diagnosis:
    """Whether the agent can be started; `other` is the fallback that could work in its place."""
    settings, answer = found.settings, found.answer
    if answer.installed:
        kind = f" ({settings.type})" if settings.type != use.executor else ""
        return ok(f"{use.executor}{kind}, {use.role}: {answer.version or 'there'}, permissions {settings.permissions}")
    code = ExitCode.INVALID if answer.misconfigured else ExitCode.AGENT
    text, _, advice = answer.problem.rpartition("; ")
    return _lacking(use, text or advice, advice if text else "", other, code)


def _of_login(use: _Use, login: Login, *, other: str) -> Diagnosis:
    """Whether the agent has what it needs to be let in."""
    if login.state == "found":
        return ok(f"{use.executor}: key or login in {login.place}")
    if login.state == "not needed":
        return ok(f"{use.executor}: needs no login{f', as {login.place}' if login.place else ''}")
    if login.state == "unknown":
        return unknown(f"{use.executor}: whether it has a key or login cannot be told: {login.place}", login.advice)
    return _lacking(use, f"{use.executor}: no key and no login was found", login.advice, other, ExitCode.AGENT)


def _lacking(use: _Use, text: str, advice: str, other: str, code: ExitCode) -> Diagnosis:
    """What is missing of an agent, which another could work in place of."""
    if not use.vital:
        return warning(f"{text} ({use.role})", advice)
    if other:
        return warning(f"{text}; its fallback {other} would work instead", advice)
    return wrong(text, advice, code)
