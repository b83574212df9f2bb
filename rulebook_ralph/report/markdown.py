"""Markdown of texts that others wrote: they stay words, wherever it is shown.

A heading, link, image, HTML, mention of a team (`@team`) or issue (`#12`), closing word or math in such a text comes
to nothing, in CommonMark and on GitHub and GitLab, which look for mentions after Markdown is done, so that a backslash
does not stop them: a zero-width space does.
"""

import re

from rulebook_ralph.tasks.text import printable, printable_block

_APART = "\u200b"
_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]|~$]|#(?=[ #]|$))")
_AT_THE_BEGINNING = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_REFERS = re.compile(r"[@#](?=[\w-])|[!%&^](?=\w)|:(?=//)|www(?=\.)|GH(?=-\d)", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TICKS = re.compile(r"`+")


def inline(text: str, longest: int = 300) -> str:
    """The text as words on one line, also in a cell of a table; cut to `longest` characters."""
    words = _cut(" ".join(printable(text).split()), longest)
    words = _REFERS.sub(lambda found: f"{found[0]}{_APART}", words)
    words = _AT_THE_BEGINNING.sub(_not_a_mark, words)
    return _MEANS_SOMETHING.sub(r"\\\1", words.translate(_ENTITIES)) if words else ""


def code(text: str, longest: int = 200) -> str:
    """The text as it is, on one line in a code span; empty for an empty one. Not for a cell of a table."""
    words = _cut(" ".join(printable(text).split()), longest)
    if not words:
        return ""
    fence = "`" * (_longest_run(words) + 1)
    room = " " if words[0] == "`" or words[-1] == "`" else ""
    return f"{fence}{room}{words}{room}{fence}"


def block(text: str, longest: int = 3000) -> list[str]:
    """The lines of a fenced block that holds the text as it is; cut to `longest` characters. None for an empty text."""
    shown = printable_block(text).strip("\n")
    if not shown.strip():
        return []
    if len(shown) > longest:
        shown = f"{shown[:longest]}\n… {len(shown) - longest} characters left out …"
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}text", *shown.split("\n"), fence]


def _not_a_mark(found: re.Match[str]) -> str:
    """A number is told from that of a list by what comes between it and its point, a mark by what comes before it."""
    return f"{found[0]}{_APART}" if found[0].isdigit() else f"{_APART}{found[0]}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
