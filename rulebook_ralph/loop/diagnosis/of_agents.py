"""The agents that a run of this project would use: installed, held to what is asked for, logged in."""

import itertools
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import AgentSettings, Probe
from rulebook_ralph.agents.agent_model import AgentModel
from rulebook_ralph.agents.capabilities import Capabilities
from rulebook_ralph.agents.logins import PLACES, Login, find_login
from rulebook_ralph.agents.program import words
from rulebook_ralph.core import requirements, reviewers
from rulebook_ralph.core.criteria import MultiStage, Semantic, Verification
from rulebook_ralph.core.criteria_reading import part_verification
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.notify_urls import without_addresses
from rulebook_ralph.core.question import ANTHROPIC, names_agent
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.spending import nobody_pays
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop import planning, reviewing
from rulebook_ralph.loop.crew import Crew, settings_of
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, refused, unknown, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place

_TIMEOUT = 15.0
"""For all probes together, in seconds; each has a shorter limit of its own."""


@dataclass(frozen=True, slots=True)
class Use:
    """An agent and what it is there for. One that is not `vital` can be done without, if less well; `fallbacks` stand
    in for it, in that order.
    """

    executor: str
    role: str
    vital: bool = True
    fallbacks: tuple[str, ...] = ()


def examine(place: Place) -> Iterator[Diagnosis]:
    """Each agent that would be used, in lines of its own."""
    config = place.config
    environment = without_addresses(place.environment, config.notify.urls)
    if place.settings.config is None:
        yield unknown("not looked at: the configuration cannot be read")
        return
    uses, judge = used(config, place.prd), _judge(place)
    if isinstance(judge, Use):
        if not any(use.executor == judge.executor for use in uses):
            uses = (*uses, judge)
    elif judge is not None:
        yield judge
    for found in (*_reviewers(place), *_writers(place)):
        if not isinstance(found, Use):
            yield found
        elif not any(use.executor == found.executor for use in uses):
            uses = (*uses, found)
    members = [settings_of(config, use.executor) for use in uses]
    answers = probe_all(members, environment)
    logins = {
        each.id: find_login(
            each, {**environment, **each.env}, home=place.home, platform=sys.platform, project=place.root
        )
        for each in members
    }
    able = {name for name, answer in answers.items() if _is_there(answer) and logins[name].state != "missing"}
    for use, settings in zip(uses, members, strict=True):
        other = next((each for each in use.fallbacks if each in able), "")
        answer = answers[use.executor]
        yield of_probe(use, settings, answer, path=_path(settings, {**environment, **settings.env}), other=other)
        if _is_there(answer):
            yield of_login(use, logins[use.executor], other=other)
            yield from of_capabilities(config, use, settings, registry.capabilities_of(settings))


def used(config: Config, prd: Prd | None) -> tuple[Use, ...]:
    """Who works at the open tasks' stages, the default agent where none is open, and those that stand in for them."""
    uses: dict[str, Use] = {}
    crew = Crew(config, {})
    open_tasks = [task for task in prd.tasks if task.status != "completed"] if prd else []
    for task in open_tasks:
        for stage in requirements.stages_of(config, task):
            executor = requirements.executor_for(config, task, stage)
            uses.setdefault(executor, Use(executor, f"for {stage}", fallbacks=crew.chain(executor)[1:]))
    if not uses:
        executor = config.defaults.executor
        uses[executor] = Use(executor, "the default", fallbacks=crew.chain(executor)[1:])
    for executor in list(uses):
        for before, other in itertools.pairwise(crew.chain(executor)):
            uses.setdefault(other, Use(other, f"the fallback of {before}", vital=False))
    return tuple(uses.values())


def _judge(place: Place) -> Use | Diagnosis | None:
    """Who judges, where a criterion asks for it."""
    config = place.config
    asked = config.judge.executor or (place.prd is not None and _asks_a_model(config, place.prd))
    if not asked:
        return None
    try:
        model = Crew(config, place.environment).judging_model(Event())
    except RalphError as error:
        return refused(error)
    if model.ask is None:
        return warning(f"the judge: {model.missing}", "without a judge the promise decides, beside a gate that passed")
    named = config.judge.executor or ""
    if named == ANTHROPIC or (not named and model.name != config.defaults.executor):
        return _by_the_api("the judge", model.name)
    return Use(model.name, "the judge", vital=False)


def _reviewers(place: Place) -> Iterator[Use | Diagnosis]:
    """Who reviews in the loop; the run refuses to start without one that is named."""
    config, crew = place.config, Crew(place.config, place.environment)
    for key, tier, reviewer in reviewers.in_use(config, place.prd):
        if problem := reviewing.unknown(config, crew, reviewer):
            yield wrong(f"{key}: {problem}", f"name another in {key}", ExitCode.INVALID)
            continue
        asked = reviewers.with_model(config, reviewer, tier)
        model = crew.model(asked, Event(), named_by=reviewers.key_of(reviewer))
        if model.ask is None:
            yield wrong(
                f"the {tier} reviewer {reviewer.id}: {model.missing}", f"or name another in {key}", ExitCode.AGENT
            )
        elif not names_agent(reviewer.executor) and model.name != config.defaults.executor:
            yield _by_the_api(f"the {tier} reviewer {reviewer.id}", model.name)
        else:
            yield Use(model.name, f"the {tier} reviewer")


def _writers(place: Place) -> Iterator[Use | Diagnosis]:
    """Who says what completed tasks brought about, and who plans, where they are configured. A run can do without
    either, but does not start where the first is there no more.
    """
    config, crew = place.config, Crew(place.config, place.environment)
    if name := config.defaults.summarizer:
        try:
            crew.summarizing_model(Event(), spend=nobody_pays)
            yield _by_the_api("the summarizer", name) if name == ANTHROPIC else Use(name, "the summarizer", vital=False)
        except RalphError as error:
            yield refused(error)
    if config.defaults.planner or config.tools.planners:
        try:
            who = planning.planner(config)
        except RalphError as error:
            yield warning(f"defaults.planner: {error}", "name another in defaults.planner")
            return
        model = crew.model(who, Event(), named_by=planning.key_of(who))
        if model.ask is None:
            yield warning(f"the planner {who.id}: {model.missing}", "or name another in defaults.planner")
        elif isinstance(model.ask, AgentModel):
            yield Use(model.name, "the planner", vital=False)
        else:
            yield _by_the_api(f"the planner {who.id}", model.name)


def _by_the_api(who: str, model: str) -> Diagnosis:
    return ok(f"{who}: {model}, by the Anthropic API; its key is in the environment")


def _asks_a_model(config: Config, prd: Prd) -> bool:
    criteria = (
        requirements.criteria_for(config, task, stage)
        for task in prd.tasks
        if task.status != "completed"
        for stage in requirements.stages_of(config, task)
    )
    return any(_has_question(each.verification) for each in criteria)


def _has_question(verification: Verification) -> bool:
    if isinstance(verification, MultiStage):
        return any(_has_question(part_verification(part)) for part in verification.stages)
    return isinstance(verification, Semantic) and bool(verification.check_for)


def probe_all(members: Sequence[AgentSettings], environment: Mapping[str, str]) -> dict[str, Probe | RalphError]:
    """How each agent's probe ended, or why it cannot be made. They run beside each other; one that hangs is left."""
    late = f"it gave no answer in {_TIMEOUT:.0f} s; start it yourself and see what it does"
    answers: dict[str, Probe | RalphError] = {
        each.id: Probe(installed=False, problem=f"agent {each.id}: {late}") for each in members
    }
    found: dict[str, Probe | RalphError] = {}

    def ask(settings: AgentSettings) -> None:
        try:
            found[settings.id] = registry.create(settings, {**environment, **settings.env}).probe()
        except RalphError as error:
            found[settings.id] = error
        except Exception as error:  # noqa: BLE001 - what a plug-in raises is not ours to foresee
            told = f"agent {settings.id}: its adapter failed: {type(error).__name__}: {error}; mend or remove it"
            found[settings.id] = RalphError(told)

    threads = [Thread(target=ask, args=(each,), daemon=True) for each in members]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return answers | dict(found)


def _is_there(answer: Probe | RalphError) -> bool:
    return isinstance(answer, Probe) and answer.installed


def of_probe(
    use: Use, settings: AgentSettings, answer: Probe | RalphError, *, path: str = "", other: str = ""
) -> Diagnosis:
    """Whether the agent can be started; `path` is its program's, `other` the fallback that could work in its place."""
    if isinstance(answer, RalphError):
        return refused(answer)
    if not answer.installed:
        text, _, advice = answer.problem.rpartition("; ")
        if not use.vital:
            return warning(f"{text} ({use.role})", advice)
        if other:
            return warning(f"{text}; its fallback {other} would work instead", advice)
        return wrong(text or advice, advice if text else "", ExitCode.AGENT)
    known = registry.capabilities_of(settings)
    held = (
        f", permissions {settings.permissions}"
        if known is None or known.permissions
        else ", permissions as its command has them"
    )
    kind = f" ({settings.type})" if settings.type != use.executor else ""
    return ok(f"{use.executor}{kind}, {use.role}: {answer.version or 'there'}{f', {path}' if path else ''}{held}")


def of_login(use: Use, login: Login, *, other: str = "") -> Diagnosis:
    """Whether the agent has what it needs to be let in; `other` is the fallback that could work in its place."""
    if login.state == "found":
        return ok(f"{use.executor}: key or login in {login.place}")
    if login.state == "not needed":
        return ok(f"{use.executor}: needs no login{f', as {login.place}' if login.place else ''}")
    if login.state == "unknown":
        return unknown(f"{use.executor}: whether it has a key or login cannot be told: {login.place}", login.advice)
    text = f"{use.executor}: no key and no login was found"
    if not use.vital:
        return warning(f"{text} ({use.role})", login.advice)
    if other:
        return warning(f"{text}; its fallback {other} would work instead", login.advice)
    return wrong(text, login.advice, ExitCode.AGENT)


def of_capabilities(
    config: Config, use: Use, settings: AgentSettings, known: Capabilities | None
) -> Iterator[Diagnosis]:
    """Permissions that a server does not heed, and limits that an agent which does not tell its cost or tokens would
    never reach.
    """
    if settings.endpoint and settings.permissions != "full":
        yield warning(
            f"{use.executor} works on a server, whose own rules hold: permissions {settings.permissions} is not heeded",
            "restrict the server, or remove the endpoint",
        )
    if known is None:
        return
    limits = config.limits
    priced = known.tokens and (settings.model in config.prices or use.executor in config.prices)
    if (limits.max_cost_usd or limits.max_task_cost_usd) and not (known.cost or priced):
        advice = "give the model's price in prices" if known.tokens else "limit its time: limits.maxRunWallTime"
        yield warning(f"{use.executor} does not tell what it costs, so the limit of cost cannot hold", advice)
    if (limits.max_tokens or limits.max_task_tokens) and not known.tokens:
        yield warning(
            f"{use.executor} does not tell its tokens, so the limit of tokens cannot hold",
            "limit its time: limits.maxRunWallTime",
        )


def _path(settings: AgentSettings, environment: Mapping[str, str]) -> str:
    """Where the agent's program lies; empty where that is not known."""
    places = PLACES.get(settings.type)
    try:
        argv = words(settings.command, agent=settings.id) or ((places.program,) if places else ())
    except RalphError:
        return ""
    return (shutil.which(argv[0], path=environment.get("PATH")) or "") if argv else ""
