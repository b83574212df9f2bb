"""What the APIs of models have in common: a request has texts and tools, an answer is whole or streamed."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .turns import Refuse, Say, Use

TOKENS_IN, TOKENS_CACHED, TOKENS_OUT = 1200, 200, 34
"""What every answer claims to have used; what came from the cache is part of what went in."""
TOKENS = TOKENS_IN + TOKENS_OUT

STATUS = {"authentication": 401, "rate-limit": 429, "usage-limit": 429}
MESSAGE = {
    "authentication": "invalid x-api-key",
    "rate-limit": "Rate limit exceeded",
    "usage-limit": "Usage limit reached",
}

Json = dict[str, Any]
Tools = dict[str, Json | None]
"""The schemas of the tools a request offers, by name; None for a tool that takes bare text."""

numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: whole, and as server-sent events, of which the `end` tells that nothing is missing."""

    whole: Json
    events: list[tuple[str, Json]]
    end: list[tuple[str, Json]]


@dataclass(frozen=True, slots=True)
class Error:
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


class Api(Protocol):
    """One API, as far as the agents use it."""

    def is_streamed(self, path: str, body: Json) -> bool: ...

    def texts(self, body: Json) -> Iterator[str]:
        """What the user said."""
        ...

    def tools(self, body: Json) -> Tools: ...

    def reply(self, answer: Say | Use, model: str) -> Reply: ...

    def error(self, refusal: Refuse) -> Error: ...


def halves(text: str) -> list[str]:
    """A text as two pieces of a stream."""
    middle = max(1, len(text) // 2)
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def texts_of(content: object) -> Iterator[str]:
    """A message's content: text, or blocks of which some have text."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (
            block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)
        )
