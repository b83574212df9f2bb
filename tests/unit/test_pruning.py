from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import Status, Task
from rulebook_ralph.core.pruning import Past, superfluous

IDS = ("a", "b", "c", "removed")
NUMBERS = st.integers(1, 30)
PAST = st.none() | st.builds(Past, st.sampled_from(IDS), st.booleans())
FILES = st.dictionaries(NUMBERS, PAST)
SNAPSHOTS = st.dictionaries(NUMBERS, st.sets(st.sampled_from(IDS), min_size=1))
STATUSES: tuple[Status, ...] = ("pending", "in_iteration", "completed", "blocked")
TASKS = st.tuples(
    *(
        st.builds(
            Task,
            id=st.just(name),
            title=st.just(""),
            status=st.sampled_from(STATUSES),
            settled_iteration=st.none() | NUMBERS,
            iteration_number=st.none() | NUMBERS,
        )
        for name in ("a", "b", "c")
    )
)


@given(files=FILES, snapshots=SNAPSHOTS, tasks=TASKS, keep=st.integers(1, 8))
def test_what_is_needed_stays_and_everything_else_goes(
    files: dict[int, Past | None], snapshots: dict[int, set[str]], tasks: tuple[Task, ...], keep: int
) -> None:
    gone = superfluous(files, snapshots, tasks, keep=keep)
    for there in (files, snapshots):
        assert not gone & set(sorted(there)[-keep:]), "the newest stay, and the highest number with them"
    going_on = {task.id for task in tasks if task.status != "completed"}
    for number in gone:
        past = files.get(number, Past("", settled=True))
        assert past is not None
        assert past.settled
        assert past.task_id not in going_on
        assert not snapshots.get(number, set()) & going_on
        assert number not in {task.settled_iteration for task in tasks if task.id in going_on}
    left = {number: past for number, past in files.items() if number not in gone}
    left_snapshots = {number: ids for number, ids in snapshots.items() if number not in gone}
    assert superfluous(left, left_snapshots, tasks, keep=keep) == frozenset(), "a second time nothing is left to do"


@given(files=FILES, snapshots=SNAPSHOTS, keep=st.integers(1, 8))
def test_of_completed_tasks_only_the_newest_and_the_unreadable_stay(
    files: dict[int, Past | None], snapshots: dict[int, set[str]], keep: int
) -> None:
    tasks = [Task(id=name, title="", status="completed", settled_iteration=1, iteration_number=1) for name in IDS]
    gone = superfluous(files, snapshots, tasks, keep=keep)
    newest = {*sorted(files)[-keep:], *sorted(snapshots)[-keep:]}
    open_ones = {number for number, past in files.items() if past is None or not past.settled}
    assert gone == (files.keys() | snapshots.keys()) - newest - open_ones
