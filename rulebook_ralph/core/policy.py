"""What follows from a verdict, and when a run ends: limits, statuses, rollbacks. Pure functions on values."""

from dataclasses import dataclass
from typing import Literal

from rulebook_ralph.core.evidence import CompletionStatus, StopReason, Verdict
from rulebook_ralph.core.lifecycle import Trigger
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.settings import Config, Limits

ROLE_MAX_ITERATIONS: dict[Stage, int] = {"coder": 15, "reviewer": 5, "tester": 10, "qa": 5}
ROLE_PROMISE: dict[Stage, str] = {
    "coder": "IMPLEMENTATION_COMPLETE",
    "reviewer": "REVIEW_PASSED",
    "tester": "TESTS_PASSED",
    "qa": "QA_PASSED",
}
"""Defaults by role (spec completion-criteria, Per-Agent Defaults)."""


def max_attempts(config: Config, stage: Stage) -> int:
    """How many attempts a stage has: the configured default, else the role's."""
    return config.defaults.max_iterations or ROLE_MAX_ITERATIONS[stage]


def attempts_left(config: Config, task: Task, stage: Stage) -> int:
    """Attempts that remain before the task is blocked; a blocked task that is reopened starts anew."""
    used = 0 if task.status == "blocked" else task.attempts.get(stage, 0)
    return max(0, max_attempts(config, stage) - used)


@dataclass(frozen=True, slots=True)
class RunTally:
    """What a run has used so far; `elapsed` in seconds."""

    iterations: int = 0
    elapsed: float = 0.0
    cost_usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ends. `reason` is a line for people."""

    stop_reason: StopReason
    reason: str


def limit_reached(limits: Limits, tally: RunTally, *, max_iterations: int) -> Stop | None:
    """The limit that ends the run now, looked at after an iteration is settled, or None."""
    if limits.max_cost_usd is not None and tally.cost_usd >= limits.max_cost_usd:
        return Stop("max-cost", f"the cost limit of ${limits.max_cost_usd:.2f} is reached (${tally.cost_usd:.2f})")
    if limits.max_run_wall_time is not None and tally.elapsed >= limits.max_run_wall_time:
        return Stop("max-wall-time", f"the run's time limit of {limits.max_run_wall_time:.0f} s is reached")
    if tally.iterations >= max_iterations:
        many = f"{max_iterations} iterations" if max_iterations > 1 else "one iteration"
        return Stop("max-iterations", f"the limit of {many} is reached")
    return None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What settling does: the lifecycle's trigger, what is recorded, whether the tree goes back to the base."""

    trigger: Trigger
    completion_status: CompletionStatus
    feedback: str
    rollback: bool
    counts: bool
    blocked_reason: str | None = None
    stop: Stop | None = None


def settle(
    verdict: Verdict,
    *,
    feedback: str,
    attempt: int,
    attempts_allowed: int,
    time_left: float,
    rollback: Literal["keep", "reset"],
) -> Settlement:
    """What follows from a verdict at this attempt of a task. `time_left` is the task's, in seconds."""
    if verdict.action == "complete":
        return Settlement("complete", "completed", "", rollback=False, counts=True)
    if verdict.action == "stop":
        return _stopped(verdict, feedback)
    if verdict.counts and attempt >= attempts_allowed:
        reason = f"{attempts_allowed} of {attempts_allowed} attempts used; the last one: {verdict.reason}"
        return Settlement("block", "blocked", feedback, rollback=True, counts=True, blocked_reason=reason)
    if time_left <= 0:
        reason = f"its time is used up (limits.maxWallTime); the last attempt: {verdict.reason}"
        return Settlement("block", "blocked", feedback, rollback=True, counts=verdict.counts, blocked_reason=reason)
    return Settlement("retry", "failed", feedback, rollback=rollback == "reset", counts=verdict.counts)


def branch_moved(branch: str) -> Settlement:
    """Someone committed on the branch while the attempt was judged: it is judged again, on the new base."""
    reason = f"branch {branch} moved while the work was judged; the work stands in the tree and is judged again"
    return Settlement("retry", "failed", reason, rollback=False, counts=False)


def _stopped(verdict: Verdict, feedback: str) -> Settlement:
    reason = verdict.stop_reason or "error"
    stop = Stop(reason, verdict.reason)
    if reason == "blocked":
        return Settlement(
            "block", "blocked", feedback, rollback=True, counts=verdict.counts, blocked_reason=verdict.reason
        )
    if reason in ("interrupted", "cancelled", "paused"):
        status: CompletionStatus = "cancelled" if reason == "cancelled" else "interrupted"
        return Settlement("interrupt", status, feedback, rollback=False, counts=False, stop=stop)
    status = "limited" if reason in ("rate-limited", "max-cost", "max-wall-time") else "failed"
    return Settlement("interrupt", status, feedback, rollback=False, counts=verdict.counts, stop=stop)
