"""JSON that a model answered: read strictly, or refused with what is wrong."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from rulebook_ralph.core.printable import clipped

LONGEST_ANSWER = 1_000_000

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Said = TypeVar("_Said")
_Refused = TypeVar("_Refused", bound=Exception)


class UnusableAnswerError(Exception):
    """The answer cannot be used: what is wrong with it, as the model can be told."""

    @property
    def told(self) -> str:
        return f"the answer cannot be used: {clipped(str(self))}"


def asked_twice(asked: Callable[[_Refused | None], _Said], refused: type[_Refused]) -> _Said:
    """What a model says that is `asked`; where that raises `refused`, it is asked once more, and given why. Raises what
    the second answer is refused for.
    """
    try:
        return asked(None)
    except refused as reason:
        return asked(reason)


def decoded(text: str, kind: type[_Answer]) -> _Answer:
    """The whole text as one JSON object of that kind. Raises UnusableAnswerError."""
    if len(text) > LONGEST_ANSWER:
        raise UnusableAnswerError(f"the answer is longer than {LONGEST_ANSWER:,} characters")
    try:
        answer = msgspec.json.decode(text.encode("utf-8", "replace"), type=kind)
        json.loads(text, object_pairs_hook=_each_key_once)  # of a key that stands twice the last one counts elsewhere
    except msgspec.ValidationError as error:
        raise UnusableAnswerError(f"the JSON does not fit the schema: {error}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnusableAnswerError("it is no whole JSON object, and nothing but that is wanted") from error
    return answer


def require_nonce(given: str, nonce: str) -> None:
    """Raises UnusableAnswerError where the answer does not bear the word that was given with the question: it is one to
    another question, as if it had been handed to the model.
    """
    if given != nonce:
        raise UnusableAnswerError("`nonce` is not the word that the instructions give")


def _each_key_once(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise UnusableAnswerError("a key stands twice in one object")
