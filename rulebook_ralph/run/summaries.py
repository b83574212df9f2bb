"""What is said of a run: how an iteration ended, why the run ended, what to do next. Pure functions on values."""

from collections.abc import Collection, Mapping

from rulebook_ralph.errors import ExitCode
from rulebook_ralph.report import events
from rulebook_ralph.run.policy import RunTally, Stop
from rulebook_ralph.tasks import selection
from rulebook_ralph.tasks.history import Decision, Iteration
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.results import StopReason
from rulebook_ralph.tasks.text import counted, known_cost, some

_CODES = {
    "complete": ExitCode.OK,
    "paused": ExitCode.OK,
    "blocked": ExitCode.BLOCKED,
    "stuck": ExitCode.BLOCKED,
    "max-iterations": ExitCode.LIMITED,
    "max-wall-time": ExitCode.LIMITED,
    "max-cost": ExitCode.LIMITED,
    "rate-limited": ExitCode.LIMITED,
    "cancelled": ExitCode.INTERRUPTED,
    "interrupted": ExitCode.INTERRUPTED,
    "error": ExitCode.AGENT,
}
_OUTCOMES = {
    "complete": "completed",
    "advance": "verified",
    "retry": "retry",
    "send_back": "sent-back",
    "block": "blocked",
    "interrupt": "interrupted",
}

NEEDS_APPROVAL = "needs approval"
"""With which the reason of a task begins whose work waits for a person."""
FAILED_AT_IT = "times in a row at this task"
"""What stands in the reason of a task that its agent or a model failed at: the task is not at fault."""
_GOES_ON = ("max-iterations", "max-wall-time", "max-cost", "rate-limited", "interrupted", "paused", "cancelled")


def exit_code(ended: events.RunEnded) -> ExitCode:
    """The exit code for a stop reason (README, exit codes)."""
    return _CODES[ended.stop_reason]


def mending(task: Task) -> str:
    """What a person is to do about what blocked a task, before it is tried again."""
    if FAILED_AT_IT in (task.blocked_reason or ""):
        return "see to the agent, which is at fault and not the task (ralph doctor)"
    return "edit its task in .rulebook-ralph/prd.json, or mend what is in its way"


def why_nothing_is_left(prd: Prd, *, only: Collection[str], stuck: Collection[str] = ()) -> Stop:
    """Why no task can be picked: all completed, or what is open is blocked or waits for it. `stuck` are the tasks that
    this run blocked because they were stuck.
    """
    tasks = [task for task in prd.tasks if not only or task.id in only]
    remaining = [task for task in tasks if task.status != "completed"]
    if not remaining:
        what = "chosen tasks" if only else "tasks"
        told = f"all {len(tasks):,} {what} are completed" if tasks else "the task list is empty"
        if len(tasks) == 1:
            told = f"{tasks[0].id} is completed" if only else "the only task is completed"
        return Stop("complete", told)
    blocked = [task.id for task in remaining if task.status == "blocked"]
    waiting = [task for task in remaining if task.status in ("pending", "in_iteration")]
    parts = []
    if blocked:
        parts.append(f"{len(blocked)} blocked ({some(blocked)})")
    if waiting:
        needed = sorted({need for task in waiting for need in selection.waiting_on(prd, task)})
        parts.append(f"{len(waiting)} waiting for {some(needed)}")
    reason: StopReason = "stuck" if blocked and all(task_id in stuck for task_id in blocked) else "blocked"
    return Stop(reason, f"no task can be worked on: {', '.join(parts)}")


def settled_event(record: Iteration, decision: Decision, prd: Prd, tally: RunTally) -> events.IterationSettled:
    """What the console shows of a settled iteration. `duration_ms` is the whole pass."""
    outcome = "limited" if decision.completion_status == "limited" else _OUTCOMES[decision.trigger]
    return events.IterationSettled(
        iteration_number=record.iteration_number,
        task_id=record.task_id,
        outcome=outcome,  # type: ignore[arg-type]  # one of the words above
        reason=reason_of(record, decision),
        commit=record.commit if decision.trigger == "complete" else None,
        files_changed=len(record.files_changed),
        duration_ms=record.duration_ms,
        usage=record.usage,
        cost_usd=record.told_usd,
        run_cost_usd=tally.cost_usd,
        run_tokens=tally.tokens,
        completed_tasks=sum(task.status == "completed" for task in prd.tasks),
        total_tasks=len(prd.tasks),
    )


def reason_of(record: Iteration, decision: Decision) -> str:
    """Why an iteration ended as it did, in a line."""
    if decision.trigger == "advance":
        return f"{record.stage} is done, {decision.next_stage} is next"
    return decision.blocked_reason or (record.verdict.reason if record.verdict else "")


def tasks_listed(prd: Prd, *, only: Collection[str], reopen: Collection[str]) -> events.TasksListed:
    """The tasks that are not completed, those first that would be worked on next."""
    chosen = [task for task in prd.tasks if task.status != "completed" and (not only or task.id in only)]
    chosen.sort(key=lambda task: (task.status == "blocked" and task.id not in reopen, task.status != "in_iteration"))
    shown = tuple(events.OpenTask(task.id, task.title, task.status) for task in chosen[:50])
    return events.TasksListed(shown, len(chosen) - len(shown))


def run_ended(
    stop: Stop,
    prd: Prd,
    *,
    touched: Mapping[str, str | None],
    spent: Mapping[str, tuple[int, float]],
    only: Collection[str] = (),
    tally: RunTally,
    duration: float,
    branch: str,
    waiting: str = "",
    again: str = "ralph resume",
) -> events.RunEnded:
    """The end of a run: the tasks it touched and those that are blocked, and the next steps; of nothing but the tasks
    that it was asked for (`only`). `spent` are attempts and cost in this run; `branch` is where the work is, and
    `waiting` what is to be done so that the user's branch can follow.
    """
    asked = [task for task in prd.tasks if not only or task.id in only]
    shown = [task for task in asked if task.id in touched or task.status == "blocked"]
    completed = sum(task.status == "completed" for task in prd.tasks if task.id in touched)
    return events.RunEnded(
        stop_reason=stop.stop_reason,
        reason=stop.reason,
        tasks=tuple(
            events.TaskLine(
                task.id,
                task.title,
                task.status,
                *spent.get(task.id, (0, 0.0)),
                commit=touched.get(task.id),
                reason=task.blocked_reason or "",
            )
            for task in shown
        ),
        iterations=tally.iterations,
        completed_count=completed,
        failed_count=sum(task.status == "blocked" for task in asked),
        only=tuple(only),
        cost_usd=tally.cost_usd,
        tokens=tally.tokens,
        duration_ms=round(duration * 1000),
        next_steps=(
            *([waiting] if waiting else []),
            *_next_steps(stop, asked, shown, completed=completed, branch=branch, again=again),
        ),
        totals=prd.totals if prd.totals.iterations > tally.iterations else None,
    )


def as_json(ended: events.RunEnded) -> dict[str, object]:
    """The one object of `--json` (README, exit codes)."""
    blocked = next((task for task in ended.tasks if task.status == "blocked"), None)
    success = ended.stop_reason == "complete"
    return {
        "success": success,
        "completedCount": ended.completed_count,
        "failedCount": ended.failed_count,
        "iterations": ended.iterations,
        "stopReason": ended.stop_reason,
        "error": None if success else ended.reason,
        "blockingIssue": {"taskId": blocked.task_id, "reason": blocked.reason} if blocked else None,
        "costUsd": known_cost(round(ended.cost_usd, 6), ended.tokens or ended.iterations),
        "tokens": ended.tokens,
        "durationMs": ended.duration_ms,
    }


def refused_as_json(error: str) -> dict[str, object]:
    """The same for a run that could not begin, or broke off."""
    return as_json(events.RunEnded("error", error, (), 0, 0, 0, 0.0, 0, 0))


def _next_steps(
    stop: Stop, asked: list[Task], shown: list[Task], *, completed: int, branch: str, again: str
) -> tuple[str, ...]:
    steps = []
    blocked = [task for task in shown if task.status == "blocked"]
    left = [task.id for task in asked if task.status in ("pending", "in_iteration")]
    if stop.stop_reason in _GOES_ON and left:
        steps.append(f"go on with {counted(len(left), 'open task')} ({some(left)}): {again}")
    elif stop.stop_reason == "error":
        steps.append(f"fix what stopped it, then: {again}")
    if completed:
        steps.append(f"review the work: git log --oneline {branch}")
    approvals = [task.id for task in blocked if (task.blocked_reason or "").startswith(NEEDS_APPROVAL)]
    if approvals:
        steps.append(f"look at the work and agree to it: ralph approve --show {approvals[0]}")
    if len(approvals) < len(blocked):
        first = next(task for task in blocked if task.id not in approvals)
        steps.append(f"see why {first.id} is blocked: ralph show {first.settled_iteration}")
        steps.append(f"{mending(first)}, then: ralph run")
    elif stop.stop_reason == "complete" and not left and not blocked:
        steps.append(f"merge it when you like it: git switch - && git merge {branch}")
    return tuple(steps)
