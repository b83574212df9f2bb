"""Texts that must not be in what was added: the part of a semantic verification that needs no model."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.printable import clipped, printable

FINAL_MESSAGE = "the final message"
_LEAD = re.compile(r"^[\s#/*>;%\"'|-]+")
"""What a comment, a text or a quotation begins its lines with."""
_SPACE = re.compile(r"\s+")


def unwanted(patterns: Sequence[str], diff: Sequence[FileDiff], final_message: str) -> Iterator[str]:
    """Each line that was added, and each line of the final message, that holds one of the patterns, as one line that
    names the place. Upper and lower case are the same, invisible characters hide nothing, and a pattern of several
    words may go on in the next line.
    """
    wanted = [(pattern, _folded(pattern)) for pattern in patterns]
    broken = [(pattern, looked_for) for pattern, looked_for in wanted if " " in looked_for.strip()]
    before = ""
    for place, text, follows in _lines(diff, final_message):
        folded = _folded(text)
        for pattern, looked_for in wanted:
            if looked_for in folded:
                yield f"'{clipped(pattern)}' in {place}: {clipped(text)}"
        if broken:
            joined = f"{before} {_LEAD.sub('', folded)}" if follows else folded
            for pattern, looked_for in broken:
                if looked_for in joined and looked_for not in folded and looked_for not in before:
                    yield f"'{clipped(pattern)}' in {place}, over two lines: {clipped(text)}"
            before = folded.strip()


def _lines(diff: Sequence[FileDiff], final_message: str) -> Iterator[tuple[str, str, bool]]:
    """The place of each line, its text, and whether it follows the line before."""
    for file in diff:
        last = None
        for line in file.added:
            yield f"{printable(file.path)}:{line.number}", line.text, last is not None and line.number == last + 1
            last = line.number
    for at, text in enumerate(final_message.splitlines()):
        yield FINAL_MESSAGE, text, at > 0


def _folded(text: str) -> str:
    if not text.isascii():
        visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
        text = unicodedata.normalize("NFKC", visible)
    return _SPACE.sub(" ", text.casefold())
