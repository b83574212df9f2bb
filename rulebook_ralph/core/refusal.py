"""msgspec's refusal of a document, told so that a person knows which value is meant and what belongs there."""

import re
import types
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from rulebook_ralph.core.problem import LONGEST_MESSAGE, Fault, JsonPath, escaped

_PLACE = re.compile(r" - at `(?:key in )?\$?(?P<path>.*)`$", re.DOTALL)
_STEP = re.compile(r"\[(?P<index>\d+)\]|\.(?P<key>[^.\[\]]+)|\[\.\.\.\]")
_EXPECTED = re.compile(r"Expected `(?P<expected>[^`]*)`(?P<bound> [^`]*?)?(?:, got `(?P<got>[^`]*)`)?$")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "date": "a date (a string needs quotes)",
    "datetime": "a date (a string needs quotes)",
}


def explained(error: msgspec.ValidationError, expected: Any) -> Fault:
    """Where and why msgspec refused a document of the type `expected`."""
    text = str(error)
    place = _PLACE.search(text)
    path = _path_of(place["path"]) if place else ()
    reason = text[: place.start()] if place else text
    return Fault(path, _sentence(reason, _type_at(expected, path))[:LONGEST_MESSAGE])


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a struct, their types resolved."""
    return msgspec.structs.fields(struct)


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that an annotation (plain, optional or annotated) stands for, if it is one."""
    for part in _alternatives(annotation):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part
    return None


def item_type(annotation: Any) -> Any:
    """What a `tuple[X, ...]` or `list[X]` holds; None for anything else."""
    for part in _alternatives(annotation):
        if get_origin(part) in (tuple, list):
            return get_args(part)[0]
    return None


def struct_by_name(annotation: Any) -> type[msgspec.Struct] | None:
    """The struct that a `dict[str, X]` holds under each of its keys; None for anything else."""
    for part in _alternatives(annotation):
        if get_origin(part) is dict:
            return struct_in(get_args(part)[1])
    return None


def choices(annotation: Any) -> tuple[str, ...]:
    """The values of a Literal, empty for any other type."""
    literals = (part for part in _alternatives(annotation) if get_origin(part) is Literal)
    return tuple(str(value) for literal in literals for value in get_args(literal))


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(part for each in get_args(annotation) for part in _alternatives(each))
    return (annotation,)


def _path_of(text: str) -> JsonPath:
    path: list[str | int] = []
    for step in _STEP.finditer(text):
        if step["index"]:
            path.append(int(step["index"]))
        elif step["key"]:
            path.append(step["key"])
        else:
            break
    return tuple(path)


def _type_at(annotation: Any, path: JsonPath) -> Any:
    for step in path:
        struct = struct_in(annotation)
        if isinstance(step, int):
            annotation = item_type(annotation)
        elif struct is not None:
            annotation = next((field.type for field in fields_of(struct) if field.encode_name == step), None)
        else:
            return None
    return annotation


def _sentence(reason: str, annotation: Any) -> str:
    allowed = choices(annotation)
    if allowed and not reason.startswith("Object"):
        given = reason.partition("Invalid enum value ")[2]
        return f"expected one of {', '.join(allowed)}" + (f", got {escaped(given)}" if given else "")
    if missing := _MISSING.match(reason):
        return f"`{missing['field']}` is missing"
    if expected := _EXPECTED.match(reason):
        got = f", got {_words(expected['got'])}" if expected["got"] else ""
        return f"expected {_words(expected['expected'])}{expected['bound'] or ''}{got}"
    return escaped(reason[:1].lower() + reason[1:], LONGEST_MESSAGE)


def _words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))
