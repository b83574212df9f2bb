"""A plan: tasks that a model made of what a person wants, and what must hold before they join the task list. Pure."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import Complexity, Json, Prd, Stage, Task, Value
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import Fault, JsonPath, escaped
from rulebook_ralph.core.settings import PositiveInt, Settings
from rulebook_ralph.core.task_words import with_words

MOST_TASKS = 100
MOST_QUESTIONS = 3
LONGEST_TITLE = 200
LONGEST_TEXT = 10_000
"""Characters of one text of a task."""


class PlannedTask(Settings, frozen=True, kw_only=True):
    """A task as a planner may write it (schemas/plan.schema.json): nothing of the loop's, and no settings."""

    id: str
    title: str
    description: str
    priority: PositiveInt
    dependencies: tuple[str, ...]
    acceptance_criteria: tuple[str, ...]
    estimated_complexity: Complexity = "medium"
    outcome: str
    relevant_files: tuple[str, ...]
    completion: dict[str, Json] = {}


class Answer(Settings, frozen=True, kw_only=True):
    """What a planner answers."""

    questions: tuple[str, ...]
    tasks: tuple[PlannedTask, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Questions to the person, or tasks as plain values under the keys of prd.json."""

    questions: tuple[str, ...]
    tasks: tuple[Json, ...]


class AddAll(Value, frozen=True, kw_only=True, tag_field="edit", tag="add-all"):
    """Several new tasks at the end of the list, all or none; each its words (task_words) and its `id`."""

    tasks: tuple[Json, ...]


def extended(prd: Prd, tasks: Sequence[Json], faults: list[Fault]) -> Prd:
    """The valid PRD with these tasks at its end, pending and without any facts; no task that is there is changed.

    What is wrong is added to `faults`, then what is returned is of no use. Their paths begin at `tasks`.
    """
    before = len(faults)
    faults += _id_faults(prd, tasks)
    added = []
    for index, planned in enumerate(tasks):
        own: list[Fault] = []
        words = {key: value for key, value in planned.items() if key != "id"}
        added.append(with_words(Task(id=str(planned.get("id", "")), title=""), words, own))
        faults += [Fault(("tasks", index, *path), message) for path, message in own]
    after = replace(prd, tasks=(*prd.tasks, *added))
    if len(faults) == before:
        faults += _faults_together(after, first=len(prd.tasks))
    return after


def _id_faults(prd: Prd, tasks: Sequence[Json]) -> Iterator[Fault]:
    there = {task.id.casefold() for task in prd.tasks}
    first_use: dict[str, int] = {}
    for index, planned in enumerate(tasks):
        task_id, path = str(planned.get("id", "")), ("tasks", index, "id")
        if problem := problem_with_id(task_id):
            yield Fault(path, problem)
        if task_id.casefold() in there:
            yield Fault(path, f"'{escaped(task_id)}' is the id of a task that is there already")
        before = first_use.setdefault(task_id.casefold(), index)
        if before != index:
            yield Fault(path, f"'{escaped(task_id)}' is used already by tasks[{before}]; ids differ by more than case")


def _faults_together(after: Prd, *, first: int) -> Iterator[Fault]:
    """What is wrong between the tasks: no task before `first` depends on one behind it, so nothing is wrong there."""
    for path, message in problems_of(after):
        match path:
            case ("tasks", int(index), *rest) if index >= first:
                yield Fault(("tasks", index - first, *rest), message)
            case _:
                yield Fault(path, message)


def unfit(plan: Plan, *, stages: Collection[Stage], has_gates: bool, clean: Callable[[str], str]) -> Iterator[Fault]:
    """What a person's own task may leave out and a planner may not. `clean` takes secrets out of a text."""
    for index, task in enumerate(plan.tasks):
        path: JsonPath = ("tasks", index)
        yield from _word_faults(task, path)
        yield from _file_faults(task, path)
        completion = task.get("completion", {})
        for stage in completion:
            if stage not in stages:
                yield Fault((*path, "completion", stage), f"the tasks go through {', '.join(stages)} only")
        if not (has_gates or any(each.get("verificationConfig") for each in _criteria(completion))):
            yield Fault((*path, "completion"), "no gate is configured: the task needs a command or a check of its own")
    for place, text in _texts(list(plan.tasks), ("tasks",)):
        if len(text) > LONGEST_TEXT:
            yield Fault(place, f"is longer than {LONGEST_TEXT:,} characters")
        if clean(text) != text:
            yield Fault(place, "holds what looks like a secret")


def _word_faults(task: Json, path: JsonPath) -> Iterator[Fault]:
    title = task["title"]
    if len(title) > LONGEST_TITLE or not title.isprintable():
        yield Fault((*path, "title"), f"expected one printable line of at most {LONGEST_TITLE} characters")
    if not task["outcome"].strip():
        yield Fault((*path, "outcome"), "must not be empty")
    if not task["acceptanceCriteria"]:
        yield Fault((*path, "acceptanceCriteria"), "at least one criterion is needed")


def _file_faults(task: Json, path: JsonPath) -> Iterator[Fault]:
    for place, file in enumerate(task["relevantFiles"]):
        parts = PurePosixPath(file).parts
        if not file.isprintable() or file.startswith(("/", "~")) or "\\" in file or ".." in parts:
            yield Fault((*path, "relevantFiles", place), "expected a path of the project, from its root, with /")


def _criteria(completion: Json) -> Iterator[Json]:
    return (each for each in completion.values() if isinstance(each, dict))


def _texts(value: Any, path: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    """Every text in it, keys too, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path, key
            yield from _texts(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
