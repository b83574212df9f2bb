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
def test_an_edit_is_merged_by_task_and_field(base: Prd, edited: Prd, current: Prd) -> None:
    merged = merge(base, edited, current).prd
    before, wanted, had, now = map(_by_id, (base, edited, current, merged))
    assert len(now) == len(merged.tasks), "none stands twice"
    _every_field_is_the_persons_where_they_changed_it(before, wanted, had, now)
    assert merged.description == (edited if edited.description != base.description else current).description
    assert merged.totals == current.totals
    _no_task_is_lost_that_nobody_removed(before, wanted, had, now)
    for name, task in had.items():
        if task.status == "completed" and name in now and not (name in before and before[name].status == "completed"):
            assert now[name].status == "completed", "nothing completed is undone but by a person who knew it"
    again = merge(edited, edited, merged)
    assert again == merge(merged, merged, merged)
    assert again.prd is merged, "what was taken in is not taken twice"
    unedited = merge(base, base, current)
    assert (unedited.prd is current, unedited.overtaken) == (True, ())
    forged = replace(edited, tasks=tuple(replace(task, status="in_iteration") for task in edited.tasks))
    for task in merge(current, forged, current).prd.tasks:
        assert task.status == (had[task.id].status if task.id in had else "pending")


Tasks = dict[str, Task]


def _every_field_is_the_persons_where_they_changed_it(before: Tasks, wanted: Tasks, had: Tasks, now: Tasks) -> None:
    for name, task in now.items():
        if name not in had:
            assert all(getattr(task, field) == getattr(wanted[name], field) for field in (*PERSONS_FIELDS, "extra"))
        elif name not in wanted:
            assert task == had[name]
        elif name in before:
            for field in (*PERSONS_FIELDS, "attempts", "summary", "tokens"):
                is_edited = getattr(wanted[name], field) != getattr(before[name], field)
                if is_edited or wanted[name].status == before[name].status:
                    assert getattr(task, field) == getattr((wanted if is_edited else had)[name], field)
            assert task.settled_iteration == had[name].settled_iteration


def _no_task_is_lost_that_nobody_removed(before: Tasks, wanted: Tasks, had: Tasks, now: Tasks) -> None:
    for name in {*before, *wanted, *had}:
        by_person = name in before and name not in wanted
        by_ralph = name in before and name not in had and wanted.get(name) == before[name]
        assert (name in now) == ((name in wanted or name in had) and not by_person and not by_ralph)
    if [name for name in wanted if name in before] != [name for name in before if name in wanted]:
        assert [name for name in now if name in wanted] == [name for name in wanted if name in now]
    else:
        assert [name for name in now if name in had] == [name for name in had if name in now]


@given(_prds(), _prds())
def test_with_an_unknown_base_words_count_and_facts_do_not(edited: Prd, current: Prd) -> None:
    now, wanted = _by_id(merge(None, edited, current).prd), _by_id(edited)
    for task in current.tasks:
        kept, words = now[task.id], wanted.get(task.id, task)
        assert all(getattr(kept, name) == getattr(task, name) for name in ("status", *LOOP_FIELDS))
        assert all(getattr(kept, name) == getattr(words, name) for name in PERSONS_FIELDS)


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
