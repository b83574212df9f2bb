"""prd.json as bytes and back, and what must hold in it beyond the types of its fields.

Exact: what Ralph does not know in the file stays in it.
"""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, json_file
from rulebook_ralph.tasks.criteria_reading import completion_faults, override_faults, task_in_one_form
from rulebook_ralph.tasks.model import PRD_VERSION, Json, Prd, Task, Totals, problem_with_id
from rulebook_ralph.tasks.text import Fault, JsonPath, escaped, nearest, some

PRD_NAME = ".rulebook-ralph/prd.json"
NEWER = f"is of a format newer than {PRD_VERSION}, made by a newer Ralph; upgrade Ralph to use it"

_MOST_COMPARED = 500

TASK_KEYS = json_file.keys_of(Task)
PRD_KEYS = json_file.keys_of(Prd)
TOTALS_KEYS = json_file.keys_of(Totals)


def read_prd(path: Path) -> Prd:
    """The PRD in a file, whole and checked. Raises RalphError with line and column or JSON path."""
    return decode_prd(read_prd_bytes(path), name=str(path))


def read_prd_bytes(path: Path) -> bytes:
    """The file's bytes. Raises RalphError where it is missing, unreadable, no plain file or beyond reason."""
    if path.parent.is_symlink():
        raise RalphError(f"{path} {disk.IS_LINK}")
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        raise RalphError(f"no task list at {path}; run 'ralph init' first") from None
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error


def decode_prd(data: bytes, *, name: str = PRD_NAME) -> Prd:
    """The PRD in a file's bytes, whole and checked. Raises RalphError with file, line and what is wrong."""
    prd = decode_prd_quick(data, name=name)
    if faults := problems_of(prd):
        raise json_file.refusal(name, data, faults[0], more=len(faults) - 1)
    if not any(task.completion or task.overrides for task in prd.tasks):
        return prd
    tasks = (task_in_one_form(task) if task.completion or task.overrides else task for task in prd.tasks)
    return msgspec.structs.replace(prd, tasks=tuple(tasks))


def decode_prd_quick(data: bytes, *, name: str = PRD_NAME) -> Prd:
    """The PRD for reading only, never for writing: ids and dependencies are unchecked."""
    raw = json_file.decode(data, name)
    refuse_newer(raw, name)
    try:
        return json_file.convert(with_unknown_keys(raw), Prd, data, name)
    except RalphError as error:  # how many more there are a slower look tells
        raise RalphError(f"{error}; for all that is wrong: ralph validate") from None


def encode_prd(prd: Prd) -> bytes:
    """The bytes of prd.json."""
    if not all(map(isfinite, (prd.totals.cost_usd, *(task.cost_usd for task in prd.tasks)))):
        raise ValueError("a cost that is no finite number cannot be written")
    whole: Json = msgspec.to_builtins(msgspec.structs.replace(prd, tasks=()))
    for last in ("tasks", "totals", json_file.EXTRA):
        whole.pop(last, None)
    whole["tasks"] = [json_file.merged_members(task, TASK_KEYS) if task.extra else task for task in prd.tasks]
    whole["totals"] = json_file.merged_members(prd.totals, TOTALS_KEYS)
    schema = {"$schema": prd.extra["$schema"]} if "$schema" in prd.extra else {}
    return json_file.encode(schema | whole | json_file.unknown_members(prd.extra, PRD_KEYS))


def with_unknown_keys(raw: Any) -> Any:
    """A decoded document with its unknown keys moved to where the structs keep them."""
    if not isinstance(raw, dict):
        return raw
    raw = dict(raw)
    if isinstance(tasks := raw.get("tasks"), list):
        raw["tasks"] = [json_file.with_extra(task, TASK_KEYS) for task in tasks]
    if "totals" in raw:
        raw["totals"] = json_file.with_extra(raw["totals"], TOTALS_KEYS)
    return json_file.with_extra(raw, PRD_KEYS)


def refuse_newer(raw: Any, name: str) -> None:
    """Raise RalphError for a document of a later version."""
    version = raw.get("version") if isinstance(raw, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > PRD_VERSION:
        raise RalphError(f"{name}: version {str(version)[:20]} {NEWER}")


# Rules


def problems_of(prd: Prd) -> tuple[Fault, ...]:
    """Everything wrong with the meaning of a PRD: of the list, of its tasks in file order, a dependency cycle last."""
    return (*_list_faults(prd), *_task_faults(prd.tasks), *_cycle_faults(prd.tasks))


def _list_faults(prd: Prd) -> Iterator[Fault]:
    if prd.version < 1:
        yield Fault(("version",), f"expected 1, got {prd.version}")
    if not prd.project.strip():
        yield Fault(("project",), "must not be empty")
    for name, value in (("project", prd.project), ("branch", prd.branch)):
        if "\0" in value:
            yield Fault((name,), "must not hold a NUL character")
    yield from json_file.nesting_faults(prd.extra, ())
    yield from json_file.nesting_faults(prd.totals.extra, ("totals",))


def _task_faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    known, first_use = {task.id for task in tasks}, dict[str, int]()
    for index, task in enumerate(tasks):
        path = ("tasks", index)
        if problem := problem_with_id(task.id):
            yield Fault((*path, "id"), problem)
        before = first_use.setdefault(task.id.casefold(), index)
        if before != index:
            rule = "" if tasks[before].id == task.id else "; ids differ by more than case"
            yield Fault((*path, "id"), f"'{escaped(task.id)}' is the id of a task that is there already{rule}")
        if task.priority < 1:
            yield Fault((*path, "priority"), f"expected 1 (the highest) or more, got {task.priority}")
        if task.completion or task.overrides:
            yield from completion_faults(task.completion, (*path, "completion"))
            yield from override_faults(task.overrides, (*path, "overrides"))
        yield from json_file.nesting_faults(task.metadata, (*path, "metadata"))
        yield from json_file.nesting_faults(task.extra, path)
        yield from _dependency_faults(task, path, known)


def _dependency_faults(task: Task, path: JsonPath, known: set[str]) -> Iterator[Fault]:
    for place, dependency in enumerate(task.dependencies):
        if dependency == task.id:
            yield Fault((*path, "dependencies", place), f"task '{escaped(task.id)}' depends on itself")
        elif dependency not in known:
            near = nearest(dependency, known) if len(known) <= _MOST_COMPARED else ""
            hint = f"; did you mean '{escaped(near)}'?" if near else ""
            yield Fault((*path, "dependencies", place), f"there is no task '{escaped(dependency)}'{hint}")


def _cycle_faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    """The first dependency cycle; a task that depends on itself is told apart from these."""
    place = {task.id: index for index, task in enumerate(tasks)}
    try:
        TopologicalSorter({task.id: set(task.dependencies) - {task.id} for task in tasks}).prepare()
    except CycleError as error:
        names = list(reversed(error.args[1]))[:-1]
        start = min(range(len(names)), key=lambda index: place.get(names[index], 0))
        told = [escaped(name) for name in (*names[start:], *names[:start], names[start])]
        yield Fault(("tasks", place[names[start]], "dependencies"), f"dependency cycle: {some(told, 12, ' -> ')}")
