"""A question to a model, as a value: checks ask it, agents answer it, and neither knows the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """Something to ask a model. `instructions` are Ralph's own; `data` is untrusted text, marked as such by whoever
    asks. The answer shall be JSON that fits `schema`. `model` empty leaves the choice to the one who answers.
    """

    instructions: str
    data: str
    schema: Mapping[str, Any]
    model: str = ""


class ModelError(Exception):
    """The model could not be asked, or gave no text at all: one line that says why."""


class ModelRefusedError(ModelError):
    """The model would not look at what it was given: that is the data's doing, not the model's fault."""


Ask = Callable[[Question], str]
"""Asks a model and returns its answer as text. Raises ModelError."""
