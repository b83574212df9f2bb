import itertools
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core import policy, requirements
from rulebook_ralph.core.evidence import MERGE, CompletionStatus, StopReason, Verdict
from rulebook_ralph.core.lifecycle import Trigger, advance
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.policy import RunTally, Settlement, Standing, Stop, limit_reached, settle
from rulebook_ralph.core.settings import Config, Defaults, Limits, Ralph, Role, Roles, StopCriteria
from tests.cases import each_of

DONE = Verdict(action="complete", hook="pipeline", reason="all holds")
AGAIN = Verdict(action="continue", hook="gates", reason="gate failed")
Rollback = Literal["keep", "reset"]


def _settle(
    verdict: Verdict, *, attempt: int = 1, allowed: int = 3, time_left: float = 60, rollback: Rollback = "keep"
) -> Settlement:
    standing = Standing("coder", ("coder",), attempt, {"coder": allowed}, {}, time_left)
    return settle(verdict, standing, feedback="mend it", rollback=rollback)


@pytest.mark.parametrize(("attempt", "time_left"), [(1, 60), (3, 60), (4, 60), (1, 0), (3, -5)])
def test_completed_work_counts_even_when_everything_is_used_up(attempt: int, time_left: float) -> None:
    for rollback in ("keep", "reset"):
        settled = _settle(DONE, attempt=attempt, time_left=time_left, rollback=rollback)
        assert settled == Settlement("complete", "completed", "", rollback=False, counts=True, stop_reason="complete")


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
    moved = policy.branch_moved("ralph/p", restarted=False)
    assert (moved.trigger, moved.counts, moved.rollback, moved.stop) == ("retry", False, False, None)
    assert "ralph/p" in moved.feedback


TWO_STAGES: tuple[Stage, ...] = ("coder", "reviewer")


@given(
    st.booleans(), st.integers(1, 5), st.integers(-5, 60), st.integers(0, 5), st.sampled_from(TWO_STAGES), st.booleans()
)
def test_what_does_not_fit_what_landed_meanwhile_is_nobodys_failure(
    anew: bool, attempt: int, time_left: int, repeats: int, stage: Stage, restarted: bool
) -> None:
    """Never blocked, never charged: whatever is used up, the task is tried again, from the first stage where the work
    cannot be brought there.
    """
    verdict = Verdict(action="continue", hook=MERGE, reason="landed", counts=False, starts_anew=anew)
    standing = Standing(
        stage,
        TWO_STAGES,
        attempt,
        dict.fromkeys(TWO_STAGES, 3),
        {"coder": 3, "reviewer": 3},
        time_left,
        repeats,
        restarted,
        "budget used up",
    )
    for rollback in ("keep", "reset"):
        settled = settle(verdict, standing, feedback="fit it in", rollback=rollback)
        goes_back = anew and stage == "reviewer"
        assert (settled.trigger, settled.next_stage) == (("send_back", "coder") if goes_back else ("retry", None))
        assert (settled.completion_status, settled.feedback, settled.counts) == ("failed", "fit it in", False)
        assert (settled.rollback, settled.restarted, settled.stop) == (anew, restarted, None)


@each_of(
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


STAGES: tuple[Stage, ...] = ("coder", "reviewer", "tester", "qa")


def _standing(
    stage: Stage = "coder",
    stages: tuple[Stage, ...] = STAGES,
    *,
    attempt: int = 1,
    used: dict[str, int] | None = None,
    repeats: int = 1,
    restarted: bool = False,
) -> Standing:
    allowed: dict[Stage, int] = {"coder": 3, "reviewer": 2, "tester": 2, "qa": 2}
    return Standing(stage, stages, attempt, allowed, used or {}, 60, repeats, restarted)


def test_a_verified_stage_hands_over_to_the_next_and_only_the_last_completes() -> None:
    for stage, following in itertools.pairwise(STAGES):
        settled = settle(DONE, _standing(stage), feedback="look at it", rollback="reset")
        assert (settled.trigger, settled.completion_status, settled.next_stage) == ("advance", "completed", following)
        assert (settled.rollback, settled.counts, settled.stop) == (False, True, None)
    assert settle(DONE, _standing("qa"), feedback="", rollback="keep").trigger == "complete"
    assert settle(DONE, _standing("coder", ("coder",)), feedback="", rollback="keep").trigger == "complete"


@each_of("rollback", ["keep", "reset"])
@each_of("hook", ["gates", "promise", "criteria", "user", "tests"])
def test_a_later_stage_that_fails_sends_the_task_back_with_its_findings(hook: str, rollback: Rollback) -> None:
    verdict = Verdict(action="continue", hook=hook, reason="no promise")
    settled = settle(verdict, _standing("tester"), feedback="add() is wrong", rollback=rollback)
    assert (settled.trigger, settled.next_stage, settled.completion_status) == ("send_back", "coder", "failed")
    assert settled.rollback == (rollback == "reset")
    assert "tester" in settled.feedback
    assert "add() is wrong" in settled.feedback


@pytest.mark.parametrize("hook", ["agent", "integrity"])
def test_a_later_stage_whose_agent_failed_is_tried_again_itself(hook: str) -> None:
    settled = settle(
        Verdict(action="continue", hook=hook, reason="crash"), _standing("qa"), feedback="", rollback="keep"
    )
    assert (settled.trigger, settled.next_stage) == ("retry", None)


def test_a_task_cannot_be_sent_back_for_ever() -> None:
    sent = settle(AGAIN, _standing("reviewer", used={"coder": 2}), feedback="", rollback="keep")
    assert sent.trigger == "send_back"
    for standing in (_standing("reviewer", used={"coder": 3}), _standing("reviewer", attempt=2, used={"coder": 1})):
        settled = settle(AGAIN, standing, feedback="", rollback="keep")
        assert (settled.trigger, settled.stop_reason) == ("block", "max-iterations")


def test_the_same_failure_three_times_starts_again_from_the_base_and_then_blocks() -> None:
    assert settle(AGAIN, _standing(repeats=2), feedback="f", rollback="keep").rollback is False
    again = settle(AGAIN, _standing(repeats=3, attempt=2), feedback="the failure", rollback="keep")
    assert (again.trigger, again.rollback, again.restarted) == ("retry", True, True)
    assert "the failure" in again.feedback
    assert "another way" in again.feedback
    later = settle(AGAIN, _standing("qa", repeats=3), feedback="f", rollback="keep")
    assert (later.trigger, later.next_stage, later.rollback) == ("send_back", "coder", True)
    blocked = settle(AGAIN, _standing(repeats=4, attempt=2, restarted=True), feedback="f", rollback="keep")
    assert (blocked.trigger, blocked.stop_reason) == ("block", "stuck")
    assert "gate failed" in (blocked.blocked_reason or "")
    other = settle(AGAIN, _standing(repeats=1, attempt=2, restarted=True), feedback="f", rollback="keep")
    assert (other.trigger, other.restarted) == ("retry", True)


@pytest.mark.parametrize("restarted", [True, False])
def test_what_cannot_land_does_not_give_a_stuck_task_another_restart(restarted: bool) -> None:
    assert policy.branch_moved("ralph/p", restarted=restarted).restarted == restarted
    assert policy.judged_again("its stages were changed", restarted=restarted).restarted == restarted


@pytest.mark.parametrize("switched", [Ralph(enabled=False), Ralph(agents=Roles(coder=Role(enabled=False)))])
def test_where_the_loop_is_switched_off_there_is_a_single_pass(switched: Ralph) -> None:
    config = Config(ralph=switched, defaults=Defaults(max_iterations=7))
    task = Task(id="a", title="", completion={"coder": {"maxIterations": 9}})
    assert requirements.max_attempts(config, task, "coder") == 1


def test_attempts() -> None:
    config = Config()
    fresh = Task(id="a", title="")
    assert [requirements.max_attempts(config, fresh, stage) for stage in STAGES] == [15, 5, 10, 5]
    assert requirements.attempts_left(config, fresh) == 15
    used = Task(id="a", title="", status="in_iteration", attempts={"coder": 4, "qa": 1})
    assert requirements.attempts_left(config, used) == 11
    assert requirements.attempts_left(Config(stages=("coder", "qa")), used) == 11 + 4
    few = Config(defaults=Defaults(max_iterations=2))
    assert requirements.max_attempts(few, fresh, "tester") == 2
    assert requirements.attempts_left(few, used) == 0
    reopened = Task(id="a", title="", status="blocked", attempts={"coder": 15})
    assert requirements.attempts_left(config, reopened) == 15


def test_the_limit_of_attempts_is_the_criterias_the_tasks_the_roles_the_default_the_tables_in_this_order() -> None:
    own = Task(id="a", title="", completion={"coder": {"max_iterations": 2}}, overrides={"max_iterations": 6})
    none = Task(id="b", title="")
    roles = Ralph(default_max_iterations=5, agents=Roles(coder=Role(max_iterations=3)))
    config = Config(ralph=roles, defaults=Defaults(max_iterations=4))
    assert requirements.max_attempts(config, own, "coder") == 2
    assert requirements.max_attempts(config, own, "qa") == 6
    assert requirements.max_attempts(config, none, "coder") == 3
    assert requirements.max_attempts(config, none, "qa") == 4
    assert requirements.max_attempts(Config(ralph=roles), none, "qa") == 5


def test_what_a_task_says_of_its_own_goes_over_the_configuration() -> None:
    config = Config(stages=("coder", "qa"), rules=("one",), stop_criteria=StopCriteria(require_lint=True))
    overrides = {"executor": "codex", "rules": ["two"], "stages": ["qa"], "stop_criteria": {"requirePromise": False}}
    task = Task(id="a", title="", overrides=overrides)
    assert requirements.stages_of(config, task) == ("qa",)
    assert requirements.rules_for(config, task) == ("one", "two")
    assert requirements.executor_for(config, task, "coder") == "codex"
    assert requirements.stop_criteria_for(config, task) == StopCriteria(require_lint=True, require_promise=False)
    own = Config(ralph=Ralph(agents=Roles(qa=Role(executor="gemini"))))
    assert requirements.executor_for(own, task, "qa") == "codex"
    assert requirements.executor_for(own, Task(id="b", title=""), "qa") == "gemini"


@each_of(("spent", "ends"), [(0.5, False), (1.0, True), (0.1 + 0.2 + 0.7, True), (1.0 - 1e-9, True), (0.9999, False)])
def test_costs_that_are_added_up_reach_their_limit(spent: float, ends: bool) -> None:
    stop = limit_reached(Limits(max_cost_usd=1.0), RunTally(cost_usd=spent), max_iterations=9)
    assert (stop is not None) is ends
