"""On which line of a JSON document a value stands.

Parsers that keep positions take half a minute for a large PRD; a walk along the wanted paths, with everything beside
them skipped by the standard library's scanner, takes a fraction of a second.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from json import JSONDecoder

from rulebook_ralph.core.problem import JsonPath

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = JSONDecoder(parse_int=str, parse_float=str)


class _Wanted(dict[str | int, "_Wanted"]):
    """Steps to take from one value, and those to take from there."""


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The line, from 1, of the deepest part of `path` that the document has; None where it cannot be read that far."""
    return lines_of(text, [tuple(path)]).get(tuple(path))


def lines_of(text: str, paths: Iterable[JsonPath]) -> dict[JsonPath, int]:
    """The lines of many values in one walk; like `line_of` for each, those that cannot be found left out."""
    wanted, root = set(paths), _Wanted()
    for path in wanted:
        node = root
        for step in path:
            node = node.setdefault(step, _Wanted())
    positions: dict[JsonPath, int] = {}
    whole = _walk(text, _after_space(text, 0), root, (), positions)
    found: dict[JsonPath, int] = {}
    for path in wanted:
        deepest = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in positions), None)
        if deepest is not None and (whole or deepest == path):
            found[path] = positions[deepest]
    return dict(zip(found, _lines(text, found.values()), strict=True))


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """Line and column, both from 1, of a position in the text."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _lines(text: str, positions: Iterable[int]) -> list[int]:
    wanted = list(positions)
    lines: dict[int, int] = {}
    before, line = 0, 1
    for position in sorted(set(wanted)):
        line += text.count("\n", before, position)
        lines[position] = line
        before = position
    return [lines[position] for position in wanted]


def _walk(text: str, position: int, wanted: _Wanted, path: JsonPath, positions: dict[JsonPath, int]) -> bool:
    """Note where the wanted values stand, from the value at `position` down; False where the text is no JSON."""
    positions[path] = position
    open_steps = set(wanted)
    if not open_steps:
        return True
    try:
        for step, place in _children(text, position):
            if step in open_steps:
                open_steps.remove(step)
                if not _walk(text, place, wanted[step], (*path, step), positions):
                    return False
            if not open_steps:
                break
    except (ValueError, IndexError, StopIteration, RecursionError):
        return False
    return True


def _children(text: str, position: int) -> Iterator[tuple[str | int, int]]:
    """Key or index, and position, of each value directly inside the one at `position`."""
    opening = text[position]
    if opening not in "{[":
        return
    position = _after_space(text, position + 1)
    index = 0
    while text[position] not in "}]":
        step: str | int = index
        if opening == "{":
            step, position = _DECODER.raw_decode(text, position)
            position = _after_space(text, position)
            if text[position] != ":":
                raise ValueError(position)
            position = _after_space(text, position + 1)
        yield step, position
        _, position = _DECODER.raw_decode(text, position)
        position = _after_space(text, position)
        if text[position] == ",":
            position = _after_space(text, position + 1)
        index += 1


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
