"""Files of tasks that a person names, each read by its kind, and the boxes that are ticked in them."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.importers import checklist, checklist_entries, rulebook, task_lists
from rulebook_ralph.tasks.importers.markdown import read_document, ticked_row
from rulebook_ralph.tasks.importers.merge import id_in_source, told_apart
from rulebook_ralph.tasks.importers.source import (
    IN_MARKDOWN,
    IN_YAML,
    LONGEST_SHOWN,
    MAX_BYTES,
    SUFFIXES,
    RefusedTasksError,
    SourceReading,
    UnreadableError,
    shown_path,
)
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import Problem, escaped

_USUAL = (
    *("prd.json", "scripts/ralph/prd.json", "tasks/prd-*.md", "fix_plan.md", ".ralph/fix_plan.md", "docs/plans/*.md"),
    *("specs/*/tasks.md", ".kiro/specs/*/tasks.md", "PLAN.md", "TODO.md", "tasks.md", "tasks.yaml"),
)
_LINE_END = re.compile(r"(\r\n|\r|\n)")
_BYTE_ORDER_MARK = "\ufeff"


def read_all(paths: Sequence[Path], *, root: Path, known: Sequence[Task], read: Sequence[Task]) -> SourceReading:
    """Read the files as one list: those in YAML first, then the others, in their order.

    `known` are the tasks of the PRD, `read` those that another source gave just now. Tasks in YAML depend on any of
    them, so an id in use is refused there; plans and stories know only themselves, and are told apart. Raises
    RalphError, for these with all that is wrong in any of them.
    """
    for path in paths:
        shown = escaped(str(path), LONGEST_SHOWN)
        if not os.path.lexists(path) and path.suffix not in SUFFIXES:
            raise RalphError(f"there is no file {shown}")
        if path.suffix not in SUFFIXES:
            raise RalphError(f"{shown} is none of the files that tasks are read from: {', '.join(SUFFIXES)}")
    yaml = [path for path in paths if path.suffix in IN_YAML]
    first = task_lists.read_all(yaml, root=root, known_ids=[task.id for task in (*known, *read)])
    others, problems = SourceReading(), list[Problem]()
    for path in dict.fromkeys(path.resolve() for path in paths if path.suffix not in IN_YAML):
        try:
            if path.suffix in IN_MARKDOWN:
                others += checklist.read(path, shown_path(path, root))
            else:
                others += task_lists.read_all([path], root=root)
        except UnreadableError as error:
            problems.append(error.problem(root))
        except RefusedTasksError as error:
            problems += error.problems
    if problems:
        raise RefusedTasksError(problems)
    taken = [task.id for task in (*read, *first.tasks)]
    return first + replace(others, tasks=told_apart(others.tasks, known, taken))


def usual(root: Path) -> list[str]:
    """The files of a project that usually hold tasks, from its root."""
    return [
        path.relative_to(root).as_posix() for place in _USUAL for path in sorted(root.glob(place)) if path.is_file()
    ]


# Boxes


def file_of(task: Task) -> str:
    """The file with a task's box, from the project's root; empty where its source has none."""
    if not task.source or task.source.endswith(IN_MARKDOWN):
        return task.source
    return "" if task.source.endswith(SUFFIXES) else f"{task.source}/{rulebook.CHECKLIST}"


def ticked(data: bytes, task: Task) -> bytes | None:
    """The content of the task's file with its box ticked; None where the file has no line of the task any more, or has
    grown larger than what is imported.
    """
    if len(data) > MAX_BYTES:
        return None
    text = data.decode("utf-8", "surrogateescape")
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    parts = _LINE_END.split(text.removeprefix(mark))  # the rows, and between them their line ends
    document = read_document("\n".join(parts[::2]))
    if task.source.endswith(IN_MARKDOWN):
        boxes = checklist_entries.boxes_of(document, id_in_source(task), task.title)
    else:
        boxes = rulebook.boxes_of(document, task.acceptance_criteria)
    for item in boxes or ():
        parts[2 * item.row] = ticked_row(parts[2 * item.row])
    return None if boxes is None else f"{mark}{''.join(parts)}".encode("utf-8", "surrogateescape")
