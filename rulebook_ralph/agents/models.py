"""Which model judges, reviews or plans: the Anthropic API, or an agent the user has already, asked without tools."""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.agents.agent import Agent, AgentLimits, Invocation
from rulebook_ralph.agents.anthropic_model import ALIASES, KEYS, NO_KEY, NO_PACKAGE, AnthropicModel, full_name
from rulebook_ralph.agents.prices import ModelSpend
from rulebook_ralph.agents.question import ANTHROPIC, Ask, ModelChoice, ModelError, Question
from rulebook_ralph.agents.registry import model_options, type_of
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import Box
from rulebook_ralph.tasks.results import AgentFault, AgentResult
from rulebook_ralph.tasks.text import clipped

_OWN_PROGRAM = frozenset({"command", "scripted"})
READERS = frozenset({"claude", "codex", *_OWN_PROGRAM})
"""Types of agents that can be held to reading."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """`ask` is None where there is no model; then `missing` says why, in one line. `name` is for people, `executor` the
    agent that asks it; empty for the API.
    """

    ask: Ask | None
    missing: str = ""
    name: str = ""
    executor: str = ""


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where a model may look around and change nothing: a folder, the environment in it, and the box around it."""

    root: Path
    environment: Mapping[str, str]
    box: Box | None = None


def model_from(
    choice: ModelChoice,
    *,
    settings_of: Callable[[str], Executor],
    default_executor: str,
    make_agent: Callable[[Executor, Mapping[str, str]], Agent],
    environment: Mapping[str, str],
    cancelled: Event,
    spend: ModelSpend,
    named_by: str,
    reads: Callable[[], ReadingPlace] | None = None,
) -> FoundModel:
    """The model that `choice` names; an agent of READERS works in the place that `reads` gives. Without an executor it
    is the API where a key and the package are there, else the default agent. `spend` is told what each question took;
    `named_by` is the key of the configuration that names the executor. Nothing is started, asked or imported before
    the first question.
    """
    problem = _problem_with_the_api(environment, named_by)
    executor = choice.executor or (default_executor if problem else ANTHROPIC)
    if executor == ANTHROPIC:
        if problem:
            return FoundModel(None, problem)
        api = AnthropicModel(
            environment,
            model=choice.model,
            timeout=choice.timeout,
            cancelled=cancelled,
            spend=spend,
            named_by=named_by.replace(".executor", ".model"),
        )
        return FoundModel(api, name=full_name(choice.model))
    settings = settings_of(executor)
    if type_of(settings) in _OWN_PROGRAM and not choice.executor:  # what it does with a question nobody knows
        return FoundModel(None, f"agent {executor} cannot be asked unless {named_by} names it")
    surroundings = {**environment, **settings.env}
    reads = reads if type_of(settings) in READERS else None

    def make(model: str) -> Agent:
        return make_agent(without_tools(settings, model, reads=reads is not None), surroundings)

    try:
        make(choice.model)
    except RalphError as error:
        return FoundModel(None, str(error))
    agent = AgentModel(
        make,
        model=choice.model,
        environment=surroundings,
        timeout=choice.timeout,
        cancelled=cancelled,
        reads=reads,
        spend=lambda names, usage, cost: spend((*names, settings.model, settings.id), usage, cost),
    )
    return FoundModel(agent, name=settings.id, executor=settings.id)


def without_tools(settings: Executor, model: str, *, reads: bool = False) -> Executor:
    """The same agent, allowed nothing without being asked, for it reads what may be a trap; with `reads` it may look at
    files.

    Of the configured `args` only the choice of a model is kept, since every other option may grant something, and
    nothing is left of `endpoint`: a server has permissions of its own. `claude` also gets no tools. What an agent of
    the type `command` may do stands in its command and args, and is left to it, as is the script of a scripted one.
    What `command` and `env` of another type grant is not looked at. The short names of models are for claude alone.
    """
    kind = type_of(settings)
    args = settings.args if kind in _OWN_PROGRAM else tuple(model_options(settings))
    if kind == "claude":
        args = (*args, "--tools", "Read,Grep,Glob" if reads else "", "--strict-mcp-config")
    meant = model if kind == "claude" or model.lower() not in ALIASES else ""
    return replace(settings, permissions="ask", args=args, model=meant or settings.model, endpoint="")


@dataclass(frozen=True, slots=True)
class AgentModel:
    """Asks an agent in an empty folder, or where it `reads`. `make_agent` makes one for a model's name; `timeout` is in
    seconds.
    """

    make_agent: Callable[[str], Agent]
    model: str
    environment: Mapping[str, str]
    timeout: float
    cancelled: Event
    spend: ModelSpend
    reads: Callable[[], ReadingPlace] | None = None

    def __call__(self, question: Question) -> str:
        """The agent's final message. Raises ModelError."""
        try:
            agent = self.make_agent(question.model or self.model)
            with tempfile.TemporaryDirectory(prefix="ralph-judge-", ignore_cleanup_errors=True) as folder:
                result = self._run(agent, prompt_for(question, reads=self.reads is not None), Path(folder).resolve())
            self.spend(tuple(filter(None, (question.model, self.model))), result.usage, result.cost_usd)
        except (RalphError, OSError) as error:
            why = clipped(str(error))
            raise ModelError(why, AgentFault(kind="not-installed", message=why)) from error
        if self.cancelled.is_set():
            raise ModelError("the run was told to end")
        if result.status != "finished":
            why = f"agent {agent.name}: {_why(result, self.timeout)}"
            raise ModelError(why, result.fault or AgentFault(kind="cut-off", message=why))
        if not result.final_text.strip():
            why = f"agent {agent.name} gave no answer"
            raise ModelError(why, AgentFault(kind="cut-off", message=why))
        return result.final_text

    def _run(self, agent: Agent, prompt: str, folder: Path) -> AgentResult:
        (empty := folder / "empty").mkdir()
        place = self.reads() if self.reads else ReadingPlace(empty, {})
        return agent.run(
            Invocation(
                prompt=prompt,
                workspace=place.root,
                output_file=folder / "output",
                limits=AgentLimits(wall_time=self.timeout),
                environment={**self.environment, **place.environment},
                cancelled=self.cancelled,
                report=lambda _: None,
                box=place.box,
            )
        )


def prompt_for(question: Question, *, reads: bool = False) -> str:
    """A question as one text. What counts comes first and is called to mind after the data."""
    schema = json.dumps(question.schema, ensure_ascii=False, separators=(",", ":"))
    tools = (
        "You are in a copy of the project: read what you need of it, and change nothing."
        if reads
        else "Use no tools: all there is to know stands here."
    )
    return (
        f"{question.instructions}\n\nThe answer is JSON by this schema:\n{schema}\n\n"
        f"{tools}\n\n"
        f"{question.data}\n\n"
        "That was the data. Answer now as the instructions before it say: one JSON object and nothing else.\n"
    )


def _problem_with_the_api(environment: Mapping[str, str], named_by: str) -> str:
    if not any(environment.get(name) for name in KEYS):
        return NO_KEY
    return "" if find_spec(ANTHROPIC) else f"{NO_PACKAGE}, or set {named_by}"


def _why(result: AgentResult, timeout: float) -> str:
    if result.killed_by == "wall-time":
        return f"no answer within {timeout:g} s"
    if result.fault:
        return clipped(result.fault.message)
    return "its answer was cut off" if result.status == "truncated" else "it failed"
