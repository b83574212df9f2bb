"""The models that judge, review or plan: the Anthropic API, or an agent the user has already, asked without tools.

The package `anthropic` is imported with the first question: it takes a second.
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.agent import Agent, AgentLimits, Invocation
from rulebook_ralph.agents.events import ANTHROPIC_USAGE, kind_of_status, table, text, usage_of
from rulebook_ralph.agents.prices import ModelSpend
from rulebook_ralph.agents.question import ANTHROPIC, Ask, ModelError, Question
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.box import Box
from rulebook_ralph.tasks.results import AgentFault, AgentResult, ErrorKind
from rulebook_ralph.tasks.text import clipped

ALIASES: Mapping[str, str] = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
}
"""Short names of models, and what the API calls them; other names go through as they are."""

OWN_PROGRAM = frozenset({"command", "scripted"})
READERS = frozenset({"claude", "codex", *OWN_PROGRAM})
"""Types of agents that can be held to reading."""

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_NO_PACKAGE = "the package `anthropic` is not installed: pip install 'rulebook-ralph[anthropic]'"
_NO_KEY = f"the Anthropic API cannot be asked: neither {_KEYS[0]} nor {_KEYS[1]} is set"
_MAX_TOKENS = 16_000
_BETWEEN_LOOKS = 0.05
_BAD_REQUEST = 400


@dataclass(frozen=True, slots=True)
class FoundModel:
    """`ask` is None where there is no model; then `missing` says why, in one line. `name` is for people, `executor` the
    agent that asks it; empty for the API.
    """

    ask: Ask | None
    missing: str = ""
    name: str = ""
    executor: str = ""


def _no_answer(told: str, kind: ErrorKind | None) -> ModelError:
    """None where asking again would not help, as it may be the data's doing."""
    return ModelError(told, AgentFault(kind=kind, message=told) if kind else None)


# The Anthropic API


def full_name(model: str) -> str:
    """What the API calls a model."""
    name = model.strip() or "haiku"
    return ALIASES.get(name.lower(), name)


def problem_with_the_api(environment: Mapping[str, str], named_by: str) -> str:
    """Why the API cannot be asked; `named_by` is the key of the configuration that could name somebody else."""
    if not any(environment.get(name) for name in _KEYS):
        return _NO_KEY
    return "" if find_spec(ANTHROPIC) else f"{_NO_PACKAGE}, or set {named_by}"


@dataclass(slots=True)
class AnthropicModel:
    """Asks the API. `environment` has the key and, where it is not the usual one, the base URL; `timeout` (seconds) is
    for a question with all its retries; `named_by` is the key of the configuration that names the model.
    """

    environment: Mapping[str, str]
    model: str
    timeout: float
    cancelled: Event
    spend: ModelSpend
    named_by: str = "judge.model"
    retries: int = 2
    _plain: bool = False
    """Whether the server does not know how to bind an answer to a schema."""

    def __call__(self, question: Question) -> str:
        """The model's text. Raises ModelError, at once when the run is told to end."""
        answer: Future[object] = Future()
        # A daemon, so that neither ^C nor the end of the program waits for a server.
        Thread(target=self._answer, args=(question, answer), name="ralph-judge", daemon=True).start()
        deadline = time.monotonic() + self.timeout
        while not wait((answer,), _BETWEEN_LOOKS).done:
            if self.cancelled.is_set():
                raise ModelError("the run was told to end")
            if time.monotonic() >= deadline:
                raise _no_answer(f"no answer within {self.timeout:g} s", "cut-off")
        try:
            message = answer.result()
        except Exception as error:  # whatever a library, a proxy or a server comes up with
            raise _failure(error, self.named_by) from error
        model = question.model or self.model
        usage = {name: getattr(getattr(message, "usage", None), name, None) for name in ANTHROPIC_USAGE}
        self.spend((full_name(model), model, ANTHROPIC), usage_of(usage), None)
        return _text(message)

    def _answer(self, question: Question, answer: Future[object]) -> None:
        key, token = (self.environment.get(name) or None for name in _KEYS)
        try:
            anthropic = import_module(ANTHROPIC)
            with anthropic.Anthropic(
                api_key=key,
                auth_token=None if key else token,
                base_url=self.environment.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
                timeout=self.timeout,
                max_retries=self.retries,
            ) as client:
                schema = anthropic.transform_schema(dict(question.schema))
                answer.set_result(self._asked(client.messages.create, question, schema))
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            answer.set_exception(error)

    def _asked(self, create: Callable[..., object], question: Question, schema: object) -> object:
        """With the answer bound to the schema, where the server knows how to do that."""
        system, data = question.instructions, [{"role": "user", "content": question.data}]
        ask = partial(create, model=full_name(question.model or self.model), max_tokens=_MAX_TOKENS, messages=data)
        if not self._plain:
            try:
                return ask(system=system, output_config={"format": {"type": "json_schema", "schema": schema}})
            except Exception as error:
                if getattr(error, "status_code", None) != _BAD_REQUEST:
                    raise
        message = ask(system=f"{system}\nThe schema of the answer:\n{schema}")
        self._plain = True
        return message


def _text(message: object) -> str:
    """All blocks of text, joined. A page of HTML arrives as a plain string, and an empty answer without blocks."""
    blocks = getattr(message, "content", None)
    if not isinstance(blocks, list):
        raise ModelError("the API gave no message but something else; see ANTHROPIC_BASE_URL")
    if getattr(message, "stop_reason", None) == "refusal":
        raise ModelError("the model refused to judge the work")
    answer = "".join(str(getattr(block, "text", "")) for block in blocks if getattr(block, "type", "") == "text")
    if not answer.strip():
        raise ModelError("the model gave an answer without text")
    return answer


def _failure(error: Exception, named_by: str) -> ModelError:
    """A failed request: whether it failed whatever stood in it, or may be the data's doing: too long, filtered, too
    slow.
    """
    name, status = type(error).__name__, getattr(error, "status_code", None)
    if isinstance(error, ImportError):
        return _no_answer(_NO_PACKAGE, "not-installed")
    if name == "APITimeoutError":
        return _no_answer("the API gave no answer in time", "cut-off")
    if name == "APIConnectionError":
        return _no_answer(f"the API cannot be reached: {clipped(str(error.__cause__ or error))}", "network")
    if not isinstance(status, int):
        return ModelError(f"the API could not be asked: {clipped(str(error)) or name}")
    body: Any = getattr(error, "body", None)
    said = text(table(table(body).get("error")).get("message")) or str(error)
    said = "an HTML page" if "<html" in said.lower() else clipped(said)
    kind, advice = kind_of_status(status), ""
    if status == 404:  # noqa: PLR2004 - no such model
        kind, advice = "not-installed", f"; check {named_by}"
    elif status == 401:  # noqa: PLR2004 - not authorized
        advice = "; check ANTHROPIC_API_KEY"
    elif said.startswith("Your credit balance is too low"):
        kind = "billing"
    elif kind == "context-too-long":
        kind = None
    return _no_answer(f"the API answered HTTP {status}: {said}{advice}", kind)


# An agent


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """Where a model may look around and change nothing: a folder, the environment in it, and the box around it."""

    root: Path
    environment: Mapping[str, str]
    box: Box | None = None


@dataclass(frozen=True, slots=True)
class AgentModel:
    """Asks an agent in an empty folder, or in the place that `reads` gives, where it is one of READERS. `environment`
    is the agent's own; `timeout` is in seconds.
    """

    settings: Executor
    environment: Mapping[str, str]
    model: str
    timeout: float
    cancelled: Event
    spend: ModelSpend
    reads: Callable[[], ReadingPlace] | None = None

    def agent(self, model: str = "") -> Agent:
        """The agent as it is asked, with another model if one is named. Raises RalphError."""
        settings = without_tools(self.settings, model or self.model, reads=self.reads is not None)
        return registry.create(settings, self.environment)

    def __call__(self, question: Question) -> str:
        """The agent's final message. Raises ModelError."""
        try:
            agent = self.agent(question.model)
            with tempfile.TemporaryDirectory(prefix="ralph-judge-", ignore_cleanup_errors=True) as folder:
                result = self._run(agent, prompt_for(question, reads=self.reads is not None), Path(folder).resolve())
        except (RalphError, OSError) as error:
            raise _no_answer(clipped(str(error)), "not-installed") from error
        names = (question.model, self.model, self.settings.model, self.settings.id)
        self.spend(names, result.usage, result.cost_usd)
        if self.cancelled.is_set():
            raise ModelError("the run was told to end")
        if result.status != "finished":
            why = f"agent {agent.name}: {_why(result, self.timeout)}"
            raise ModelError(why, result.fault or AgentFault(kind="cut-off", message=why))
        if not result.final_text.strip():
            raise _no_answer(f"agent {agent.name} gave no answer", "cut-off")
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


def without_tools(settings: Executor, model: str, *, reads: bool = False) -> Executor:
    """The same agent, allowed nothing without being asked, for it reads what may be a trap; with `reads` it may look at
    files.

    Of the configured `args` only the choice of a model is kept, since every other option may grant something, and
    nothing is left of `endpoint`: a server has permissions of its own. `claude` also gets no tools. What an agent of
    the type `command` may do stands in its command and args, and is left to it, as is the script of a scripted one.
    What `command` and `env` of another type grant is not looked at. The short names of models are for claude alone.
    """
    kind = registry.type_of(settings)
    args = settings.args if kind in OWN_PROGRAM else tuple(registry.model_options(settings))
    if kind == "claude":
        args = (*args, "--tools", "Read,Grep,Glob" if reads else "", "--strict-mcp-config")
    meant = model if kind == "claude" or model.lower() not in ALIASES else ""
    return replace(settings, permissions="ask", args=args, model=meant or settings.model, endpoint="")


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


def _why(result: AgentResult, timeout: float) -> str:
    if result.killed_by == "wall-time":
        return f"no answer within {timeout:g} s"
    if result.fault:
        return clipped(result.fault.message)
    return "its answer was cut off" if result.status == "truncated" else "it failed"
