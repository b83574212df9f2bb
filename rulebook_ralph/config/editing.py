"""Changes of single values in the text of a config file; comments, order and all else in it stay.

A value is written where it stands, or where its key stands commented out: ruamel.yaml tells the places. (Its round trip
would move comments, for a new file is made of them.) A list or map in brackets is written anew as a whole. The result
is read again: it says exactly what it was to say, or RalphError is raised.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from rulebook_ralph.config.keys import built_in_values, has, in_camel, named, planted, uprooted, value_at
from rulebook_ralph.config.rules import whole
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.text import JsonPath

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

_INDENT = 2
_PLAIN = re.compile(r"(?:\d+[smhd])+|[A-Za-z][A-Za-z0-9_./=-]*(?: [A-Za-z0-9_./=-]+)*")
_WORDS_WITH_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def with_value(text: str, path: JsonPath, value: Any) -> str:
    """The text with a value at a path, whose holders need not be there. Raises RalphError."""
    if "\r\n" in text:
        return with_value(text.replace("\r\n", "\n"), path, value).replace("\n", "\r\n")
    values = read_yaml(text).value
    held = values.get(path[0]) if isinstance(values, dict) else None
    if len(path) > 1 and (section := whole({path[0]: held})[path[0]]) != held:  # `sandbox: off` becomes a map
        return with_value(text, path[:1], planted(section, path[1:], value))
    wanted = planted(values, path, value)
    return _checked(path, wanted, _ConfigText(text, wanted).set(path))


def without(text: str, path: JsonPath) -> str:
    """The text without what stands at a path; its built-in value is left as a comment where another explains the key.

    Raises RalphError.
    """
    if "\r\n" in text:
        return without(text.replace("\r\n", "\n"), path).replace("\n", "\r\n")
    wanted = uprooted(read_yaml(text).value, path)
    return _checked(path, wanted, _ConfigText(text, wanted).unset(path))


def _checked(path: JsonPath, wanted: Any, text: str | None) -> str:
    with suppress(NotReadableError):
        if text is not None and _same(read_yaml(text).value, wanted):
            return text
    raise RalphError(
        f"{named(path)}: the file is written in a way that cannot be changed from here; use: ralph config edit"
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two documents say the same; what is empty says as little as what is null, and 5.0 as much as 5."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    is_alike = isinstance(one, bool) == isinstance(other, bool) and one == other
    return is_alike or (one in (None, {}) and other in (None, {}))


class _ConfigText:
    """A text, where its values stand in it, and what it shall say. Its changes are None where they do not know how."""

    def __init__(self, text: str, wanted: Any) -> None:
        from ruamel.yaml import YAML  # noqa: PLC0415 - costs 20 ms

        self._text, self._lines, self._wanted = text, text.split("\n"), wanted
        self._root: Node | None = YAML(pure=True).compose(text)

    def set(self, path: JsonPath) -> str | None:
        key, node, depth = self._walk(path)
        here = value_at(self._wanted, path[:depth])
        is_section = key is not None and node is not None and _is_empty(node) and isinstance(here, Mapping)
        if node is not None and (depth == len(path) or not (_is_block(node) or is_section)):
            return self._replaced(key, node, here)
        inner = value_at(self._wanted, path[: depth + 1])
        lines = list(block_lines({path[depth]: inner} if isinstance(path[depth], str) else [inner]))
        in_list, column = False, 0
        if node is not None and _is_block(node):
            in_list, column = not _is_map(node), node.start_mark.column
        elif key is not None:
            column = key.start_mark.column + _INDENT
        first = (key or node).start_mark.line + 1 if depth and (key or node) else 0  # type: ignore[union-attr]
        end, after = self._section(first, column, in_list=in_list)
        if node is None:
            after = len(self._lines) - (not self._lines[-1])
        commented = re.compile(rf" {{{column}}}# {re.escape(str(path[depth]))}:(?: .*)?")
        place = next((each for each in range(first, end) if commented.fullmatch(self._lines[each])), None)
        start, stop = (after, after) if place is None else (place, place + 1)
        return self._with_lines(start, stop, [" " * column + line for line in lines])

    def unset(self, path: JsonPath) -> str | None:
        key, holder, depth = self._walk(path[:-1])
        if holder is None:
            return None
        inner = value_at(self._wanted, path[:-1])
        if depth < len(path) - 1 or not _is_block(holder) or inner == []:
            return self._replaced(key, holder, value_at(self._wanted, path[:depth]))
        entries = holder.value if _is_map(holder) else [(each, each) for each in holder.value]
        index = next(index for index, (each, _) in enumerate(entries) if path[-1] in (index, each.value))
        (start, value), line = entries[index], entries[index][0].start_mark.line
        before = self._lines[line][: start.start_mark.column]
        if _is_map(holder) and before.strip():  # the first key of a list's item
            following = [each.start_mark.index for each, _ in entries[index + 1 : index + 2]]
            return self._text[: start.start_mark.index] + self._text[following[0] :] if following else None
        column = len(before) - len(before.lstrip(" "))
        _, end = self._section(line + 1, *self._column_in(value, column))
        default = value_at(built_in_values(), in_camel(path))
        is_setting = has(built_in_values(), in_camel(path)) and not (isinstance(default, Mapping) and default)
        is_explained = line > 0 and self._lines[line - 1].startswith(f"{before}# ")
        left = [f"{before}# {path[-1]}: {one_line(default)}"] if is_setting and is_explained else []
        return self._with_lines(line, end, left)

    def _walk(self, path: JsonPath) -> "tuple[Node | None, Node | None, int]":
        """The last key and value on the way that are there and not in brackets, and how many steps lead to them."""
        key, node = None, self._root
        for count, step in enumerate(path):
            if node is None or not _is_block(node):
                return key, node, count
            if _is_map(node):
                found = next(((each, value) for each, value in node.value if each.value == step), None)
            else:
                found = (None, node.value[step]) if isinstance(step, int) and step < len(node.value) else None
            if found is None:
                return key, node, count
            key, node = found
        return key, node, len(path)

    def _replaced(self, key: "Node | None", node: "Node", value: Any) -> str | None:
        start, end = node.start_mark.index, node.end_mark.index
        if key is not None and (_is_empty(node) or _is_block(node)):
            start = self._text.index(":", key.end_mark.index) + 1
        if _is_empty(node):
            end = start
        elif _is_block(node) or getattr(node, "style", None) in ("|", ">"):
            line = (key or node).start_mark.line
            column = (
                len(self._lines[line]) - len(self._lines[line].lstrip(" ")) if key is None else key.start_mark.column
            )
            _, last = self._section(line + 1, *self._column_in(node, column))
            end = len("\n".join(self._lines[:last]))
        elif "#" in self._text[start:end] and "\n" in self._text[start:end]:
            return None  # comments in brackets would be lost
        blank = " " if self._text[start - 1 : start] == ":" else ""
        return self._text[:start] + blank + one_line(value) + self._text[end:]

    def _column_in(self, value: "Node", column: int) -> tuple[int, bool]:
        """From which column on lines belong to an entry that begins at `column`; a list may stand below its key."""
        is_list = _is_block(value) and not _is_map(value) and value.start_mark.column == column
        return (column, True) if is_list else (column + 1, False)

    def _section(self, first: int, column: int, in_list: bool = False) -> tuple[int, int]:
        """Where the lines end that are indented by at least `column`, from `first` on; with comments, and without those
        after the last of them. In a list, items alone stand at the column itself.
        """
        after = first
        for number in range(first, len(self._lines)):
            line = self._lines[number]
            bare = line.lstrip(" ")
            if bare and not bare.startswith("#"):
                indent = len(line) - len(bare)
                if indent < column or (in_list and indent == column and not bare.startswith("-")):
                    return number, after
                after = number + 1
        return len(self._lines), after

    def _with_lines(self, start: int, stop: int, lines: list[str]) -> str:
        text = "\n".join([*self._lines[:start], *lines, *self._lines[stop:]])
        return text if text.endswith("\n") or not text else f"{text}\n"


def _is_map(node: "Node") -> bool:
    return bool(node.tag == "tag:yaml.org,2002:map")


def _is_block(node: "Node") -> bool:
    """Whether it is a list or map, and not in brackets."""
    return isinstance(node.value, list) and not getattr(node, "flow_style", False)


def _is_empty(node: "Node") -> bool:
    """Whether it has no text of its own; ruamel places such a value where the next one begins."""
    return bool(node.tag == "tag:yaml.org,2002:null") and not node.value


# Values as YAML


def one_line(value: Any) -> str:
    """A value as YAML on one line; a text is quoted unless nothing in it can be taken for anything else."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_WITH_MEANING
        return value if plain else quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {one_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(one_line(item) for item in value) + "]"
    if isinstance(value, msgspec.Struct):
        return one_line(msgspec.to_builtins(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def block_lines(value: Any) -> Iterator[str]:
    """A value as the lines of a YAML block, without indentation; an empty collection or a scalar is one line."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            if isinstance(item, (Mapping, list, tuple)) and item:
                yield f"{_key(key)}:"
                yield from (f"  {line}" for line in block_lines(item))
            else:
                yield f"{_key(key)}: {one_line(item)}"
    elif isinstance(value, (list, tuple)) and value:
        for item in value:
            inner = block_lines(item) if isinstance(item, Mapping) else iter((one_line(item),))
            yield f"- {next(inner)}"
            yield from (f"  {line}" for line in inner)
    else:
        yield one_line(value)


def _key(key: str) -> str:
    return key if key.startswith("+") and _PLAIN.fullmatch(key[1:]) else one_line(key)


def quoted(text: str) -> str:
    """A YAML double-quoted text: JSON's form, with escapes for whatever YAML does not allow as it is."""
    body = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in body)


def _escape(code: int) -> str:
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004 - the largest of four digits
