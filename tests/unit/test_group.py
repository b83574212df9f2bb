"""Which tasks are handed out together, what they say as one, and how what they took is divided."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.core.evidence import CompletionStatus, Iteration, Usage
from rulebook_ralph.core.group import as_one, group_of, parts_of
from rulebook_ralph.core.lifecycle import Trigger
from rulebook_ralph.core.model import Prd, Status, Task
from rulebook_ralph.core.policy import Settlement
from rulebook_ralph.core.settling import settled

AT = "2026-01-01T00:00:00.000Z"


def parallel(name: str, **more: Any) -> Task:
    return replace(Task(id=name, title=name.upper(), markers=("P",)), **more)


def group(*tasks: Task, most: int = 4, all_may: bool = False, unlike: str = "") -> tuple[str, ...]:
    """The ids of those that begin with the first."""
    prd = Prd(version=1, project="p", tasks=tasks)
    found = group_of(prd, tasks[0], most=most, all_may=all_may, alike=lambda _, other: other.id != unlike)
    return tuple(task.id for task in found)


A, B, C = parallel("a"), parallel("b"), parallel("c")
PLAIN, LOOK = Task(id="x", title="X"), Task(id="v", title="V", markers=("P", "VERIFY"))
TRIED = {"status": "in_iteration", "attempts": {"coder": 1}, "settled_iteration": 3}


def test_parallel_tasks_that_could_begin_now_are_handed_out_together() -> None:
    assert group(A, B, C) == ("a", "b", "c")
    assert group(A, B, C, most=2) == ("a", "b")
    assert group(A, B, C, most=1) == ("a",)
    assert group(A, parallel("b", dependencies=("a",)), C) == ("a", "c")
    assert group(A, B, C, unlike="b") == ("a", "c")
    assert group(A, parallel("b", status="blocked"), parallel("c", status="completed")) == ("a",)


def test_others_than_parallel_ones_are_handed_out_alone_and_stand_in_the_way_of_those_behind() -> None:
    assert group(PLAIN, A, B) == ("x",)
    assert group(LOOK, A, B) == ("v",)
    assert group(A, PLAIN, B) == ("a",)
    assert group(A, LOOK, B) == ("a",)
    assert group(PLAIN, A, LOOK, B, all_may=True) == ("x", "a")


def test_tasks_that_were_tried_together_are_tried_together_again() -> None:
    together = [parallel(name, **TRIED) for name in ("a", "b", "c")]
    assert group(*together) == ("a", "b", "c")
    assert group(*together, parallel("new")) == ("a", "b", "c")
    interrupted = [replace(task, status="pending") for task in together]
    assert group(*interrupted) == ("a", "b", "c")
    assert group(together[0], replace(together[1], settled_iteration=2), together[2]) == ("a", "c")
    edited = {"attempts": {}, "status": "pending"}
    assert group(together[0], replace(together[1], **edited), together[2]) == ("a", "c")
    assert group(together[0], replace(together[1], markers=()), together[2])[0] == "a"


def test_as_one_they_ask_for_all_that_each_asks_for_and_one_alone_is_itself() -> None:
    one = parallel("a", description="Do a.", relevant_files=("a.py", "shared.py"), acceptance_criteria=("a is",))
    other = parallel("b", description="Do b.", relevant_files=("shared.py", "b.py"), acceptance_criteria=("b is",))
    assert as_one([one]) is one
    whole = as_one([one, other])
    assert (whole.id, whole.title, whole.acceptance_criteria) == ("a", "A; B", ("a is", "b is"))
    assert whole.description == "a: A\nDo a.\n\nb: B\nDo b."
    assert whole.relevant_files == ("a.py", "shared.py", "b.py")


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_nothing_is_lost_when_it_is_divided(whole: int, parts: int) -> None:
    shares = parts_of(whole, parts)
    assert (sum(shares), len(shares)) == (whole, parts)
    assert max(shares) - min(shares) <= 1


ENDINGS: list[tuple[Trigger, CompletionStatus, Status]] = [
    ("complete", "completed", "completed"),
    ("retry", "failed", "in_iteration"),
    ("interrupt", "interrupted", "pending"),
    ("block", "blocked", "blocked"),
]


@given(st.integers(1, 4), st.integers(0, 1000), st.sampled_from(ENDINGS), st.integers(0, 4))
def test_one_settlement_settles_every_task_of_the_group_once(
    many: int, tokens: int, ending: tuple[Trigger, CompletionStatus, Status], removed: int
) -> None:
    trigger, completion, status = ending
    names = tuple("abcd"[:many])
    opened = tuple(parallel(name, status="in_iteration", iteration_number=7) for name in names)
    beside = Task(id="other", title="Other")
    prd = Prd(version=1, project="p", tasks=(*opened[removed:], beside))
    record = Iteration(
        iteration_number=7,
        phase="judged",
        task_id="a",
        stage="coder",
        attempt=1,
        agent="claude",
        timestamp=AT,
        started_at=AT,
        base_commit="0" * 40,
        tasks_attempted=names,
        usage=Usage(input_tokens=tokens),
        cost_usd=0.3,
    )
    settlement = Settlement(trigger, completion, "", rollback=False, counts=trigger != "interrupt")
    after = settled(prd, record, settlement, at=AT)
    for task in after.tasks[:-1]:
        assert (task.status, task.settled_iteration) == (status, 7)
        assert task.attempts == ({} if trigger == "interrupt" else {"coder": 1})
        assert (task.completed_at is not None) == (trigger == "complete")
    assert after.tasks[-1] == beside
    if len(prd.tasks) > 1:
        assert (after.totals.iterations, after.totals.tokens, after.totals.cost_usd) == (1, tokens, 0.3)
        assert sum(task.tokens for task in after.tasks) == tokens
        assert abs(sum(task.cost_usd for task in after.tasks) - 0.3) < 1e-5
    assert settled(after, record, settlement, at="later") is after
