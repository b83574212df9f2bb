"""The agents and models that a run of this project would use: installed, logged in, their limits kept."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event

from rulebook_ralph.agents.access import Login, find_login
from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.prices import cost_problem
from rulebook_ralph.agents.question import names_agent
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


@dataclass(frozen=True, slots=True)
class _Use:
    """An agent and what it is there for. One that is not `vital` can be done without, if less well; `fallbacks` stand
    in for it, in that order.
    """

    executor: str
    role: str
    vital: bool = True
    fallbacks: tuple[str, ...] = ()


def examine(app: App, opened: OpenedProject | None, prd: Prd | None) -> Iterator[Diagnosis]:
    """Each agent that would be used, then who judges and reviews."""
    if opened is None:
        yield unknown("not looked at: the project or its configuration cannot be used")
        return
    config = opened.project.config
    roster = Roster(config, app.environment)
    uses = _used(config, roster, prd)
    members = {use.executor: roster.settings_of(use.executor) for use in uses}
    answers = probe_all(list(members.values()), roster.given)
    logins = {
        name: find_login(
            settings,
            {**roster.given, **settings.env},
            home=app.home,
            platform=sys.platform,
            project=opened.project.root,
        )
        for name, settings in members.items()
    }
    able = {name for name in members if _is_there(answers[name]) and logins[name].state != "missing"}
    for use in uses:
        other = next((each for each in use.fallbacks if each in able), "")
        answer, settings = answers[use.executor], members[use.executor]
        yield _of_probe(use, settings, answer, other=other)
        if _is_there(answer):
            yield _of_login(use, logins[use.executor], other=other)
            if config.limits.max_cost_usd and (problem := cost_problem(config.prices, settings)):
                text, _, advice = problem.rpartition("; ")
                yield wrong(text, advice)
    yield from _models(config, roster, prd)


def _used(config: Config, roster: Roster, prd: Prd | None) -> tuple[_Use, ...]:
    """Who works at the open tasks' stages, the default agent where none is open, and those that stand in for them."""
    uses: dict[str, _Use] = {}
    for task in prd.tasks if prd else ():
        for stage in requirements.stages_of(config, task) if task.status != "completed" else ():
            executor = requirements.executor_for(config, task, stage)
            uses.setdefault(executor, _Use(executor, f"for {stage}", fallbacks=roster.chain(executor)[1:]))
    if not uses:
        executor = config.defaults.executor
        uses[executor] = _Use(executor, "the default", fallbacks=roster.chain(executor)[1:])
    for executor in list(uses):
        for before, other in itertools.pairwise(roster.chain(executor)):
            uses.setdefault(other, _Use(other, f"the fallback of {before}", vital=False))
    return tuple(uses.values())


def _models(config: Config, roster: Roster, prd: Prd | None) -> Iterator[Diagnosis]:
    """Who is asked where tests cannot decide, and who reviews."""
    judge = roster.judging_model(Event())
    if judge.ask is None:
        yield warning(f"no judging model: {judge.missing}", "without one, what tests cannot decide waits for you")
    else:
        yield ok(f"the judging model: {judge.name}")
    for key, tier, reviewer in reviewers.in_use(config, prd):
        asked = reviewers.with_model(config, reviewer, tier)
        model = roster.model(asked, Event(), named_by=reviewers.key_of(reviewer))
        if model.ask is None:
            who = f"the {tier} reviewer {reviewer.id}"
            yield wrong(f"{who}: {model.missing}", f"or name another in {key}", ExitCode.AGENT)
        else:
            by = f" by {reviewer.executor}" if names_agent(reviewer.executor) else ""
            yield ok(f"the {tier} reviewer {reviewer.id}: {model.name}{by}")


def _is_there(answer: Probe | str) -> bool:
    return isinstance(answer, Probe) and answer.installed


def _of_probe(use: _Use, settings: Executor, answer: Probe | str, *, other: str) -> Diagnosis:
    """Whether the agent can be started; `other` is the fallback that could work in its place."""
    if isinstance(answer, Probe) and answer.installed:
        kind = f" ({settings.type})" if settings.type != use.executor else ""
        return ok(f"{use.executor}{kind}, {use.role}: {answer.version or 'there'}, permissions {settings.permissions}")
    problem = answer.problem if isinstance(answer, Probe) else answer
    code = ExitCode.AGENT if isinstance(answer, Probe) else ExitCode.INVALID
    text, _, advice = problem.rpartition("; ")
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
