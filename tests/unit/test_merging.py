"""A person's edit of the task list and the loop's facts, brought together."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.core.merging import Difference, differences, harmless, merged
from rulebook_ralph.core.model import LOOP_FIELDS, Prd, Status, Task, Totals

AT = "2026-01-01T00:00:00.000Z"
STATUSES: tuple[Status, ...] = ("pending", "in_iteration", "completed", "blocked")
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


def _prd(*tasks: Task, **values: object) -> Prd:
    return Prd(version=1, project="p", created_at=AT, updated_at=AT, tasks=tasks, **values)  # type: ignore[arg-type]


def _edited(ours: Prd, theirs: Prd) -> Prd:
    """The edit of a list that the loop has not changed since it wrote it."""
    return merged(ours, ours, theirs)


_words = st.text(max_size=5)


@st.composite
def _tasks(draw: st.DrawFn, task_id: str) -> Task:
    return Task(
        id=task_id,
        title=draw(_words),
        description=draw(_words),
        priority=draw(st.integers(1, 5)),
        status=draw(st.sampled_from(STATUSES)),
        acceptance_criteria=tuple(draw(st.lists(_words, max_size=2))),
        notes=draw(_words),
        stage=draw(st.sampled_from((None, "coder", "qa"))),
        attempts=draw(st.dictionaries(st.sampled_from(("coder", "qa")), st.integers(0, 9))),
        iteration_number=draw(st.none() | st.integers(1, 99)),
        settled_iteration=draw(st.none() | st.integers(1, 99)),
        started_at=draw(st.none() | _words),
        completed_at=draw(st.none() | _words),
        blocked_reason=draw(st.none() | _words),
        summary=draw(_words),
        cost_usd=draw(st.floats(0, 9)),
        tokens=draw(st.integers(0, 9)),
        extra=draw(st.dictionaries(_words, st.integers(), max_size=1)),
    )


@st.composite
def _prds(draw: st.DrawFn) -> Prd:
    names = draw(st.lists(st.sampled_from("abc"), unique=True))
    totals = Totals(iterations=draw(st.integers(0, 9)), extra=draw(st.dictionaries(_words, st.integers(), max_size=1)))
    return _prd(*(draw(_tasks(name)) for name in names), totals=totals, description=draw(_words))


_UNBOUND = set(LOOP_FIELDS) - {"stage", "attempts", "blocked_reason", "completed_at"}


@given(_prds(), _prds())
def test_an_edit_is_a_persons_words_and_the_loops_facts(ours: Prd, theirs: Prd) -> None:
    merged = _edited(ours, theirs)
    assert [task.id for task in merged.tasks] == [task.id for task in theirs.tasks]
    assert (merged.description, merged.created_at) == (theirs.description, ours.created_at)
    assert replace(merged.totals, extra={}) == replace(ours.totals, extra={})
    assert merged.totals.extra == theirs.totals.extra
    known = {task.id: task for task in ours.tasks}
    for now, wanted in zip(merged.tasks, theirs.tasks, strict=True):
        before = known.get(now.id, Task(id=now.id, title=""))
        for name in _UNBOUND:
            assert getattr(now, name) == getattr(before, name)
        for name in set(Task.__struct_fields__) - set(LOOP_FIELDS) - {"status"}:
            assert getattr(now, name) == getattr(wanted, name)
        if wanted.status == "in_iteration":
            assert now.status == before.status
        else:
            assert now.status == wanted.status
        if now.status == before.status:
            assert all(getattr(now, name) == getattr(before, name) for name in LOOP_FIELDS)
        else:
            assert now.attempts == {}


@given(_prds())
def test_no_edit_changes_nothing(prd: Prd) -> None:
    assert _edited(prd, prd) == prd


def test_a_task_that_is_unblocked_or_reopened_starts_anew() -> None:
    for status in ("blocked", "completed"):
        ours = _prd(replace(FACTS, status=status))
        task = _edited(ours, _prd(replace(FACTS, status="pending"))).task("a")
        assert (task.status, task.attempts, task.blocked_reason, task.completed_at) == ("pending", {}, None, None)
        assert (task.cost_usd, task.tokens, task.settled_iteration) == (1.5, 900, 7)


def test_a_task_that_a_person_completes_is_blocked_no_more() -> None:
    ours = _prd(replace(FACTS, status="blocked", completed_at=None))
    task = _edited(ours, _prd(replace(FACTS, status="completed"))).task("a")
    assert (task.status, task.blocked_reason) == ("completed", None)


def test_in_iteration_cannot_be_forged() -> None:
    forged = replace(FACTS, status="in_iteration")
    assert _edited(_prd(Task(id="a", title="A")), _prd(forged)).task("a").status == "pending"
    assert _edited(_prd(replace(FACTS, status="completed")), _prd(forged)).task("a").status == "completed"
    assert _edited(_prd(), _prd(forged)).task("a").status == "pending"


def test_a_copied_task_brings_no_facts() -> None:
    copy = replace(FACTS, id="copy", status="pending", settled_iteration=10**9)
    task = _edited(_prd(FACTS), _prd(FACTS, copy)).task("copy")
    assert task == Task(id="copy", title="A")


@given(_prds(), _prds())
def test_a_file_that_nobody_edited_gives_what_the_loop_has(base: Prd, ours: Prd) -> None:
    together = merged(base, ours, base)
    removed = {task.id for task in base.tasks} - {task.id for task in ours.tasks}
    assert {task.id for task in together.tasks} == {task.id for task in ours.tasks}
    assert not removed & {task.id for task in together.tasks}
    assert all(together.task(task.id) == task for task in ours.tasks)
    assert together.totals == ours.totals


def test_a_task_that_the_loop_completed_meanwhile_stays_completed() -> None:
    base = _prd(Task(id="a", title="A"), Task(id="b", title="B"))
    ours = _prd(replace(FACTS, title="A", status="completed"), Task(id="b", title="B"))
    theirs = _prd(Task(id="a", title="A!"), Task(id="b", title="B", status="blocked"))
    together = merged(base, ours, theirs)
    assert together.task("a") == replace(FACTS, title="A!", status="completed")
    assert together.task("b").status == "blocked"


def test_tasks_added_and_removed_on_both_sides() -> None:
    a, b, c, d = (Task(id=name, title=name) for name in "abcd")
    together = merged(_prd(a, b), _prd(a, b, c), _prd(d, a))
    assert [task.id for task in together.tasks] == ["d", "a", "c"]
    assert merged(_prd(a, b), _prd(b), _prd(a, b)).tasks == (b,)


@given(_prds(), _prds())
def test_what_could_do_harm_is_not_taken_over(base: Prd, theirs: Prd) -> None:
    free = harmless(base, theirs)
    assert [task.id for task in free.tasks] == [task.id for task in base.tasks]
    for before, now in zip(base.tasks, free.tasks, strict=True):
        assert replace(now, priority=before.priority) == before
    assert harmless(base, free) == free


def test_commands_criteria_and_removals_do_harm() -> None:
    base = _prd(Task(id="a", title="A", acceptance_criteria=("x",)), Task(id="b", title="B"))
    command = {"coder": {"verificationMethod": "external", "verificationConfig": {"command": "rm -rf ~"}}}
    theirs = _prd(
        Task(
            id="a",
            title="A+",
            priority=3,
            acceptance_criteria=(),
            status="completed",
            dependencies=("c",),
            completion=command,
        ),
        Task(id="c", title="C", completion=command),
        Task(id="d", title="D"),
        Task(id="e", title="Drop the old login", notes="test_login.py may go"),
        branch="other",
    )
    assert harmless(base, theirs) == _prd(replace(base.task("a"), priority=3), base.task("b"))
    assert {(found.task_id, found.field) for found in differences(base, theirs)} == {
        ("", "branch"),
        ("a", "status"),
        ("a", "priority"),
        ("e", ""),
        ("a", "title"),
        ("a", "acceptance_criteria"),
        ("a", "dependencies"),
        ("a", "completion"),
        ("c", ""),
        ("d", ""),
        ("b", ""),
    }
    assert Difference("b", "", base.task("b"), None) in differences(base, theirs)
