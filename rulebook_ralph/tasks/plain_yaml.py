"""A YAML document as plain values together with the line of each, and nothing that settings and tasks have no use for.

Bounded on purpose: a hostile file ends in one sentence, not in a full memory or a traceback. ruamel.yaml is imported
only when there is a file to read.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rulebook_ralph.tasks.text import Fault, JsonPath, escaped

if TYPE_CHECKING:
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, Node

LONGEST_TEXT = 1024 * 1024
MOST_VALUES = 100_000
DEEPEST = 40

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """What a YAML text says. `lines` has a line, from 1, for every value's path; an empty text is None."""

    value: Any
    lines: Mapping[JsonPath, int]

    def line(self, path: JsonPath) -> int | None:
        """The line of the value, or of the nearest one around it."""
        return next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), None)


class NotReadableError(Exception):
    """The text is no YAML that Ralph reads. `line` and `column` from 1, where known."""

    def __init__(self, fault: Fault, line: int | None, column: int | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.line = line
        self.column = column


def read_yaml(text: str) -> Document:
    """The values of a YAML text. Raises NotReadableError."""
    if len(text) > LONGEST_TEXT:
        raise NotReadableError(Fault((), f"is larger than {LONGEST_TEXT // 1024} KB"), None)
    from ruamel.yaml import YAML  # noqa: PLC0415 - costs 20 ms, and most projects have no file to read
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    yaml = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = yaml.compose(text)
            reading = _Reading(yaml)
            return Document(None if root is None else reading.value(root, ()), reading.lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = escaped(" ".join(part for part in (error.context, error.problem) if part), 160)
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise NotReadableError(Fault((), f"is no valid YAML: {reason}"), line, column) from None
    except YAMLError as error:  # a character that is none
        raise NotReadableError(Fault((), f"is no valid YAML: {escaped(str(error), 160)}"), None) from None
    except RecursionError:
        raise NotReadableError(Fault((), "is nested too deeply"), None) from None


@dataclass(slots=True)
class _Reading:
    yaml: "YAML"
    lines: dict[JsonPath, int] = field(default_factory=dict)

    def value(self, node: "Node", path: JsonPath) -> Any:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode  # noqa: PLC0415 - see read_yaml

        if len(self.lines) >= MOST_VALUES:
            raise self._refusal(node, path, f"expands to more than {MOST_VALUES} values")
        if len(path) > DEEPEST:
            raise self._refusal(node, path[:3], "is nested too deeply")
        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        if not isinstance(node, ScalarNode):
            raise self._refusal(node, path, f"the YAML tag {escaped(str(node.tag))} has no meaning here")
        try:
            return self.yaml.constructor.construct_object(node)
        except (ValueError, OverflowError):  # a date such as 2024-99-99, a number of five thousand digits
            raise self._refusal(node, path, f"is no value: {escaped(str(node.value), 40)}") from None

    def _mapping(self, node: "MappingNode", path: JsonPath) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag != f"{_TAG}str":
                shown = "a list or a map" if isinstance(key_node.value, list) else escaped(str(key_node.value))
                hint = "merge keys are not supported" if shown == "<<" else "put it in quotes if it is meant"
                raise self._refusal(key_node, path, f"a key must be a string, got {shown}; {hint}")
            key = key_node.value
            if key in mapping:
                raise self._refusal(key_node, (*path, key), "is there twice")
            mapping[key] = self.value(value_node, (*path, key))
            self.lines[(*path, key)] = key_node.start_mark.line + 1
        return mapping

    def _refusal(self, node: "Node", path: JsonPath, message: str) -> NotReadableError:
        return NotReadableError(Fault(path, message), node.start_mark.line + 1, node.start_mark.column + 1)
