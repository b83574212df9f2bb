import time
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.tasks.model import PARALLEL, VERIFY, Prd, Status, Task
from rulebook_ralph.tasks.selection import next_beside, next_task, plan, waiting_on

IDS = tuple("abcdefgh")
_statuses: st.SearchStrategy[Status] = st.sampled_from(("pending", "pending", "in_iteration", "completed", "blocked"))
_some = st.frozensets(st.sampled_from(IDS))


@st.composite
def _prds(draw: st.DrawFn) -> Prd:
    """Tasks in any order, with few priorities so that there are ties, and any dependencies, cycles and unknown ones too."""
    ids = draw(st.permutations(IDS[: draw(st.integers(0, len(IDS)))]))
    others = st.sampled_from((*IDS, "unknown")) if draw(st.booleans()) else st.sampled_from(IDS[:4])
    return _prd(
        Task(
            id=name,
            title=name,
            priority=draw(st.integers(1, 3)),
            status=draw(_statuses),
            dependencies=tuple(draw(st.lists(others, max_size=3))),
        )
        for name in ids
    )


def _prd(tasks: Iterable[Task]) -> Prd:
    return Prd(version=1, project="p", tasks=tuple(tasks))


def _done(prd: Prd) -> set[str]:
    return {task.id for task in prd.tasks if task.status == "completed"}


@given(_prds(), _some, _some)
def test_the_next_task_is_the_first_of_the_highest_that_may_be_worked_on(
    prd: Prd, only: frozenset[str], reopen: frozenset[str]
) -> None:
    done = _done(prd)
    ready = [task for task in prd.tasks if set(task.dependencies) <= done and (not only or task.id in only)]
    begun = [task for task in ready if task.status == "in_iteration"]
    pending = sorted((task for task in ready if task.status == "pending"), key=lambda task: task.priority)
    blocked = [task for task in ready if task.status == "blocked" and task.id in reopen]
    wanted = [*begun, *pending, *sorted(blocked, key=lambda task: task.priority)]
    assert next_task(prd, only=only, reopen=reopen) == (wanted[0] if wanted else None)


@given(_prds(), _some, _some)
def test_the_plan_is_what_completing_one_after_the_other_gives(
    prd: Prd, only: frozenset[str], reopen: frozenset[str]
) -> None:
    planned = plan(prd, only=only, reopen=reopen)
    worked: list[Task] = []
    while (task := next_task(prd, only=only, reopen=reopen)) is not None:
        assert set(task.dependencies) <= _done(prd)
        assert not waiting_on(prd, task)
        worked.append(task)
        prd = prd.replacing(replace(task, status="completed"))
    assert planned == tuple(worked)
    assert len({task.id for task in planned}) == len(planned)


def test_ten_thousand_tasks_are_planned_at_once() -> None:
    count = 10_000
    chain = [Task(id=f"t{n}", title="", dependencies=(f"t{n + 1}",)) for n in range(count - 1)]
    fan = [Task(id=f"t{n}", title="", priority=n % 7 + 1, dependencies=("root",)) for n in range(count - 1)]
    for tasks in ([*chain, Task(id=f"t{count - 1}", title="")], [*fan, Task(id="root", title="", priority=9)]):
        start = time.process_time()
        order = plan(_prd(tasks))
        assert time.process_time() - start < 1.5
        assert len(order) == count
        assert order[0] == tasks[-1]
        start = time.process_time()
        assert next_task(_prd(tasks)) == tasks[-1]
        assert time.process_time() - start < 0.1


_markers = st.frozensets(st.sampled_from((PARALLEL, VERIFY, "RED")))


@st.composite
def _begun(draw: st.DrawFn) -> tuple[Prd, tuple[Task, ...]]:
    """A list whose tasks have markers, and some of it that go on."""
    prd = _prd(
        replace(task, markers=tuple(draw(_markers)), parallel=draw(st.booleans())) for task in draw(_prds()).tasks
    )
    beside = [replace(task, status="in_iteration") for task in prd.tasks if draw(st.booleans())]
    for task in beside:
        prd = prd.replacing(task)
    return prd, tuple(beside)


@given(_begun(), _some)
def test_beside_others_begins_the_next_task_or_none(begun: tuple[Prd, tuple[Task, ...]], only: frozenset[str]) -> None:
    """It never jumps over one that has to wait, and nothing begins twice."""
    prd, beside = begun
    task = next_beside(prd, beside, only=only)
    following = next_task(prd, only=only, busy={each.id for each in beside})
    if not beside:
        assert task == following
    together = [] if following is None else [following, *beside]
    may = all(VERIFY not in each.markers and each.parallel for each in together)
    assert task == (following if may or not beside else None)
    if task is not None:
        assert task.id not in {each.id for each in beside}
        assert set(task.dependencies) <= _done(prd)


@given(_begun())
def test_what_may_begin_beside_several_may_begin_beside_fewer(begun: tuple[Prd, tuple[Task, ...]]) -> None:
    """Who ends never stands in the way of who could begin before."""
    prd, beside = begun
    task = next_beside(prd, beside)
    for number in range(len(beside)):
        fewer = (*beside[:number], *beside[number + 1 :])
        ended = prd.replacing(replace(beside[number], status="completed"))
        assert task is None or next_beside(ended, fewer) is not None
