"""A config file's text with one value changed: every other character stays as it is, comments and order too.

Where a default stands commented out (`# maxCostUsd: null`), the value takes its place. What comes out is read again: it
must say what was asked for and nothing else, or the change is refused.
"""

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from rulebook_ralph.config_places import Places, is_collection, is_empty, is_flow, is_nothing, unusual
from rulebook_ralph.config_yaml import block_lines, one_line
from rulebook_ralph.core.problem import JsonPath
from rulebook_ralph.plain_yaml import NotReadableError, read_yaml

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

_INDENT = 2
_FLOW_WIDTH = 100
_MAP = "tag:yaml.org,2002:map"


def with_value(text: str, path: JsonPath, value: Any) -> str:
    """The text with `value` at `path`, what holds it made where it is missing; an index after the last adds an item.

    The text must be readable (plain_yaml). Raises RalphError for a text too unusual to be changed this way.
    """
    expected = planted(read_yaml(text).value, path, value)
    unix, ends = _line_feeds(text)
    return _proved(_Text(unix, path).set(value).replace("\n", ends), expected, path)


def without(text: str, path: JsonPath, *, default: str = "") -> str:
    """The text without what stands at `path`, which must be there; below a comment of the key's own, `default` is left
    in its place, as a comment too. Raises RalphError likewise.
    """
    expected = uprooted(read_yaml(text).value, path)
    unix, ends = _line_feeds(text)
    return _proved(_Text(unix, path).remove(default).replace("\n", ends), expected, path)


def _line_feeds(text: str) -> tuple[str, str]:
    """The text with plain line feeds, and how its own lines end."""
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        return text.replace("\r\n", "\n"), "\r\n"
    return text, "\n"


def planted(values: Any, path: JsonPath, value: Any) -> Any:
    """The values with another one at a path."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(values) if isinstance(values, (list, tuple)) else []
        inner = planted(items[step] if step < len(items) else None, rest, value)
        return [*items[:step], inner, *items[step + 1 :]]
    keys = dict(values) if isinstance(values, dict) else {}
    return keys | {step: planted(keys.get(step), rest, value)}


def uprooted(values: Any, path: JsonPath) -> Any:
    """The values without what stands at a path."""
    changed = copy.deepcopy(values)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return changed


def _proved(text: str, expected: Any, path: JsonPath) -> str:
    try:
        if _same(read_yaml(text).value) == _same(expected):
            return text
    except NotReadableError:
        pass
    raise unusual(path)


def _same(values: Any) -> str:
    """A text that is equal for values that say the same; a section without keys says nothing."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()} or None
        return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

    return json.dumps(plain(values), sort_keys=True, default=repr)


class _Text:
    """One text, and the path at which it is to be changed."""

    def __init__(self, text: str, path: JsonPath) -> None:
        from ruamel.yaml import YAML  # noqa: PLC0415 - 20 ms

        self._text = text
        self._path = path
        self._root: Node | None = YAML(typ="safe", pure=True).compose(text)
        self._at = Places(text, path)

    # What is asked for

    def set(self, value: Any) -> str:
        """Goes down to the last node that is there."""
        path = self._path
        node, key, column, in_flow = self._root, None, 0, False
        for depth, step in enumerate(path):
            if node is None or is_empty(node):
                return self._fill(node, key, column, step, planted(None, path[depth + 1 :], value))
            in_flow = in_flow or is_flow(node)
            found = self._at.child(node, step)
            if found is None:
                return self._add(node, key, step, planted(None, path[depth + 1 :], value), in_flow=in_flow)
            column = node.start_mark.column
            key, node = found
        if node is None:
            raise unusual(path)
        return self._replace(node, key, column, value, in_flow=in_flow)

    def remove(self, default: str) -> str:
        path = self._path
        holder, key, column, in_flow = self._root, None, 0, False
        for step in path[:-1]:
            in_flow = in_flow or is_flow(holder)
            column = holder.start_mark.column if holder is not None else 0
            key, holder = self._at.child(holder, step) or (None, None)
        if holder is None:
            raise unusual(path)
        spans = self._at.spans(holder)
        index = self._at.index(holder, path[-1])
        if in_flow or is_flow(holder):
            return self._cut(*_with_comma(spans, index))
        if len(spans) == 1 and key is not None:
            if isinstance(path[-1], int):
                return self._replace(holder, key, column, [], in_flow=False)
            return self._lines_cut(*spans[0], default)
        start, end = spans[index]
        if self._text[self._at.line_start(start) : start].strip(" "):  # shares its line with the dash of an item
            return self._cut(start, spans[index + 1][0] if index + 1 < len(spans) else end)
        return self._lines_cut(start, end, default)

    # Changes

    def _replace(self, node: "Node", key: "Node | None", column: int, value: Any, *, in_flow: bool) -> str:
        if is_nothing(node):
            if key is None:
                raise unusual(self._path)
            start = end = self._at.after_colon(key)
            block = isinstance(value, (dict, list, tuple)) and value and not in_flow
            new = "\n" + self._block(value, column + _INDENT) if block else f" {one_line(value)}"
            return self._cut(start, end, new)
        start, end = node.start_mark.index, self._at.end(node, column)
        small = in_flow or (is_flow(node) and len(one_line(value)) < _FLOW_WIDTH)
        if small or not isinstance(value, (dict, list, tuple)) or not value:
            new = _quoted_alike(value, getattr(node, "style", None))
            if is_collection(node) and not is_flow(node) and key is not None:
                start, new = self._at.after_colon(key), f" {new}"
            return self._cut(start, end, new)
        fits = isinstance(value, dict) == (node.tag == _MAP)  # the dash of an item may stand below its list's key
        if key is None or (fits and is_collection(node) and not is_flow(node)):
            return self._cut(start, end, self._block(value, node.start_mark.column).lstrip(" "))
        below = "\n" + self._block(value, column + _INDENT)
        return self._cut(self._at.after_colon(key), end, below)

    def _fill(self, node: "Node | None", key: "Node | None", column: int, step: str | int, value: Any) -> str:
        """An entry for a section that says nothing."""
        inner = {step: value} if isinstance(step, str) else [value]
        if key is None:  # the document
            if node is not None and not is_nothing(node):
                raise unusual(self._path)
            return self._with_line(len(self._text), self._block(inner, 0), step, 0, (0, len(self._text)))
        if node is not None and not is_nothing(node):  # null or ~
            return self._cut(self._at.after_colon(key), node.end_mark.index, "\n" + self._block(inner, column + 2))
        after = self._at.line_end(self._at.after_colon(key))
        lines = self._block(inner, column + _INDENT)
        return self._with_line(after, lines, step, column + _INDENT, (after, self._at.section_end(after, column)))

    def _add(self, holder: "Node", key: "Node | None", step: str | int, value: Any, *, in_flow: bool) -> str:
        """A new entry of a section or a list that has some, or is an empty one in brackets."""
        spans = self._at.spans(holder)
        if in_flow or is_flow(holder):
            entry = one_line(value) if isinstance(step, int) else f"{one_line(step)}: {one_line(value)}"
            if not spans:
                return self._cut(holder.start_mark.index + 1, holder.end_mark.index - 1, entry)
            return self._cut(spans[-1][1], spans[-1][1], f", {entry}")
        column = holder.start_mark.column
        inner = {step: value} if isinstance(step, str) else [value]
        start = 0 if key is None else self._at.line_end(self._at.after_colon(key))
        last = self._at.section_end(self._at.line_end(spans[-1][1]), column, comments=True)
        region = (start, self._at.section_end(last, column - 1))
        return self._with_line(last, self._block(inner, column), step, column, region)

    def _with_line(self, place: int, lines: str, step: str | int, column: int, region: tuple[int, int]) -> str:
        """The lines where the key stands commented out within the region, else at the place, the end of a line."""
        commented = re.compile(rf"^ {{{column}}}# {re.escape(str(step))}:(?: .*)?$", re.MULTILINE)
        match = commented.search(self._text, *region) if isinstance(step, str) else None
        if match is not None:
            return self._cut(match.start(), match.end(), lines)
        before = "\n" if self._text[:place] and not self._text[:place].endswith("\n") else ""
        after = "" if before and place < len(self._text) else "\n"
        return self._cut(place, place, before + lines + after)

    def _cut(self, start: int, end: int, new: str = "") -> str:
        if not 0 <= start <= end <= len(self._text):
            raise unusual(self._path)
        return self._text[:start] + new + self._text[end:]

    def _lines_cut(self, start: int, end: int, default: str) -> str:
        """Without the lines of an entry; where the one above is a comment of its own, `default` stays as another."""
        start = self._at.line_start(start)
        indent = " " * (len(self._text[start:end]) - len(self._text[start:end].lstrip(" ")))
        above = self._text[self._at.line_start(max(0, start - 1)) : start]
        end = min(len(self._text), self._at.line_end(end) + 1)
        if default and above.startswith(f"{indent}# "):
            return self._cut(start, end, f"{indent}# {default}\n")
        return self._cut(start, end)

    def _block(self, value: Any, column: int) -> str:
        return "\n".join(" " * column + line for line in block_lines(value))


def _with_comma(spans: list[tuple[int, int]], index: int) -> tuple[int, int]:
    if index + 1 < len(spans):
        return spans[index][0], spans[index + 1][0]
    return (spans[index - 1][1] if index else spans[index][0]), spans[index][1]


def _quoted_alike(value: Any, style: str | None) -> str:
    """A value on one line; a text in the quotes that the one before it had, where it can be."""
    if not isinstance(value, str) or style not in ('"', "'"):
        return one_line(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    text = one_line(value)
    return text if text.startswith('"') else f'"{text}"'
