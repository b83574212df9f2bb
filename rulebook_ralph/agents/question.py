"""A question to a model, as a value: rules and reviewers ask it, models answer it, and neither knows the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rulebook_ralph.tasks.results import AgentFault
from rulebook_ralph.tasks.review import GivenUp

ANTHROPIC = "anthropic"
"""The Anthropic API in place of an agent's id."""


class ModelChoice(Protocol):
    """Which model is to be asked, as the settings say it of a judge, a reviewer, a planner: an agent's id, `anthropic`,
    or empty for whoever is there; the model, empty for the agent's own; how long an answer may take, in seconds.
    """

    @property
    def executor(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def timeout(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask a model. `instructions` are Ralph's own; `data` is untrusted text in an envelope that whoever
    asks has made. The answer shall be JSON that fits `schema`. `model` empty leaves the choice to the one who answers.
    """

    instructions: str
    data: str
    schema: Mapping[str, Any]
    model: str = ""


class ModelError(Exception):
    """The model gave no answer: one line that says why. `fault` is what failed, in the words for agents, where asking
    again or waiting could help.
    """

    def __init__(self, message: str = "", fault: AgentFault | None = None) -> None:
        super().__init__(message)
        self.fault = fault


class GivenUpError(ModelError):
    """The model was asked as often as it is worth; `stop_reason` is what the task (`blocked`) or the run ends for."""

    def __init__(self, message: str, stop_reason: GivenUp) -> None:
        super().__init__(message)
        self.stop_reason = stop_reason


Ask = Callable[[Question], str]
"""Asks a model and returns its answer as text. Raises ModelError."""


def names_agent(executor: str) -> bool:
    """Whether it is an agent that shall answer: not the API, nor whoever is there."""
    return executor not in ("", ANTHROPIC)
