"""Whether a person said that tasks are done, in the file that they come from: what an agent ticked in the commit of
another task says nothing.
"""

import dataclasses
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from rulebook_ralph.core.model import Json, Task
from rulebook_ralph.sources.source import DONE_BEFORE, SourceReading
from rulebook_ralph.workspace.line_makers import made_with_trailer
from rulebook_ralph.workspace.repository import Repository


def without_agents_ticks(
    reading: SourceReading, repository: Repository, known: Collection[str]
) -> tuple[SourceReading, tuple[str, ...]]:
    """What was read, with tasks still to be done which only an agent said to be done, and the ids of these.

    Tasks that are `known` have their status from elsewhere. A tick counts that no commit of Ralph's holds, or the one
    of that very task.
    """
    said = [task for task in reading.tasks if task.status == "completed" and task.id not in known]
    if not said:
        return reading, ()
    makers: dict[str, Mapping[int, Collection[str]]] = {}
    doubted = frozenset(task.id for task in said if not _is_a_persons_word(task, repository, makers))
    tasks = (
        replace(task, status="pending", metadata=_open(task)) if task.id in doubted else task for task in reading.tasks
    )
    return (dataclasses.replace(reading, tasks=tuple(tasks)), tuple(sorted(doubted))) if doubted else (reading, ())


def _is_a_persons_word(task: Task, repository: Repository, makers: dict[str, Mapping[int, Collection[str]]]) -> bool:
    from rulebook_ralph.sources import boxes  # noqa: PLC0415 - 5 ms, and most tasks have no box

    name = boxes.file_of(task) or task.source
    if name not in makers:
        makers[name] = made_with_trailer(repository, repository.root / name, "Ralph-Task") if name else {}
    rows = {row for row, maker in makers[name].items() if task.id not in maker}
    try:
        return not rows or boxes.is_said_to_be_done((repository.root / name).read_bytes(), task, without=rows)
    except OSError:
        return True


def _open(task: Task) -> Json:
    return {key: value for key, value in task.metadata.items() if key not in DONE_BEFORE}
