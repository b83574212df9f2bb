"""Untrusted plain values read as a struct: all faults at once, keys in one form (camelCase), durations as seconds.

Driven by the types of the struct. Keys may stand in snake_case or camelCase; `+key` of a list is kept as it stands.
"""

import re
from math import isfinite
from typing import Annotated, Any, get_args, get_origin

import msgspec

from rulebook_ralph.core.problem import Fault, JsonPath, escaped
from rulebook_ralph.core.refusal import explained, fields_of, item_type, struct_by_name, struct_in

SECONDS = "seconds"
"""Marks the durations: a file may also write them as `90s`, `15m` or `1h30m`."""

Tree = dict[str, Any]

_DURATION = re.compile(
    r"(?=.)(?:(?P<d>\d+(?:\.\d+)?)d)?(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?",
    re.ASCII,
)
_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_UPPER = re.compile(r"_([a-z0-9])")


def seconds(text: str) -> float | None:
    """The seconds in `90s`, `15m`, `1h30m` or `2d`; None for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return sum(float(amount) * _UNIT[unit] for unit, amount in match.groupdict().items() if amount)


def camel(name: str) -> str:
    """`max_cost_usd` as the files write it, `maxCostUsd`."""
    return _UPPER.sub(lambda match: match[1].upper(), name)


def read_struct(value: Any, struct: type[msgspec.Struct], path: JsonPath, faults: list[Fault]) -> Tree:
    """The keys and values of one struct in the one form; what is wrong is added to `faults`."""
    if value is None:  # a section with all its keys still commented out
        value = {}
    if not isinstance(value, dict):
        faults.append(Fault(path, f"expected keys and values, got {_kind(value)}"))
        return {}
    known = {field.encode_name: field for field in fields_of(struct)}
    tree: Tree = {}
    for key, item in value.items():
        plus, name = ("+", key[1:]) if key.startswith("+") else ("", key)
        name = name if name in known else camel(name)
        if name not in known:
            faults.append(Fault((*path, key), _unknown(name, tuple(known))))
        elif plus and item_type(known[name].type) is None:
            faults.append(Fault((*path, key), f"`+` adds to a list, and `{name}` is none"))
        elif plus + name in tree:
            faults.append(Fault((*path, key), f"is the same key as `{plus}{name}`, which is there already"))
        elif item is not None or not _is_container(known[name].type):
            tree[plus + name] = _value(item, known[name].type, (*path, key), faults)
    for name, info in known.items():
        if info.required and name not in tree and not any(fault.path == (*path, name) for fault in faults):
            faults.append(Fault(path, f"`{name}` is missing"))
    return tree


def _is_container(annotation: Any) -> bool:
    return bool(struct_in(annotation) or item_type(annotation) or struct_by_name(annotation))


def _value(value: Any, annotation: Any, path: JsonPath, faults: list[Fault]) -> Any:
    nested = struct_in(annotation)
    if nested is not None:
        return read_struct(value, nested, path, faults)
    items = item_type(annotation)
    if items is not None:
        if not isinstance(value, (list, tuple)):
            faults.append(Fault(path, f"expected a list, got {_kind(value)}"))
            return []
        return [_value(item, items, (*path, index), faults) for index, item in enumerate(value)]
    named = struct_by_name(annotation)
    if named is not None:
        if not isinstance(value, dict):
            faults.append(Fault(path, f"expected keys and values, got {_kind(value)}"))
            return {}
        return {key: read_struct(item, named, (*path, key), faults) for key, item in value.items()}
    if isinstance(value, str) and is_duration(annotation):
        value = _duration(value, path, faults)
    return _leaf(value, annotation, path, faults)


def _duration(text: str, path: JsonPath, faults: list[Fault]) -> float:
    found = seconds(text)
    if found is None:
        faults.append(Fault(path, f"expected seconds, or a time such as 90s, 15m or 1h30m, got '{escaped(text)}'"))
    return 1.0 if found is None else found


def _leaf(value: Any, annotation: Any, path: JsonPath, faults: list[Fault]) -> Any:
    if isinstance(value, float) and not isfinite(value):
        faults.append(Fault(path, "expected a finite number"))
        return value
    try:
        converted = msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        fault = explained(error, annotation)
        faults.append(Fault((*path, *fault.path), fault.message))
        return value
    return converted


def is_duration(annotation: Any) -> bool:
    """Whether a type of core/settings.py counts seconds."""
    parts = get_args(annotation) if get_origin(annotation) is not Annotated else (annotation,)
    return any(
        isinstance(meta, msgspec.Meta) and meta.description == SECONDS
        for part in parts
        if get_origin(part) is Annotated
        for meta in get_args(part)[1:]
    )


def _unknown(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong key needs it

    nearest = get_close_matches(name[:60], known, n=1, cutoff=0.5)
    lowered = [each for each in known if each.lower() == name.lower().replace("-", "").replace("_", "")]
    meant = (lowered or nearest)[:1]
    return f"unknown key; did you mean `{meant[0]}`?" if meant else f"unknown key; known: {', '.join(known)}"


def _kind(value: Any) -> str:
    kinds = {dict: "keys and values", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "nothing" if value is None else "a number" if isinstance(value, float) else "a date")
