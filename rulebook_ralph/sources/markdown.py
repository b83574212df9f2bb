"""As much of Markdown as task files need: lines with their indentation, code fences, comments, headings, list items.

Leans towards losing nothing: a fence or comment that is never closed is read as plain text.
"""

import re
from dataclasses import dataclass

_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+(?:\[.\]\s+)?)?(`{3,}|~{3,})([^`]*)$")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
_BREAK = re.compile(r"(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}")
_BOLD_START = re.compile(r"(\*\*|__)(?=[^\s*_])([^*]+?)\1")


LONGEST_CONTEXT = 1000
"""Characters of context repeated before each of many lines; longer ones are told once, so that sizes stay linear."""


@dataclass(frozen=True, slots=True)
class Line:
    """`text` without its indentation, `indent` in columns; of a line of a fenced block (`code`) the text is whole."""

    text: str
    indent: int
    code: bool = False


def lines(text: str) -> list[Line]:
    """The lines of a text; comments that span lines are blanked out, so that what they hide stays hidden."""
    rows = text.split("\n")
    read: list[Line] = []
    hopeless: dict[str, int] = {}
    i = 0
    while i < len(rows):
        end = _end_of_fence(rows, i, hopeless)
        if end is not None:
            opens_item = _MARKER.match(rows[i].lstrip()) is not None
            read.extend(
                Line(row, _indent(row), code=True) if k or not opens_item else _plain(row)
                for k, row in enumerate(rows[i : end + 1])
            )
            i = end + 1
            continue
        start = _open_comment(rows[i])
        end = None if start is None or "<!--" in hopeless else _line_with(rows, i + 1, "-->")
        if start is not None and end is None:
            hopeless["<!--"] = 0
        if start is not None and end is not None:
            read.append(_plain(rows[i][:start]))
            read.extend(Line("", 0) for _ in range(i + 1, end))
            rows[end] = rows[end].split("-->", 1)[1]
            i = end
            continue
        read.append(_plain(rows[i]))
        i += 1
    return read


def heading(line: Line) -> tuple[int, str] | None:
    """Level and text of a `#` heading, or None."""
    hashes = len(line.text) - len(line.text.lstrip("#"))
    if line.code or line.indent > 3 or not 1 <= hashes <= 6:  # noqa: PLR2004 - Markdown's own numbers
        return None
    rest = line.text[hashes:]
    if rest and not rest[0].isspace():
        return None
    closed = rest.rstrip().rstrip("#")
    return hashes, (closed if closed[-1:].isspace() else rest).strip()


def shortened(title: str) -> str:
    """A heading fit to be repeated before the lines below it."""
    return title if len(title) <= LONGEST_CONTEXT // 5 else title[: LONGEST_CONTEXT // 5] + "…"


def list_item(line: Line) -> str | None:
    """What follows the bullet or number of a list item, or None."""
    if line.code or is_break(line):
        return None
    marker = _MARKER.match(line.text)
    return line.text[marker.end() :].strip() if marker else None


def is_break(line: Line) -> bool:
    """Whether the line is a rule such as `---`."""
    return not line.code and len(line.text) < 200 and _BREAK.fullmatch(line.text) is not None  # noqa: PLR2004


def code_spans(text: str) -> list[tuple[int, int]]:
    """Where inline code stands, from its first backtick to behind its last."""
    runs = [(match.start(), match.end()) for match in re.finditer("`+", text)]
    following: dict[int, list[int]] = {}
    for index in range(len(runs) - 1, -1, -1):
        following.setdefault(runs[index][1] - runs[index][0], []).append(index)
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        waiting = following[runs[index][1] - runs[index][0]]
        while waiting and waiting[-1] <= index:
            waiting.pop()
        if waiting:
            spans.append((runs[index][0], runs[waiting[-1]][1]))
            index = waiting[-1]
        index += 1
    return spans


def without_code(text: str) -> str:
    """The text with inline code blanked out, every other character where it was."""
    kept: list[str] = []
    last = 0
    for start, end in code_spans(text):
        kept += [text[last:start], " " * (end - start)]
        last = end
    return "".join([*kept, text[last:]])


def without_closing_comment(text: str) -> str:
    """The text without the comments it ends with; a comment in the middle of a sentence is part of it and stays."""
    end = len(text.rstrip())
    while text.endswith("-->", 0, end):
        start = text.rfind("<!--", 0, end)
        if start < 0 or text.find("-->", start, end) != end - 3:
            break
        end = start
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def without_leading_bold(text: str) -> str:
    """`**A**: b` as `A: b`."""
    return _BOLD_START.sub(r"\2", text, count=1) if _BOLD_START.match(text) else text


def _plain(row: str) -> Line:
    return Line(row.strip(), _indent(row))


def _indent(row: str) -> int:
    return len(row[: len(row) - len(row.lstrip())].expandtabs(4))


def _end_of_fence(rows: list[str], start: int, hopeless: dict[str, int]) -> int | None:
    opening = _FENCE.match(rows[start]) if "```" in rows[start] or "~~~" in rows[start] else None
    if opening is None or len(opening[1]) >= hopeless.get(opening[1][0], len(rows[start]) + 1):
        return None
    mark, length = opening[1][0], len(opening[1])
    for index in range(start + 1, len(rows)):
        row = rows[index].strip()
        if len(row) >= length and not row.strip(mark):
            return index
    hopeless[mark] = length  # no line further down can close it either: each long text is searched only once
    return None


def _open_comment(row: str) -> int | None:
    if "<!--" not in row:
        return None
    bare = without_code(row)
    start = bare.rfind("<!--")
    return start if start >= 0 and "-->" not in bare[start:] else None


def _line_with(rows: list[str], start: int, wanted: str) -> int | None:
    return next((index for index in range(start, len(rows)) if wanted in rows[index]), None)
