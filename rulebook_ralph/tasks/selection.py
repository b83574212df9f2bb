"""Which task is worked on next. Pure functions on a PRD."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

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
    """The task to work on, or None: the first of the plan. Those that are `busy` are out of the question."""
    return next(_in_order(prd, only, reopen, busy), None)


def plan(prd: Prd, *, only: Collection[str] = (), reopen: Collection[str] = ()) -> tuple[Task, ...]:
    """The order in which tasks would be worked on if each were completed at its first attempt.

    A task already in iteration goes on first: work of it may be kept. Then the pending one with the highest priority
    (1 is highest) whose dependencies are all completed; ties by order in the file. `only` restricts to those ids;
    blocked tasks named in `reopen` come after all pending ones.
    """
    return tuple(_in_order(prd, only, reopen, ()))


def _in_order(prd: Prd, only: Collection[str], reopen: Collection[str], busy: Collection[str]) -> Iterator[Task]:
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    needs: dict[str, set[str]] = {}
    waiting: dict[str, list[tuple[tuple[int, int], int, Task]]] = defaultdict(list)
    ready = []
    for place, task in enumerate(prd.tasks):
        rank = _rank(task, reopen) if task.id not in busy and (not only or task.id in only) else None
        if rank is None:
            continue
        if not task.dependencies or not (open_needs := set(task.dependencies) - completed):
            ready.append((rank, place, task))
            continue
        needs[task.id] = open_needs
        for needed in open_needs:
            waiting[needed].append((rank, place, task))
    heapq.heapify(ready)
    while ready:
        _, _, task = heapq.heappop(ready)
        yield task
        for freed in waiting[task.id]:
            needs[freed[2].id].discard(task.id)
            if not needs[freed[2].id]:
                heapq.heappush(ready, freed)


def _rank(task: Task, reopen: Collection[str]) -> tuple[int, int] | None:
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
