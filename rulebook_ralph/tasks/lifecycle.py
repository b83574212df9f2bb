"""What a task's status may become, as a `transitions` machine, and how an iteration changes the PRD when it is opened
and when it is settled.

The machine says what is legal; nothing happens in it. `done` is for work that was there already.
"""

import functools
from typing import TYPE_CHECKING, Literal, cast, get_args

from msgspec.structs import replace

from rulebook_ralph.tasks.history import Decision, Iteration
from rulebook_ralph.tasks.model import Prd, Stage, Status, Task, Totals

if TYPE_CHECKING:
    from transitions import Machine

Trigger = Literal[
    "open", "retry", "advance", "send_back", "complete", "block", "interrupt", "unblock", "reopen", "done"
]

STATUSES: tuple[Status, ...] = get_args(Status)
TRANSITIONS: tuple[tuple[Trigger, Status, Status], ...] = (
    ("open", "pending", "in_iteration"),
    ("open", "in_iteration", "in_iteration"),
    ("retry", "in_iteration", "in_iteration"),
    ("advance", "in_iteration", "in_iteration"),
    ("send_back", "in_iteration", "in_iteration"),
    ("complete", "in_iteration", "completed"),
    ("block", "in_iteration", "blocked"),
    ("interrupt", "in_iteration", "pending"),
    ("unblock", "blocked", "pending"),
    ("reopen", "completed", "pending"),
    ("done", "pending", "completed"),
    ("done", "blocked", "completed"),
)
"""`advance` goes on to the next stage, `send_back` back to the first; neither changes the status."""


class IllegalTransition(Exception):  # noqa: N818 - the field's word for it
    """A trigger that the present status does not allow: a fault in Ralph, not in a file."""


@functools.cache
def _machine() -> "Machine":
    from transitions import Machine  # noqa: PLC0415 - takes 17 ms, and few commands change a status

    rows = [list(row) for row in TRANSITIONS]
    return Machine(model=None, states=list(STATUSES), transitions=rows, initial=STATUSES[0], auto_transitions=False)


def advance(status: Status, trigger: Trigger) -> Status:
    """The status after `trigger`; raises IllegalTransition where the diagram has no such arrow."""
    found = _machine().get_transitions(trigger, status)
    if not found:
        raise IllegalTransition(f"a task cannot {trigger} while {status}")
    return cast("Status", found[0].dest)


def mermaid() -> str:
    """The table as a Mermaid state diagram."""
    arrows: dict[tuple[Status, Status], list[str]] = {}
    for trigger, source, target in TRANSITIONS:
        arrows.setdefault((source, target), []).append(trigger)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {STATUSES[0]}", *lines]) + "\n"


# Opening and settling


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


def settled(prd: Prd, iteration: Iteration, decision: Decision, *, at: str) -> Prd:
    """The PRD after an iteration; the same PRD where this iteration was settled before (redo).

    What it took counts once in the totals and in equal parts at each of its tasks; in the totals alone where a person
    has removed all of them meanwhile.
    """
    number = iteration.iteration_number
    there = [task for task in prd.tasks if task.id in iteration.tasks]
    tasks = [task for task in there if (task.settled_iteration or 0) < number]
    if there and not tasks:
        return prd
    after = prd
    for place, task in enumerate(tasks):
        share, rest = divmod(iteration.spent_tokens, len(tasks))
        done = _settled(task, iteration, decision, at=at)
        cost = round(task.cost_usd + iteration.spent_usd / len(tasks), 6)
        after = after.replacing(replace(done, cost_usd=cost, tokens=task.tokens + share + (place < rest)))
    return replace(after, updated_at=at, totals=_added(prd.totals, iteration, decision))


def _settled(task: Task, iteration: Iteration, decision: Decision, *, at: str) -> Task:
    """The task after its part of an iteration; a status that a person gave it meanwhile stays, unless the work is
    complete.
    """
    done = replace(
        task,
        settled_iteration=iteration.iteration_number,
        retry_after=decision.retry_after,
        summary=_summary(task, iteration, decision),
    )
    completes = decision.trigger == "complete"
    if task.status != "in_iteration" and not completes:
        return done
    facts = iteration.completion_summary
    return replace(
        done,
        status=advance("in_iteration", decision.trigger),
        stage=decision.next_stage or iteration.stage,
        attempts=task.attempts | ({iteration.stage: iteration.attempt} if decision.counts else {}),
        completed_at=at if completes else None,
        blocked_reason=decision.blocked_reason,
        completion_summary=(facts and facts.facts()) if completes else task.completion_summary,
    )


def _summary(task: Task, iteration: Iteration, decision: Decision) -> str:
    """What was done, in the words of who did it: later stages only look at it."""
    if decision.trigger not in ("advance", "complete"):
        return task.summary
    looks = iteration.stage != "coder"
    if looks and (decision.trigger == "advance" or (task.summary and task.attempts.get("coder"))):
        return task.summary
    return words_of(iteration)


def words_of(iteration: Iteration) -> str:
    """What the agent said it did, less what git denies."""
    if iteration.completion_summary is not None:
        return iteration.completion_summary.summary
    return iteration.parsed.summary if iteration.parsed else ""


def _added(totals: Totals, iteration: Iteration, decision: Decision) -> Totals:
    return replace(
        totals,
        iterations=totals.iterations + 1,
        completed=totals.completed + (decision.trigger == "complete"),
        failed=totals.failed + (decision.completion_status in ("failed", "blocked")),
        cost_usd=round(totals.cost_usd + iteration.spent_usd, 6),
        tokens=totals.tokens + iteration.spent_tokens,
    )
