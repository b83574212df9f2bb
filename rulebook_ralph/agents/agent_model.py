"""An agent CLI as the model that judges: for people with a subscription and no API key."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

from rulebook_ralph.agents.agent import Agent, AgentLimits, AgentSettings, Assignment
from rulebook_ralph.agents.anthropic_model import ALIASES
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.core.question import ModelError, Question
from rulebook_ralph.errors import RalphError

_FREEDOM = re.compile(r"--?[\w-]*(?:dangerous|yolo|full-auto|bypass|allow-all)[\w-]*(?:=.*)?")
_CLAUDES_FREEDOM = ("--permission-mode", "--allowedTools", "--allowed-tools", "--tools", "--add-dir", "--mcp-config")
_CLAUDE_WITHOUT_TOOLS = ("--tools", "", "--strict-mcp-config")


def judging(settings: AgentSettings, model: str) -> AgentSettings:
    """The same agent, allowed nothing without being asked, for it reads what may be a trap. What an agent of the type
    `command` may do stands in its command, and is left to it. The short names of models are for claude alone.
    """
    args = [arg for arg in settings.args if not _FREEDOM.fullmatch(arg)]
    if settings.type == "claude":
        args = [*_without_options(args, _CLAUDES_FREEDOM), *_CLAUDE_WITHOUT_TOOLS]
    meant = model if settings.type == "claude" or model.lower() not in ALIASES else ""
    return replace(settings, permissions="ask", args=tuple(args), model=meant or settings.model)


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
    ) -> None:
        self._make_agent = make_agent
        self._model = model
        self._environment = dict(environment)
        self._timeout = timeout
        self._scratch = scratch
        self._cancelled = cancelled

    def __call__(self, question: Question) -> str:
        """The agent's final message. Raises ModelError."""
        try:
            agent = self._make_agent(question.model or self._model)
            with tempfile.TemporaryDirectory(
                prefix="ralph-judge-", dir=self._scratch, ignore_cleanup_errors=True
            ) as at:
                result = self._run(agent, prompt_for(question), Path(at))
        except (RalphError, OSError) as error:
            raise ModelError(clipped(str(error))) from error
        if self._cancelled.is_set():
            raise ModelError("the run was told to end")
        if result.status != "finished":
            raise ModelError(f"agent {agent.name}: {_why(result, self._timeout)}")
        if not result.final_text.strip():
            raise ModelError(f"agent {agent.name} gave no answer")
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


def _without_options(args: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """The arguments without these options and their values."""
    dropping = False
    for arg in args:
        if arg.startswith("-"):
            dropping = arg.split("=")[0] in options
        if not dropping:
            yield arg


def _why(result: AgentResult, timeout: float) -> str:
    if result.killed_by == "wall-time":
        return f"no answer within {timeout:g} s"
    if result.fault:
        return clipped(result.fault.message)
    return "its answer was cut off" if result.status == "truncated" else "it failed"
