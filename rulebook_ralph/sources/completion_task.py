"""One task with completion criteria from the values of a YAML file (spec completion-criteria, its complete example).

Keys may stand in snake_case or camelCase. What Ralph has no field for is kept in the task's metadata.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from math import isfinite
from typing import Any, Literal

from rulebook_ralph.core.criteria import STAGES
from rulebook_ralph.core.criteria_reading import override_faults, read_criteria, task_in_one_form
from rulebook_ralph.core.model import Complexity, Json, Task
from rulebook_ralph.core.problem import Fault, JsonPath, escaped
from rulebook_ralph.core.refusal import fields_of, item_type
from rulebook_ralph.core.settings import PositiveInt, Settings
from rulebook_ralph.core.struct_reading import Tree, camel, read_struct
from rulebook_ralph.sources.source import DONE_BEFORE

SPEC_ID = "specId"
"""Where a task's `spec_id` stands in its metadata."""

_ALIASES = {
    "completionSpec": "completion",
    "acceptance": "acceptanceCriteria",
    "dependsOn": "dependencies",
    "depends": "dependencies",
    "complexity": "estimatedComplexity",
}
_NEAR = 0.72
"""How alike an unknown key must be to a known one to be taken for a misspelling."""

_UPPER = re.compile(r"[A-Z]")


class _Completion(Settings, frozen=True, kw_only=True):
    outcome: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    coder: Json = {}
    reviewer: Json = {}
    tester: Json = {}
    qa: Json = {}


class _Form(_Completion, frozen=True, kw_only=True):
    """A task's keys; those of `completion` may stand beside it too."""

    id: str
    title: str
    description: str = ""
    priority: PositiveInt = 1
    status: Literal["pending", "completed"] = "pending"
    dependencies: tuple[str, ...] = ()
    estimated_complexity: Complexity | None = None
    relevant_files: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    notes: str = ""
    spec_id: str = ""
    completion: Json = {}
    overrides: Json = {}
    metadata: Json = {}


_KEYS = frozenset(field.encode_name for field in fields_of(_Form))
_COMPLETION_KEYS = frozenset(field.encode_name for field in fields_of(_Completion))


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A task, where it stands, its keys as they are written there, and those that only its metadata keeps."""

    task: Task
    path: JsonPath
    written: Mapping[str, str]
    kept: tuple[str, ...]

    def place(self, path: JsonPath) -> JsonPath:
        """Where a value of the task, by its path in prd.json, stands in the YAML."""
        return (*self.path, *(self.written.get(str(step), step) for step in path[:1]), *path[1:])


def read_task(value: Any, path: JsonPath, faults: list[Fault]) -> TaskReading | None:
    """The task in a YAML value; None, and the reasons added to `faults`, where something is wrong."""
    before = len(faults)
    if not isinstance(value, dict):
        faults.append(Fault(path, "expected a task: keys and values"))
        return None
    known, kept = _sorted_out(value, path, faults)
    written = {name: key for name, (key, _) in known.items()}
    tree = _read(known, _Form, path, faults)
    empty = [name for name in ("id", "title") if isinstance(tree.get(name), str) and not tree[name].strip()]
    faults.extend(Fault((*path, written[name]), "must not be empty") for name in empty)
    own = {name: (written[name], tree[name]) for name in tree if name in _COMPLETION_KEYS}
    criteria, completion = _criteria(tree.get("completion", {}), own, path, written, faults)
    overrides = tree.get("overrides", {})
    if isinstance(overrides, dict):
        faults.extend(override_faults(overrides, (*path, written.get("overrides", ""))))
    metadata = _metadata(tree, kept, path, written, faults)
    if len(faults) > before:
        return None
    task = Task(
        id=tree["id"],
        title=" ".join(tree["title"].split()),
        description=tree.get("description", "").strip(),
        priority=tree.get("priority", 1),
        status=tree.get("status", "pending"),
        dependencies=tuple(dict.fromkeys(tree.get("dependencies", ()))),
        acceptance_criteria=tuple(criteria.get("acceptanceCriteria", ())),
        estimated_complexity=tree.get("estimatedComplexity"),
        outcome=criteria.get("outcome", "").strip(),
        relevant_files=tuple(tree.get("relevantFiles", ())),
        markers=tuple(tree.get("markers", ())),
        completion=completion,
        overrides=overrides,
        notes=tree.get("notes", "").strip(),
        metadata=metadata,
    )
    return TaskReading(task_in_one_form(task), path, written, tuple(kept))


def _sorted_out(value: Json, path: JsonPath, faults: list[Fault]) -> tuple[dict[str, tuple[str, Any]], Json]:
    """Known keys by their one name, with the key as written and its value, and the unknown keys."""
    known: dict[str, tuple[str, Any]] = {}
    kept: Json = {}
    for key, item in value.items():
        name = _name(key)
        if name not in _KEYS:
            if near := get_close_matches(name[:60], _KEYS, n=1, cutoff=_NEAR):
                faults.append(Fault((*path, key), f"unknown key; did you mean `{snake(near[0])}`?"))
            else:
                kept[key] = item
        elif name in known:
            faults.append(Fault((*path, key), f"is the same key as `{known[name][0]}`, which is there already"))
        elif item is not None:
            known[name] = (key, item)
    return known, kept


def _read(
    named: Mapping[str, tuple[str, Any]], struct: type[Settings], path: JsonPath, faults: list[Fault]
) -> dict[str, Any]:
    """The values by their names in the struct; faults name the keys as they are written."""
    lists = {field.encode_name for field in fields_of(struct) if item_type(field.type) is not None}
    values: Json = {}
    for name, (key, value) in named.items():
        values[name] = [value] if name in lists and isinstance(value, str) else value
        if name in lists and isinstance(value, list):
            values[name] = ["" if isinstance(item, dict) else item for item in value]
            faults.extend(
                Fault((*path, key, index), "a text is meant? Its colon makes it keys and values: put it in quotes")
                for index, item in enumerate(value)
                if isinstance(item, dict)
            )
    found: list[Fault] = []
    tree = read_struct(values, struct, path, found)
    for fault in found:
        inside = fault.path[len(path) :]
        first = [named[step][0] if isinstance(step, str) and step in named else step for step in inside[:1]]
        faults.append(Fault((*path, *first, *inside[1:]), fault.message))
    return tree


def _criteria(
    block: Any,
    own: Mapping[str, tuple[str, Any]],
    path: JsonPath,
    written: Mapping[str, str],
    faults: list[Fault],
) -> tuple[Tree, dict[str, Json]]:
    """Outcome and acceptance criteria, and the criteria of each stage, from the block and from beside it."""
    if not isinstance(block, dict):
        return {}, {}
    place = (*path, written.get("completion", ""))
    named: dict[str, tuple[str, Any]] = {}
    for key, item in block.items():
        name = _name(key)
        if name in named:
            faults.append(Fault((*place, key), f"is the same key as `{named[name][0]}`, which is there already"))
        elif item is not None:
            named[name] = (key, item)
    whole = {name: ((*place, named[name][0]), item) for name, item in _read(named, _Completion, place, faults).items()}
    for name, (key, item) in own.items():
        if name in whole:
            faults.append(Fault((*path, key), "stands in `completion` already"))
        whole[name] = ((*path, key), item)
    stages: dict[str, Json] = {}
    for stage in STAGES:
        where, item = whole.pop(stage, (path, None))
        if item and isinstance(item, dict):
            stages[stage] = {key: value for key, value in item.items() if value is not None}
            read_criteria(stages[stage], stage, where, faults)
    return {name: item for name, (_, item) in whole.items()}, stages


def _metadata(tree: Tree, kept: Json, path: JsonPath, written: Mapping[str, str], faults: list[Fault]) -> Json:
    given = tree.get("metadata", {})
    metadata: Json = {}
    if isinstance(given, dict):
        place = (*path, written.get("metadata", ""))
        metadata = {key: _plain(item, (*place, key), faults) for key, item in given.items()}
    for key, item in kept.items():
        if key in metadata:
            faults.append(Fault((*path, key), "stands in `metadata` already"))
        metadata[key] = _plain(item, (*path, key), faults)
    if spec_id := tree.get("specId"):
        if SPEC_ID in metadata:
            faults.append(Fault((*path, written["specId"]), f"stands in `metadata` already, as `{SPEC_ID}`"))
        metadata[SPEC_ID] = spec_id
    if tree.get("status") == "completed":
        metadata |= DONE_BEFORE
    return metadata


def _plain(value: Any, path: JsonPath, faults: list[Fault]) -> Any:
    """A YAML value as JSON can hold it."""
    if isinstance(value, dict):
        return {key: _plain(item, (*path, key), faults) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, (*path, index), faults) for index, item in enumerate(value)]
    if isinstance(value, date):
        return value.isoformat()
    if not (value is None or isinstance(value, (str, int, float))) or (
        isinstance(value, float) and not isfinite(value)
    ):
        faults.append(Fault(path, f"cannot be kept: {escaped(str(value), 40)}; put it in quotes"))
        return None
    return value


def _name(key: str) -> str:
    name = camel(key)
    return _ALIASES.get(name, name)


def snake(name: str) -> str:
    """`maxIterations` as the specification writes it, `max_iterations`."""
    return _UPPER.sub(lambda upper: f"_{upper[0].lower()}", name)
