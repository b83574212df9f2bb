"""A person's edit of the task list and what Ralph did meanwhile, merged."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.tasks.merge import PERSONS_FIELDS, distance, merge
from rulebook_ralph.tasks.model import LOOP_FIELDS, Prd, Status, Task, Totals

STATUSES: tuple[Status, ...] = ("pending", "in_iteration", "completed", "blocked")
DONE = Task(
    id="a",
    title="A",
    status="completed",
    attempts={"coder": 3},
    settled_iteration=7,
    completed_at="2026-01-01T00:00:00.000Z",
    summary="made it",
    cost_usd=1.5,
)
_words = st.text(max_size=3)


@st.composite
def _tasks(draw: st.DrawFn, task_id: str) -> Task:
    return Task(
        id=task_id,
        title=draw(_words),
        description=draw(_words),
        priority=draw(st.integers(1, 3)),
        status=draw(st.sampled_from(STATUSES)),
        acceptance_criteria=tuple(draw(st.lists(_words, max_size=2))),
        attempts=draw(st.dictionaries(st.sampled_from(("coder", "qa")), st.integers(0, 9))),
        settled_iteration=draw(st.none() | st.integers(1, 9)),
        summary=draw(_words),
        tokens=draw(st.integers(0, 9)),
        extra=draw(st.dictionaries(st.sampled_from("xy"), st.integers(0, 2))),
    )


@st.composite
def _prds(draw: st.DrawFn) -> Prd:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    extra = draw(st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)))
    tasks = tuple(draw(_tasks(name)) for name in names)
    totals = Totals(iterations=draw(st.integers(0, 9)))
    return Prd(version=1, project="p", tasks=tasks, totals=totals, description=draw(_words), extra=extra)


def _by_id(prd: Prd) -> dict[str, Task]:
    return {task.id: task for task in prd.tasks}


@given(_prds(), _prds(), _prds())
def test_every_field_is_the_persons_where_they_changed_it_and_else_ralphs(base: Prd, edited: Prd, current: Prd) -> None:
    merged = merge(base, edited, current).prd
    before, wanted, had = _by_id(base), _by_id(edited), _by_id(current)
    for task in merged.tasks:
        if task.id not in had:
            assert all(getattr(task, name) == getattr(wanted[task.id], name) for name in (*PERSONS_FIELDS, "extra"))
        elif task.id not in wanted:
            assert task == had[task.id]
        elif task.id in before:
            for name in (*PERSONS_FIELDS, "attempts", "summary", "tokens"):
                is_edited = getattr(wanted[task.id], name) != getattr(before[task.id], name)
                if is_edited or wanted[task.id].status == before[task.id].status:
                    assert getattr(task, name) == getattr((wanted if is_edited else had)[task.id], name)
            assert task.settled_iteration == had[task.id].settled_iteration
    assert merged.description == (edited if edited.description != base.description else current).description
    assert merged.totals == current.totals


@given(_prds(), _prds(), _prds())
def test_no_task_is_lost_that_nobody_removed_and_none_stands_twice(base: Prd, edited: Prd, current: Prd) -> None:
    merged = [task.id for task in merge(base, edited, current).prd.tasks]
    assert len(merged) == len(set(merged))
    before, wanted, had = _by_id(base), _by_id(edited), _by_id(current)
    for name in {*before, *wanted, *had}:
        by_person = name in before and name not in wanted
        by_ralph = name in before and name not in had and wanted.get(name) == before[name]
        assert (name in merged) == ((name in wanted or name in had) and not by_person and not by_ralph)
    order = [task.id for task in edited.tasks]
    if [name for name in order if name in before] != [name for name in before if name in order]:
        assert [name for name in merged if name in wanted] == [name for name in order if name in merged]
    else:
        assert [name for name in merged if name in had] == [task.id for task in current.tasks if task.id in merged]


@given(st.none() | _prds(), _prds(), _prds())
def test_nothing_completed_becomes_pending_but_by_a_person_who_knew_it(
    base: Prd | None, edited: Prd, current: Prd
) -> None:
    merged = _by_id(merge(base, edited, current).prd)
    for task in current.tasks:
        knew = base is not None and any(each.id == task.id and each.status == "completed" for each in base.tasks)
        if task.status == "completed" and task.id in merged and not knew:
            assert merged[task.id].status == "completed"


@given(_prds(), _prds(), _prds())
def test_what_was_taken_in_is_not_taken_twice(base: Prd, edited: Prd, current: Prd) -> None:
    merged = merge(base, edited, current).prd
    assert merge(edited, edited, merged) == merge(merged, merged, merged)
    assert merge(edited, edited, merged).prd is merged


@given(_prds(), _prds())
def test_a_file_that_nobody_edited_changes_nothing(base: Prd, current: Prd) -> None:
    found = merge(base, base, current)
    assert found.prd is current
    assert found.overtaken == ()


@given(_prds(), _prds())
def test_in_iteration_is_ralphs_alone(edited: Prd, current: Prd) -> None:
    forged = replace(edited, tasks=tuple(replace(task, status="in_iteration") for task in edited.tasks))
    had = _by_id(current)
    for task in merge(current, forged, current).prd.tasks:
        assert task.status == (had[task.id].status if task.id in had else "pending")


@given(_prds(), _prds())
def test_with_an_unknown_base_words_count_and_facts_do_not(edited: Prd, current: Prd) -> None:
    merged = merge(None, edited, current).prd
    wanted = _by_id(edited)
    assert _by_id(current).keys() <= _by_id(merged).keys()
    for task in current.tasks:
        now = _by_id(merged)[task.id]
        assert now.status == task.status
        assert all(getattr(now, name) == getattr(task, name) for name in LOOP_FIELDS)
        words = wanted.get(task.id, task)
        assert all(getattr(now, name) == getattr(words, name) for name in PERSONS_FIELDS)


def _prd(*tasks: Task, **values: Any) -> Prd:
    return Prd(version=1, project="p", tasks=tasks, **values)


def test_an_old_buffer_saved_late_changes_what_was_edited_in_it() -> None:
    base = _prd(Task(id="a", title="A"), Task(id="b", title="B"))
    edited = _prd(Task(id="a", title="A"), Task(id="b", title="B", priority=3), Task(id="c", title="C"))
    current = _prd(DONE, Task(id="b", title="B", status="in_iteration", attempts={"coder": 1}))
    merged = merge(base, edited, current)
    assert merged.prd.tasks == (DONE, replace(current.tasks[1], priority=3), Task(id="c", title="C"))
    assert distance(current, merged.prd) == 2


def test_a_person_may_unblock_reopen_block_and_complete() -> None:
    for before, after in [("blocked", "pending"), ("completed", "pending"), ("pending", "blocked")]:
        base = _prd(replace(DONE, status=before, blocked_reason="no key"))
        task = merge(base, _prd(replace(base.tasks[0], status=after)), base).prd.task("a")
        assert (task.status, task.attempts, task.cost_usd, task.settled_iteration) == (after, {}, 1.5, 7)
        if after == "pending":
            assert (task.blocked_reason, task.completed_at) == (None, None)
    waiting = _prd(Task(id="a", title="A", status="blocked", blocked_reason="no key"))
    done = merge(waiting, _prd(replace(waiting.tasks[0], status="completed")), waiting).prd.task("a")
    assert (done.status, done.blocked_reason) == ("completed", None)


def test_a_status_changed_in_a_buffer_that_did_not_know_of_the_completion_is_told() -> None:
    base, current = _prd(Task(id="a", title="A", status="blocked")), _prd(DONE)
    merged = merge(base, _prd(Task(id="a", title="A!", status="pending")), current)
    assert merged.prd.task("a") == replace(DONE, title="A!")
    assert merged.overtaken == ("a",)


def test_a_copied_task_brings_no_facts() -> None:
    copy = replace(DONE, id="copy", status="pending", settled_iteration=10**9)
    assert merge(_prd(DONE), _prd(DONE, copy), _prd(DONE)).prd.task("copy") == Task(id="copy", title="A")


def test_tasks_added_on_both_sides_stand_where_they_were_put() -> None:
    a, b, c, d, e = (Task(id=name, title=name) for name in "abcde")
    assert merge(_prd(a, b), _prd(d, a, b), _prd(e, a, c, b)).prd.tasks == (d, e, a, c, b)
    assert merge(_prd(a, b), _prd(a, b), _prd(b)).prd.tasks == (b,)


def test_unknown_keys_are_merged_key_by_key() -> None:
    base = _prd(Task(id="a", title="A", extra={"x": 1, "y": 1}), extra={"o": 1})
    edited = _prd(Task(id="a", title="A", extra={"x": 2}), extra={"o": 1, "p": 1})
    current = _prd(Task(id="a", title="A", extra={"x": 1, "y": 1, "z": 1}), extra={"o": 2})
    merged = merge(base, edited, current).prd
    assert (merged.tasks[0].extra, merged.extra) == ({"x": 2, "z": 1}, {"o": 2, "p": 1})
