"""What follows from a verdict, and when a run ends: limits, statuses, rollbacks. Pure functions on values."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from rulebook_ralph.config.settings import Limits
from rulebook_ralph.tasks.history import CompletionStatus, Decision, Iteration
from rulebook_ralph.tasks.model import Stage
from rulebook_ralph.tasks.results import MERGE, StopReason, Verdict
from rulebook_ralph.tasks.text import counted, cut
from rulebook_ralph.verify.judge import LONGEST_REASON


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

_OWN_FAULT = ("agent", "protect", "secrets")
"""Rules whose failure is a later stage's own: that stage is tried again, the task is not sent back."""


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """Where a task stands when an attempt at it is settled, and what was said of it.

    `allowed` and `used` are attempts by stage, without the present one. `time_left` is the task's, in seconds.
    `over_budget` says which budget of the task is used up; `retry_after` when its agent may be asked again.
    `repeats` counts the same failure in a row, the present one included; `restarted`: it was stuck once before;
    `has_work`: files differ from the base, so that a fresh start would change something.
    """

    verdict: Verdict
    feedback: str
    stage: Stage
    stages: tuple[Stage, ...]
    attempt: int
    allowed: Mapping[Stage, int]
    used: Mapping[str, int]
    time_left: float
    repeats: int = 1
    restarted: bool = False
    has_work: bool = True
    over_budget: str = ""
    retry_after: str | None = None
    rollback: Literal["keep", "reset"] = "keep"

    @property
    def next_stage(self) -> Stage | None:
        """The stage after the present one."""
        later = self.stages[self.stages.index(self.stage) + 1 :] if self.stage in self.stages else ()
        return later[0] if later else None

    @property
    def is_later(self) -> bool:
        """Whether a stage before the present one was verified already."""
        return self.stage in self.stages[1:]


def settle(standing: AttemptContext) -> Decision:
    """What follows from the verdict on an attempt."""
    verdict = standing.verdict
    if verdict.action == "complete" and standing.next_stage is None:
        return Decision(trigger="complete", completion_status="completed", stop_reason="complete")
    if verdict.action == "complete":
        return Decision(
            trigger="advance",
            completion_status="completed",
            next_stage=standing.next_stage,
            restarted=standing.restarted,
        )
    if verdict.action == "stop":
        return _stopped(standing)
    if verdict.hook == MERGE:  # nobody's failure; from the first stage on where the work could not be brought there
        return _again(standing, back=verdict.starts_anew and standing.is_later, rollback=verdict.starts_anew)
    # what the stages before brought about stays
    rollback = standing.rollback == "reset" and not standing.is_later
    return _used_up(standing) or _stuck(standing) or _sent_back(standing) or _again(standing, rollback=rollback)


def _again(
    standing: AttemptContext, told: str = "", *, back: bool = False, rollback: bool, anew: bool = False
) -> Decision:
    """Another attempt: at the stage, or with `back` from the first one on; `anew` where it was stuck."""
    return Decision(
        trigger="send_back" if back else "retry",
        completion_status="failed",
        feedback=told or standing.feedback,
        rollback=rollback,
        counts=standing.verdict.counts and standing.verdict.hook != MERGE,
        next_stage=standing.stages[0] if back else None,
        restarted=anew or standing.restarted,
    )


def _used_up(standing: AttemptContext) -> Decision | None:
    """Blocked, where the stage's attempts or the task's time are used up."""
    verdict, allowed = standing.verdict, standing.allowed[standing.stage]
    if verdict.counts and standing.attempt >= allowed:
        reason = f"{allowed} of {counted(allowed, 'attempt')} used; the last one: {verdict.reason}"
        return _blocked(standing, reason, "max-iterations")
    if standing.over_budget:
        return _blocked(standing, f"{standing.over_budget}; the last attempt: {verdict.reason}", "max-cost")
    if standing.time_left <= 0:
        reason = f"its time is used up (limits.maxWallTime); the last attempt: {verdict.reason}"
        return _blocked(standing, reason, "max-wall-time")
    return None


def _stuck(standing: AttemptContext) -> Decision | None:
    """The same failure again and again: once from the base anew, then blocked."""
    verdict = standing.verdict
    if standing.repeats < SAME_FAILURES or (not verdict.counts and verdict.hook in _LIMITED_ELSEWHERE):
        return None
    if not verdict.counts:  # what judges is at fault, and no other attempt would heal it
        return _blocked(standing, f"{standing.repeats} times in a row: {verdict.reason}", "stuck")
    if standing.restarted or not standing.has_work:
        also = ", also after starting again from the base" if standing.restarted else ""
        return _blocked(standing, f"stuck{also}: {verdict.reason}", "stuck")
    told = (
        f"{standing.repeats} attempts in a row ended the same way, so the tree was put back to the base commit. Do not "
        "repeat what was tried: read the failure below again, question what you took for granted, and go about it in "
        "another way. If it cannot be done, say that you are blocked and why.\n\n"
    )
    told += _for_the_first(standing) if standing.is_later else standing.feedback
    return _again(standing, told, back=standing.is_later, rollback=True, anew=True)


def _sent_back(standing: AttemptContext) -> Decision | None:
    """A later stage that fails sends the task back to the first one with its findings."""
    verdict, first = standing.verdict, standing.stages[0]
    if not standing.is_later or not verdict.counts or verdict.hook in _OWN_FAULT:
        return None
    allowed = standing.allowed[first]
    if standing.used.get(first, 0) >= allowed:
        used = f"{allowed} of {counted(allowed, 'attempt')} of {first} used"
        return _blocked(standing, f"{standing.stage} sent it back, but {used}: {verdict.reason}", "max-iterations")
    return _again(standing, _for_the_first(standing), back=True, rollback=standing.rollback == "reset")


def _for_the_first(standing: AttemptContext) -> str:
    """What a later stage's verdict means for the first one: its promise is not the first one's to give."""
    return (
        f"The {standing.stage} stage sent the task back to you: {standing.verdict.reason}. Mend what is found below, "
        f"then give the promise of your own stage.\n\nTold to the {standing.stage}:\n{standing.feedback}"
    )


def _blocked(standing: AttemptContext, reason: str, stop_reason: StopReason) -> Decision:
    return Decision(
        trigger="block",
        completion_status="blocked",
        feedback=standing.feedback,
        rollback=True,
        counts=standing.verdict.counts,
        blocked_reason=cut(reason, LONGEST_REASON),
        stop_reason=stop_reason,
    )


def _stopped(standing: AttemptContext) -> Decision:
    verdict = standing.verdict
    reason, counts = verdict.stop_reason or "error", verdict.counts
    if verdict.awaits_approval:
        return replace(_blocked(standing, verdict.reason, "blocked"), rollback=False, counts=False)
    if reason == "blocked":
        return _blocked(standing, verdict.reason, "blocked")
    status: CompletionStatus = "failed"
    if reason in ("rate-limited", "max-cost", "max-wall-time"):
        status = "limited"
    elif reason in ("interrupted", "cancelled", "paused"):
        status, counts = "cancelled" if reason == "cancelled" else "interrupted", False
    return Decision(
        trigger="interrupt",
        completion_status=status,
        feedback=standing.feedback,
        counts=counts,
        run_stop_reason=reason,
        run_stop_text=verdict.reason,
        stop_reason=reason,
        restarted=standing.restarted,
        retry_after=standing.retry_after,
    )


_VARIES = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*")
"""Addresses, hashes, times, durations, counts, line numbers."""
_LIMITED_ELSEWHERE = ("agent", MERGE)
"""Rules whose failures, where they count for nobody, come to an end otherwise: by the retry policy, by the branch."""
_IN_OTHERS_WORDS = ("work", "promise", "evidence")
"""Rules whose reasons quote the agent, or a model."""


def failure_of(judged: Iteration) -> str:
    """A digest of how a judged iteration failed; empty where it did not, or where only its agent or a merge did.

    What Ralph ran is compared, not what agents or models say of it: lines without numbers, without repeats and in no
    order, so that timings, addresses and a random order of tests make no new failure. The tree does not count: a liar
    who writes another note each time is stuck like a silent one.
    """
    verdict = judged.verdict
    if verdict is None or verdict.action != "continue" or (not verdict.counts and verdict.hook in _LIMITED_ELSEWHERE):
        return ""
    texts = [] if verdict.hook in _IN_OTHERS_WORDS else [verdict.reason]
    if judged.evidence is not None:
        texts += [asked.item for asked in judged.evidence.asked if asked.answer == "no"]
    for check in judged.checks:
        if check.failed:
            told = [each.criterion for each in check.findings if not each.met] or [check.output]
            texts += [f"{check.step} {check.reason}", *told]
    lines = sorted({_VARIES.sub("#", line.strip()) for text in texts for line in text.splitlines()})
    return hashlib.sha256("\n".join((judged.stage, verdict.hook, *lines)).encode("utf-8", "replace")).hexdigest()[:16]


def following(judged: Iteration, last: Iteration | None) -> Iteration:
    """The judged record with what the task's iteration before hands on: how often in a row the task failed that way,
    and feedback that is still to be answered.

    `last` is None for the first attempt or after a fresh start. An attempt that a limit, a crash or an overload ended
    breaks no row; one that does not count loses none of the feedback.
    """
    failure, verdict = failure_of(judged), judged.verdict
    if last is None:
        return replace(judged, failure=failure, repeats=int(bool(failure)))
    if failure:
        repeats = last.repeats + 1 if failure == last.failure else 1
        return replace(judged, failure=failure, repeats=repeats, restarted=last.restarted)
    judged = replace(judged, failure=last.failure, repeats=last.repeats, restarted=last.restarted)
    unanswered = verdict is not None and verdict.action != "complete" and not verdict.counts and verdict.hook != MERGE
    if not unanswered or not last.feedback or last.feedback == judged.feedback:
        return judged
    said = "" if last.feedback.startswith(judged.feedback) else f"{judged.feedback}\n\n"
    return replace(judged, feedback=said + last.feedback)
