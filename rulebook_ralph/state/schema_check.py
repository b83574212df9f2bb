"""What the JSON Schemas say about a document. The only module that imports jsonschema, which takes 70 ms."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry

from rulebook_ralph.core.problem import LONGEST_MESSAGE, Fault, escaped
from rulebook_ralph.resources import schema


def faults_against(value: Any, name: str, definition: str | None = None) -> Iterator[Fault]:
    """Every fault of a value held against the schema `name`, or against one definition in it."""
    try:
        for error in _validator(name, definition).iter_errors(value):
            yield from _faults(error)
    except RecursionError:
        yield Fault((), "is nested too deeply")


@cache
def _validator(name: str, definition: str | None) -> Draft202012Validator:
    whole = schema(name)
    part = whole if definition is None else {"$ref": f"#/$defs/{definition}", "$defs": whole["$defs"]}
    return Draft202012Validator(part, registry=Registry())  # an empty registry fetches nothing from anywhere


def _faults(error: ValidationError) -> Iterator[Fault]:
    path = tuple(error.absolute_path)
    if error.validator == "anyOf" and error.context:  # "value or null": the branch for the value says what is wrong
        real = [inner for inner in error.context if inner.schema != {"type": "null"}]
        for inner in real:
            yield from _faults(inner)
        return
    yield Fault(path, _sentence(error))


def _sentence(error: ValidationError) -> str:
    wanted: Any = error.validator_value
    match error.validator:
        case "enum":
            allowed = ", ".join("null" if value is None else str(value) for value in wanted)
            return f"expected one of {allowed}, got {_shown(error.instance)}"
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"expected {kinds}, got {_shown(error.instance)}"
        case "required":
            return f"{error.message.split(' is a required')[0].replace(chr(39), '`')} is missing"
        case _:
            return escaped(error.message, LONGEST_MESSAGE)


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return escaped(repr(value), 60) if isinstance(value, str) else str(value)[:60]
