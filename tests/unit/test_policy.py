from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core import policy
from rulebook_ralph.core.evidence import CompletionStatus, StopReason, Verdict
from rulebook_ralph.core.lifecycle import Trigger, advance
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.policy import RunTally, Settlement, Stop, limit_reached, settle
from rulebook_ralph.core.settings import Config, Defaults, Limits

DONE = Verdict(action="complete", hook="pipeline", reason="all holds")
AGAIN = Verdict(action="continue", hook="gates", reason="gate failed")
Rollback = Literal["keep", "reset"]


def _settle(
    verdict: Verdict, *, attempt: int = 1, allowed: int = 3, time_left: float = 60, rollback: Rollback = "keep"
) -> Settlement:
    return settle(
        verdict, feedback="mend it", attempt=attempt, attempts_allowed=allowed, time_left=time_left, rollback=rollback
    )


@pytest.mark.parametrize(("attempt", "time_left"), [(1, 60), (3, 60), (4, 60), (1, 0), (3, -5)])
def test_completed_work_counts_even_when_everything_is_used_up(attempt: int, time_left: float) -> None:
    for rollback in ("keep", "reset"):
        settled = _settle(DONE, attempt=attempt, time_left=time_left, rollback=rollback)
        assert settled == Settlement("complete", "completed", "", rollback=False, counts=True)


@pytest.mark.parametrize(
    ("attempt", "time_left", "rollback", "trigger", "status", "back"),
    [
        (1, 60, "keep", "retry", "failed", False),
        (1, 60, "reset", "retry", "failed", True),
        (2, 60, "keep", "retry", "failed", False),
        (3, 60, "keep", "block", "blocked", True),
        (4, 60, "keep", "block", "blocked", True),
        (1, 0, "keep", "block", "blocked", True),
        (1, -1, "reset", "block", "blocked", True),
    ],
)
def test_another_attempt_until_attempts_or_time_run_out(
    attempt: int, time_left: float, rollback: Rollback, trigger: Trigger, status: CompletionStatus, back: bool
) -> None:
    settled = _settle(AGAIN, attempt=attempt, time_left=time_left, rollback=rollback)
    assert (settled.trigger, settled.completion_status, settled.rollback) == (trigger, status, back)
    assert (settled.feedback, settled.counts, settled.stop) == ("mend it", True, None)
    assert (settled.blocked_reason is not None) == (trigger == "block")
    assert "gate failed" in (settled.blocked_reason or "gate failed")


def test_an_attempt_that_does_not_count_never_uses_the_last_one_up() -> None:
    uncounted = Verdict(action="continue", reason="branch moved", counts=False)
    settled = _settle(uncounted, attempt=3)
    assert (settled.trigger, settled.counts) == ("retry", False)
    out_of_time = _settle(uncounted, attempt=1, time_left=0)
    assert (out_of_time.trigger, out_of_time.counts) == ("block", False)
    moved = policy.branch_moved("ralph/p")
    assert (moved.trigger, moved.counts, moved.rollback, moved.stop) == ("retry", False, False, None)
    assert "ralph/p" in moved.feedback


@pytest.mark.parametrize(
    ("reason", "trigger", "status", "counts", "ends"),
    [
        ("blocked", "block", "blocked", True, False),
        ("interrupted", "interrupt", "interrupted", False, True),
        ("paused", "interrupt", "interrupted", False, True),
        ("cancelled", "interrupt", "cancelled", False, True),
        ("rate-limited", "interrupt", "limited", True, True),
        ("max-cost", "interrupt", "limited", True, True),
        ("max-wall-time", "interrupt", "limited", True, True),
        ("stuck", "interrupt", "failed", True, True),
        ("error", "interrupt", "failed", True, True),
        (None, "interrupt", "failed", True, True),
    ],
)
def test_a_stop(
    reason: StopReason | None, trigger: Trigger, status: CompletionStatus, counts: bool, ends: bool
) -> None:
    verdict = Verdict(action="stop", reason="why", stop_reason=reason)
    for attempt in (1, 3):  # a stop is no attempt too many
        settled = _settle(verdict, attempt=attempt, time_left=0, rollback="reset")
        assert (settled.trigger, settled.completion_status, settled.counts) == (trigger, status, counts)
        assert settled.stop == (Stop(reason or "error", "why") if ends else None)
        assert settled.blocked_reason == (None if ends else "why")
        assert settled.rollback is not ends
        assert settled.feedback == "mend it"


@given(
    st.builds(
        Verdict,
        action=st.sampled_from(("complete", "continue", "stop", "skip")),
        stop_reason=st.sampled_from((None, "blocked", "interrupted", "cancelled", "paused", "error", "max-cost")),
        counts=st.booleans(),
    ),
    st.integers(1, 5),
    st.integers(1, 5),
    st.floats(-1, 1),
)
def test_whatever_is_settled_is_legal(verdict: Verdict, attempt: int, allowed: int, time_left: float) -> None:
    settled = _settle(verdict, attempt=attempt, allowed=allowed, time_left=time_left)
    after = advance("in_iteration", settled.trigger)
    assert (after == "completed") == (verdict.action == "complete")
    assert (after == "completed") == (settled.completion_status == "completed")
    assert (after == "blocked") == (settled.completion_status == "blocked") == (settled.blocked_reason is not None)
    assert not (settled.counts and not verdict.counts and verdict.action != "complete")


def test_limits_of_a_run() -> None:
    limits = Limits(max_cost_usd=1.0, max_run_wall_time=60)
    assert limit_reached(limits, RunTally(9, 59.9, 0.99), max_iterations=10) is None
    for tally, reason in (
        (RunTally(1, 1, 1.0), "max-cost"),
        (RunTally(1, 60, 0), "max-wall-time"),
        (RunTally(10, 1, 0), "max-iterations"),
        (RunTally(11, 1, 0), "max-iterations"),
    ):
        stop = limit_reached(limits, tally, max_iterations=10)
        assert stop is not None
        assert stop.stop_reason == reason
        assert stop.reason
    assert limit_reached(Limits(), RunTally(9, 1e9, 1e9), max_iterations=10) is None


def test_attempts() -> None:
    config = Config()
    fresh = Task(id="a", title="")
    assert [policy.max_attempts(config, stage) for stage in ("coder", "reviewer", "tester", "qa")] == [15, 5, 10, 5]
    assert policy.attempts_left(config, fresh, "coder") == 15
    used = Task(id="a", title="", status="in_iteration", attempts={"coder": 4, "qa": 1})
    assert policy.attempts_left(config, used, "coder") == 11
    assert policy.attempts_left(config, used, "qa") == 4
    few = Config(defaults=Defaults(max_iterations=2))
    assert policy.max_attempts(few, "tester") == 2
    assert policy.attempts_left(few, used, "coder") == 0
    reopened = Task(id="a", title="", status="blocked", attempts={"coder": 15})
    assert policy.attempts_left(config, reopened, "coder") == 15
