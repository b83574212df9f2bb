import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.tasks import lifecycle
from rulebook_ralph.tasks.history import CompletionStatus, Decision, Iteration
from rulebook_ralph.tasks.lifecycle import STATUSES, TRANSITIONS, IllegalTransition, Trigger, advance, opened, settled
from rulebook_ralph.tasks.model import Prd, Status, Task, Totals
from rulebook_ralph.tasks.results import ParsedIteration, Usage
from tests.cases import AT, iteration

TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
DIAGRAM = {(trigger, source): target for trigger, source, target in TRANSITIONS}


def test_the_diagram_is_the_one_of_the_design() -> None:
    assert set(get_args(Status)) == set(STATUSES)
    assert len(DIAGRAM) == len(TRANSITIONS)
    assert {trigger for trigger, _ in DIAGRAM} == set(TRIGGERS)
    arrows = {(source, target) for _, source, target in TRANSITIONS if source != target}
    assert arrows == {
        ("pending", "in_iteration"),
        ("in_iteration", "completed"),
        ("in_iteration", "blocked"),
        ("in_iteration", "pending"),
        ("blocked", "pending"),
        ("completed", "pending"),
        ("pending", "completed"),
        ("blocked", "completed"),
    }


def test_what_the_diagram_has_no_arrow_for_is_refused() -> None:
    for trigger in TRIGGERS:
        for status in STATUSES:
            if (trigger, status) in DIAGRAM:
                assert advance(status, trigger) == DIAGRAM[trigger, status]
                assert re.search(f"{status} --> {DIAGRAM[trigger, status]}: .*{trigger}", lifecycle.mermaid())
            else:
                with pytest.raises(IllegalTransition, match=f"cannot {trigger} while {status}"):
                    advance(status, trigger)


LATER = "2026-01-02T00:00:00.000Z"
FACTS = Task(
    id="a",
    title="A",
    stage="coder",
    attempts={"coder": 3},
    iteration_number=7,
    settled_iteration=7,
    started_at=AT,
    completed_at=AT,
    blocked_reason="no key",
    summary="made it",
    cost_usd=1.5,
    tokens=900,
)
_endings: st.SearchStrategy[tuple[Trigger, CompletionStatus]] = st.sampled_from(
    (
        ("complete", "completed"),
        ("retry", "failed"),
        ("block", "blocked"),
        ("interrupt", "interrupted"),
        ("interrupt", "limited"),
    )
)


def _prd(*tasks: Task, **values: object) -> Prd:
    return Prd(version=1, project="p", created_at=AT, updated_at=AT, tasks=tasks, **values)  # type: ignore[arg-type]


def _iteration(number: int, task_id: str = "a", *, attempt: int = 1, cost: float | None = 0.25) -> Iteration:
    told = {"parsed": ParsedIteration(summary=f"summary {number}"), "usage": Usage(input_tokens=10, output_tokens=5)}
    return iteration(number, phase="judged", task_id=task_id, attempt=attempt, cost_usd=cost, **told)


def _settlement(trigger: Trigger, status: CompletionStatus, *, counts: bool = True) -> Decision:
    reason = "out of attempts" if trigger == "block" else None
    return Decision(trigger=trigger, completion_status=status, counts=counts, blocked_reason=reason)  # type: ignore[arg-type]


# Opening


def test_a_task_is_opened() -> None:
    task = opened(Task(id="a", title="A"), stage="coder", number=4, at=AT)
    assert (task.status, task.stage, task.iteration_number, task.started_at) == ("in_iteration", "coder", 4, AT)
    again = opened(task, stage="coder", number=5, at=LATER)
    assert (again.iteration_number, again.started_at) == (5, AT)


def test_a_blocked_task_starts_anew_and_a_completed_one_cannot_be_opened() -> None:
    blocked = replace(FACTS, status="blocked")
    task = opened(blocked, stage="coder", number=8, at=LATER)
    assert (task.status, task.attempts, task.blocked_reason, task.started_at) == ("in_iteration", {}, None, AT)
    with pytest.raises(IllegalTransition):
        opened(replace(FACTS, status="completed"), stage="coder", number=8, at=LATER)


# Settling


@given(st.lists(st.tuples(st.sampled_from("abx"), _endings, st.booleans(), st.none() | st.floats(0, 9)), max_size=12))
def test_settling_twice_is_settling_once_and_the_totals_are_the_sums(
    passes: list[tuple[str, tuple[Trigger, CompletionStatus], bool, float | None]],
) -> None:
    prd = _prd(*(Task(id=name, title=name, status="in_iteration") for name in "ab"), totals=Totals(extra={"mine": 1}))
    done: list[tuple[Iteration, Decision]] = []
    gone = 0
    for number, (task_id, (trigger, status), counts, cost) in enumerate(passes, 1):
        record = _iteration(number, task_id, attempt=number, cost=cost)
        settlement = _settlement(trigger, status, counts=counts)
        after = settled(prd, record, settlement, at=LATER)
        done.append((record, settlement))
        if task_id == "x":  # a task that a person removed
            done.pop()
            gone += 1
            assert after.tasks == prd.tasks
            prd = after
            continue
        before, task = prd.task(task_id), after.task(task_id)
        after = after.replacing(replace(task, status="in_iteration"))
        assert task.status == advance("in_iteration", trigger)
        assert task.attempts == (before.attempts | {"coder": number} if counts else before.attempts)
        assert task.cost_usd == pytest.approx(before.cost_usd + (cost or 0), abs=1e-5)
        assert task.tokens == before.tokens + 15
        assert task.settled_iteration == number
        assert (task.completed_at is not None) == (trigger == "complete")
        assert (task.blocked_reason is not None) == (trigger == "block")
        assert task.summary == (f"summary {number}" if trigger == "complete" else before.summary)
        prd = after
        for earlier, its_settlement in done:  # a redo, in whatever order
            assert settled(prd, earlier, its_settlement, at="another time") is prd
    totals = prd.totals
    assert totals.iterations == len(done) + gone
    assert totals.tokens == 15 * (len(done) + gone)
    assert sum(task.tokens for task in prd.tasks) == 15 * len(done)
    assert sum(task.cost_usd for task in prd.tasks) == pytest.approx(
        sum(one.cost_usd or 0 for one, _ in done), abs=1e-4
    )
    assert totals.extra == {"mine": 1}


def test_a_status_that_a_person_set_meanwhile_stays_unless_the_work_is_complete() -> None:
    for status in ("pending", "blocked"):
        prd = _prd(replace(FACTS, settled_iteration=None, status=status))
        kept = settled(prd, _iteration(8), _settlement("retry", "failed"), at=LATER).task("a")
        assert (kept.status, kept.blocked_reason, kept.attempts) == (status, "no key", {"coder": 3})
        done = settled(prd, _iteration(8), _settlement("complete", "completed"), at=LATER).task("a")
        assert (done.status, done.blocked_reason) == ("completed", None)


def test_of_a_group_the_tasks_that_are_left_take_all_of_it_and_the_totals_have_it_once() -> None:
    iteration = replace(_iteration(3), tasks_attempted=("a", "b"))
    settlement = _settlement("complete", "completed")
    for left in (("a", "b"), ("b",), ()):
        prd = settled(
            _prd(*(Task(id=name, title="", status="in_iteration") for name in left)), iteration, settlement, at=LATER
        )
        assert (prd.totals.iterations, prd.totals.cost_usd, prd.totals.tokens) == (1, 0.25, 15)
        assert sum(task.tokens for task in prd.tasks) == (15 if left else 0)
        assert prd.updated_at == LATER
        assert not left or settled(prd, iteration, settlement, at="another time") is prd
