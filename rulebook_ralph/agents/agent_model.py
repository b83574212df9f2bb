"""An agent CLI as the model that judges: for people with a subscription and no API key."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Event

from rulebook_ralph.agents.agent import Agent, AgentLimits, AgentSettings, Assignment
from rulebook_ralph.agents.anthropic_model import ALIASES
from rulebook_ralph.agents.prices import ModelSpend, free_of_charge
from rulebook_ralph.core.evidence import AgentFault, AgentResult, ErrorKind
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.core.question import ModelError, ModelRefusedError, Question
from rulebook_ralph.errors import RalphError

_CLAUDE_WITHOUT_TOOLS = ("--tools", "", "--strict-mcp-config")
_OWN_PROGRAM = frozenset({"command", "scripted"})
_SHORT_MODEL = frozenset({"codex", "gemini", "qwen", "opencode"})
"""Agents for which `-m` names the model; for others it is a message or a mode."""
_COULD_NOT_BE_ASKED: frozenset[ErrorKind] = frozenset(
    {"not-installed", "authentication", "billing", "usage-limit", "rate-limit", "overloaded", "network"}
)
"""Failures that come whatever the question is; all others may be the data's doing."""


def judging(settings: AgentSettings, model: str) -> AgentSettings:
    """The same agent, allowed nothing without being asked, for it reads what may be a trap.

    Of the configured `args` only the choice of a model is kept, since every other option may grant something, and
    nothing is left of `endpoint`: a server has permissions of its own. `claude` also gets no tools. What an agent of
    the type `command` may do stands in its command and args, and is left to it, as is the script of a scripted one.
    What `command` and `env` of another type grant is not looked at. The short names of models are for claude alone.
    """
    args = settings.args if settings.type in _OWN_PROGRAM else tuple(_model_of(settings))
    if settings.type == "claude":
        args = (*args, *_CLAUDE_WITHOUT_TOOLS)
    meant = model if settings.type == "claude" or model.lower() not in ALIASES else ""
    return replace(settings, permissions="ask", args=args, model=meant or settings.model, endpoint="")


class AgentModel:
    """Asks an agent in an empty folder. `make_agent` makes one for a model's name; `timeout` is in seconds."""

    def __init__(
        self,
        make_agent: Callable[[str], Agent],
        *,
        model: str,
        environment: Mapping[str, str],
        timeout: float,
        scratch: Path | None,
        cancelled: Event,
        spend: ModelSpend = free_of_charge,
    ) -> None:
        self._spend = spend
        self._make_agent = make_agent
        self._model = model
        self._environment = dict(environment)
        self._timeout = timeout
        self._scratch = scratch
        self._cancelled = cancelled

    def __call__(self, question: Question) -> str:
        """The agent's final message. Raises ModelError, and ModelRefusedError where it ran and did not answer."""
        try:
            agent = self._make_agent(question.model or self._model)
            with tempfile.TemporaryDirectory(
                prefix="ralph-judge-", dir=self._scratch, ignore_cleanup_errors=True
            ) as at:
                result = self._run(agent, prompt_for(question), Path(at))
            self._spend(tuple(filter(None, (question.model, self._model))), result.usage, result.cost_usd)
        except (RalphError, OSError) as error:
            why = clipped(str(error))
            raise ModelError(why, AgentFault(kind="not-installed", message=why)) from error
        if self._cancelled.is_set():
            raise ModelError("the run was told to end")
        if result.status != "finished":
            why = f"agent {agent.name}: {_why(result, self._timeout)}"
            raise _failure(result)(why, result.fault or AgentFault(kind="cut-off", message=why))
        if not result.final_text.strip():
            why = f"agent {agent.name} gave no answer"
            raise ModelRefusedError(why, AgentFault(kind="cut-off", message=why))
        return result.final_text

    def _run(self, agent: Agent, prompt: str, folder: Path) -> AgentResult:
        workspace = folder / "empty"
        workspace.mkdir()
        return agent.run(
            Assignment(
                prompt=prompt,
                workspace=workspace,
                output_file=folder / "output",
                limits=AgentLimits(wall_time=self._timeout),
                environment=self._environment,
                cancelled=self._cancelled,
                report=lambda _activity: None,
            )
        )


def prompt_for(question: Question) -> str:
    """A question as one text. What counts comes first and is called to mind after the data."""
    schema = json.dumps(question.schema, ensure_ascii=False, separators=(",", ":"))
    return (
        f"{question.instructions}\n\nThe answer is JSON by this schema:\n{schema}\n\n"
        "Use no tools: all there is to know stands here.\n\n"
        f"{question.data}\n\n"
        "That was the data. Answer now as the instructions before it say: one JSON object and nothing else.\n"
    )


def _model_of(settings: AgentSettings) -> Iterator[str]:
    """The options that choose a model, with their values. What looks like an option is no value."""
    names = ("--model", "-m") if settings.type in _SHORT_MODEL else ("--model",)
    for arg, following in pairwise((*settings.args, "")):
        if arg in names and following and not following.startswith("-"):
            yield from (arg, following)
        elif arg.startswith("--model="):
            yield arg


def _failure(result: AgentResult) -> type[ModelError]:
    asked = result.killed_by or result.fault is None or result.fault.kind not in _COULD_NOT_BE_ASKED
    return ModelRefusedError if asked else ModelError


def _why(result: AgentResult, timeout: float) -> str:
    if result.killed_by == "wall-time":
        return f"no answer within {timeout:g} s"
    if result.fault:
        return clipped(result.fault.message)
    return "its answer was cut off" if result.status == "truncated" else "it failed"
