"""How a run waits for agents: on a clock that waiting itself moves, so that no test sleeps."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from types import FrameType

import pytest

from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events
from rulebook_ralph.core.evidence import AgentFault, AgentStatus, ErrorKind, Iteration, StopReason, Verdict
from rulebook_ralph.core.faults import OnLimit
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Config, Executor, Limits, Tools
from rulebook_ralph.loop import patience as patience_module
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.patience import Patience

NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


class Time(Event):
    """The time, which waiting for the order to end lets pass at once; the order comes at `interrupted`, if it does."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.interrupted: datetime | None = None

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        assert 0 < timeout <= 1, "the countdown is shown every second"
        self.now += timedelta(seconds=timeout)
        if self.interrupted is not None and self.now >= self.interrupted:
            self.set()
        return self.is_set()


class Run:
    """Patience in a run with the agents `a`, whose fallback is `b`, and `alone`."""

    def __init__(self, on_limit: OnLimit = "wait", *, max_limit_wait: float = 86_400) -> None:
        executors = (
            Executor(id="a", type="command", command="true", fallback="b"),
            Executor(id="b", type="command", command="true"),
            Executor(id="alone", type="command", command="true"),
        )
        limits = Limits(on_limit=on_limit, max_limit_wait=max_limit_wait)
        config = Config(tools=Tools(executors=executors), limits=limits)
        self.time = Time()
        self.told: list[events.Event] = []
        self.crew = Crew(config, {})
        self.patience = Patience(
            config,
            self.crew,
            clock=Clock(now=lambda: self.time.now, monotonic=lambda: 0.0),
            cancelled=self.time,
            report=self.told.append,
        )

    @property
    def acting(self) -> str:
        return self.crew.acting("a", self.time.now)

    def fails(
        self, kind: ErrorKind, *, executor: str = "alone", task: str = "one", seconds: float | None = None
    ) -> str:
        """The remedy for a failure; `seconds` until a limit resets."""
        resets_at = None if seconds is None else (self.time.now + timedelta(seconds=seconds)).isoformat()
        fault = AgentFault(kind=kind, message="so it said", resets_at=resets_at)
        response = self.patience.look_at(judged("failed", fault, task=task), executor)
        assert response is not None
        return response.remedy

    def waits(self, *, seconds_left: float | None = None) -> float:
        """How long it waits, in seconds."""
        before = self.time.now
        assert self.patience.is_waiting
        assert self.patience.wait(seconds_left=seconds_left) is None
        assert not self.patience.is_waiting
        return (self.time.now - before).total_seconds()


def judged(
    status: AgentStatus = "failed",
    fault: AgentFault | None = None,
    *,
    task: str = "one",
    counts: bool = False,
    hook: str = "agent",
    stop_reason: StopReason | None = None,
) -> Iteration:
    return Iteration(
        iteration_number=1,
        phase="judged",
        task_id=task,
        stage="coder",
        attempt=1,
        agent="a",
        timestamp="",
        started_at="",
        base_commit="",
        agent_status=status,
        fault=fault,
        verdict=Verdict(action="continue", hook=hook, counts=counts, stop_reason=stop_reason),
    )


def test_a_wait_lasts_until_the_reset_and_is_told_every_second() -> None:
    run = Run()
    assert run.fails("usage-limit", seconds=7.5) == "wait"
    assert run.waits() == 9.5
    told = [event for event in run.told if isinstance(event, events.Waiting)]
    assert [event.seconds for event in told] == [9.5, 8.5, 7.5, 6.5, 5.5, 4.5, 3.5, 2.5, 1.5, 0.5, 0]
    assert [event.begins for event in told] == [True] + [False] * 10
    assert {event.until for event in told} == {NOON + timedelta(seconds=9.5)}
    assert "so it said" in told[0].reason


def test_backing_off_waits_longer_each_time_and_begins_anew_after_an_agent_came_to_its_end() -> None:
    run = Run()
    waited = []
    for kind in ("rate-limit", "overloaded", "network"):
        assert run.fails(kind) == "wait"
        waited.append(run.waits())
    assert waited == [5, 10, 20]
    assert run.patience.look_at(judged("finished", counts=True), "alone") is None
    assert run.fails("network") == "wait"
    assert run.waits() == 5
    for _ in range(6):
        assert run.fails("network") == "wait"
        run.waits()
    assert run.fails("network") == "stop"


def test_what_several_at_once_were_refused_is_one_trouble_and_waited_for_once() -> None:
    run = Run()
    assert [run.fails("overloaded", task=f"t{number}") for number in range(20)] == ["wait"] * 20
    assert run.fails("usage-limit", task="limited", seconds=60) == "wait"
    assert run.fails("overloaded", task="late") == "wait"
    assert run.fails("crash", task="late") == "retry"
    assert run.waits() == 62, "the longest wait, and no other remedy takes it away"
    assert run.fails("overloaded") == "wait"
    assert run.waits() == 10, "the second trouble of its kind in a row"


def test_tasks_whose_agents_crash_in_turns_are_given_up() -> None:
    run = Run()
    found = [run.fails("crash", task=task) for _ in range(3) for task in ("one", "two")]
    assert found == ["retry"] * 4 + ["give-up-task", "stop"]
    run = Run()
    run.fails("crash")
    run.fails("crash")
    run.patience.look_at(judged("finished", task="two", counts=True), "alone")
    assert run.fails("crash") == "give-up-task", "what came to its end was another task's agent"


def test_an_order_to_end_is_noticed_while_waiting() -> None:
    run = Run()
    run.time.interrupted = NOON + timedelta(seconds=3)
    run.fails("usage-limit", seconds=3600)
    assert run.waits() == 3
    assert all(event.seconds > 0 for event in run.told if isinstance(event, events.Waiting)), "not told as over"


@pytest.mark.parametrize(("left", "ends"), [(11.9, True), (12.0, True), (12.1, False)])
def test_a_run_without_the_time_to_wait_ends_at_once(left: float, ends: bool) -> None:
    run = Run()
    run.fails("usage-limit", seconds=10)
    stop = run.patience.wait(seconds_left=left)
    assert (stop is not None, run.time.now == NOON) == (ends, ends)
    if stop is not None:
        assert stop.stop_reason == "max-wall-time"


def test_a_signal_at_any_moment_of_a_wait_never_locks_the_run() -> None:
    """The order comes while waits begin and end, in the thread in which handlers run."""
    orders: list[Cancellation] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        orders[-1].set()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        for turn in range(100):
            orders[:] = [Cancellation()]
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + turn * 0.00001)
            while not patience_module._ordered(orders[-1], 0.00001):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_fallback_takes_over_until_the_reset() -> None:
    run = Run("fallback")
    assert run.fails("usage-limit", executor="a", seconds=60) == "fallback"
    assert not run.patience.is_waiting
    assert run.acting == "b"
    (notice,) = run.told
    assert isinstance(notice, events.Notice)
    assert "going on with b" in notice.text
    assert run.fails("usage-limit", executor="b", seconds=20) == "wait", "the fallback has none of its own"
    run.time.now += timedelta(seconds=62)
    assert run.acting == "a"


def test_a_fallback_takes_over_for_good_from_what_cannot_heal_or_fails_again_and_again() -> None:
    def broken(run: Run) -> list[str]:
        return [run.fails("billing", executor="a")]

    def crashing(run: Run) -> list[str]:
        return [run.fails("crash", executor="a", task=task) for task in ("one", "two") for _ in range(3)]

    ends: tuple[Callable[[Run], list[str]], ...] = (broken, crashing)
    for fails in ends:
        run = Run()
        assert fails(run)[-1] == "fallback"
        run.time.now += timedelta(days=9)
        assert run.acting == "b"
        assert [run.fails("crash", executor="b") for _ in range(3)] == ["retry", "retry", "give-up-task"]


def test_tasks_given_up_are_counted_in_a_row() -> None:
    run = Run()
    assert [run.fails("crash") for _ in range(3)][-1] == "give-up-task"
    run.patience.look_at(judged("finished", task="two", counts=True), "alone")
    assert [run.fails("cut-off", task="three") for _ in range(3)][-1] == "give-up-task"
    assert [run.fails("cut-off", task="four") for _ in range(3)][-1] == "stop"


def test_what_is_no_failure_of_the_agents_has_no_remedy() -> None:
    run = Run()
    crash, limit = AgentFault(kind="crash", message=""), AgentFault(kind="usage-limit", message="")
    for record in (
        judged("finished", counts=True),
        judged("failed", AgentFault(kind="max-turns", message=""), counts=True),
        judged("killed", None, counts=True),
        judged("failed", crash, hook="mine"),
        judged("killed", limit, stop_reason="interrupted"),
        judged("killed", None, stop_reason="max-wall-time"),
    ):
        assert run.patience.look_at(record, "alone") is None
        assert not run.patience.is_waiting
    assert run.patience.look_at(judged("killed", limit, stop_reason="rate-limited"), "alone") is not None


# A limit of an earlier run


def limited(seconds: float = 10) -> Task:
    return Task(id="one", title="", retry_after=(NOON + timedelta(seconds=seconds)).isoformat())


def test_a_limit_of_an_earlier_run_is_waited_for_as_in_that_run() -> None:
    run = Run()
    assert run.patience.expect(limited(), "alone", "alone") is None
    assert run.waits() == 12
    assert run.patience.expect(limited(), "alone", "alone") is None
    assert not run.patience.is_waiting, "it is over"


def test_a_limit_of_an_earlier_run_means_nothing_for_another_agent_or_when_it_is_over() -> None:
    run = Run()
    for task, last in ((limited(), "b"), (limited(), ""), (limited(-3), "alone"), (Task(id="one", title=""), "alone")):
        assert run.patience.expect(task, "alone", last) is None
        assert not run.patience.is_waiting


def test_a_limit_of_an_earlier_run_may_end_this_one() -> None:
    for run, seconds in ((Run("stop"), 10), (Run(max_limit_wait=60), 3600), (Run("fallback", max_limit_wait=60), 3600)):
        stop = run.patience.expect(limited(seconds), "alone", "alone")
        assert stop is not None
        assert stop.stop_reason == "rate-limited"
        assert not run.patience.is_waiting


def test_a_limit_of_an_earlier_run_leads_to_the_fallback_once() -> None:
    run = Run("fallback")
    for _ in range(2):
        assert run.patience.expect(limited(), "a", "a") is None
        assert not run.patience.is_waiting
        assert run.acting == "b"
    assert len(run.told) == 1
