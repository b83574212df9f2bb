"""Budgets in dollars and tokens, of a run and of a task."""

from typing import Any

import pytest

from rulebook_ralph.agents.agent import AgentSettings
from rulebook_ralph.agents.claude import Claude
from rulebook_ralph.core.evidence import Iteration, Usage, Verdict
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.policy import RunTally, Standing, limit_reached, settle
from rulebook_ralph.core.requirements import money_left, over_budget
from rulebook_ralph.core.settings import Limits


def spent(cost_usd: float | None = None, tokens: int = 0) -> Iteration:
    return Iteration(
        iteration_number=2,
        phase="judged",
        task_id="one",
        stage="coder",
        attempt=1,
        agent="a",
        timestamp="",
        started_at="",
        base_commit="",
        cost_usd=cost_usd,
        usage=Usage(input_tokens=tokens, cache_read_tokens=tokens),
    )


@pytest.mark.parametrize(
    ("limits", "before", "now", "said"),
    [
        (Limits(), {"cost_usd": 1e6, "tokens": 10**9}, spent(1e6, 10**9), ""),
        (Limits(max_task_cost_usd=1), {"cost_usd": 0.6}, spent(0.39), ""),
        (Limits(max_task_cost_usd=1), {"cost_usd": 0.6}, spent(0.4), "maxTaskCostUsd; $1.00"),
        (Limits(max_task_cost_usd=1), {"cost_usd": 0.6}, spent(None), ""),
        (Limits(max_task_cost_usd=1), {}, spent(2.5), "maxTaskCostUsd; $2.50"),
        (Limits(max_task_tokens=1000), {"tokens": 600}, spent(tokens=199), ""),
        (Limits(max_task_tokens=1000), {"tokens": 600}, spent(tokens=200), "maxTaskTokens; 1,000"),
    ],
)
def test_a_task_s_budget_holds_over_its_iterations(
    limits: Limits, before: dict[str, Any], now: Iteration, said: str
) -> None:
    found = over_budget(limits, Task(id="one", title="", **before), now)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (Limits(), None),
        (Limits(max_cost_usd=5), 3),
        (Limits(max_task_cost_usd=1), 0.25),
        (Limits(max_cost_usd=5, max_task_cost_usd=1), 0.25),
        (Limits(max_cost_usd=2.125, max_task_cost_usd=1), 0.125),
    ],
)
def test_what_an_agent_may_cost_is_the_least_that_is_left(limits: Limits, left: float | None) -> None:
    assert money_left(limits, Task(id="one", title="", cost_usd=0.75), spent=2) == left


@pytest.mark.parametrize(("budget", "given"), [(0.25, "0.25"), (3, "3.00"), (0.001, "0.01"), (-1, "0.01")])
def test_claude_is_handed_its_budget_which_is_never_nothing(budget: float, given: str) -> None:
    argv = Claude(AgentSettings(id="c", type="claude"), {}).argv(budget=budget)
    assert argv[argv.index("--max-budget-usd") + 1] == given


def test_a_run_s_tokens_are_a_limit() -> None:
    limits = Limits(max_tokens=1000)
    assert limit_reached(limits, RunTally(tokens=999), max_iterations=9) is None
    stop = limit_reached(limits, RunTally(tokens=1000), max_iterations=9)
    assert stop is not None
    assert (stop.stop_reason, "1,000 tokens" in stop.reason) == ("max-cost", True)


@pytest.mark.parametrize("counts", [True, False])
def test_a_task_over_its_budget_is_blocked_unless_it_is_done(counts: bool) -> None:
    standing = Standing("coder", ("coder",), 1, {"coder": 9}, {}, 60, over_budget="its budget is used up")
    failed = Verdict(action="continue", hook="gates", reason="tests failed", counts=counts)
    settled = settle(failed, standing, feedback="", rollback="keep")
    assert (settled.trigger, settled.stop_reason, settled.counts) == ("block", "max-cost", counts)
    assert settled.blocked_reason == "its budget is used up; the last attempt: tests failed"
    assert settle(Verdict(action="complete"), standing, feedback="", rollback="keep").trigger == "complete"


def test_when_a_limit_resets_is_kept_only_where_the_attempt_ended_for_it() -> None:
    standing = Standing("coder", ("coder",), 1, {"coder": 9}, {}, 60, retry_after="2026-03-01T12:00:00Z")
    limited = Verdict(action="stop", reason="limited", stop_reason="rate-limited", counts=False)
    settled = settle(limited, standing, feedback="", rollback="keep")
    assert (settled.completion_status, settled.retry_after) == ("limited", "2026-03-01T12:00:00Z")
    assert (settled.trigger, settled.counts, settled.rollback) == ("interrupt", False, False)
