"""Boxes of tasks in the files that the tasks came from: which are ticked, and ticking them. Pure: bytes in, bytes out.

Nothing but boxes changes: not the line ends, not a byte order mark, not bytes elsewhere that are no UTF-8.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from rulebook_ralph.core.model import Task
from rulebook_ralph.sources import checklist_entries, rulebook_checklist
from rulebook_ralph.sources.checklist_tree import read_tree, unticked_row
from rulebook_ralph.sources.source import IN_MARKDOWN, SUFFIXES
from rulebook_ralph.sources.told_apart import id_in_source

_LINE_END = re.compile(r"(\r\n|\r|\n)")
_SAYS_DONE = re.compile(r"\b(?:passes|status)\b|\b(?:true|completed)\b")
_BYTE_ORDER_MARK = "\ufeff"


def file_of(task: Task) -> str:
    """The file with a task's box, from the project's root; empty where its source has none."""
    if not task.source or task.source.endswith(IN_MARKDOWN):
        return task.source
    return "" if task.source.endswith(SUFFIXES) else f"{task.source}/{rulebook_checklist.FILE_NAME}"


def ticked(data: bytes, task: Task) -> bytes | None:
    """The content of the task's file with its box ticked; None where the file has no line of the task any more."""
    parts = _parts(data)
    rows = parts[::2]
    if task.source.endswith(IN_MARKDOWN):
        changes = checklist_entries.ticked(rows, id_in_source(task), task.title)
    else:
        changes = rulebook_checklist.ticked(rows, task.acceptance_criteria)
    if changes is None:
        return None
    for row, text in changes.items():
        parts[2 * row] = text
    return _whole(parts, data)


def ticked_since(base: bytes, data: bytes, tasks: Sequence[Task]) -> dict[int, str]:
    """The boxes of a file's tasks that are ticked in it and were not in `base`: row (from 0) -> the task's id."""
    before = {words for _, words, _ in _ticked_boxes(base, tasks)}
    return {row: task_id for row, words, task_id in _ticked_boxes(data, tasks) if words not in before}


def with_open(data: bytes, rows: Collection[int]) -> bytes:
    """The content of a file with the boxes in those rows (from 0) open."""
    parts = _parts(data)
    for row in rows:
        parts[2 * row : 2 * row + 1] = map(unticked_row, parts[2 * row : 2 * row + 1])
    return _whole(parts, data)


def said_to_be_done(data: bytes, tasks: Sequence[Task]) -> Collection[str]:
    """The ids of those of a file's tasks whose boxes are ticked in it, whoever ticked them."""
    text = "\n".join(_parts(data)[::2])
    if not all(task.source.endswith(IN_MARKDOWN) for task in tasks):
        return [task.id for task in tasks] if rulebook_checklist.read(text).completed else []
    done = {entry.id for entry in checklist_entries.read_entries(text) if entry.is_ticked}
    return [task.id for task in tasks if id_in_source(task) in done]


def is_said_to_be_done(data: bytes, task: Task, *, without: Collection[int]) -> bool:
    """Whether a task that its file says to be done is so by other rows (from 0) than those alone. Of files without
    boxes it is not, where any of those tells that something is done.
    """
    if file_of(task):
        return bool(said_to_be_done(with_open(data, without), [task]))
    rows = _parts(data)[::2]
    return not any(_SAYS_DONE.search(text) for row in without for text in rows[row : row + 1])


def _ticked_boxes(data: bytes, tasks: Sequence[Task]) -> Iterator[tuple[int, str, str]]:
    """The row of each ticked box, what names it in the file, and its task's id."""
    rows = "\n".join(_parts(data)[::2])
    of_plans = {id_in_source(task): task.id for task in tasks if task.source.endswith(IN_MARKDOWN)}
    of_criteria = {
        text: task.id for task in tasks if not task.source.endswith(IN_MARKDOWN) for text in task.acceptance_criteria
    }
    for entry in checklist_entries.read_entries(rows) if of_plans else ():
        if entry.is_ticked and entry.id in of_plans:
            yield entry.item.row, entry.id, of_plans[entry.id]
    for item, text in rulebook_checklist.criteria(read_tree(rows).roots) if of_criteria else ():
        if item.box and text in of_criteria:
            yield item.row, text, of_criteria[text]


def _whole(parts: Sequence[str], data: bytes) -> bytes:
    """The content with those rows and line ends, and with the byte order mark that `data` has."""
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK.encode()) else ""
    return f"{mark}{''.join(parts)}".encode("utf-8", "surrogateescape")


def _parts(data: bytes) -> list[str]:
    """The rows, and between them their line ends."""
    return _LINE_END.split(data.decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK))
