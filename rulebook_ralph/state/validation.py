"""Everything wrong with the files of a project, for a person to mend. Explains at length; reading is the codec's job.

msgspec looks at each task first, in microseconds; jsonschema, which takes a thousand times longer, explains the tasks
that msgspec refused, or when asked all that schema_quick is not sure of.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import PRD_VERSION, STATE_FOLDER, Json, Prd, Task, Totals
from rulebook_ralph.core.nesting import nesting_faults
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import LONGEST_MESSAGE, Fault, JsonPath, Problem, escaped, json_path
from rulebook_ralph.core.refusal import explained
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk
from rulebook_ralph.state.codec import (
    ITERATION_KEYS,
    NEWER,
    PRD_KEYS,
    PRD_NAME,
    TASK_KEYS,
    TOTALS_KEYS,
    checked_document,
    unknown_members,
)
from rulebook_ralph.state.json_position import lines_of
from rulebook_ralph.state.schema_check import faults_against
from rulebook_ralph.state.schema_quick import is_surely_valid

HISTORY = "history"
MOST_PROBLEMS = 1000
"""Problems told of one file; a file with more is not a file someone mends by hand."""

_ITERATION_FILE = re.compile(r"iteration-(\d+)\.json", re.ASCII)

Look = Callable[[Path], Iterable[Problem]]
"""Looks at one more file of the project at a root, such as config.yaml, and tells what is wrong with it."""

Faults = Callable[[Any], Iterator[Fault]]
"""Everything wrong with the values of a document."""


def validate(root: Path, *, others: Iterable[Look] = (), thorough: bool = False) -> tuple[Problem, ...]:
    """Every problem of prd.json and history/ below `root`, then what `others` find.

    `thorough` holds every task and iteration against the JSON Schema too, which finds badly written times. Never raises
    for what stands in the files.
    """
    found = [*prd_problems(root / PRD_NAME, thorough=thorough), *history_problems(root, thorough=thorough)]
    for look in others:
        found.extend(look(root))
    return tuple(found)


def prd_problems(file: Path, *, name: str = PRD_NAME, thorough: bool = False) -> tuple[Problem, ...]:
    """Everything wrong with a prd.json."""
    if not file.exists():
        return (Problem(name, None, "", "is missing; `ralph init` makes it"),)
    return _file_problems(file, name, lambda raw: _prd_faults(raw, thorough=thorough))


def history_problems(root: Path, *, thorough: bool = False) -> tuple[Problem, ...]:
    """Everything wrong with the iteration files, in the order of their numbers. Gaps are no problem."""
    folder = root / STATE_FOLDER / HISTORY
    if folder.is_symlink():
        return (Problem(f"{STATE_FOLDER}/{HISTORY}", None, "", disk.IS_LINK),)
    try:
        names = [name.name for name in folder.iterdir()] if folder.exists() else []
    except OSError as error:
        return (Problem(f"{STATE_FOLDER}/{HISTORY}", None, "", f"cannot be read: {error.strerror}"),)
    numbered = [(int(match[1][:18]), name) for name in names if (match := _ITERATION_FILE.fullmatch(name))]
    found: list[Problem] = []
    for number, name in sorted(numbered):
        faults = partial(_iteration_faults, number=number, name=name, thorough=thorough)
        found.extend(_file_problems(folder / name, f"{STATE_FOLDER}/{HISTORY}/{name}", faults))
    return tuple(found)


def _file_problems(file: Path, name: str, faults: Faults) -> tuple[Problem, ...]:
    try:
        if not file.is_file():
            return (Problem(name, None, "", "is no regular file"),)
        data = disk.read_file(file)
        raw = checked_document(data, name)
    except OSError as error:
        return (Problem(name, None, "", f"cannot be read: {error.strerror or error}"),)
    except RalphError as error:
        return (_told(error, name),)
    text = data.decode("utf-8-sig")
    found = list(dict.fromkeys([*_repeated_keys(text), *faults(raw)]))
    lines = lines_of(text, {fault.path for fault in found[:MOST_PROBLEMS]})
    problems = [
        Problem(name, lines.get(fault.path), json_path(fault.path), fault.message[:LONGEST_MESSAGE])
        for fault in found[:MOST_PROBLEMS]
    ]
    problems.sort(key=lambda problem: problem.line or 0)
    if len(found) > MOST_PROBLEMS:
        problems.append(Problem(name, None, "", f"has {counted(len(found) - MOST_PROBLEMS, 'more problem')}"))
    return tuple(problems)


def _prd_faults(raw: Any, *, thorough: bool) -> Iterator[Fault]:
    if not isinstance(raw, dict):
        yield from _explained(raw, Prd, "prd", None, ())
        return
    version, tasks = raw.get("version"), raw.get("tasks")
    if isinstance(version, int) and version > PRD_VERSION:
        yield Fault(("version",), f"version {str(version)[:20]} {NEWER}")
        return
    meaning = problems_of(_outline(raw))
    explained_already = {_whole_section(fault.path) for fault in meaning}
    for fault in _form_faults(raw, tasks, thorough=thorough):
        if _whole_section(fault.path) not in explained_already:
            yield fault
    yield from meaning


def _whole_section(path: JsonPath) -> JsonPath:
    """Criteria and overrides are read whole by core/criteria.py, which explains them better than a schema."""
    return path[:3] if path[2:3] in (("completion",), ("overrides",)) else path


def _form_faults(raw: dict[str, Any], tasks: Any, *, thorough: bool) -> Iterator[Fault]:
    around = raw
    if isinstance(tasks, list):
        around = {**raw, "tasks": []}
        for index, task in enumerate(tasks):
            if _refused(task, Task) or (thorough and not is_surely_valid(task, "prd", "task")):
                yield from _explained(task, Task, "prd", "task", ("tasks", index))
    if thorough or _refused(around, Prd):
        yield from _explained(around, Prd, "prd", None, ())


def _outline(raw: dict[str, Any]) -> Prd:
    """As much of a PRD, however badly formed, as ids, dependencies, priorities and criteria can be checked in."""
    version, project, tasks = raw.get("version"), raw.get("project"), raw.get("tasks")
    return Prd(
        version=version if isinstance(version, int) else PRD_VERSION,
        project=project if isinstance(project, str) else "unreadable",
        tasks=tuple(map(_outlined, tasks, range(len(tasks)))) if isinstance(tasks, list) else (),
        totals=Totals(extra=_unknown(raw.get("totals"), TOTALS_KEYS)),
        extra=_unknown(raw, PRD_KEYS),
    )


def _outlined(raw: Any, index: int) -> Task:
    task = raw if isinstance(raw, dict) else {}
    task_id, priority, dependencies = task.get("id"), task.get("priority"), task.get("dependencies")
    completion, overrides, metadata = task.get("completion"), task.get("overrides"), task.get("metadata")
    readable = isinstance(dependencies, list) and all(isinstance(each, str) for each in dependencies)
    return Task(
        id=task_id if isinstance(task_id, str) else f"unreadable-{index}",
        title="",
        priority=priority if isinstance(priority, int) else 1,
        dependencies=tuple(dependencies) if dependencies and readable else (),
        completion=completion if isinstance(completion, dict) else {},
        overrides=overrides if isinstance(overrides, dict) else {},
        metadata=metadata if isinstance(metadata, dict) else {},
        extra=_unknown(task, TASK_KEYS),
    )


def _unknown(raw: Any, known: frozenset[str]) -> Json:
    return unknown_members(raw, known) if isinstance(raw, dict) else {}


def _iteration_faults(raw: Any, *, number: int, name: str, thorough: bool) -> Iterator[Fault]:
    if _refused(raw, Iteration):
        yield from _explained(raw, Iteration, "iteration", None, ())
        return
    yield from nesting_faults(_unknown(raw, ITERATION_KEYS), ())
    if thorough and not is_surely_valid(raw, "iteration"):
        yield from faults_against(raw, "iteration")
    if raw["iterationNumber"] != number:
        yield Fault(("iterationNumber",), f"is {raw['iterationNumber']}, but the file is {escaped(name)}")
    elif name != f"iteration-{number}.json":
        yield Fault((), f"should be named iteration-{number}.json")


def _refused(raw: Any, kind: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert({key: value for key, value in raw.items() if key != "$extra"}, kind)
    except (msgspec.ValidationError, AttributeError):
        return True
    return False


def _explained(
    raw: Any, kind: type[msgspec.Struct], schema: str, definition: str | None, place: JsonPath
) -> Iterator[Fault]:
    found = [Fault((*place, *fault.path), fault.message) for fault in faults_against(raw, schema, definition)]
    if not found:  # the schema is content, so only msgspec's own word can be given
        try:
            msgspec.convert(raw, kind)
        except msgspec.ValidationError as error:
            fault = explained(error, kind)
            found = [Fault((*place, *fault.path), fault.message)]
    yield from found


def _repeated_keys(text: str) -> Iterator[Fault]:
    """Keys that stand twice in an object: every parser takes the last, so that the first is lost unseen."""
    repeated: list[_Repeating] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        counts = Counter(key for key, _ in pairs)
        repeating = _Repeating(found)
        repeating.keys_twice = tuple(key for key, count in counts.items() if count > 1)
        repeated.append(repeating)
        return repeating

    try:
        document = json.loads(text, object_pairs_hook=members, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):  # msgspec has read it, so there is nothing more to tell
        return
    if repeated:
        yield from _repeating(document, ())


class _Repeating(dict[str, Any]):
    keys_twice: tuple[str, ...] = ()


def _repeating(value: Any, path: JsonPath) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key in value.keys_twice if isinstance(value, _Repeating) else ():
            yield Fault((*path, key), "is there twice; only the last one counts")
        for key, member in value.items():
            yield from _repeating(member, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeating(item, (*path, index))


def _told(error: RalphError, name: str) -> Problem:
    """A reader's refusal of a whole file, which names the file itself, as a problem."""
    where, _, message = str(error).removeprefix(f"{name}:").partition(": ")
    line, _, column = where.partition(":")
    if not line.isdigit():
        return Problem(name, None, "", str(error).removeprefix(f"{name}: "))
    return Problem(name, int(line), "", f"{message} (column {column})" if column else message)
