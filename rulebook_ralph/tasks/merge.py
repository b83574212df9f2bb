"""A person's edit of the task list and the loop's own changes, merged three ways by task and field. Pure functions.

`base` is the list as the editor had loaded it, `edited` what was saved, `current` what Ralph has now. A field changes
where the edit differs from the base; everything else stays as Ralph has it. So an old buffer that is saved late changes
what was edited in it, and nothing else. Where the base is unknown, a person's fields count as they were saved, and
neither the loop's nor any status.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from msgspec.structs import fields, replace

from rulebook_ralph.tasks.model import LOOP_FIELDS, Json, Prd, Status, Task

PERSONS_FIELDS = tuple(
    field.name for field in fields(Task) if field.name not in {"id", "status", "extra", *LOOP_FIELDS}
)
_OF_TASK = ("status", *PERSONS_FIELDS, *LOOP_FIELDS, "extra")
_OF_LIST = ("version", "project", "description", "branch")
_JOURNAL = ("iteration_number", "settled_iteration")
"""By these the journal knows what was done before; no edit changes them."""
_EDITABLE_FACTS = tuple(name for name in LOOP_FIELDS if name not in _JOURNAL)


@dataclass(frozen=True, slots=True)
class MergedEdit:
    """`prd` is the very one that Ralph had if nothing was taken; it is not checked, `problems_of` does that.
    `overtaken` are tasks with another status in the edit that completed meanwhile.
    """

    prd: Prd
    overtaken: tuple[str, ...] = ()


def merge(base: Prd | None, edited: Prd, current: Prd) -> MergedEdit:
    """The list with the edit in it. A task whose status a person changed starts anew."""
    before = {task.id: task for task in base.tasks} if base is not None else None
    now = {task.id: task for task in current.tasks}
    tasks: list[Task] = []
    for task in edited.tasks:
        if task.id not in now:
            if before is None or before.get(task.id) != task:  # else Ralph removed it, and the edit says nothing of it
                tasks.append(_added(task, known=before.get(task.id) if before else None))
        elif before is None or task.id not in before:
            tasks.append(_words(now[task.id], None, task))
        else:
            tasks.append(_task(before[task.id], now[task.id], task))
    together = replace(current, **_of_list(base, edited, current), tasks=_placed(tasks, base, edited, current))
    if together == current:
        return MergedEdit(current)
    overtaken = (
        task.id
        for task in edited.tasks
        if before is not None
        and task.id in before
        and task.id in now
        and _is_overtaken(before[task.id].status, task.status, now[task.id].status)
    )
    return MergedEdit(together, tuple(overtaken))


def _placed(tasks: list[Task], base: Prd | None, edited: Prd, current: Prd) -> tuple[Task, ...]:
    """The edit's tasks and those of Ralph's that it did not know, in the edit's order where a person changed that, else
    in Ralph's; the others stand each behind the one before it. With an unknown base no task counts as removed.
    """
    known = {task.id for task in base.tasks} if base is not None else set()
    written = {task.id: task for task in tasks}
    there = [task for task in current.tasks if task.id in written or task.id not in known]
    ours = [written.get(task.id, task) for task in there]
    left = {task.id for task in edited.tasks}
    before = [task.id for task in base.tasks if task.id in left] if base is not None else []
    if base is not None and before == [task.id for task in edited.tasks if task.id in known]:
        return _interleaved(ours, tasks)
    return _interleaved(tasks, ours)


def _interleaved(first: list[Task], second: list[Task]) -> tuple[Task, ...]:
    """The first tasks in their order, and those that only `second` has, each behind the one before it there."""
    ids = {task.id for task in first}
    following: dict[str, list[Task]] = defaultdict(list)
    behind = ""
    for task in second:
        if task.id in ids:
            behind = task.id
        else:
            following[behind].append(task)
    return (*following[""], *(each for task in first for each in (task, *following.get(task.id, ()))))


def _of_list(base: Prd | None, edited: Prd, current: Prd) -> Json:
    """The fields of the list itself."""
    changed = {name: _newer(name, base, edited, current) for name in _OF_LIST}
    changed["extra"] = _members(base.extra if base else None, edited.extra, current.extra)
    extra = _members(base.totals.extra if base else None, edited.totals.extra, current.totals.extra)
    return changed | {"totals": replace(current.totals, extra=extra)}


def _task(base: Task, current: Task, edited: Task) -> Task:
    task = _words(current, base, edited)
    status = edited.status
    changes = status not in (base.status, current.status, "in_iteration")
    if changes and not _is_overtaken(base.status, status, current.status):
        task = _with_status(task, status)
    changed = {name: getattr(edited, name) for name in _EDITABLE_FACTS if getattr(edited, name) != getattr(base, name)}
    return replace(task, **changed) if changed else task


def _is_overtaken(base: Status, edited: Status, current: Status) -> bool:
    """Whether a status was changed in a buffer that did not know yet that the task is completed."""
    return current == "completed" != base and edited not in (base, "completed")


def _with_status(task: Task, status: Status) -> Task:
    return replace(
        task,
        status=status,
        stage=None,
        attempts={},
        blocked_reason=task.blocked_reason if status == "blocked" else None,
        completed_at=task.completed_at if status == "completed" else None,
        retry_after=None,
    )


def _words(current: Task, base: Task | None, edited: Task) -> Task:
    """The task with a person's fields as they were edited."""
    changed: Json = {}
    for name in PERSONS_FIELDS:
        if (value := _newer(name, base, edited, current)) != getattr(current, name):
            changed[name] = value
    extra = _members(base.extra if base else None, edited.extra, current.extra)
    if extra != current.extra:
        changed["extra"] = extra
    return replace(current, **changed) if changed else current


def _newer(name: str, base: Any, edited: Any, current: Any) -> Any:
    """Whose value of a field it is: the person's where they changed it."""
    written = getattr(edited, name)
    return written if base is None or written != getattr(base, name) else getattr(current, name)


def _members(base: Json | None, edited: Json, current: Json) -> Json:
    """Keys that Ralph does not know, merged key by key."""
    if base is None:
        return {**current, **edited}
    if edited == base:
        return current
    if current == base:
        return edited
    removed = base.keys() - edited.keys()
    changed = {key: value for key, value in edited.items() if key not in base or base[key] != value}
    return {key: value for key, value in current.items() if key not in removed} | changed


def _added(task: Task, *, known: Task | None) -> Task:
    """A task that a person added, often as a copy of another: without that one's facts. One that Ralph has removed
    meanwhile, and the edit changed, comes back in the same way.
    """
    none_yet = Task(id=task.id, title=task.title)
    facts = {name: getattr(none_yet, name) for name in LOOP_FIELDS}
    if task.status == "blocked" and (known is None or known.status != "blocked"):
        facts["blocked_reason"] = task.blocked_reason
    return replace(task, **facts, status="pending" if task.status == "in_iteration" else task.status)


def distance(before: Prd, after: Prd) -> int:
    """How much one list says otherwise than another: a task that one of them lacks, a field, and a key in one, is one
    each.
    """
    old, new = ({task.id: task for task in prd.tasks} for prd in (before, after))
    pairs: list[tuple[Any, Any, str]] = [(before, after, name) for name in (*_OF_LIST, "extra")]
    for task_id in old.keys() & new.keys():
        if old[task_id] is not new[task_id]:
            pairs += [(old[task_id], new[task_id], name) for name in _OF_TASK]
    return len(old.keys() ^ new.keys()) + sum(_differing(getattr(a, name), getattr(b, name)) for a, b, name in pairs)


def _differing(before: Any, after: Any) -> int:
    if isinstance(before, dict) and isinstance(after, dict):
        return sum(key not in before or key not in after or before[key] != after[key] for key in before.keys() | after)
    return int(before != after)
