"""Two changes of one task list brought together: a person's words, the loop's facts. Pure functions.

`base` is the list that both began with: what Ralph last wrote. Every task and field is looked at by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import fields, replace

from rulebook_ralph.core.model import LOOP_FIELDS, Prd, Task, Totals

_WORDS = tuple(field.name for field in fields(Task) if field.name not in {"id", "status", *LOOP_FIELDS})
_OF_LIST = ("version", "project", "description", "branch", "extra")
_FREE = frozenset(("priority", "estimated_complexity"))


def merged(base: Prd, ours: Prd, theirs: Prd) -> Prd:
    """A person's edit `theirs` laid over the loop's `ours`. A task that is unblocked or reopened starts anew."""
    before = {task.id: task for task in base.tasks}
    now = {task.id: task for task in ours.tasks}
    written = {task.id for task in theirs.tasks}
    tasks = [
        _task(before.get(task.id), now[task.id], task) if task.id in now else _fresh(task)
        for task in theirs.tasks
        if task.id in now or task.id not in before or task != before[task.id]
    ]
    added = (task for task in ours.tasks if task.id not in before and task.id not in written)
    words = {name: _newer(name, base, ours, theirs) for name in _OF_LIST}
    return replace(ours, **words, tasks=(*tasks, *added), totals=_totals(base.totals, ours.totals, theirs.totals))


def _totals(base: Totals, ours: Totals, theirs: Totals) -> Totals:
    return replace(ours, extra=theirs.extra) if theirs.extra != base.extra else ours


def _task(base: Task | None, ours: Task, theirs: Task) -> Task:
    base = base or ours
    task = replace(ours, **{name: _newer(name, base, ours, theirs) for name in _WORDS})
    if theirs.status in (base.status, ours.status, "in_iteration"):
        return task
    return replace(
        task,
        status=theirs.status,
        stage=None,
        attempts={},
        blocked_reason=ours.blocked_reason if theirs.status == "blocked" else None,
        completed_at=ours.completed_at if theirs.status == "completed" else None,
    )


def _newer(name: str, base: Any, ours: Any, theirs: Any) -> Any:
    """Whose value of a field it is: the person's where they changed it."""
    written = getattr(theirs, name)
    return written if written != getattr(base, name) else getattr(ours, name)


def _fresh(task: Task) -> Task:
    """A task that a person added, often as a copy of another: without that one's facts."""
    none_yet = Task(id=task.id, title=task.title)
    facts = {name: getattr(none_yet, name) for name in LOOP_FIELDS}
    return replace(task, **facts, status="pending" if task.status == "in_iteration" else task.status)


def harmless(base: Prd, theirs: Prd) -> Prd:
    """`base` with those edits of `theirs` that change neither what is run nor what counts as done: an agent's would do
    no harm. A new task would: what a task names, its attempt may change (checks/integrity/mentions.py).
    """
    written = {task.id: task for task in theirs.tasks}
    tasks = tuple(
        replace(task, **{name: getattr(written[task.id], name) for name in _FREE}) if task.id in written else task
        for task in base.tasks
    )
    return replace(base, tasks=tasks)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that an edit changes: a field of a task (`task_id` empty: of the list), or a whole task, where `field`
    is empty and one of the two is None.
    """

    task_id: str
    field: str
    before: Any
    after: Any


def differences(base: Prd, theirs: Prd) -> tuple[Difference, ...]:
    """What an edit says otherwise than `base` did; the loop's facts are not compared."""
    return tuple(_differences(base, theirs))


def _differences(base: Prd, theirs: Prd) -> Iterator[Difference]:
    for name in _OF_LIST:
        yield from _of_field("", name, base, theirs)
    before = {task.id: task for task in base.tasks}
    written = {task.id for task in theirs.tasks}
    for task in theirs.tasks:
        if task.id not in before:
            yield Difference(task.id, "", None, task)
            continue
        for name in ("status", *_WORDS):
            yield from _of_field(task.id, name, before[task.id], task)
    for task in base.tasks:
        if task.id not in written:
            yield Difference(task.id, "", task, None)


def _of_field(task_id: str, name: str, base: Any, theirs: Any) -> Iterator[Difference]:
    old, new = getattr(base, name), getattr(theirs, name)
    if old != new:
        yield Difference(task_id, name, old, new)
