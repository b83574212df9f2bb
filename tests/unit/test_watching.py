"""Whether a watch has something to do: decided on values alone. And the ears: folders that go and come, no inotify."""

import errno
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.console_scene import Scene
from rulebook_ralph.core import events, renewal, selection
from rulebook_ralph.core.evidence import StopReason
from rulebook_ralph.core.model import Prd, Status, Task
from rulebook_ralph.core.policy import RunTally
from rulebook_ralph.core.renewal import Left, Ran
from rulebook_ralph.core.settings import Config, Defaults, Limits
from rulebook_ralph.state.file_events import FolderEvents
from tests.harness import wait_for

END = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)
LATER = END + timedelta(hours=1)
ONE, TWO = Task(id="one", title="One", status="completed"), Task(id="two", title="Two", status="blocked")
THREE = Task(id="three", title="Three", dependencies=("two",))
LIST = Prd(version=1, project="toy", tasks=(ONE, TWO, THREE))
CONFIG = Config()


def ran(stop: StopReason = "blocked", prd: Prd = LIST, **more: object) -> Ran:
    return Ran(stop, 1, prd, CONFIG, END, **more)  # type: ignore[arg-type]


def start(left: Left, prd: Prd, config: Config = CONFIG, *, now: datetime = LATER) -> renewal.Start | None:
    return renewal.start(left, prd, config, now=now)


LEFT = renewal.left(ran(), None)


def test_a_look_at_many_tasks_is_quick() -> None:
    free = (Task(id=f"free-{number}", title="Free") for number in range(4000))
    waiting = (Task(id=f"waiting-{number}", title="Waiting", dependencies=("two",)) for number in range(4000))
    prd = Prd(version=1, project="toy", tasks=(TWO, *free, *waiting))
    left = renewal.as_it_stands(prd, CONFIG, at=END)
    begun = time.process_time()
    assert start(left, prd) is None
    assert "4000 that need two" in renewal.waiting_for(left, prd)
    assert time.process_time() - begun < 0.6


@pytest.mark.parametrize(
    ("edit", "reason", "reopen"),
    [
        (replace(TWO, status="pending"), "two was unblocked", set()),
        (replace(ONE, status="pending"), "one was reopened", set()),
        (replace(TWO, status="completed"), "three can be worked on", set()),
        (replace(THREE, dependencies=()), "three can be worked on", set()),
        (replace(TWO, notes="look at x"), "two was changed", {"two"}),
        (replace(TWO, acceptance_criteria=("works",)), "two was changed", {"two"}),
    ],
)
def test_an_edit_that_gives_something_to_do_starts_a_run(edit: Task, reason: str, reopen: set[str]) -> None:
    assert start(LEFT, LIST.replacing(edit)) == renewal.Start(reason, frozenset(reopen))


@pytest.mark.parametrize(
    "edit",
    [
        replace(ONE, notes="fine"),
        replace(TWO, priority=3),
        replace(TWO, metadata={"seen": True}),
        replace(TWO, blocked_reason="another"),
        replace(THREE, title="Third"),
    ],
)
def test_an_edit_that_gives_nothing_to_do_starts_none(edit: Task) -> None:
    assert start(LEFT, LIST.replacing(edit)) is None


def test_a_task_that_was_added_starts_a_run_unless_it_must_wait_or_was_not_asked_for() -> None:
    def added(task: Task) -> Prd:
        return replace(LIST, tasks=(*LIST.tasks, task))

    assert start(LEFT, added(Task(id="four", title="Four"))) == renewal.Start("four was added")
    assert start(LEFT, added(Task(id="four", title="Four", dependencies=("two",)))) is None
    assert start(LEFT, added(Task(id="four", title="Four", status="completed"))) is None
    assert renewal.start(LEFT, added(Task(id="four", title="Four")), CONFIG, now=LATER, only=("one",)) is None


def test_a_configuration_that_decides_otherwise_gives_blocked_tasks_another_chance() -> None:
    def edited(**changes: object) -> renewal.Start | None:
        return start(LEFT, LIST, replace(CONFIG, **changes))

    again = renewal.Start("config.yaml was edited", frozenset({"two"}))
    assert edited(defaults=Defaults(executor="codex")) == again
    assert edited(limits=Limits(max_wall_time=60)) == again
    assert edited(limits=Limits(max_cost_usd=9, max_iterations=3)) is None, "which decides when a run ends"
    assert edited(limits=Limits(max_wall_time=60, max_task_cost_usd=1)) == again
    paid = LIST.replacing(replace(TWO, cost_usd=2.0))
    assert start(LEFT, paid, replace(CONFIG, limits=Limits(max_task_cost_usd=1))) is None, "its own budget is used up"


def test_a_blocked_task_that_was_edited_during_the_run_has_its_chance_and_only_one() -> None:
    began = {task.id: task for task in LIST.tasks}
    edited = LIST.replacing(replace(TWO, notes="a hint"))
    left = renewal.left(ran(prd=edited, began=began), None)
    again = start(left, edited)
    assert again == renewal.Start("two was changed", frozenset({"two"}))
    left = renewal.left(Ran("stuck", 0, edited, CONFIG, END, given=again.reopen), left)
    assert start(left, edited) is None, "also where the run did not come to it"
    worked = renewal.left(ran(prd=edited, began=began, opened={"two": edited.task("two")}), None)
    assert start(worked, edited) is None


def test_what_a_limit_left_is_taken_up_only_when_it_is_edited() -> None:
    open_list = LIST.replacing(replace(TWO, status="pending"))
    left = renewal.left(ran("max-iterations", open_list), None)
    assert start(left, open_list) is None
    assert start(left, open_list.replacing(replace(TWO, status="pending", priority=5))) is None
    assert start(left, open_list.replacing(replace(TWO, status="pending", outcome="other"))) is not None


def test_an_edit_in_the_last_moment_of_a_run_is_not_taken_for_what_it_left() -> None:
    """It saw nothing to do, and yet there is something."""
    unblocked = LIST.replacing(replace(TWO, status="pending"))
    assert start(renewal.left(ran("blocked", unblocked), None), unblocked) is not None
    none_worked = renewal.left(Ran("blocked", 0, unblocked, CONFIG, END), LEFT)
    assert start(none_worked, unblocked) is None, "a run that did nothing about it is not repeated"


def test_when_an_agents_limit_is_over_its_task_goes_on() -> None:
    limited = replace(TWO, status="pending", retry_after="2026-01-01T05:00:00Z")
    prd = LIST.replacing(limited)
    left = renewal.left(ran("rate-limited", prd), None)
    due = renewal.next_look(left, prd)
    assert due is not None
    assert due >= END + timedelta(hours=2)
    assert start(left, prd, now=due - timedelta(seconds=1)) is None
    assert start(left, prd, now=due) == renewal.Start("two may go on, as the agent's limit is over")
    assert "going on at " in renewal.waiting_for(left, prd)
    soon = LIST.replacing(replace(limited, retry_after="2026-01-01T03:00:01Z"))
    again = renewal.next_look(renewal.left(ran("rate-limited", soon), None), soon)
    assert again == END + renewal.AT_LEAST_BETWEEN or (again is not None and again > END + renewal.AT_LEAST_BETWEEN)
    past = LIST.replacing(replace(limited, retry_after="2026-01-01T01:00:00Z"))
    assert renewal.next_look(renewal.left(ran("rate-limited", past), None), past) is None


def test_it_says_what_it_waits_for() -> None:
    assert renewal.waiting_for(LEFT, LIST) == (
        "waiting: 1 blocked (two), 1 that need two; edit prd.json, or: ralph task unblock two"
    )
    done = replace(LIST, tasks=(ONE,))
    assert renewal.waiting_for(LEFT, done) == "waiting: 1 task completed; edit prd.json, or: ralph task add"
    left_over = LIST.replacing(replace(TWO, status="pending"))
    assert renewal.waiting_for(LEFT, left_over).startswith(
        "waiting: 1 left by the last run (two), 1 that need two; edit"
    )


IDS = ("a", "b", "c", "d")
TASKS = st.builds(
    lambda id_, status, needs, notes: Task(
        id=id_, title=id_, status=status, dependencies=tuple(each for each in needs if each != id_), notes=notes
    ),
    st.sampled_from(IDS),
    st.sampled_from(["pending", "in_iteration", "completed", "blocked"]),
    st.lists(st.sampled_from(IDS), unique=True, max_size=2),
    st.sampled_from(["", "hint"]),
)
LISTS = st.lists(TASKS, unique_by=lambda task: task.id).map(
    lambda tasks: Prd(
        version=1,
        project="toy",
        tasks=tuple(
            replace(task, dependencies=tuple(need for need in task.dependencies if need in {t.id for t in tasks}))
            for task in tasks
        ),
    )
)
STOPS = st.sampled_from(["complete", "blocked", "stuck", "max-iterations", "rate-limited"])


@given(LISTS, STOPS, st.sets(st.sampled_from(IDS)))
def test_a_list_that_nobody_touches_never_starts_a_run(prd: Prd, stop: StopReason, opened: set[str]) -> None:
    """Where the stop reason says that nothing could be worked on, so it was; else a run would go on for ever."""
    if stop in ("complete", "blocked", "stuck") and selection.next_task(prd) is not None:
        return
    left = renewal.left(
        ran(
            stop,
            prd,
            began={task.id: task for task in prd.tasks},
            opened={task.id: task for task in prd.tasks if task.id in opened},
        ),
        None,
    )
    assert start(left, prd) is None
    assert start(left, replace(prd, updated_at="2026-01-02T00:00:00Z")) is None


@given(LISTS, LISTS, STOPS)
def test_a_start_has_something_to_work_on_and_comes_once(before: Prd, now: Prd, stop: StopReason) -> None:
    left = renewal.left(ran(stop, before, began={task.id: task for task in before.tasks}), None)
    called = start(left, now)
    if called is None:
        return
    assert selection.next_task(now, reopen=called.reopen) is not None
    fruitless = Ran("blocked", 0, now, CONFIG, END, given=called.reopen)
    assert start(renewal.left(fruitless, left), now) is None, "a run that changes nothing is not repeated"


@given(st.sampled_from(IDS), st.sampled_from(["pending", "blocked"]))
def test_what_another_terminals_run_left_is_no_news(task_id: str, status: Status) -> None:
    prd = Prd(version=1, project="toy", tasks=(Task(id=task_id, title="x", status=status),))
    assert start(renewal.as_it_stands(prd, CONFIG, at=END), prd) is None


# Limits


def test_the_limits_a_person_set_hold_for_all_runs_together() -> None:
    limits = Limits(max_cost_usd=5, max_tokens=1000, max_iterations=10, max_run_wall_time=100)
    spent = renewal.added(RunTally(3, 40, 2.0, 300), RunTally(1, 10, 1.5, 100))
    left = renewal.limits_left(limits, spent)
    assert (left.max_iterations, left.max_run_wall_time, left.max_cost_usd, left.max_tokens) == (6, 50, 1.5, 600)
    assert renewal.limits_left(Limits(), spent) == Limits()
    assert renewal.used_up(limits, spent) == ""
    assert renewal.used_up(limits, replace_tally(spent, cost_usd=5.0)) == "limits.maxCostUsd ($5.00 of $5.00)"
    assert "maxTokens" in renewal.used_up(limits, replace_tally(spent, tokens=1000))
    assert "time" in renewal.used_up(limits, replace_tally(spent, elapsed=100.0))
    assert "iterations" in renewal.used_up(limits, replace_tally(spent, iterations=10))
    assert renewal.used_up(Limits(), RunTally(10**6, 1e9, 1e9, 10**9)) == ""


def replace_tally(tally: RunTally, **changes: float) -> RunTally:
    fields = {name: getattr(tally, name) for name in ("iterations", "elapsed", "cost_usd", "tokens")}
    return RunTally(**(fields | changes))


def test_which_ends_of_a_run_end_the_watch() -> None:
    stays = {"complete", "blocked", "stuck", "rate-limited", "max-iterations"}
    ends = {"paused", "cancelled", "interrupted", "error", "max-cost", "max-wall-time"}
    for reason in (*stays, *ends):
        assert renewal.ends_watch(reason, Limits()) == (reason in ends)  # type: ignore[arg-type]
    assert renewal.ends_watch("max-iterations", Limits(max_iterations=3)), "one that a person set"


def test_the_live_display_shows_the_next_run_again() -> None:
    scene = Scene()
    planned = events.RunPlanned("toy", "ralph/toy", "x", 1, 1, 0, 1, None, None)
    scene.apply(planned, END)
    scene.cost_usd = 3.0
    scene.apply(events.RunEnded("complete", "", (), 1, 1, 0, 3.0, 9, 5), END)
    assert scene.ended
    scene.apply(planned, LATER)
    assert (scene.ended, scene.started, scene.cost_usd) == (False, LATER, 0.0)


# Ears


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / ".rulebook-ralph"
    made.mkdir()
    return made


@pytest.fixture
def woken() -> Cancellation:
    return Cancellation()


@pytest.fixture
def ears(folder: Path, woken: Cancellation) -> Iterator[FolderEvents]:
    with FolderEvents(folder, ("prd.json", "config.yaml"), woken) as heard:
        assert heard.problem == ""
        yield heard


def until_silent(woken: Cancellation) -> None:
    """An edit is several events."""
    woken.clear()
    while woken.wait(0.15):
        woken.clear()


def saved(folder: Path, how: str) -> None:
    path = folder / "prd.json"
    if how == "rename":
        (folder / ".prd.swp").write_text("{}")
        (folder / ".prd.swp").rename(path)
    elif how == "delete":
        path.unlink()
    else:
        path.write_text("{}")


@pytest.mark.parametrize("how", ["write", "rename", "delete"])
def test_a_save_is_heard_and_reading_is_not(how: str, folder: Path, ears: FolderEvents, woken: Cancellation) -> None:
    ears.follow()
    path = folder / "prd.json"
    path.write_text("{}")
    wait_for(woken.is_set, "the first save")
    until_silent(woken)
    path.read_bytes()
    (folder / "progress.txt").write_text("ours")
    (folder / "history").mkdir()
    (folder / "history" / "prd.json").write_text("{}")
    assert not woken.wait(0.15)
    saved(folder, how)
    wait_for(woken.is_set, how)


def test_a_folder_that_is_deleted_and_made_again_is_heard_again(
    folder: Path, ears: FolderEvents, woken: Cancellation
) -> None:
    for _ in range(2):
        folder.rmdir()
        wait_for(woken.is_set, "the end of the folder")
        woken.clear()
        ears.follow()
        folder.mkdir()
        wait_for(woken.is_set, "the new folder")
        woken.clear()
        ears.follow()
        (folder / "prd.json").write_text("{}")
        wait_for(woken.is_set, "a file in the new folder")
        (folder / "prd.json").unlink()
        woken.clear()
        ears.follow()


def test_a_thread_that_died_is_replaced(folder: Path, ears: FolderEvents, woken: Cancellation) -> None:
    observer = ears._observer
    assert observer is not None
    observer.stop()
    observer.join(5)
    ears.follow()
    (folder / "prd.json").write_text("{}")
    wait_for(woken.is_set, "a save after the thread's death")


@pytest.mark.parametrize("at_start", [True, False])
def test_without_inotify_it_says_why_and_nothing_breaks(at_start: bool, folder: Path, woken: Cancellation) -> None:
    class Full(PollingObserver):
        def start(self) -> None:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")

    def none() -> BaseObserver:
        if at_start:
            raise OSError(errno.EMFILE, "inotify instance limit reached")
        return Full()

    with FolderEvents(folder, ("prd.json",), woken, observer=none) as heard:
        assert heard.problem.startswith("inotify ")
        heard.follow()
        assert heard.problem


def test_a_folder_whose_parent_is_gone_too_is_waited_for(tmp_path: Path, woken: Cancellation) -> None:
    with FolderEvents(tmp_path / "project" / ".rulebook-ralph", ("prd.json",), woken) as heard:
        heard.follow()
        (tmp_path / "project" / ".rulebook-ralph").mkdir(parents=True)
        heard.follow()
        (tmp_path / "project" / ".rulebook-ralph" / "prd.json").write_text("{}")
        wait_for(woken.is_set, "a save")
