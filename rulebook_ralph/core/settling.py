"""How an iteration changes the PRD when it is opened and when it is settled. Pure functions."""

from msgspec.structs import replace

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.group import parts_of
from rulebook_ralph.core.lifecycle import advance
from rulebook_ralph.core.model import CompletionSummary, Prd, Stage, Task, Totals
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
    """The PRD after an iteration; the same PRD where this iteration was settled before (redo).

    What it took counts once in the totals and in equal parts at each of its tasks; in the totals alone where a person
    has removed or renamed all of them meanwhile.
    """
    number = iteration.iteration_number
    there = [task for task in prd.tasks if task.id in iteration.tasks]
    tasks = [task for task in there if (task.settled_iteration or 0) < number]
    if number in prd.totals.without_task or (there and not tasks):
        return prd
    tokens = parts_of(iteration.spent_tokens, len(tasks)) if tasks else ()
    after = prd
    for task, its_tokens in zip(tasks, tokens, strict=True):
        its_usd = iteration.spent_usd / len(tasks)
        after = after.replacing(_settled(task, iteration, settlement, cost_usd=its_usd, tokens=its_tokens, at=at))
    totals = _added(prd.totals, iteration, settlement)
    if not there:
        totals = replace(totals, without_task=(*totals.without_task, number))
    return replace(after, updated_at=at, totals=totals)


def _settled(
    task: Task, iteration: Iteration, settlement: Settlement, *, cost_usd: float, tokens: int, at: str
) -> Task:
    attempts = dict(task.attempts)
    if settlement.counts:
        attempts[iteration.stage] = iteration.attempt
    completes = settlement.trigger == "complete"
    return replace(
        task,
        status=advance("in_iteration", settlement.trigger),
        stage=settlement.next_stage or iteration.stage,
        attempts=attempts,
        settled_iteration=iteration.iteration_number,
        completed_at=at if completes else None,
        blocked_reason=settlement.blocked_reason,
        retry_after=settlement.retry_after,
        summary=_summary(task, iteration, settlement),
        completion_summary=_facts(iteration) if completes else task.completion_summary,
        cost_usd=round(task.cost_usd + cost_usd, 6),
        tokens=task.tokens + tokens,
    )


def _summary(task: Task, iteration: Iteration, settlement: Settlement) -> str:
    """What was done, in the words of who did it: later stages only look at it."""
    if settlement.trigger not in ("advance", "complete"):
        return task.summary
    looks = iteration.stage != "coder"
    if looks and (settlement.trigger == "advance" or (task.summary and task.attempts.get("coder"))):
        return task.summary
    return words_of(iteration)


def words_of(iteration: Iteration) -> str:
    """What the agent said it did, less what git denies."""
    if iteration.completion_summary is not None:
        return iteration.completion_summary.summary
    return iteration.parsed.summary if iteration.parsed else ""


def _facts(iteration: Iteration) -> CompletionSummary | None:
    return iteration.completion_summary.facts() if iteration.completion_summary is not None else None


def _added(totals: Totals, iteration: Iteration, settlement: Settlement) -> Totals:
    return replace(
        totals,
        iterations=totals.iterations + 1,
        completed=totals.completed + (settlement.trigger == "complete"),
        failed=totals.failed + (settlement.completion_status in ("failed", "blocked")),
        cost_usd=round(totals.cost_usd + iteration.spent_usd, 6),
        tokens=totals.tokens + iteration.spent_tokens,
    )
