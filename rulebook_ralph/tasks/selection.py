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
    ranks = (
        (rank, place)
        for place, task in enumerate(prd.tasks)
        if (rank := _rank(task, only, reopen)) and task.id not in busy and completed.issuperset(task.dependencies)
    )
    found = min(ranks, default=None)
    return prd.tasks[found[1]] if found else None


def plan(prd: Prd, *, only: Collection[str] = (), reopen: Collection[str] = ()) -> tuple[Task, ...]:
    """The order in which tasks would be worked on if each were completed at its first attempt."""
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    needs: dict[str, set[str]] = {}
    waiting: dict[str, list[tuple[tuple[int, int], int, Task]]] = defaultdict(list)
    ready = []
    for place, task in enumerate(prd.tasks):
        if rank := _rank(task, only, reopen):
            needs[task.id] = set(task.dependencies) - completed
            for needed in needs[task.id]:
                waiting[needed].append((rank, place, task))
            ready += [] if needs[task.id] else [(rank, place, task)]
    heapq.heapify(ready)
    order: list[Task] = []
    while ready:
        order.append(heapq.heappop(ready)[2])
        for freed in waiting[order[-1].id]:
            needs[freed[2].id].discard(order[-1].id)
            if not needs[freed[2].id]:
                heapq.heappush(ready, freed)
    return tuple(order)


def _rank(task: Task, only: Collection[str], reopen: Collection[str]) -> tuple[int, int] | None:
    if only and task.id not in only:
        return None
    if task.status == "in_iteration":
        return (0, 0)
    if task.status == "pending":
        return (1, task.priority)
    return (2, task.priority) if task.status == "blocked" and task.id in reopen else None


def open_tasks(prd: Prd) -> tuple[Task, ...]:
    """Every task that is not completed."""
    return tuple(task for task in prd.tasks if task.status != "completed")


def waiting_on(prd: Prd, task: Task) -> tuple[str, ...]:
    """The dependencies of a task that are not completed."""
    completed = {other.id for other in prd.tasks if other.status == "completed"}
    return tuple(needed for needed in task.dependencies if needed not in completed)
