"""`next_action`, as properties over made-up runs: what it may never do, and that every run comes to an end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.config.settings import Limits
from rulebook_ralph.run.policy import RunTally, Stop
from rulebook_ralph.run.scheduler import ALIKE_BLOCKED, Progress, RunState, Settle, Start, Wait, next_action
from rulebook_ralph.tasks.model import Prd, Task

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUSES = ("pending", "completed", "blocked")


@st.composite
def prds(draw: st.DrawFn) -> Prd:
    count = draw(st.integers(1, 6))
    tasks = []
    for index in range(count):
        needs = draw(st.sets(st.integers(0, max(0, index - 1)), max_size=2)) if index else set()
        tasks.append(
            Task(
                id=f"t{index}",
                title="T",
                priority=draw(st.integers(1, 3)),
                status=draw(st.sampled_from(STATUSES)),
                dependencies=tuple(f"t{each}" for each in sorted(needs)),
                markers=("VERIFY",) if draw(st.booleans()) and index % 3 == 2 else (),
            )
        )
    return Prd(version=1, project="p", tasks=tuple(tasks))


@st.composite
def states(draw: st.DrawFn) -> RunState:
    prd = draw(prds())
    ids = [task.id for task in prd.tasks if task.status == "pending"]
    running = draw(st.lists(st.sampled_from(ids), unique=True, max_size=3)) if ids else []
    ended = [each for each in running if draw(st.booleans())]
    return RunState(
        prd=prd,
        now=NOW,
        running=tuple(running),
        ended=tuple(ended),
        workers=draw(st.integers(1, 4)),
        limits=Limits(max_cost_usd=draw(st.sampled_from([None, 1.0]))),
        progress=Progress(
            tally=RunTally(iterations=draw(st.integers(0, 5)), cost_usd=draw(st.sampled_from([0.0, 2.0]))),
            max_iterations=draw(st.integers(1, 6)),
            reopen=draw(st.sets(st.sampled_from([task.id for task in prd.tasks]))),
            ending=draw(st.sampled_from([None, Stop("interrupted", "told to")])),
            wait=draw(st.sampled_from([None, Wait(NOW + timedelta(seconds=5)), Wait(NOW - timedelta(seconds=5))])),
            blocked_alike=draw(st.integers(0, 4)),
        ),
        paused=draw(st.sampled_from([None, Stop("paused", "told to")])),
    )


@given(states())
def test_what_has_come_back_is_settled_before_anything_else(state: RunState) -> None:
    action = next_action(state)

    if state.ended:
        assert action == Settle(state.ended[0])
    else:
        assert not isinstance(action, Settle)


@given(states())
def test_a_run_stops_only_when_nobody_works(state: RunState) -> None:
    if isinstance(next_action(state), Stop):
        assert not state.running


@given(states())
def test_only_a_task_that_may_begin_is_started(state: RunState) -> None:
    action = next_action(state)
    if not isinstance(action, Start):
        return

    task, progress = state.prd.task(action.task_id), state.progress
    completed = {each.id for each in state.prd.tasks if each.status == "completed"}
    assert task.id not in state.running
    assert set(task.dependencies) <= completed
    assert task.status in ("pending", "in_iteration") or task.id in progress.reopen
    assert len(state.running) < state.workers
    assert (progress.ending, state.paused) == (None, None)
    assert progress.tally.iterations + len(state.running) < progress.max_iterations
    assert state.limits.max_cost_usd is None or progress.tally.cost_usd < state.limits.max_cost_usd
    assert progress.blocked_alike < ALIKE_BLOCKED
    assert progress.wait is None or progress.wait.until is None or progress.wait.until <= state.now
    if state.running:
        assert "VERIFY" not in task.markers


@given(prds(), st.integers(1, 4), st.data())
@settings(max_examples=60)
def test_every_run_comes_to_its_end(prd: Prd, workers: int, data: st.DataObject) -> None:
    running: tuple[str, ...] = ()
    tally = RunTally()
    waited = False
    for _ in range(200):
        ended = tuple(each for each in running if waited or data.draw(st.booleans()))
        waited = False
        state = RunState(
            prd=prd,
            now=NOW,
            running=running,
            ended=ended,
            workers=workers,
            progress=Progress(tally, max_iterations=20),
            limits=Limits(),
        )
        match next_action(state):
            case Start(task_id):
                running = (*running, task_id)
            case Settle(task_id):
                running = tuple(each for each in running if each != task_id)
                status = data.draw(st.sampled_from(["completed", "blocked", "pending"]))
                task = Task(**{**{f: getattr(prd.task(task_id), f) for f in Task.__struct_fields__}, "status": status})
                prd = prd.replacing(task)
                tally = RunTally(iterations=tally.iterations + 1)
            case Wait():
                assert running
                waited = True
            case Stop():
                return
    raise AssertionError("it goes on for ever")


@given(prds())
def test_all_complete_is_said_of_nothing_else(prd: Prd) -> None:
    state = RunState(prd=prd, now=NOW, progress=Progress(RunTally(), max_iterations=20), limits=Limits())

    action = next_action(state)

    if isinstance(action, Stop) and action.stop_reason == "complete":
        assert all(task.status == "completed" for task in prd.tasks)


@given(prds())
def test_a_limit_is_no_reason_where_nothing_could_begin(prd: Prd) -> None:
    """The last allowed attempt of all may have blocked its task: that is what is told then."""
    tally = RunTally(iterations=2)
    state = RunState(prd=prd, now=NOW, progress=Progress(tally, max_iterations=2), limits=Limits())
    unlimited = replace(state, progress=Progress(tally, max_iterations=20))

    action, without = next_action(state), next_action(unlimited)

    assert isinstance(action, Stop)
    assert action == without if isinstance(without, Stop) else action.stop_reason == "max-iterations"
