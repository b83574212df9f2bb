"""Tasks from a `prd.json` with `userStories`: id, title, description, acceptanceCriteria, priority, passes, notes.

A file is taken whole or not at all. `passes: true` counts at an id's first import.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from rulebook_ralph.core.model import PRD_VERSION, Prd, Task
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import Fault, Problem, escaped, json_path
from rulebook_ralph.sources.rulebook_task import complexity
from rulebook_ralph.sources.source import DONE_BEFORE, RefusedTasksError
from rulebook_ralph.sources.text_file import UnreadableError, read_text

_STORIES = "userStories"
_KEYS = {"tasks": _STORIES, "dependencies": "dependsOn"}
"""Keys of a PRD as they are called here."""


class _Story(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: Annotated[int, msgspec.Meta(ge=0)] = 1
    passes: bool = False
    notes: str = ""
    depends_on: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, rename="camel"):
    user_stories: tuple[_Story, ...]


def read(path: Path, shown: str) -> tuple[Task, ...]:
    """The tasks of a file, with its own ids; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    tasks = tuple(_task(story, shown) for story in _decoded(path).user_stories)
    if wrong := [Problem(shown, None, json_path(fault.path), fault.message) for fault in _faults(tasks)]:
        raise RefusedTasksError(wrong)
    return tasks


def _decoded(path: Path) -> _File:
    text = read_text(path, within=path.parent)
    try:
        return msgspec.json.decode(text, type=_File)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(path, None, f"is no list of user stories: {escaped(str(error), 200)}") from error


def _faults(tasks: tuple[Task, ...]) -> Iterator[Fault]:
    """What is wrong with the stories together, each with its place in the file."""
    if not tasks:
        yield Fault((_STORIES,), "has no story")
    for index, task in enumerate(tasks):
        if not task.title:
            yield Fault((_STORIES, index, "title"), "must not be empty")
    for fault in problems_of(Prd(version=PRD_VERSION, project=_STORIES, tasks=tasks)):
        where = (_KEYS.get(step, step) if isinstance(step, str) else step for step in fault.path)
        yield Fault(tuple(where), fault.message)


def _task(story: _Story, shown: str) -> Task:
    return Task(
        id=story.id,
        title=" ".join(story.title.split()),
        description=story.description.strip(),
        priority=max(1, story.priority),
        status="completed" if story.passes else "pending",
        dependencies=tuple(dict.fromkeys(story.depends_on)),
        acceptance_criteria=tuple(filter(None, (" ".join(text.split()) for text in story.acceptance_criteria))),
        estimated_complexity=complexity(len(story.acceptance_criteria)),
        notes=story.notes.strip(),
        source=shown,
        metadata={**DONE_BEFORE} if story.passes else {},
    )
