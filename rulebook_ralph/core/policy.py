"""What follows from a verdict, and when a run ends: limits, statuses, rollbacks. Pure functions on values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.evidence import MERGE, CompletionStatus, StopReason, Verdict
from rulebook_ralph.core.lifecycle import Trigger
from rulebook_ralph.core.model import Stage
from rulebook_ralph.core.settings import Limits


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


_DIGITS = 6
"""What is less than a millionth of a dollar is no cost, but comes of adding."""


def limit_reached(limits: Limits, tally: RunTally, *, max_iterations: int) -> Stop | None:
    """The limit that ends the run now, looked at after an iteration is settled, or None."""
    if limits.max_cost_usd is not None and round(tally.cost_usd, _DIGITS) >= limits.max_cost_usd:
        return Stop("max-cost", f"the cost limit of ${limits.max_cost_usd:.2f} is reached (${tally.cost_usd:.2f})")
    if limits.max_run_wall_time is not None and tally.elapsed >= limits.max_run_wall_time:
        return Stop("max-wall-time", f"the run's time limit of {limits.max_run_wall_time:.0f} s is reached")
    if limits.max_tokens is not None and tally.tokens >= limits.max_tokens:
        return Stop("max-cost", f"the limit of {limits.max_tokens:,} tokens is reached ({tally.tokens:,})")
    if tally.iterations >= max_iterations:
        many = f"{max_iterations} iterations" if max_iterations > 1 else "one iteration"
        return Stop("max-iterations", f"the limit of {many} is reached")
    return None


SAME_FAILURES = 3
"""So many same failures in a row mean that an attempt is stuck: it starts again from the base, once."""

GIVEN_UP: tuple[StopReason, ...] = ("max-iterations", "max-cost", "max-wall-time", "stuck")
"""Why a task is blocked that is not said to be impossible: a person may want to go on with what there is."""

_OWN_FAULT = ("agent", "integrity", "contradictions")
"""Hooks whose failure is a later stage's own: that stage is tried again, the task is not sent back."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a task stands when an attempt at it is settled.

    `allowed` and `used` are attempts by stage, without the present one. `time_left` is the task's, in seconds.
    `over_budget` says which budget of the task is used up; `retry_after` when its agent may be asked again.
    `repeats` counts the same failure in a row, the present one included; `restarted`: it was stuck once before.
    """

    stage: Stage
    stages: tuple[Stage, ...]
    attempt: int
    allowed: Mapping[Stage, int]
    used: Mapping[str, int]
    time_left: float
    repeats: int = 1
    restarted: bool = False
    over_budget: str = ""
    retry_after: str | None = None

    @property
    def next_stage(self) -> Stage | None:
        """The stage after the present one."""
        later = self.stages[self.stages.index(self.stage) + 1 :] if self.stage in self.stages else ()
        return later[0] if later else None

    @property
    def is_later(self) -> bool:
        """Whether a stage before the present one was verified already."""
        return self.stage in self.stages[1:]


@dataclass(frozen=True, slots=True)
class Settlement:
    """What settling does: the lifecycle's trigger, what is recorded, whether the tree goes back to the base.

    `next_stage` is where the task goes on, None for the same stage.
    """

    trigger: Trigger
    completion_status: CompletionStatus
    feedback: str
    rollback: bool
    counts: bool
    blocked_reason: str | None = None
    stop: Stop | None = None
    stop_reason: StopReason | None = None
    next_stage: Stage | None = None
    restarted: bool = False
    retry_after: str | None = None


def settle(verdict: Verdict, standing: Standing, *, feedback: str, rollback: Literal["keep", "reset"]) -> Settlement:
    """What follows from a verdict on an attempt."""
    if verdict.action == "complete":
        return _verified(standing)
    if verdict.action == "stop":
        return _stopped(verdict, feedback, standing)
    if verdict.hook == MERGE:
        return _not_merged(verdict, standing, feedback)
    return (
        _used_up(verdict, standing, feedback)
        or _stuck(verdict, standing, feedback)
        or _sent_back(verdict, standing, feedback, rollback)
        or Settlement(
            "retry",
            "failed",
            feedback,
            rollback=rollback == "reset" and not standing.is_later,  # what the stages before brought about stays
            counts=verdict.counts,
            restarted=standing.restarted,
        )
    )


def _not_merged(verdict: Verdict, standing: Standing, feedback: str) -> Settlement:
    """Nobody's failure: the task is tried again, from the first stage on the branch as it is now where the work could
    not be brought there, else on the merged tree.
    """
    first = standing.stages[0] if verdict.starts_anew and standing.is_later else None
    return Settlement(
        "send_back" if first else "retry",
        "failed",
        feedback,
        rollback=verdict.starts_anew,
        counts=False,
        next_stage=first,
        restarted=standing.restarted,
    )


def _verified(standing: Standing) -> Settlement:
    following = standing.next_stage
    if following is None:
        return Settlement("complete", "completed", "", rollback=False, counts=True, stop_reason="complete")
    return Settlement(
        "advance",
        "completed",
        "",
        rollback=False,
        counts=True,
        next_stage=following,
        restarted=standing.restarted,
    )


def _used_up(verdict: Verdict, standing: Standing, feedback: str) -> Settlement | None:
    """Blocked, where the stage's attempts or the task's time are used up."""
    allowed = standing.allowed[standing.stage]
    if verdict.counts and standing.attempt >= allowed:
        reason = f"{allowed} of {counted(allowed, 'attempt')} used; the last one: {verdict.reason}"
        return _blocked(reason, "max-iterations", feedback, counts=True)
    if standing.over_budget:
        reason = f"{standing.over_budget}; the last attempt: {verdict.reason}"
        return _blocked(reason, "max-cost", feedback, counts=verdict.counts)
    if standing.time_left <= 0:
        reason = f"its time is used up (limits.maxWallTime); the last attempt: {verdict.reason}"
        return _blocked(reason, "max-wall-time", feedback, counts=verdict.counts)
    return None


def _stuck(verdict: Verdict, standing: Standing, feedback: str) -> Settlement | None:
    """The same failure again and again: once from the base anew, then blocked."""
    if not verdict.counts or standing.repeats < SAME_FAILURES:
        return None
    if standing.restarted:
        return _blocked(f"stuck, also after starting again from the base: {verdict.reason}", "stuck", feedback)
    if first := standing.stages[0] if standing.is_later else None:
        feedback = _for_the_first(verdict, standing, feedback)
    told = (
        f"{standing.repeats} attempts in a row ended the same way, so the tree was put back to the base commit. Do not "
        "repeat what was tried: read the failure below again, question what you took for granted, and go about it in "
        f"another way. If it cannot be done, say that you are blocked and why.\n\n{feedback}"
    )
    trigger: Trigger = "send_back" if first else "retry"
    return Settlement(trigger, "failed", told, rollback=True, counts=True, next_stage=first, restarted=True)


def _sent_back(
    verdict: Verdict, standing: Standing, feedback: str, rollback: Literal["keep", "reset"]
) -> Settlement | None:
    """A later stage that fails sends the task back to the first one with its findings."""
    if not standing.is_later or not verdict.counts or verdict.hook in _OWN_FAULT:
        return None
    first = standing.stages[0]
    if standing.used.get(first, 0) >= standing.allowed[first]:
        allowed = standing.allowed[first]
        used = f"{allowed} of {counted(allowed, 'attempt')} of {first} used"
        reason = f"{standing.stage} sent it back, but {used}: {verdict.reason}"
        return _blocked(reason, "max-iterations", feedback, counts=True)
    return Settlement(
        "send_back",
        "failed",
        _for_the_first(verdict, standing, feedback),
        rollback=rollback == "reset",
        counts=True,
        next_stage=first,
        restarted=standing.restarted,
    )


def _for_the_first(verdict: Verdict, standing: Standing, feedback: str) -> str:
    """What a later stage's verdict means for the first one: its promise is not the first one's to give."""
    return (
        f"The {standing.stage} stage sent the task back to you: {verdict.reason}. Mend what is found below, "
        f"then give the promise of your own stage.\n\nTold to the {standing.stage}:\n{feedback}"
    )


def _blocked(reason: str, stop_reason: StopReason, feedback: str, *, counts: bool = True) -> Settlement:
    return Settlement(
        "block", "blocked", feedback, rollback=True, counts=counts, blocked_reason=reason, stop_reason=stop_reason
    )


def branch_moved(branch: str, *, restarted: bool) -> Settlement:
    """Someone committed on the branch while the attempt was judged: it is judged again, on the new base."""
    return judged_again(f"branch {branch} moved while the work was judged", restarted=restarted)


def judged_again(why: str, *, restarted: bool) -> Settlement:
    """What was judged cannot land as it was: the work stays, and the next attempt is judged. `restarted` stays, too."""
    reason = f"{why}; the work stands in the tree and is judged again"
    return Settlement("retry", "failed", reason, rollback=False, counts=False, restarted=restarted)


def _stopped(verdict: Verdict, feedback: str, standing: Standing) -> Settlement:
    reason = verdict.stop_reason or "error"
    stop = Stop(reason, verdict.reason)
    if reason == "blocked":
        return _blocked(verdict.reason, "blocked", feedback, counts=verdict.counts)
    if reason in ("interrupted", "cancelled", "paused"):
        status: CompletionStatus = "cancelled" if reason == "cancelled" else "interrupted"
        return _ended(status, stop, feedback, standing, counts=False)
    status = "limited" if reason in ("rate-limited", "max-cost", "max-wall-time") else "failed"
    return _ended(status, stop, feedback, standing, counts=verdict.counts)


def _ended(status: CompletionStatus, stop: Stop, feedback: str, standing: Standing, *, counts: bool) -> Settlement:
    return Settlement(
        "interrupt",
        status,
        feedback,
        rollback=False,
        counts=counts,
        stop=stop,
        stop_reason=stop.stop_reason,
        restarted=standing.restarted,
        retry_after=standing.retry_after,
    )
