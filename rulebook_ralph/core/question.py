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
    """The model could not be asked at all, which is nobody's doing: one line that says why."""


class ModelRefusedError(ModelError):
    """The model was asked and gave no judgement: it would not look, its server took offence at the question, or it did
    not answer in time. That may be the data's doing, so whoever wrote the data must gain nothing by it.
    """


Ask = Callable[[Question], str]
"""Asks a model and returns its answer as text. Raises ModelError, and ModelRefusedError."""
