"""JSON files of the state folder: read with the line of what is wrong, written so that they read well in git.

Text is UTF-8 with LF, indented by two spaces, keys in the order of the structs and then the unknown ones, so that a
change of one value is a change of one line. Keys that Ralph does not know are kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecoder
from typing import Any, TypeVar

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.model import Json, Value
from rulebook_ralph.tasks.struct_reading import first_fault
from rulebook_ralph.tasks.text import Fault, JsonPath, Problem, json_path

EXTRA = "$extra"
"""Where a struct keeps the keys it does not know; never written under this name."""
DEEPEST = 200
"""Lists and objects within each other in what a person may write freely; Python's own limit stands at some 480."""

_BYTE = re.compile(r"\s*\(byte (\d+)\)$")
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = JSONDecoder(parse_int=str, parse_float=str)
_V = TypeVar("_V", bound=Value)


def keys_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The keys of a struct as they stand in its file."""
    return frozenset(kind.__struct_encode_fields__) - {EXTRA}


def decode(data: bytes, name: str) -> Any:
    """The bytes as plain JSON values; raises RalphError with file, line and column where they are no JSON text."""
    text = text_of(data, name)
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise RalphError(f"{name}: is nested too deeply") from None
    except msgspec.DecodeError as error:
        place = _BYTE.search(str(error))
        before = text.encode()[: int(place[1])].decode(errors="ignore") if place else text.rstrip()
        reason = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        where = f"{name}:{line}:{column}" if place or "truncated" in reason else name
        raise RalphError(f"{where}: is no JSON: {reason[:1].lower()}{reason[1:]}") from None


def text_of(data: bytes, name: str) -> str:
    """The bytes as text without a byte order mark; raises RalphError where they are empty or not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RalphError(f"{name}:{line}: is not UTF-8 text") from None
    if not text or text.isspace():
        raise RalphError(f"{name}: is empty; restore it from git")
    return text


def convert(raw: Any, kind: type[_V], data: bytes, name: str) -> _V:
    """Plain values as a struct. Raises RalphError with the line in `data` where they do not fit."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise refusal(name, data, first_fault(raw, kind, error)) from None


def refusal(name: str, data: bytes, fault: Fault, *, more: int = 0) -> RalphError:
    """A fault as an error with file, line and path, saying how many more there are."""
    line = line_of(text_of(data, name), fault.path)
    others = f" (and {more} more: ralph validate)" if more else ""
    return RalphError(f"{Problem(name, line, json_path(fault.path), fault.message)}{others}")


def with_extra(raw: Any, known: frozenset[str]) -> Any:
    """A decoded object with its unknown keys moved to where the struct keeps them; anything else as it is."""
    if not isinstance(raw, dict) or known >= raw.keys():
        return raw
    return {key: raw[key] for key in raw if key in known} | {EXTRA: unknown_members(raw, known)}


def merged_members(value: Value, known: frozenset[str]) -> Json:
    """A struct as an object with its unknown keys beside the known ones."""
    fields: Json = msgspec.to_builtins(value)
    return fields | unknown_members(fields.pop(EXTRA, {}), known)


def unknown_members(members: Mapping[str, Any], known: frozenset[str]) -> Json:
    """Those of an object's members whose keys are not `known`, in their order."""
    return {key: value for key, value in members.items() if key not in known}


def encode(value: object) -> bytes:
    """The bytes of a file; a lone surrogate, from an agent's own JSON or a file's name, becomes U+FFFD."""
    try:
        compact = msgspec.json.encode(value)
    except UnicodeEncodeError:
        compact = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(value)))
    return msgspec.json.format(compact, indent=2) + b"\n"


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return [_without_surrogates(item) for item in value] if isinstance(value, (list, tuple)) else value


def nesting_faults(members: Json, path: JsonPath) -> Iterator[Fault]:
    """The members of the object at `path` that are nested too deeply: who compares or shows them goes down by
    recursion.
    """
    for key, value in members.items():
        level = [value]
        for _ in range(DEEPEST + 1):
            containers = [each for each in level if isinstance(each, (dict, list))]
            level = [inner for each in containers for inner in (each.values() if isinstance(each, dict) else each)]
        if any(isinstance(each, (dict, list)) for each in containers):
            yield Fault((*path, key), f"is nested more than {DEEPEST} deep")


# Lines


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, from 1, of the deepest part of `path` that a JSON document has.

    A parser that keeps positions takes half a minute for a large list; this walks along the path, and the standard
    library's scanner skips all that stands beside it.
    """
    position = _after_space(text, 0)
    try:
        for step in path:
            position = next(place for key, place in _children(text, position) if key == step)
    except (ValueError, IndexError, StopIteration, RecursionError):
        pass
    return text.count("\n", 0, position) + 1


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
            position = _after_space(text, _after_space(text, position) + 1)  # behind the colon
        yield step, position
        _, position = _DECODER.raw_decode(text, position)
        position = _after_space(text, position)
        if text[position] == ",":
            position = _after_space(text, position + 1)
        index += 1


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
