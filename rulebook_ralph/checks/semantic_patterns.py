"""Texts that must not be in what was added: the part of a semantic verification that needs no model."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.printable import clipped, printable

FINAL_MESSAGE = "the final message"
_SPACE = re.compile(r"\s+")


def unwanted(patterns: Sequence[str], diff: Sequence[FileDiff], final_message: str) -> Iterator[str]:
    """Each line that was added, and each line of the final message, that holds one of the patterns, as one line that
    names the place. Upper and lower case are the same, and invisible characters hide nothing.
    """
    wanted = [(pattern, _folded(pattern)) for pattern in patterns]
    for place, text in _lines(diff, final_message):
        folded = _folded(text)
        for pattern, looked_for in wanted:
            if looked_for in folded:
                yield f"'{clipped(pattern)}' in {place}: {clipped(text)}"


def _lines(diff: Sequence[FileDiff], final_message: str) -> Iterator[tuple[str, str]]:
    for file in diff:
        yield from ((f"{printable(file.path)}:{line.number}", line.text) for line in file.added)
    yield from ((FINAL_MESSAGE, line) for line in final_message.splitlines())


def _folded(text: str) -> str:
    if not text.isascii():
        visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
        text = unicodedata.normalize("NFKC", visible)
    return _SPACE.sub(" ", text.casefold())
