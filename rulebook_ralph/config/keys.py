"""Keys as people name them on the command line: `limits.maxCostUsd`, `tools.executors.claude.model`, `rules[0]`.

Names of lists' items and of maps may hold dots (`prices.gpt-5.5.input`): the longest name that is there is meant.
"""

import difflib
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

import msgspec

from rulebook_ralph.config.rules import GONE, IS_GONE
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.struct_reading import (
    camel,
    choices,
    fields_of,
    item_type,
    read_struct,
    struct_by_name,
    struct_in,
)
from rulebook_ralph.tasks.text import Fault, JsonPath, dotted, escaped

_PART = re.compile(r"\[(\d{1,9})\]|\.?([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a key leads: `path` as the values have it in which it was looked up, and what type belongs there."""

    path: JsonPath
    annotation: Any

    @property
    def shown(self) -> str:
        """As messages name it."""
        return named(self.path)


def named(path: JsonPath) -> str:
    """A path as messages and origins name it."""
    return dotted("", path).lstrip(".")


def place_of(key: str, values: Any, *, also_new: bool = False) -> KeyPlace:
    """The place that a key names in `values`, a file's or a whole configuration's, keys in either case.

    Only items of lists must be there; with `also_new` the place after the last is one too. Raises RalphError that
    suggests the nearest key or item.
    """
    rest, place = _parts(key), KeyPlace((), Config)
    while rest:
        held = value_at(values, place.path)
        struct, item, named_struct = (kind(place.annotation) for kind in (struct_in, item_type, struct_by_name))
        step: str | int
        if struct is not None:
            (step, annotation), taken = _key_in(struct, rest[0], held, place), 1
        elif item is not None:
            (step, taken), annotation = _item_in(item, rest, held, place, also_new=also_new), item
        elif named_struct is not None or get_origin(place.annotation) is dict:
            keys = [field.encode_name for field in fields_of(named_struct)] if named_struct else []
            step, taken = _name_in(rest, held, keys)
            annotation = named_struct or str
        else:
            raise RalphError(f"{place.shown}: is a single value, so that there is no `{rest[0]}` in it")
        place, rest = KeyPlace((*place.path, step), annotation), rest[taken:]
    return place


def value_at(values: Any, path: JsonPath) -> Any:
    """What stands at a path; None where there is nothing."""
    for step in path:
        if isinstance(values, Mapping) and isinstance(step, str):
            values = values.get(step)
        elif isinstance(values, (list, tuple)) and isinstance(step, int) and step < len(values):
            values = values[step]
        else:
            return None
    return values


def has(values: Any, path: JsonPath) -> bool:
    """Whether something stands at a path, be it null."""
    if not path:
        return True
    holder = value_at(values, path[:-1])
    if isinstance(holder, (list, tuple)):
        return isinstance(path[-1], int) and path[-1] < len(holder)
    return isinstance(holder, Mapping) and path[-1] in holder


def default_at(path: JsonPath) -> tuple[bool, Any]:
    """Whether the key at a path has a built-in value that is no section, and which."""
    plain = tuple(camel(step) if isinstance(step, str) else step for step in path)
    values = msgspec.to_builtins(Config())
    value = value_at(values, plain)
    known = has(values, plain) and not (isinstance(value, Mapping) and value)
    return known, value if known else None


def given_value(text: str, place: KeyPlace) -> Any:
    """What a person gave, read as what belongs at the place: a text as it is, else as YAML. Raises RalphError."""
    if place.annotation is str or choices(place.annotation):
        return text
    try:
        return read_yaml(text).value
    except NotReadableError as error:
        raise RalphError(f"{place.shown}{dotted('', error.fault.path)}: {error.fault.message}") from None


def _parts(key: str) -> list[str]:
    parts: list[str] = []
    position = 0
    while (match := _PART.match(key, position)) and not (position == 0 and match[0].startswith(".")):
        parts.append(match[1] or match[2])
        position = match.end()
    if position < len(key) or not parts:
        raise RalphError(f"'{escaped(key)}' is no key; keys are as in limits.maxCostUsd or verification.steps[0].name")
    return parts


def _key_in(struct: type[msgspec.Struct], given: str, held: Any, place: KeyPlace) -> tuple[str, Any]:
    plus, name = ("+", given[1:]) if given.startswith("+") else ("", given)
    known = {field.encode_name: field.type for field in fields_of(struct)}
    name = name if name in known else camel(name)
    if name not in known or (plus and item_type(known[name]) is None):
        here = named((*place.path, name))
        if here in GONE:
            raise RalphError(f"{here}: {IS_GONE}{GONE[here]}")
        faults: list[Fault] = []
        read_struct({given: None}, struct, place.path, faults)
        fault = next(each for each in faults if each.path == (*place.path, given))
        raise RalphError(f"{named(fault.path)}: {fault.message}")
    written = next((each for each in held if camel(each) == plus + name), "") if isinstance(held, Mapping) else ""
    return written or plus + name, known[name]


def _item_in(item: Any, rest: list[str], held: Any, place: KeyPlace, *, also_new: bool) -> tuple[int, int]:
    """The index of the item that the parts begin to name, and how many of them do."""
    items, struct = held if isinstance(held, (list, tuple)) else (), struct_in(item)
    known = {field.encode_name for field in fields_of(struct)} if struct else set()
    key = next((key for key in ("id", "name") if key in known), "")
    names = [str(each.get(key)) for each in items if key and isinstance(each, Mapping)]
    if length := _longest(rest, names):
        return names.index(".".join(rest[:length])), length
    part = rest[0]
    if part.isascii() and part.isdigit():
        if int(part) < len(items) + also_new:
            return int(part), 1
        raise RalphError(f"{place.shown}[{part}]: there is no such item; the list has {len(items)}")
    near = difflib.get_close_matches(part, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(names)}" if names else "it has none"
    raise RalphError(f"{place.shown}: there is no item `{escaped(part)}`; {escaped(hint, 160)}")


def _name_in(rest: list[str], held: Any, keys: Sequence[str]) -> tuple[str, int]:
    """The name that the parts begin with: the longest one that is there, else a new one up to a key of its struct."""
    ends_with_key = len(rest) > 1 and camel(rest[-1]) in keys
    length = _longest(rest, held if isinstance(held, Mapping) else ()) or len(rest) - ends_with_key
    return ".".join(rest[:length]), length


def _longest(rest: list[str], names: Container[str]) -> int:
    """How many of the parts make the longest of the names that they begin with; 0 for none."""
    return next((length for length in range(len(rest), 0, -1) if ".".join(rest[:length]) in names), 0)
