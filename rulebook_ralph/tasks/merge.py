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

from rulebook_ralph.tasks.model import LOOP_FIELDS, Json, Prd, Task, Totals

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
    before = {task.id: task for task in base.tasks} if base is not None else {}
    now = {task.id: task for task in current.tasks}
    tasks: list[Task] = []
    overtaken: list[str] = []
    for task in edited.tasks:
        was, has = before.get(task.id), now.get(task.id)
        if has is not None:
            tasks.append(_task(was, task, has))
            overtaken += [task.id] if was is not None and _is_overtaken(was, task, has) else []
        elif was != task:  # else Ralph removed it, and the edit says nothing of it
            tasks.append(_added(task, known=was))
    totals = replace(current.totals, extra=_members(base and base.totals, edited.totals, current.totals))
    together = replace(
        current,
        **_changes(_OF_LIST, base, edited),
        extra=_members(base, edited, current),
        totals=totals,
        tasks=_placed(tasks, base, edited, current),
    )
    return MergedEdit(current) if together == current else MergedEdit(together, tuple(overtaken))


def _placed(tasks: list[Task], base: Prd | None, edited: Prd, current: Prd) -> tuple[Task, ...]:
    """The edit's tasks and those of Ralph's that it did not know, in the edit's order where a person changed that, else
    in Ralph's; the others stand each behind the one before it. With an unknown base no task counts as removed.
    """
    known = dict.fromkeys(task.id for task in base.tasks) if base is not None else {}
    written = {task.id: task for task in tasks}
    ours = [written.get(task.id, task) for task in current.tasks if task.id in written or task.id not in known]
    order = dict.fromkeys(task.id for task in edited.tasks)
    if base is not None and [name for name in known if name in order] == [name for name in order if name in known]:
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


def _task(base: Task | None, edited: Task, current: Task) -> Task:
    extra = _members(base, edited, current)
    task = replace(current, **_changes(PERSONS_FIELDS, base, edited), extra=extra)
    if base is None:
        return task
    changes = edited.status not in (base.status, current.status, "in_iteration")
    if changes and not _is_overtaken(base, edited, current):
        task = replace(
            task,
            status=edited.status,
            stage=None,
            attempts={},
            blocked_reason=task.blocked_reason if edited.status == "blocked" else None,
            completed_at=task.completed_at if edited.status == "completed" else None,
            retry_after=None,
        )
    return replace(task, **_changes(_EDITABLE_FACTS, base, edited))


def _is_overtaken(base: Task, edited: Task, current: Task) -> bool:
    """Whether a status was changed in a buffer that did not know yet that the task is completed."""
    return current.status == "completed" != base.status and edited.status not in (base.status, "completed")


def _changes(names: tuple[str, ...], base: Prd | Task | None, edited: Prd | Task) -> Json:
    """The fields that a person changed; with an unknown base all of them."""
    values = {name: getattr(edited, name) for name in names}
    return {name: value for name, value in values.items() if base is None or getattr(base, name) != value}


_Holder = Prd | Task | Totals


def _members(base: _Holder | None, edited: _Holder, current: _Holder) -> Json:
    """Keys that Ralph does not know, merged key by key."""
    before = base.extra if base is not None else {}
    removed = before.keys() - edited.extra.keys()
    changed = {key: value for key, value in edited.extra.items() if key not in before or before[key] != value}
    return {key: value for key, value in current.extra.items() if key not in removed} | changed


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
