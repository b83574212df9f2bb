"""What a run does about agents and models that fail, on a clock that waiting itself moves, so that no test sleeps."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from rulebook_ralph.agents.question import GivenUpError, ModelError, Question
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import Config, Executor, Limits, Tools
from rulebook_ralph.report import events
from rulebook_ralph.run import retry
from rulebook_ralph.run.retry import OnLimit, Response, RetryPolicy
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentFault, AgentStatus, ErrorKind, StopReason, Verdict
from rulebook_ralph.verify.rules import CANNOT_HEAL

NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
QUESTION = Question("Review it.", "data", {})


class Time(Event):
    """The time, which waiting for the order to end lets pass at once; the order comes at `interrupted`, if it does."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.interrupted: datetime | None = None

    def moment(self) -> datetime:
        return self.now

    def elapsed(self) -> float:
        return (self.now - NOON).total_seconds()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        assert 0 < timeout <= 1, "the countdown is shown every second"
        self.now += timedelta(seconds=timeout)
        if self.interrupted is not None and self.now >= self.interrupted:
            self.set()
        return self.is_set()


class Run:
    """A run with the agents `a`, whose fallback is `b`, and `alone`."""

    def __init__(self, on_limit: OnLimit = "wait", *, max_limit_wait: float = 86_400, lasts: float = 1e6) -> None:
        executors = (
            Executor(id="a", type="command", command="true", fallback="b"),
            Executor(id="b", type="command", command="true"),
            Executor(id="alone", type="command", command="true"),
        )
        limits = Limits(on_limit=on_limit, max_limit_wait=max_limit_wait, max_run_wall_time=lasts)
        config = Config(tools=Tools(executors=executors), limits=limits)
        self.time = Time()
        self.told: list[events.Event] = []
        self.roster = Roster(config, {})
        self.policy = RetryPolicy(
            config,
            self.roster,
            clock=Clock(now=self.time.moment, monotonic=self.time.elapsed),
            cancelled=self.time,
            report=self.told.append,
        )

    @property
    def acting(self) -> str:
        return self.roster.acting("a", self.time.now)

    def response(
        self, kind: ErrorKind, *, executor: str = "alone", task: str = "one", seconds: float | None = None
    ) -> Response:
        """What follows from a failure; `seconds` until a limit resets."""
        resets_at = None if seconds is None else (self.time.now + timedelta(seconds=seconds)).isoformat()
        fault = AgentFault(kind=kind, message="so it said", resets_at=resets_at)
        response = self.policy.look_at(judged("failed", fault, task=task), executor)
        assert response is not None
        return response

    def fails(self, kind: ErrorKind, *, executor: str = "alone", task: str = "one") -> str:
        return self.response(kind, executor=executor, task=task).remedy

    def waits(self, kind: ErrorKind) -> float:
        """It fails, and the run waits for it: how many seconds."""
        response = self.response(kind)
        assert response.remedy == "wait"
        assert response.until
        seconds = (response.until - self.time.now).total_seconds()
        self.time.now = response.until
        return seconds


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


def test_backing_off_waits_longer_each_time_and_begins_anew_after_an_agent_came_to_its_end() -> None:
    run = Run()
    assert [run.waits(kind) for kind in ("rate-limit", "overloaded", "network")] == [5, 10, 20]
    assert run.policy.look_at(judged("finished", counts=True), "alone") is None
    assert [run.waits("network") for _ in range(7)] == [5, 10, 20, 40, 80, 160, 300]
    assert run.fails("network") == "stop"


def test_what_several_at_once_were_refused_is_one_trouble_and_the_longest_wait_counts() -> None:
    run = Run()
    assert [run.fails("overloaded", task=f"t{number}") for number in range(20)] == ["wait"] * 20
    until = run.response("usage-limit", task="limited", seconds=60).until
    assert until == NOON + timedelta(seconds=62)
    assert run.response("overloaded", task="late").until == until
    assert run.fails("crash", task="late") == "retry"
    run.time.now = until
    assert run.waits("overloaded") == 10, "the second trouble of its kind in a row"


def test_tasks_whose_agents_crash_in_turns_are_given_up() -> None:
    run = Run()
    found = [run.fails("crash", task=task) for _ in range(3) for task in ("one", "two")]
    assert found == ["retry"] * 4 + ["give-up-task", "stop"]
    run = Run()
    run.fails("crash")
    run.fails("crash")
    run.policy.look_at(judged("finished", task="two", counts=True), "alone")
    assert run.fails("crash") == "give-up-task", "what came to its end was another task's agent"


def test_a_fallback_takes_over_until_the_reset() -> None:
    run = Run("fallback")
    assert run.response("usage-limit", executor="a", seconds=60).remedy == "fallback"
    assert run.acting == "b"
    (notice,) = run.told
    assert isinstance(notice, events.Notice)
    assert "going on with b" in notice.text
    assert run.response("usage-limit", executor="b", seconds=20).remedy == "wait", "the fallback has none of its own"
    run.time.now += timedelta(seconds=62)
    assert run.acting == "a"


@pytest.mark.parametrize("kinds", [["billing"], ["crash"] * 6])
def test_a_fallback_takes_over_for_good_from_what_cannot_heal_or_fails_again_and_again(kinds: list[ErrorKind]) -> None:
    run = Run()
    remedies = [run.fails(kind, executor="a", task=str(place // 3)) for place, kind in enumerate(kinds)]
    assert remedies[-1] == "fallback"
    run.time.now += timedelta(days=9)
    assert run.acting == "b"
    assert [run.fails("crash", executor="b") for _ in range(3)] == ["retry", "retry", "give-up-task"]


def test_tasks_given_up_are_counted_in_a_row() -> None:
    run = Run()
    assert [run.fails("crash") for _ in range(3)][-1] == "give-up-task"
    run.policy.look_at(judged("finished", task="two", counts=True), "alone")
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
        assert run.policy.look_at(record, "alone") is None
    assert run.policy.look_at(judged("killed", limit, stop_reason="rate-limited"), "alone") is not None


# A limit of an earlier run


def limited(seconds: float = 10) -> Task:
    return Task(id="one", title="", retry_after=(NOON + timedelta(seconds=seconds)).isoformat())


@pytest.mark.parametrize(
    ("run", "seconds", "remedy"),
    [
        (Run(), 10, "wait"),
        (Run(), -3, None),
        (Run("stop"), 10, "stop"),
        (Run(max_limit_wait=60), 3600, "stop"),
        (Run("fallback", max_limit_wait=60), 3600, "stop"),
    ],
)
def test_a_limit_of_an_earlier_run_leads_to_what_it_would_have_led_to_there(
    run: Run, seconds: float, remedy: str | None
) -> None:
    response = run.policy.before(limited(seconds), "alone")
    assert (response and response.remedy) == remedy
    if response is not None:
        assert response.until == NOON + timedelta(seconds=seconds + 2)
        run.time.now = response.until
    assert run.policy.before(limited(seconds), "alone") is None, "it is over"
    assert run.policy.before(Task(id="one", title=""), "alone") is None


def test_a_limit_of_an_earlier_run_leads_to_the_fallback_once() -> None:
    run = Run("fallback")
    for _ in range(2):
        assert run.policy.before(limited(), "a") is None
        assert run.acting == "b"
    assert len(run.told) == 1


# Models that are asked


class Model:
    """One that fails in those ways, one question after the other, then answers."""

    def __init__(
        self,
        *kinds: ErrorKind,
        on_limit: OnLimit = "wait",
        resets: float | None = None,
        times: int = 1,
        lasts: float = 1e6,
    ) -> None:
        self.run = Run(on_limit, lasts=lasts)
        self.asked = 0
        self.kinds = list(kinds) * times
        self._resets = resets

    def __call__(self, _question: Question) -> str:
        self.asked += 1
        if not self.kinds:
            return "SHIP"
        kind = self.kinds.pop(0)
        resets_at = None if self._resets is None else (self.run.time.now + timedelta(seconds=self._resets)).isoformat()
        raise ModelError("so it said", AgentFault(kind=kind, message="so it said", resets_at=resets_at))

    def ask(self) -> str:
        return self.run.policy.asked_again(self, "reviewer quick")(QUESTION)

    def gives_up(self) -> tuple[str, str]:
        with pytest.raises(GivenUpError) as given_up:
            self.ask()
        return given_up.value.stop_reason, str(given_up.value)

    @property
    def waited(self) -> float:
        return (self.run.time.now - NOON).total_seconds()


LIMITED = "reviewer quick's usage limit is reached"


def test_what_heals_is_waited_for_and_the_same_question_asked_again() -> None:
    model = Model("network", "overloaded", "rate-limit")
    assert model.ask() == "SHIP"
    assert (model.asked, model.waited) == (4, 5 + 10 + 20)
    waiting = [event for event in model.run.told if isinstance(event, events.Waiting)]
    assert next(event.reason for event in waiting if event.begins) == "network: so it said"
    assert [event.seconds for event in waiting[:6]] == [5, 4, 3, 2, 1, 0], "told every second"
    model.kinds = ["network"]
    assert model.ask() == "SHIP"
    assert model.waited == 35 + 5, "after an answer it begins anew"


def test_a_usage_limit_is_waited_for_until_it_resets() -> None:
    model = Model("usage-limit", resets=7.5)
    assert model.ask() == "SHIP"
    assert (model.asked, model.waited) == (2, 9.5)


@pytest.mark.parametrize(
    ("model", "reason", "asked", "told"),
    [
        *(
            (Model("usage-limit", on_limit=each, resets=90_000), "rate-limited", 1, LIMITED)
            for each in ("stop", "wait")
        ),
        *((Model(kind), "error", 1, "so it said") for kind in sorted(CANNOT_HEAL)),
        (Model("network", times=99), "error", retry.MOST_BACK_OFFS, "so it said"),
        (Model("overloaded", times=99), "rate-limited", retry.MOST_BACK_OFFS, "so it said"),
    ],
)
def test_what_does_not_heal_ends_the_run(model: Model, reason: str, asked: int, told: str) -> None:
    why, said = model.gives_up()
    assert (why, model.asked, told in said) == (reason, asked, True)
    assert (model.waited == 0) == (asked == 1)


def test_a_model_that_crashes_blocks_one_task_and_ends_the_run_at_the_next() -> None:
    model = Model("crash", times=99)
    why, told = model.gives_up()
    assert (why, model.asked) == ("blocked", retry.MOST_AT_ONE_TASK)
    assert "reviewer quick failed 3 times in a row" in told
    assert model.gives_up()[0] == "error"
    assert (model.asked, model.waited) == (6, 0)


def test_an_order_ends_the_wait_and_so_does_the_time_of_the_run() -> None:
    model = Model("usage-limit", resets=60)
    model.run.time.interrupted = NOON + timedelta(seconds=3)
    assert model.gives_up()[0] == "paused"
    assert (model.asked, model.waited) == (1, 3)
    model = Model("usage-limit", resets=60, lasts=30)
    assert model.gives_up()[0] == "max-wall-time"
    assert (model.asked, model.waited) == (1, 0)


@pytest.mark.parametrize(
    "failure",
    [
        lambda: ModelError("I will not look"),
        lambda: ModelError("too long", AgentFault(kind="context-too-long", message="too long")),
        lambda: ModelError("denied", AgentFault(kind="permission", message="denied")),
    ],
)
def test_what_may_be_the_questions_doing_is_not_asked_again(failure: Callable[[], ModelError]) -> None:
    raised = failure()

    def ask(_question: Question) -> str:
        raise raised

    with pytest.raises(ModelError) as given:
        Run().policy.asked_again(ask)(QUESTION)
    assert given.value is raised
