"""Files of tasks that a person names, each read by its kind."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rulebook_ralph.core.model import Task
from rulebook_ralph.core.problem import Problem, escaped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.sources import checklist, completion_yaml, user_stories
from rulebook_ralph.sources.source import (
    IN_JSON,
    IN_MARKDOWN,
    IN_YAML,
    LONGEST_SHOWN,
    SUFFIXES,
    RefusedTasksError,
    SourceReading,
    shown_path,
)
from rulebook_ralph.sources.text_file import UnreadableError
from rulebook_ralph.sources.told_apart import told_apart

Reader = Callable[[Path, str], tuple[Task, ...]]
"""Reads one plan, whole, under the name that it is shown by."""

_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(IN_MARKDOWN, checklist.read),
    **dict.fromkeys(IN_JSON, user_stories.read),
}


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
    if path.suffix in _READERS:
        return _READERS[path.suffix]
    shown = escaped(str(path), LONGEST_SHOWN)
    raise RalphError(f"{shown} is none of the files that tasks are read from: {', '.join(SUFFIXES)}")
