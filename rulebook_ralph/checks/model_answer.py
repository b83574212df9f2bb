"""JSON that a model answered: read strictly, or refused with what is wrong."""

import json
from typing import Any, TypeVar

import msgspec

LONGEST_ANSWER = 1_000_000

_Answer = TypeVar("_Answer", bound=msgspec.Struct)


class Unusable(Exception):  # noqa: N818 - the model's fault, told in one line
    """The answer cannot be used: what is wrong with it, as the model can be told."""


class Foreign(Unusable):
    """An answer in the right form to another question than was asked: as if it had been handed to the model."""


def decoded(text: str, kind: type[_Answer]) -> _Answer:
    """The whole text as one JSON object of that kind. Raises Unusable."""
    if len(text) > LONGEST_ANSWER:
        raise Unusable(f"the answer is longer than {LONGEST_ANSWER:,} characters")
    try:
        answer = msgspec.json.decode(text.encode("utf-8", "replace"), type=kind)
        json.loads(text, object_pairs_hook=_each_key_once)  # of a key that stands twice the last one counts elsewhere
    except msgspec.ValidationError as error:
        raise Unusable(f"the JSON does not fit the schema: {error}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Unusable("it is no whole JSON object, and nothing but that is wanted") from error
    return answer


def require_nonce(given: str, nonce: str) -> None:
    """Raises Foreign where the answer does not bear the word that was given with the question."""
    if given != nonce:
        raise Foreign("`nonce` is not the word that the instructions give")


def _each_key_once(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise Unusable("a key stands twice in one object")
