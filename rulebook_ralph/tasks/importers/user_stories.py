"""Tasks from a JSON file of user stories: `{project, description, branchName, userStories: […]}`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    RefusedTasksError,
    SourceProblem,
    SourceReading,
    complexity,
    read_text,
)
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.struct_reading import camel, explained
from rulebook_ralph.tasks.text import Fault, Problem, json_path, nearest, some

_STORIES = "userStories"
_KEYS = {"tasks": _STORIES, "dependencies": "dependsOn"}
"""Keys of a PRD as they are called there."""


class _Story(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: Annotated[int, msgspec.Meta(ge=0)] = 1
    passes: bool = False
    notes: str = ""
    depends_on: tuple[str, ...] = ()


class _Stories(msgspec.Struct, frozen=True, rename="camel"):
    project: str = ""
    description: str = ""
    branch_name: str = ""


def read(path: Path, shown: str) -> SourceReading:
    """The tasks of a file of user stories, with its own ids; `shown` is their source. `passes: true` counts at an id's
    first import; what Ralph has no field for is kept in the metadata.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    text = read_text(path, within=path.parent)
    try:
        whole = json_file.decode(text.encode(), shown)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        raise RefusedTasksError([Problem(where, None, "", message)]) from None
    faults: list[Fault] = []
    about, tasks = _Stories(), list[Task]()
    if isinstance(whole, dict) and isinstance(whole.get(_STORIES), list):
        about = _converted({**whole, _STORIES: None}, _Stories, (), faults) or about
        tasks = [_task(story, index, shown, faults) for index, story in enumerate(whole[_STORIES])]
    elif isinstance(whole, dict) and "tasks" in whole:
        faults.append(Fault(("tasks",), "a prd.json of Ralph's own belongs in .rulebook-ralph/, it is not imported"))
    else:
        faults.append(Fault((), f"has no `{_STORIES}`: expected {{project, branchName, {_STORIES}: […]}}"))
    faults += _faults(tasks) if not faults else ()
    if faults:
        raise RefusedTasksError(
            [
                Problem(shown, json_file.line_of(text, fault.path), json_path(fault.path), fault.message)
                for fault in faults
            ]
        )
    kept = dict.fromkeys(key for task in tasks for key in task.metadata if key not in DONE_BEFORE)
    further = [key for key in whole if key not in (_STORIES, "project", "description", "branchName")]
    told = [f"kept in metadata, Ralph has no such keys: {some(list(kept))}"] if kept else []
    told += [f"not about a story, left out: {some(further)}"] if further else []
    return SourceReading(
        tuple(tasks),
        tuple(SourceProblem(path, None, message) for message in told),
        project=about.project.strip(),
        description=about.description.strip(),
        branch=about.branch_name.strip(),
    )


def _converted(value: Any, kind: type[Any], path: tuple[str | int, ...], faults: list[Fault]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        fault = explained(error, kind)
        faults.append(Fault((*path, *fault.path), fault.message))
        return None


def _task(written: Any, index: int, shown: str, faults: list[Fault]) -> Task:
    story = _converted(written, _Story, (_STORIES, index), faults)
    if story is None:
        return Task(id="", title="")
    known = _Story.__struct_encode_fields__
    unknown = {key: value for key, value in written.items() if key not in known}
    near = {key: found for key in unknown if (found := nearest(camel(key), known))}
    faults += [Fault((_STORIES, index, key), f"unknown key; did you mean `{meant}`?") for key, meant in near.items()]
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
        metadata=unknown | (DONE_BEFORE if story.passes else {}),
    )


def _faults(tasks: list[Task]) -> Iterator[Fault]:
    """What is wrong with the stories together, each with its place in the file."""
    if not tasks:
        yield Fault((_STORIES,), "has no story")
    for index, task in enumerate(tasks):
        if not task.title:
            yield Fault((_STORIES, index, "title"), "must not be empty")
    for fault in problems_of(Prd(version=PRD_VERSION, project=_STORIES, tasks=tuple(tasks))):
        where = (_KEYS.get(step, step) if isinstance(step, str) else step for step in fault.path)
        yield Fault(tuple(where), fault.message)
