"""Tasks with completion criteria from YAML files: one under `task:`, several under `tasks:` or as a list.

A file is taken whole or not at all: a task with half its criteria would be completed too early.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import PRD_VERSION, Prd, Task
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import Fault, JsonPath, Problem, escaped, json_path
from rulebook_ralph.plain_yaml import Document, NotReadableError, read_yaml
from rulebook_ralph.sources.completion_task import TaskReading, read_task
from rulebook_ralph.sources.source import RefusedTasksError, SourceProblem, SourceReading, shown_path
from rulebook_ralph.sources.text_file import UnreadableError, read_text

LONGEST_TEXT = 1024 * 1024
MOST_VALUES = 100_000


@dataclass(slots=True)
class _File:
    """What was read of one file. `ids` are all that it names, also those of tasks with faults."""

    path: Path
    shown: str
    document: Document = field(default_factory=lambda: Document(None, {}))
    tasks: list[TaskReading] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    told: list[SourceProblem] = field(default_factory=list)

    def line(self, path: JsonPath) -> int | None:
        return self.document.line(path)

    def all_problems(self) -> list[Problem]:
        found = dict.fromkeys(self.faults)
        told = [Problem(self.shown, self.line(fault.path), json_path(fault.path), fault.message) for fault in found]
        return [*self.problems, *sorted(told, key=lambda problem: problem.line or 0)]


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read the files as one list of tasks, in their order. `known_ids` may be depended on although they are not read.

    Raises RefusedTasksError where anything in a file is wrong, with every problem of every file.
    """
    files = [_read_file(path, root.resolve()) for path in dict.fromkeys(paths)]
    _check_together(files, known_ids)
    if problems := [problem for file in files for problem in file.all_problems()]:
        raise RefusedTasksError(problems)
    return SourceReading(
        tasks=tuple(reading.task for file in files for reading in file.tasks),
        problems=tuple(told for file in files for told in file.told),
        folders=tuple(file.shown for file in files),
    )


def _read_file(path: Path, root: Path) -> _File:
    whole = path.resolve()
    file = _File(whole, shown_path(path, root))
    try:
        text = read_text(whole, within=whole.parent)
        file.document = read_yaml(text, longest=LONGEST_TEXT, most_values=MOST_VALUES)
    except UnreadableError as error:
        file.problems.append(Problem(file.shown, error.problem.line, "", error.problem.message))
        return file
    except NotReadableError as error:
        where = file.shown if error.column is None else f"{file.shown}:{error.line}:{error.column}"
        inside = json_path(error.fault.path) if error.fault.path else ""
        file.problems.append(Problem(where, None, inside, error.fault.message))
        return file
    for place, value in _task_values(file):
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            file.ids.append(value["id"])
        if reading := read_task(value, place, file.faults):
            file.tasks.append(_with_source(reading, file))
    return file


def _task_values(file: _File) -> Iterator[tuple[JsonPath, Any]]:
    """Where the tasks of a document stand, and their values."""
    value = file.document.value
    nowhere: JsonPath = ()
    if isinstance(value, list) and value:
        yield from (_unwrapped((index,), item) for index, item in enumerate(value))
    elif isinstance(value, dict) and "id" in value:
        yield nowhere, value
    elif isinstance(value, dict) and ("task" in value or "tasks" in value):
        if "task" in value:
            yield ("task",), value["task"]
        yield from _listed(file, value.get("tasks", []))
        if others := [key for key in value if key not in ("task", "tasks")]:
            line = file.line((others[0],))
            file.told.append(SourceProblem(file.path, line, f"not about a task, left out: {some(others)}"))
    else:
        hint = ""
        if isinstance(value, dict) and (near := [*get_close_matches("tasks", [str(key)[:60] for key in value], n=1)]):
            hint = f"; is `{escaped(near[0])}` meant to be `tasks`?"
        file.faults.append(Fault((), f"has no task: expected `task:`, `tasks:` or a list of tasks{hint}"))


def _listed(file: _File, values: Any) -> Iterator[tuple[JsonPath, Any]]:
    if not isinstance(values, list):
        file.faults.append(Fault(("tasks",), "expected a list of tasks"))
        return
    if not values and "task" not in file.document.value:
        file.faults.append(Fault(("tasks",), "has no task"))
    yield from (_unwrapped(("tasks", index), item) for index, item in enumerate(values))


def _unwrapped(path: JsonPath, item: Any) -> tuple[JsonPath, Any]:
    """An item of a list may be `task:` with the task under it."""
    if isinstance(item, dict) and item.keys() == {"task"}:
        return (*path, "task"), item["task"]
    return path, item


def _with_source(reading: TaskReading, file: _File) -> TaskReading:
    if reading.kept:
        line = file.line((*reading.path, reading.kept[0]))
        message = f"{reading.task.id}: kept in metadata, Ralph has no such keys: {some(reading.kept)}"
        file.told.append(SourceProblem(file.path, line, message))
    return TaskReading(replace(reading.task, source=file.shown), reading.path, reading.written, reading.kept)


def _check_together(files: Iterable[_File], known_ids: Collection[str]) -> None:
    """What only all tasks together can tell: ids, dependencies, cycles."""
    first_use: dict[str, str] = {}
    checked: list[tuple[_File, TaskReading]] = []
    for file in files:
        for reading in file.tasks:
            place = reading.place(("id",))
            task_id = reading.task.id
            here = f"{file.shown}:{file.line(place)}"
            before = first_use.setdefault(task_id.casefold(), here)
            if problem := problem_with_id(task_id):
                file.faults.append(Fault(place, problem))
            elif before != here:
                message = f"'{escaped(task_id)}' is used already in {before}; ids differ by more than case"
                file.faults.append(Fault(place, message))
            else:
                checked.append((file, reading))
    own = {reading.task.id for _, reading in checked}
    elsewhere = {*known_ids, *(task_id for file in files for task_id in file.ids)} - own
    others = tuple(Task(id=task_id, title="") for task_id in sorted(elsewhere))
    tasks = (*(reading.task for _, reading in checked), *others)
    for fault in problems_of(Prd(version=PRD_VERSION, project="tasks", tasks=tasks)):
        index = fault.path[1] if len(fault.path) > 1 else None
        if isinstance(index, int) and index < len(checked) and fault.path[2:3] != ("id",):
            file, reading = checked[index]
            file.faults.append(Fault(reading.place(fault.path[2:]), fault.message))
