"""Aligned columns of plain text."""

import re
from collections.abc import Iterable, Sequence

from rulebook_ralph.core.printable import clipped, cut, display_width

_NARROWEST_COLUMN = 6
_AMOUNT = re.compile(r"<?\$?\d{1,6}(?:,\d{3})*(?:\.\d+)?[kM]?(?: [a-z]+)?")


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """Aligned columns, amounts to the right; where `width` is given, the widest columns give way until it fits."""
    cells = [[clipped(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(headings, *cells, strict=True)]
    if width is not None:
        _narrow(widths, width - 2 * (len(widths) - 1))
    right = [
        bool(cells) and all(_AMOUNT.fullmatch(row[i]) or not row[i] for row in cells) for i in range(len(headings))
    ]
    return [_aligned(row, widths, right) for row in [list(headings), *cells]]


def _narrow(widths: list[int], room: int) -> None:
    while sum(widths) > room and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for cell, width, to_the_right in zip(row, widths, right, strict=True):
        text = cut(cell, width)
        space = " " * (width - display_width(text))
        parts.append(space + text if to_the_right else text + space)
    return "  ".join(parts).rstrip()
