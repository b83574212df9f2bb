"""Files of tasks that a person names, each read by its kind; `prd.json` with `userStories` itself; and the boxes that
are ticked in them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.importers import checklist, completion_yaml, rulebook_text
from rulebook_ralph.tasks.importers.merge import id_in_source, told_apart
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    IN_JSON,
    IN_MARKDOWN,
    IN_YAML,
    LONGEST_SHOWN,
    MAX_BYTES,
    SUFFIXES,
    RefusedTasksError,
    SourceReading,
    UnreadableError,
    complexity,
    read_text,
    shown_path,
)
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.text import Fault, Problem, escaped, json_path

Reader = Callable[[Path, str], tuple[Task, ...]]
"""Reads one plan, whole, under the name that it is shown by."""
_STORIES = "userStories"
_KEYS = {"tasks": _STORIES, "dependencies": "dependsOn"}
"""Keys of a PRD as they are called there."""
_LINE_END = re.compile(r"(\r\n|\r|\n)")
_BYTE_ORDER_MARK = "\ufeff"


def read_all(paths: Sequence[Path], *, root: Path, known: Sequence[Task], read: Sequence[Task]) -> SourceReading:
    """Read the files as one list: those in YAML first, then the plans, in their order.

    `known` are the tasks of the PRD, `read` those that another source gave just now. Tasks in YAML depend on any of
    them, so an id in use is refused there; plans know only themselves, and are told apart. Raises RalphError, for
    plans with all that is wrong in any of them.
    """
    yaml = [path for path in paths if path.suffix in IN_YAML]
    plans = {path.resolve(): _reader_of(path) for path in paths if path.suffix not in IN_YAML}
    ids = [task.id for task in (*known, *read)]
    first = completion_yaml.read_all(yaml, root=root, known_ids=ids) if yaml else SourceReading()
    tasks, problems, shown = list[Task](), list[Problem](), list[str]()
    for path, reader in plans.items():
        shown.append(shown_path(path, root))
        try:
            tasks += reader(path, shown[-1])
        except UnreadableError as error:
            problems.append(Problem(shown[-1], error.problem.line, "", error.problem.message))
        except RefusedTasksError as error:
            problems += error.problems
    if problems:
        raise RefusedTasksError(problems)
    taken = [task.id for task in (*read, *first.tasks)]
    return SourceReading(
        tasks=(*first.tasks, *told_apart(tasks, known, taken)),
        problems=first.problems,
        folders=(*first.folders, *shown),
    )


def _reader_of(path: Path) -> Reader:
    readers: Mapping[str, Reader] = {
        **dict.fromkeys(IN_MARKDOWN, checklist.read),
        **dict.fromkeys(IN_JSON, read_stories),
    }
    if path.suffix in readers:
        return readers[path.suffix]
    shown = escaped(str(path), LONGEST_SHOWN)
    raise RalphError(f"{shown} is none of the files that tasks are read from: {', '.join(SUFFIXES)}")


# User stories


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


def read_stories(path: Path, shown: str) -> tuple[Task, ...]:
    """The tasks of a file of user stories, with its own ids; `shown` is their source. `passes: true` counts at an id's
    first import.

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


# Boxes


def file_of(task: Task) -> str:
    """The file with a task's box, from the project's root; empty where its source has none."""
    if not task.source or task.source.endswith(IN_MARKDOWN):
        return task.source
    return "" if task.source.endswith(SUFFIXES) else f"{task.source}/{rulebook_text.CHECKLIST}"


def ticked(data: bytes, task: Task) -> bytes | None:
    """The content of the task's file with its box ticked; None where the file has no line of the task any more, or has
    grown larger than what is imported.
    """
    if len(data) > MAX_BYTES:
        return None
    parts = _parts(data)
    rows = parts[::2]
    if task.source.endswith(IN_MARKDOWN):
        changes = checklist.ticked(rows, id_in_source(task), task.title)
    else:
        changes = rulebook_text.ticked(rows, task.acceptance_criteria)
    if changes is None:
        return None
    for row, text in changes.items():
        parts[2 * row] = text
    return _whole(parts, data)


def _whole(parts: Sequence[str], data: bytes) -> bytes:
    """The content with those rows and line ends, and with the byte order mark that `data` has."""
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK.encode()) else ""
    return f"{mark}{''.join(parts)}".encode("utf-8", "surrogateescape")


def _parts(data: bytes) -> list[str]:
    """The rows, and between them their line ends."""
    return _LINE_END.split(data.decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK))
