"""Keys as people name them on the command line: `limits.maxCostUsd`, `tools.executors.claude.model`, `rules[0]`; and
values by their place.

Names of lists' items and of maps may hold dots (`prices.gpt-5.5.input`): the longest name that is there is meant.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, get_origin

import msgspec

from rulebook_ralph.config.rules import replaced
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.struct_reading import camel, fields_of, item_type, read_struct, struct_by_name, struct_in
from rulebook_ralph.tasks.text import Fault, JsonPath, dotted, escaped, nearest

_KEY = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[\d{1,9}\])*")
_INDEX = re.compile(r"\[(\d+)\]")
_NOTHING = object()


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


def in_camel(path: JsonPath) -> JsonPath:
    """A path with its keys as Ralph writes them."""
    return tuple(camel(step) if isinstance(step, str) else step for step in path)


def place_of(key: str, values: Any, *, also_new: bool = False) -> KeyPlace:
    """The place that a key names in `values`, a file's or a whole configuration's, keys in either case.

    Only items of lists must be there; with `also_new` the place after the last is one too. Raises RalphError that
    suggests the nearest key or item.
    """
    if not _KEY.fullmatch(key):
        raise RalphError(f"'{escaped(key)}' is no key; keys are as in limits.maxCostUsd or verification.steps[0].name")
    rest, place = _INDEX.sub(r".\1", key), KeyPlace((), Config)
    step: str | int
    while rest:
        held = value_at(values, place.path)
        if struct := struct_in(place.annotation):
            name, step, annotation = _key_in(struct, rest, held, place)
        elif item := item_type(place.annotation):
            (name, step), annotation = _item_in(item, rest, held, place, also_new=also_new), item
        elif get_origin(place.annotation) is dict:
            annotation = struct_by_name(place.annotation) or str
            name = step = _name_in(annotation, rest, held)
        else:
            raise RalphError(f"{place.shown}: is a single value, so that there is no `{_first(rest)}` in it")
        place, rest = KeyPlace((*place.path, step), annotation), rest[len(name) + 1 :]
    return place


def given_value(text: str, place: KeyPlace) -> Any:
    """What a person gave, read as what belongs at the place: text stays text, a list or a map is YAML, else a number is
    one. Raises RalphError.
    """
    kind = place.annotation
    if struct_in(kind) or item_type(kind) or get_origin(kind) is dict:
        try:
            return read_yaml(text).value
        except NotReadableError as error:
            raise RalphError(f"{place.shown}{dotted('', error.fault.path)}: {error.fault.message}") from None
    with suppress(msgspec.ValidationError, UnicodeEncodeError):
        return msgspec.convert(text, kind, strict=kind is not bool)
    with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return msgspec.json.decode(text)
    with suppress(ValueError):  # `.5`
        return float(text)
    return text  # `15m`, or what has no place here, which is told with the whole


def _key_in(struct: type[msgspec.Struct], rest: str, held: Any, place: KeyPlace) -> tuple[str, str, Any]:
    name = _first(rest)
    known = {field.encode_name: field.type for field in fields_of(struct)}
    key = camel(name)
    if key.removeprefix("+") not in known or (key.startswith("+") and not item_type(known[key[1:]])):
        faults: list[Fault] = []
        read_struct({name: None}, struct, place.path, faults, layered=True)
        fault = next(replaced(each) for each in faults if each.path == (*place.path, name))
        raise RalphError(f"{named(fault.path)}: {fault.message}")
    written = next((each for each in held if camel(each) == key), key) if isinstance(held, Mapping) else key
    return name, written, known[key.removeprefix("+")]


def _item_in(item: Any, rest: str, held: Any, place: KeyPlace, *, also_new: bool) -> tuple[str, int]:
    """The name or index that the rest of a key begins with, and the index that is meant."""
    items, struct = held if isinstance(held, (list, tuple)) else (), struct_in(item)
    fields = {field.encode_name for field in fields_of(struct)} if struct else set()
    key = next((key for key in ("id", "name") if key in fields), "")
    names = [str(each.get(key)) for each in items if key and isinstance(each, Mapping)]
    if found := _longest(rest, names):
        return found, names.index(found)
    first = _first(rest)
    if first.isascii() and first.isdigit() and int(first) < len(items) + also_new:
        return first, int(first)
    near = nearest(first, names)
    hint = f"did you mean `{near}`?" if near else f"there are: {', '.join(names)}" if names else f"it has {len(items)}"
    raise RalphError(f"{place.shown}: there is no item `{escaped(first)}`; {escaped(hint, 160)}")


def _name_in(annotation: Any, rest: str, held: Any) -> str:
    """The name that the rest begins with: the longest one that is there, else a new one, up to a key of its struct."""
    if found := _longest(rest, held if isinstance(held, Mapping) else ()):
        return found
    before, _, last = rest.rpartition(".")
    struct = struct_in(annotation)
    is_key = struct is not None and camel(last) in {field.encode_name for field in fields_of(struct)}
    return before if before and is_key else rest


def _first(rest: str) -> str:
    return rest.partition(".")[0]


def _longest(rest: str, names: Iterable[str]) -> str:
    """The longest of the names that the rest of a key begins with; empty for none."""
    return max((name for name in names if name and f"{rest}.".startswith(f"{name}.")), key=len, default="")


# Values by their place


@cache
def built_in_values() -> dict[str, Any]:
    """Every key with its built-in value, as a file would have it."""
    values: dict[str, Any] = msgspec.to_builtins(Config())
    return values


def value_at(values: Any, path: JsonPath, default: Any = None) -> Any:
    """What stands at a path; the default where there is nothing."""
    for step in path:
        is_item = isinstance(values, (list, tuple)) and isinstance(step, int) and step < len(values)
        if not is_item and not (isinstance(values, Mapping) and step in values):
            return default
        values = values[step]
    return values


def has(values: Any, path: JsonPath) -> bool:
    """Whether something stands at a path, be it null."""
    return value_at(values, path, _NOTHING) is not _NOTHING


def planted(values: Any, path: JsonPath, new: Any) -> Any:
    """The values with another one at a path, whose holders need not be there."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(values) if isinstance(values, (list, tuple)) else []
        items[step : step + 1] = [planted(value_at(items, (step,)), rest, new)]
        return items
    held = values if isinstance(values, Mapping) else {}
    return {**held, step: planted(held.get(step), rest, new)}


def uprooted(values: Any, path: JsonPath) -> Any:
    """The values without what stands at a path."""
    if len(path) > 1:
        return planted(values, path[:1], uprooted(value_at(values, path[:1]), path[1:]))
    if isinstance(path[0], int):
        return [each for index, each in enumerate(values) if index != path[0]]
    return {key: each for key, each in values.items() if key != path[0]}
