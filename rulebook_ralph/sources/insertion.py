"""New tasks of a source that was imported before: their place among the known ones, and who waits for them. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec.structs import replace

from rulebook_ralph.core.model import Task


def with_inserted(known: Sequence[Task], added: Sequence[Task], imported: Sequence[Task]) -> tuple[Task, ...]:
    """The known tasks in their order, with the added ones where their source (`imported`) has them, else at the end.

    Open tasks that nobody began wait for those added ones that they would wait for after a first import. What comes
    after a task that was begun waits in its stead. Dependencies that close a cycle with what a person set are left out.
    """
    tasks = {task.id: task for task in (*known, *added)}
    fixed = {task.id for task in known if task.status != "pending" or any(task.attempts.values())}
    further = _needed([task for task in imported if task.id in tasks], added, fixed)
    waiting = tasks | {task_id: _waiting_for(needed, tasks[task_id]) for task_id, needed in further.items()}
    if not _is_acyclic(waiting):
        waiting = tasks
        for task_id, needed in further.items():
            more = [each for each in needed if task_id not in _all_before(each, tasks)]
            tasks[task_id] = _waiting_for(more, tasks[task_id])
    return tuple(waiting[task_id] for task_id in _order(known, added, imported))


def _waiting_for(needed: Iterable[str], task: Task) -> Task:
    return replace(task, dependencies=tuple(dict.fromkeys((*task.dependencies, *needed))))


def _is_acyclic(tasks: Mapping[str, Task]) -> bool:
    try:
        TopologicalSorter({task.id: task.dependencies for task in tasks.values()}).prepare()
    except CycleError:
        return False
    return True


def _needed(imported: Iterable[Task], added: Iterable[Task], fixed: Collection[str]) -> dict[str, Sequence[str]]:
    """Task -> the added ones that it is to wait for, of all that may change."""
    new = {task.id for task in added}
    found: dict[str, Sequence[str]] = {}
    in_stead: dict[str, Sequence[str]] = {}
    for task in imported:
        each_needs = ((each,) if each in new else in_stead.get(each, ()) for each in task.dependencies)
        if needed := list(dict.fromkeys(one for several in each_needs for one in several)):
            (in_stead if task.id in fixed else found)[task.id] = needed
    return found


def _all_before(task_id: str, tasks: Mapping[str, Task]) -> set[str]:
    """The task, and all that it waits for, directly or not."""
    found: set[str] = set()
    to_follow = [task_id]
    while to_follow:
        if (task_id := to_follow.pop()) not in found:
            found.add(task_id)
            to_follow += tasks[task_id].dependencies
    return found


def _order(known: Iterable[Task], added: Iterable[Task], imported: Iterable[Task]) -> list[str]:
    """The ids. An added task stands behind the one before it in its source, or before the first known one of that."""
    known_ids, new = {task.id for task in known}, {task.id for task in added}
    first: dict[str, list[str]] = defaultdict(list)
    last: dict[str, str] = {}
    before: dict[str, list[str]] = {}
    behind: dict[str, list[str]] = defaultdict(list)
    for task in imported:
        if task.id in known_ids:
            if task.source not in last:
                before[task.id] = first.pop(task.source, [])
            last[task.source] = task.id
        elif task.id in new:
            (behind[last[task.source]] if task.source in last else first[task.source]).append(task.id)
    order = [each for task in known for each in (*before.get(task.id, ()), task.id, *behind.get(task.id, ()))]
    return [*order, *(task_id for several in first.values() for task_id in several)]
