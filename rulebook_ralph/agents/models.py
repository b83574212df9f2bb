"""Which model judges, reviews or plans: the Anthropic API, or an agent the user has already."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from rulebook_ralph.agents.agent import Agent, AgentSettings
from rulebook_ralph.agents.agent_model import AgentModel, judging
from rulebook_ralph.agents.anthropic_model import KEYS, NO_KEY, NO_PACKAGE, AnthropicModel, full_name
from rulebook_ralph.agents.prices import ModelSpend, free_of_charge
from rulebook_ralph.core.question import ANTHROPIC, Ask, Asked
from rulebook_ralph.errors import RalphError

_NEVER_JUDGES = frozenset({"scripted"})


@dataclass(frozen=True, slots=True)
class FoundModel:
    """`ask` is None where there is no model; then `missing` says why, in one line. `name` is for people."""

    ask: Ask | None
    missing: str = ""
    name: str = ""


def model_from(
    asked: Asked,
    *,
    settings_of: Callable[[str], AgentSettings],
    default_executor: str,
    make_agent: Callable[[AgentSettings, Mapping[str, str]], Agent],
    environment: Mapping[str, str],
    scratch: Path | None,
    cancelled: Event,
    spend: ModelSpend = free_of_charge,
    named_by: str,
) -> FoundModel:
    """The model that `asked` names. `settings_of` gives an executor by its id, and `make_agent` (registry.create) makes
    one for an environment. Without an executor it is the API where a key and the package are there, else the default
    agent. Agents judge in an empty folder made in `scratch` (None: the system's place for temporary
    files), which must lie outside the project. `spend` is told what each question took; `named_by` is the key under
    which `asked` stands in the configuration. Nothing is started, asked or imported before the first question.
    """
    problem = _problem_with_the_api(environment, named_by)
    executor = asked.executor or (default_executor if problem else ANTHROPIC)
    if executor == ANTHROPIC:
        if problem:
            return FoundModel(None, problem)
        api = AnthropicModel(
            environment,
            model=asked.model,
            timeout=asked.timeout,
            cancelled=cancelled,
            spend=spend,
            named_by=f"{named_by}.model",
        )
        return FoundModel(api, name=full_name(asked.model))
    settings = settings_of(executor)
    if settings.type in _NEVER_JUDGES and not asked.executor:
        return FoundModel(None, f"agent {executor} cannot judge; set {KEYS[0]}, or {named_by}.executor")
    surroundings = {**environment, **settings.env}

    def make(model: str) -> Agent:
        return make_agent(judging(settings, model), surroundings)

    try:
        make(asked.model)
    except RalphError as error:
        return FoundModel(None, str(error))
    agent = AgentModel(
        make,
        model=asked.model,
        environment=surroundings,
        timeout=asked.timeout,
        scratch=scratch,
        cancelled=cancelled,
        spend=lambda names, usage, cost: spend((*names, settings.model, settings.id), usage, cost),
    )
    return FoundModel(agent, name=settings.id)


def _problem_with_the_api(environment: Mapping[str, str], named_by: str) -> str:
    if not any(environment.get(name) for name in KEYS):
        return NO_KEY
    return "" if find_spec(ANTHROPIC) else f"{NO_PACKAGE}, or set {named_by}.executor"
