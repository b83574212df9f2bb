"""Untrusted plain values read as a struct: all faults at once, keys in one form (camelCase), durations as seconds.

Driven by the types of the struct. Keys may stand in snake_case or camelCase; `+key` of a list is kept as it stands.
"""

import re
import types
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from rulebook_ralph.tasks.text import LONGEST_MESSAGE, Fault, JsonPath, escaped, nearest

PositiveInt = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, le=100_000_000, description="seconds")]
"""At most three years: beyond, clocks and timers of the system give up. Files may write `90s`, `15m`, `1h30m`."""
Dollars = Annotated[float, msgspec.Meta(gt=0)]
Rate = Annotated[float, msgspec.Meta(ge=0)]

Tree = dict[str, Any]


def matching(pattern: str, says: str) -> msgspec.Meta:
    """That a text matches a pattern, and what is said of one that does not."""
    return msgspec.Meta(pattern=pattern, extra={"says": says})


INSIDE = r"^(?!/|([^\0]*/)?\.\.(/|$))[^\0]*"
"""A path from the repository's root, which leads nowhere else, as far as its text tells."""
Filled = Annotated[str, matching(r"\S", "must not be empty")]
Folder = Annotated[str, matching(rf"{INSIDE}\S", "must be a folder of the repository, from its root")]

_DURATION = re.compile(
    r"(?=.)(?:(?P<d>\d+(?:\.\d+)?)d)?(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?",
    re.ASCII,
)
_UNIT = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_UPPER = re.compile(r"_([a-z0-9])")

_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`(?P<bound> [^`]*?)?(?:, got `(?P<got>[^`]*)`)?$")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "date": "a date (a string needs quotes)",
    "datetime": "a date (a string needs quotes)",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Base of everything a person writes in YAML or JSON: unknown keys are refused."""


def seconds(text: str) -> float | None:
    """The seconds in `90s`, `15m`, `1h30m` or `2d`; None for anything else."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return sum(float(amount) * _UNIT[unit] for unit, amount in match.groupdict().items() if amount)


def camel(name: str) -> str:
    """`max_cost_usd` as the files write it, `maxCostUsd`."""
    return _UPPER.sub(lambda match: match[1].upper(), name)


def values_in(value: Any, path: JsonPath) -> Iterator[tuple[JsonPath, Any]]:
    """Everything in it, itself first, and where it stands."""
    yield path, value
    if isinstance(value, (Mapping, list, tuple)):
        for step, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from values_in(item, (*path, step))


# Types


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct, their types resolved."""
    return msgspec.structs.fields(struct)


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that an annotation (plain, optional or annotated) stands for, if it is one."""
    parts = _alternatives(annotation)
    return next((part for part in parts if isinstance(part, type) and issubclass(part, msgspec.Struct)), None)


def item_type(annotation: Any) -> Any:
    """What a `tuple[X, ...]` or `list[X]` holds; None for anything else."""
    return next((get_args(part)[0] for part in _alternatives(annotation) if get_origin(part) in (tuple, list)), None)


def struct_by_name(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that a `dict[str, X]` holds under each of its keys; None for anything else."""
    found = (struct_in(get_args(part)[1]) for part in _alternatives(annotation) if get_origin(part) is dict)
    return next(found, None)


def choices(annotation: Any) -> tuple[str, ...]:
    """The values of a Literal, empty for any other type."""
    literals = (part for part in _alternatives(annotation) if get_origin(part) is Literal)
    return tuple(str(value) for literal in literals for value in get_args(literal))


def is_duration(annotation: Any) -> bool:
    """Whether a type counts seconds."""
    if get_origin(annotation) is Annotated:
        return any(getattr(meta, "description", "") == "seconds" for meta in get_args(annotation)[1:])
    return any(is_duration(part) for part in get_args(annotation) if get_origin(part) is Annotated)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(part for each in get_args(annotation) for part in _alternatives(each))
    return (annotation,)


# Reading


def read_struct(
    value: Any, struct: type[msgspec.Struct], path: JsonPath, faults: list[Fault], *, layered: bool = False
) -> Tree:
    """The keys and values of one struct in the one form; what is wrong is added to `faults`. `layered`: in a file that
    is laid over others `+key` adds to a list.
    """
    if value is None:  # a section with all its keys still commented out
        value = {}
    if not isinstance(value, dict):
        faults.append(Fault(path, f"expected keys and values, got {_kind(value)}"))
        return {}
    known = {field.encode_name: field for field in fields_of(struct)}
    refuses_unknown = struct.__struct_config__.forbid_unknown_fields
    tree: Tree = {}
    for key, item in value.items():
        plus, name = ("+", key[1:]) if layered and key.startswith("+") else ("", key)
        name = name if name in known else camel(name)
        if name not in known:
            faults += [Fault((*path, key), unknown_key(name, known))] if refuses_unknown else []
        elif plus and item_type(known[name].type) is None:
            faults.append(Fault((*path, key), f"`+` adds to a list, and `{name}` is none"))
        elif plus + name in tree:
            faults.append(Fault((*path, key), f"is the same key as `{plus}{name}`, which is there already"))
        elif item is not None or not _is_container(known[name].type):
            tree[plus + name] = _value(item, known[name].type, (*path, key), faults, layered)
    for name, info in known.items():
        if info.required and name not in tree and not any(fault.path == (*path, name) for fault in faults):
            faults.append(Fault(path, f"`{name}` is missing"))
    return tree


def unknown_key(name: str, known: Collection[str]) -> str:
    """What is said of a key that nobody knows."""
    near = nearest(name, known)
    return f"unknown key; did you mean `{near}`?" if near else f"unknown key; known: {', '.join(known)}"


def _is_container(annotation: Any) -> bool:
    return bool(struct_in(annotation) or item_type(annotation) or struct_by_name(annotation))


def _value(value: Any, annotation: Any, path: JsonPath, faults: list[Fault], layered: bool) -> Any:
    if (nested := struct_in(annotation)) is not None:
        return read_struct(value, nested, path, faults, layered=layered)
    if (items := item_type(annotation)) is not None:
        if not isinstance(value, (list, tuple)):
            faults.append(Fault(path, f"expected a list, got {_kind(value)}"))
            return []
        return [_value(item, items, (*path, index), faults, layered) for index, item in enumerate(value)]
    if (named := struct_by_name(annotation)) is not None:
        if not isinstance(value, dict):
            faults.append(Fault(path, f"expected keys and values, got {_kind(value)}"))
            return {}
        return {key: read_struct(item, named, (*path, key), faults, layered=layered) for key, item in value.items()}
    if isinstance(value, str) and is_duration(annotation):
        if (found := seconds(value)) is None:
            message = f"expected seconds, or a time such as 90s, 15m or 1h30m, got '{escaped(value)}'"
            faults.append(Fault(path, message))
        value = 1.0 if found is None else found
    return _leaf(value, annotation, path, faults)


def _leaf(value: Any, annotation: Any, path: JsonPath, faults: list[Fault]) -> Any:
    if isinstance(value, float) and not isfinite(value):
        faults.append(Fault(path, "expected a finite number"))
        return value
    try:
        return msgspec.convert(value, annotation)
    except UnicodeEncodeError:
        faults.append(Fault(path, "is no text that can be written in UTF-8"))
        return value
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at `")[0]
        if "matching regex" in reason:
            got = f", got '{escaped(value)}'" if isinstance(value, str) and value.strip() else ""
            faults.append(Fault(path, f"{_said_by(annotation)}{got}"))
        else:
            faults.append(Fault(path, _sentence(reason, annotation)))
        return value


def _said_by(annotation: Any) -> str:
    """What is said of a text that does not match what it should, or of a map with such a key."""
    metas = (meta.extra["says"] for meta in getattr(annotation, "__metadata__", ()) if meta.extra)
    return next(metas, "") or next(filter(None, map(_said_by, get_args(annotation))), "")


def _sentence(reason: str, annotation: Any) -> str:
    """What msgspec says of a value, in the words of a person."""
    if allowed := choices(annotation):
        given = reason.partition("Invalid enum value ")[2]
        return f"expected one of {', '.join(allowed)}" + (f", got {escaped(given)}" if given else "")
    if expected := _EXPECTED.match(reason):
        got = f", got {_words(expected['got'])}" if expected["got"] else ""
        return f"expected {_words(expected['expected'])}{expected['bound'] or ''}{got}"
    return escaped(reason[:1].lower() + reason[1:], LONGEST_MESSAGE)


def _words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _kind(value: Any) -> str:
    kinds = {dict: "keys and values", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "nothing" if value is None else "a number" if isinstance(value, float) else "a date")


def first_fault(value: Any, struct: type[msgspec.Struct], error: msgspec.ValidationError) -> Fault:
    """Where and why msgspec refused a document, so that a person knows what belongs there."""
    faults: list[Fault] = []
    read_struct(value, struct, (), faults)
    return faults[0] if faults else Fault((), escaped(str(error), LONGEST_MESSAGE))
