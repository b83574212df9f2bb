"""Whether a document is surely as a JSON Schema has it: of thousands of files nearly all, each in microseconds.

No is no judgement: what is not sure, for another keyword than the few here maybe, jsonschema looks at (schema_check).
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from rulebook_ralph.resources import schema

Sure = Callable[[Any], bool]

_SAYS_NOTHING = frozenset(("description", "title", "$schema", "$id", "$defs", "then"))
_MEMBERS = ("properties", "additionalProperties")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def is_surely_valid(value: Any, name: str, definition: str | None = None) -> bool:
    """Whether a value is as the schema `name` has it, or one definition in it."""
    try:
        return _compiled(name, definition)(value)
    except RecursionError:
        return False


@cache
def _compiled(name: str, definition: str | None) -> Sure:
    whole = schema(name)
    definitions = whole.get("$defs", {})
    known: dict[str, Sure] = {}

    def of_reference(reference: str) -> Sure:
        key = reference.removeprefix("#/$defs/")
        if key not in definitions:
            return _never
        return lambda value: defined(key)(value)  # noqa: PLW0108 - a definition may refer to itself

    def defined(key: str) -> Sure:
        if key not in known:
            known[key] = _checks(definitions[key], of_reference)
        return known[key]

    return defined(definition) if definition else _checks(whole, of_reference)


def _never(_: Any) -> bool:
    return False


def _checks(node: Any, of_reference: Callable[[str], Sure]) -> Sure:
    if not isinstance(node, dict):
        return (lambda _: True) if node is True else _never
    found = [_check(key, node[key], of_reference) for key in node if key not in _SAYS_NOTHING and key not in _MEMBERS]
    if any(key in node for key in _MEMBERS):
        found.append(_of_members(node, of_reference))
    if len(found) == 1:
        return found[0]
    return lambda value: all(check(value) for check in found)


def _check(key: str, wanted: Any, of_reference: Callable[[str], Sure]) -> Sure:
    if key == "$ref":
        return of_reference(wanted)
    if key in ("items", "anyOf"):
        return _of_items(_checks(wanted, of_reference)) if key == "items" else _of_any(wanted, of_reference)
    return _PLAIN[key](wanted) if key in _PLAIN else _never


def _of_items(item: Sure) -> Sure:
    return lambda value: not isinstance(value, list) or all(map(item, value))


def _of_any(nodes: list[Any], of_reference: Callable[[str], Sure]) -> Sure:
    choices = [_checks(node, of_reference) for node in nodes]
    return lambda value: any(check(value) for check in choices)


def _of_pattern(pattern: str) -> Sure:
    search = re.compile(pattern).search
    return lambda value: not isinstance(value, str) or search(value) is not None


def _of_type(names: list[str]) -> Sure:
    kinds = tuple(kind for name in names for kind in _TYPES[name])
    if bool in kinds:
        return lambda value: isinstance(value, kinds)
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool)


_PLAIN: Mapping[str, Callable[[Any], Sure]] = {
    "type": lambda names: _of_type([names] if isinstance(names, str) else names),
    "enum": lambda choices: lambda value: (value is None or isinstance(value, str)) and value in choices,
    "pattern": _of_pattern,
    "minimum": lambda least: lambda value: not isinstance(value, (int, float)) or value >= least,
    "minItems": lambda least: lambda value: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda most: lambda value: not isinstance(value, list) or len(value) <= most,
    "required": lambda names: lambda value: not isinstance(value, dict) or all(name in value for name in names),
}


def _of_members(node: dict[str, Any], of_reference: Callable[[str], Sure]) -> Sure:
    checks = {name: _checks(each, of_reference) for name, each in node.get("properties", {}).items()}
    others = _checks(node.get("additionalProperties", True), of_reference)

    def sure(value: Any) -> bool:
        return not isinstance(value, dict) or all(checks.get(name, others)(each) for name, each in value.items())

    return sure
