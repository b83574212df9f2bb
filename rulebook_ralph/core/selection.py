"""Which task is worked on next. Pure functions on a PRD."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence

from rulebook_ralph.core.model import PARALLEL, VERIFY, Prd, Task


def next_beside(
    prd: Prd, beside: Sequence[Task], *, only: Collection[str] = (), reopen: Collection[str] = (), all_may: bool = False
) -> Task | None:
    """The task to begin while those `beside` go on, or None: the next one, if all of them may be worked on at once.

    Those may that are marked [P], or any with `all_may`, but never one marked [VERIFY], which looks at what was done.
    """
    task = next_task(prd, only=only, reopen=reopen, busy={each.id for each in beside})
    if task is None or not beside:
        return task
    return task if all(may_join(each, all_may=all_may) for each in (task, *beside)) else None


def may_join(task: Task, *, all_may: bool) -> bool:
    """Whether a task may be worked on beside others."""
    return VERIFY not in task.markers and (all_may or PARALLEL in task.markers)


def next_task(
    prd: Prd, *, only: Collection[str] = (), reopen: Collection[str] = (), busy: Collection[str] = ()
) -> Task | None:
    """The task to work on, or None. Those that are `busy` are out of the question.

    A task already in iteration goes on first: its work may stand in the tree. Then the pending one with the highest
    priority (1 is highest) whose dependencies are all completed; ties by order in the file. `only` restricts to those
    ids; blocked tasks named in `reopen` come after all pending ones.
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
    needs: dict[str, set[str]] = {}
    waiting: dict[str, list[int]] = defaultdict(list)
    ready: list[tuple[tuple[int, int], int]] = []
    for index, task in enumerate(prd.tasks):
        rank = _rank(task, only=only, reopen=reopen)
        if rank is None:
            continue
        needs[task.id] = set(task.dependencies) - completed
        for needed in needs[task.id]:
            waiting[needed].append(index)
        if not needs[task.id]:
            heapq.heappush(ready, (rank, index))
    order: list[Task] = []
    while ready:
        task = prd.tasks[heapq.heappop(ready)[1]]
        order.append(task)
        for index in waiting[task.id]:
            freed = prd.tasks[index]
            needs[freed.id].discard(task.id)
            rank = _rank(freed, only=only, reopen=reopen)
            if not needs[freed.id] and rank is not None:
                heapq.heappush(ready, (rank, index))
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
