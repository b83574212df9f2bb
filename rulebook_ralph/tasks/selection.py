"""Which task is worked on next. Pure functions on a PRD."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence

from rulebook_ralph.tasks.model import VERIFY, Prd, Task


def next_beside(
    prd: Prd, beside: Sequence[Task], *, only: Collection[str] = (), reopen: Collection[str] = ()
) -> Task | None:
    """The task to begin while those `beside` are worked on, or None.

    It is the next one, or none: one that may not be worked on beside others waits until these have ended, and is not
    overtaken.
    """
    task = next_task(prd, only=only, reopen=reopen, busy={each.id for each in beside})
    if task is None or not beside:
        return task
    return task if all(may_run_beside_others(each) for each in (task, *beside)) else None


def may_run_beside_others(task: Task) -> bool:
    """Whether other tasks may be worked on at the same time: not with one that says `parallel: false`, nor with one
    marked [VERIFY], which looks at what was done.
    """
    return task.parallel and VERIFY not in task.markers


def next_task(
    prd: Prd, *, only: Collection[str] = (), reopen: Collection[str] = (), busy: Collection[str] = ()
) -> Task | None:
    """The task to work on, or None. Those that are `busy` are out of the question.

    A task already in iteration goes on first: work of it may be kept. Then the pending one with the highest priority
    (1 is highest) whose dependencies are all completed; ties by order in the file. `only` restricts to those ids;
    blocked tasks named in `reopen` come after all pending ones.
    """
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    best: Task | None = None
    best_rank = (0, 0)
    for task in prd.tasks:
        rank = _rank(task, only=only, reopen=reopen) if task.id not in busy else None
        if rank is None or (best is not None and rank >= best_rank):
            continue
        if all(needed in completed for needed in task.dependencies):
            best, best_rank = task, rank
    return best


def plan(prd: Prd, *, only: Collection[str] = (), reopen: Collection[str] = ()) -> tuple[Task, ...]:
    """The order in which tasks would be worked on if each were completed at its first attempt."""
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    ranks = {task.id: rank for task in prd.tasks if (rank := _rank(task, only=only, reopen=reopen)) is not None}
    needs = {task.id: set(task.dependencies) - completed for task in prd.tasks if task.id in ranks}
    place = {task.id: index for index, task in enumerate(prd.tasks)}
    waiting: dict[str, list[str]] = defaultdict(list)
    for task_id, needed in needs.items():
        for each in needed:
            waiting[each].append(task_id)
    ready = [(ranks[task_id], place[task_id], task_id) for task_id, needed in needs.items() if not needed]
    heapq.heapify(ready)
    order: list[Task] = []
    while ready:
        _, index, task_id = heapq.heappop(ready)
        order.append(prd.tasks[index])
        for freed in waiting[task_id]:
            needs[freed].discard(task_id)
            if not needs[freed]:
                heapq.heappush(ready, (ranks[freed], place[freed], freed))
    return tuple(order)


def open_tasks(prd: Prd) -> tuple[Task, ...]:
    """Every task that is not completed."""
    return tuple(task for task in prd.tasks if task.status != "completed")


def waiting_on(prd: Prd, task: Task) -> tuple[str, ...]:
    """The dependencies of a task that are not completed."""
    completed = {other.id for other in prd.tasks if other.status == "completed"}
    return tuple(needed for needed in task.dependencies if needed not in completed)


def _rank(task: Task, *, only: Collection[str], reopen: Collection[str]) -> tuple[int, int] | None:
    if only and task.id not in only:
        return None
    if task.status == "in_iteration":
        return (0, 0)
    if task.status == "pending":
        return (1, task.priority)
    if task.status == "blocked" and task.id in reopen:
        return (2, task.priority)
    return None
