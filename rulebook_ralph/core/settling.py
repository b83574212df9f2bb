"""How a settled iteration changes the PRD, and how a person's edit of the file is taken over. Pure functions."""

from msgspec.structs import replace

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.lifecycle import advance
from rulebook_ralph.core.model import LOOP_FIELDS, Prd, Stage, Task, Totals
from rulebook_ralph.core.policy import Settlement


def opened(task: Task, *, stage: Stage, number: int, at: str) -> Task:
    """The task as it is picked for iteration `number`; a blocked one is unblocked first and starts anew."""
    if task.status == "blocked":
        task = replace(task, status=advance(task.status, "unblock"), attempts={}, blocked_reason=None, retry_after=None)
    return replace(
        task,
        status=advance(task.status, "open"),
        stage=stage,
        iteration_number=number,
        started_at=task.started_at or at,
    )


def settled(prd: Prd, iteration: Iteration, settlement: Settlement, *, at: str) -> Prd:
    """The PRD after an iteration; the same PRD where this iteration was settled before (redo) or its task is gone."""
    number = iteration.iteration_number
    task = next((task for task in prd.tasks if task.id == iteration.task_id), None)
    if task is None or (task.settled_iteration or 0) >= number:
        return prd
    attempts = dict(task.attempts)
    if settlement.counts:
        attempts[iteration.stage] = iteration.attempt
    completes = settlement.trigger == "complete"
    changed = replace(
        task,
        status=advance("in_iteration", settlement.trigger),
        stage=settlement.next_stage or iteration.stage,
        attempts=attempts,
        settled_iteration=number,
        completed_at=at if completes else None,
        blocked_reason=settlement.blocked_reason,
        retry_after=settlement.retry_after,
        summary=iteration.parsed.summary if completes and iteration.parsed else task.summary,
        cost_usd=round(task.cost_usd + (iteration.cost_usd or 0.0), 6),
        tokens=task.tokens + iteration.usage.total,
    )
    return replace(prd.replacing(changed), updated_at=at, totals=_added(prd.totals, iteration, settlement))


def with_edit(ours: Prd, theirs: Prd) -> Prd:
    """A person's edit of the file, made between agents: their words, our facts. A task unblocked starts anew."""
    known = {task.id: task for task in ours.tasks}
    tasks = tuple(_edited(known[task.id], task) if task.id in known else _fresh(task) for task in theirs.tasks)
    totals = replace(ours.totals, extra=theirs.totals.extra)
    return replace(theirs, tasks=tasks, totals=totals, created_at=ours.created_at)


def _edited(ours: Task, theirs: Task) -> Task:
    facts = {name: getattr(ours, name) for name in LOOP_FIELDS}
    merged = replace(theirs, **facts)
    if theirs.status == ours.status:
        return merged
    if theirs.status == "in_iteration":
        return replace(merged, status=ours.status)
    return replace(
        merged,
        stage=None,
        attempts={},
        blocked_reason=ours.blocked_reason if theirs.status == "blocked" else None,
        completed_at=ours.completed_at if theirs.status == "completed" else None,
    )


def _fresh(task: Task) -> Task:
    """A task that a person added, often as a copy of another: without that one's facts."""
    none_yet = Task(id=task.id, title=task.title)
    facts = {name: getattr(none_yet, name) for name in LOOP_FIELDS}
    return replace(task, **facts, status="pending" if task.status == "in_iteration" else task.status)


def _added(totals: Totals, iteration: Iteration, settlement: Settlement) -> Totals:
    return replace(
        totals,
        iterations=totals.iterations + 1,
        completed=totals.completed + (settlement.trigger == "complete"),
        failed=totals.failed + (settlement.completion_status in ("failed", "blocked")),
        cost_usd=round(totals.cost_usd + (iteration.cost_usd or 0.0), 6),
        tokens=totals.tokens + iteration.usage.total,
    )
