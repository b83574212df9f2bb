"""Keeping texts within a number of tokens, as the prompt needs it. Pure functions."""

from collections.abc import Iterable

from rulebook_ralph.tasks.text import BYTES_PER_TOKEN
from rulebook_ralph.tasks.text import estimated_tokens as tokens

_CUT = "\n[… cut here, as it is too long for this prompt]"


def cut(text: str, limit: int) -> str:
    """The text while it fits `limit` tokens; else its beginning, saying so; nothing where not even that fits."""
    if 4 * len(text) <= BYTES_PER_TOKEN * limit or tokens(text) <= limit:
        return text
    room = limit * BYTES_PER_TOKEN - len(_CUT.encode())
    if room < 0:
        return ""
    return text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + _CUT


def few(texts: Iterable[str], limit: int) -> list[str]:
    """The first texts that fit `limit` tokens together, each with its dash and line end."""
    kept: list[str] = []
    for text in texts:
        shown = cut(text, limit - 2)
        limit -= tokens(shown) + 2
        if limit < 0 or (text and not shown):
            break
        kept.append(shown)
    return kept


class Rest:
    """Hands out what is left of a prompt: to each part its share of the whole (tokens) at most."""

    def __init__(self, whole: int, left: int) -> None:
        self._whole = whole
        self._left = left

    def text(self, text: str, share: float) -> str:
        """The text, cut where it must be."""
        shown = cut(text, min(int(self._whole * share), self._left))
        self._left -= tokens(shown) + 1
        return shown

    def items(self, texts: Iterable[str], share: float) -> list[str]:
        """The first of the texts that fit."""
        kept = few(texts, min(int(self._whole * share), self._left))
        self._left -= sum(tokens(text) + 2 for text in kept)
        return kept
