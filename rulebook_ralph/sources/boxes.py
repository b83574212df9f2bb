"""Boxes of tasks in the files that the tasks came from: which are ticked, and ticking them. Pure: bytes in, bytes out.

Nothing but boxes changes: not the line ends, not a byte order mark, not bytes elsewhere that are no UTF-8.
"""

import re
from collections.abc import Collection, Sequence

from rulebook_ralph.core.model import Task
from rulebook_ralph.sources import checklist_entries, rulebook_checklist
from rulebook_ralph.sources.checklist_tree import unticked_row
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
    whole = "".join(parts).encode("utf-8", "surrogateescape")
    return _BYTE_ORDER_MARK.encode() + whole if _has_mark(data) else whole


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
    parts = _parts(data)
    for row in without:
        if file_of(task):
            parts[2 * row : 2 * row + 1] = [unticked_row(text) for text in parts[2 * row : 2 * row + 1]]
        elif any(map(_SAYS_DONE.search, parts[2 * row : 2 * row + 1])):
            return False
    return not file_of(task) or bool(said_to_be_done("".join(parts).encode("utf-8", "surrogateescape"), [task]))


def _parts(data: bytes) -> list[str]:
    """The rows, and between them their line ends."""
    return _LINE_END.split(data.decode("utf-8", "surrogateescape").removeprefix(_BYTE_ORDER_MARK))


def _has_mark(data: bytes) -> bool:
    return data.startswith(_BYTE_ORDER_MARK.encode())
