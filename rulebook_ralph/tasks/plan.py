"""A plan: tasks that a model made of what a person wants, and what must hold before they join the task list. Pure."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from rulebook_ralph.tasks.model import Complexity, Json, Stage
from rulebook_ralph.tasks.struct_reading import PositiveInt, Settings, values_in
from rulebook_ralph.tasks.text import Fault, JsonPath

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


class PlanAnswer(Settings, frozen=True, kw_only=True):
    """What a planner answers."""

    questions: tuple[str, ...]
    tasks: tuple[PlannedTask, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Questions to the person, or tasks as plain values under the keys of prd.json."""

    questions: tuple[str, ...]
    tasks: tuple[Json, ...]


def unfit(plan: Plan, *, stages: Collection[Stage], has_gates: bool, clean: Callable[[str], str]) -> Iterator[Fault]:
    """What a person's own task may leave out and a planner may not. `clean` takes secrets out of a text."""
    for index, task in enumerate(plan.tasks):
        path: JsonPath = ("tasks", index)
        yield from _word_faults(task, path)
        completion = task.get("completion", {})
        for stage in completion:
            if stage not in stages:
                yield Fault((*path, "completion", stage), f"the tasks go through {', '.join(stages)} only")
        criteria = (each for each in completion.values() if isinstance(each, dict))
        if not (has_gates or any(each.get("verificationConfig") for each in criteria)):
            yield Fault((*path, "completion"), "no gate is configured: the task needs a command or a check of its own")
    for place, value in values_in(plan.tasks, ("tasks",)):
        for text in (each for each in (place[-1], value) if isinstance(each, str)):
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
    for place, file in enumerate(task["relevantFiles"]):
        parts = PurePosixPath(file).parts
        if not file.isprintable() or file.startswith(("/", "~")) or "\\" in file or ".." in parts:
            yield Fault((*path, "relevantFiles", place), "expected a path of the project, from its root, with /")
