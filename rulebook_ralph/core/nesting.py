"""How deep what a person may write freely is nested: whoever shows, compares or cleans it goes down by recursion."""

from collections.abc import Iterator
from typing import Any

from rulebook_ralph.core.model import Json
from rulebook_ralph.core.problem import Fault, JsonPath

DEEPEST = 200
"""Lists and objects within each other; Python's own limit stands at some 480 of them."""


def nesting_faults(members: Json, path: JsonPath) -> Iterator[Fault]:
    """The members of the object at `path` that are nested too deeply."""
    for key, value in members.items():
        if isinstance(value, (dict, list)) and _is_too_deep(value):
            yield Fault((*path, key), f"is nested more than {DEEPEST} deep")


def _is_too_deep(value: dict[str, Any] | list[Any]) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True
