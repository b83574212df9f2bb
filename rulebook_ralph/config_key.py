"""Keys as people name them on the command line: `limits.maxCostUsd`, `tools.executors.claude.model`, `rules[0]`.

Names of lists' items and of maps may hold dots; `prices["gpt-5.5"].input` says where such a name ends.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from rulebook_ralph.core.problem import Fault, JsonPath, dotted, escaped
from rulebook_ralph.core.refusal import choices, fields_of, item_type, struct_by_name, struct_in
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.struct_reading import camel, read_struct
from rulebook_ralph.errors import RalphError
from rulebook_ralph.plain_yaml import NotReadableError, read_yaml

_PART = re.compile(r'\[(?P<index>\d{1,9})\]|\["(?P<quoted>[^"]*)"\]|\.?(?P<word>[^.\[\]]+)')


class _Part(NamedTuple):
    """A step of a key as it was given; a `whole` one is no part of a name with dots."""

    text: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key leads: `path` as the values have it in which it was looked up, and what type belongs there."""

    path: JsonPath
    annotation: Any

    @property
    def shown(self) -> str:
        """As messages name it."""
        return dotted("", self.path).lstrip(".")


def place_of(key: str, values: Any, *, also_new: bool = False) -> Place:
    """The place that a key names in `values`, a file's or a whole configuration's, keys in either case.

    Only items of lists must be there; with `also_new` the place after the last is one too. Raises RalphError that
    suggests the nearest key or item.
    """
    return _Search(_parts(key), values, also_new=also_new).place()


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
    """Whether the key at a path has a built-in value, and which."""
    annotation: Any = Config
    for index, step in enumerate(path):
        struct = struct_in(annotation)
        known = {field.encode_name: field for field in fields_of(struct)} if struct else {}
        field = known.get(camel(str(step)))
        if field is None:
            return False, None
        if index == len(path) - 1 and not field.required and struct_in(field.type) is None:
            value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            return True, msgspec.to_builtins(value)
        annotation = field.type
    return False, None


def given_value(text: str, place: Place) -> Any:
    """What a person gave, read as what belongs at the place: a text as it is, else as YAML. Raises RalphError."""
    if place.annotation is str or choices(place.annotation):
        return text
    try:
        return read_yaml(text).value
    except NotReadableError as error:
        inner = dotted("", error.fault.path)
        raise RalphError(f"{place.shown}{inner}: {error.fault.message}") from None


def _parts(key: str) -> list[_Part]:
    parts: list[_Part] = []
    position = 0
    while position < len(key):
        match = _PART.match(key, position)
        if match is None or (position == 0 and match[0].startswith(".")):
            break
        whole = match["word"] is None
        parts.append(_Part(match["index"] or match["quoted"] or "" if whole else match["word"], whole))
        position = match.end()
    if position < len(key) or not parts:
        raise RalphError(f"'{escaped(key)}' is no key; keys are as in limits.maxCostUsd or verification.steps[0].name")
    return parts


class _Search:
    """A walk from the whole configuration to what the parts name; `rest` are those that are left."""

    def __init__(self, parts: list[_Part], values: Any, *, also_new: bool) -> None:
        self._rest = parts
        self._values = values
        self._also_new = also_new
        self._path: JsonPath = ()
        self._annotation: Any = Config

    def place(self) -> Place:
        while self._rest:
            struct, item, named = (kind(self._annotation) for kind in (struct_in, item_type, struct_by_name))
            if struct is not None:
                self._into_struct(struct)
            elif item is not None:
                self._into_list(item)
            elif named is not None:
                self._into_map(named, [field.encode_name for field in fields_of(named)])
            elif _is_map(self._annotation):
                self._into_map(str, [])
            else:
                raise RalphError(f"{self._shown}: is a single value, so that there is no `{self._rest[0].text}` in it")
        return Place(self._path, self._annotation)

    @property
    def _shown(self) -> str:
        return dotted("", self._path).lstrip(".")

    def _go(self, step: str | int, annotation: Any, parts: int) -> None:
        self._values = value_at(self._values, (step,))
        self._path = (*self._path, step)
        self._annotation = annotation
        self._rest = self._rest[parts:]

    def _into_struct(self, struct: type[msgspec.Struct]) -> None:
        given = self._rest[0].text
        plus = "+" if given.startswith("+") else ""
        name = given.removeprefix("+")
        known = {field.encode_name: field.type for field in fields_of(struct)}
        name = name if name in known else camel(name)
        if name not in known or (plus and item_type(known[name]) is None):
            faults: list[Fault] = []
            read_struct({given: None}, struct, self._path, faults)
            fault = next(each for each in faults if each.path == (*self._path, given))
            raise RalphError(f"{dotted('', fault.path).lstrip('.')}: {fault.message}")
        names = list(self._values) if isinstance(self._values, Mapping) else []
        written = next((each for each in names if camel(each) == plus + name), plus + name)
        if not plus and len(self._rest) > 1 and item_type(known[name]) is not None:
            written = self._list_with(written, f"+{name}", known[name])
        self._go(written, known[name], 1)

    def _list_with(self, name: str, added: str, annotation: Any) -> str:
        """Of `executors` and `+executors` the one that has the item which is named next."""
        for each in (name, added):
            items = value_at(self._values, (each,))
            if isinstance(items, (list, tuple)) and _item(self._rest[1:], items, _name_key(item_type(annotation))):
                return each
        return name

    def _into_list(self, item: Any) -> None:
        items = self._values if isinstance(self._values, (list, tuple)) else ()
        key = _name_key(item)
        if found := _item(self._rest, items, key):
            self._go(found[0], item, found[1])
            return
        part = self._rest[0].text
        if part.isascii() and part.isdigit():
            if int(part) < len(items) + self._also_new:
                self._go(int(part), item, 1)
                return
            raise RalphError(f"{self._shown}[{part}]: there is no such item; the list has {len(items)}")
        names = [str(each.get(key)) for each in items if isinstance(each, Mapping)]
        near = difflib.get_close_matches(part, names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(names)}" if names else "it has none"
        raise RalphError(f"{self._shown}: there is no item `{escaped(part)}`; {escaped(hint, 160)}")

    def _into_map(self, annotation: Any, keys: Sequence[str]) -> None:
        names = list(self._values) if isinstance(self._values, Mapping) else []
        lengths = range(1 if self._rest[0].whole else len(self._rest), 0, -1)
        for length in lengths:
            name = ".".join(part.text for part in self._rest[:length])
            if name in names:
                self._go(name, annotation, length)
                return
        ends_with_key = len(self._rest) > 1 and camel(self._rest[-1].text) in keys
        length = 1 if self._rest[0].whole else len(self._rest) - ends_with_key
        self._go(".".join(part.text for part in self._rest[:length]), annotation, length)


def _item(parts: Sequence[_Part], items: Sequence[Any], key: str) -> tuple[int, int] | None:
    """The index of the item that the parts begin to name, and how many of them do; the longest name wins."""
    names = [str(item.get(key, "")) if isinstance(item, Mapping) else "" for item in items]
    for length in range(1 if parts[0].whole else len(parts), 0, -1):
        name = ".".join(part.text for part in parts[:length])
        if name and name in names:
            return names.index(name), length
    return None


def _name_key(item: Any) -> str:
    struct = struct_in(item)
    names = [field.encode_name for field in fields_of(struct)] if struct else []
    return "id" if "id" in names else "name"


def _is_map(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict
