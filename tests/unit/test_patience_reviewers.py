"""How a run bears with a reviewer that cannot be asked: the work waits, no agent is paid meanwhile, and it ends."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from rulebook_ralph.core import events, faults
from rulebook_ralph.core.evidence import AgentFault, ErrorKind
from rulebook_ralph.core.faults import OnLimit
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.question import GivenUpError, ModelError, ModelRefusedError, Question
from tests.unit.test_patience import NOON, Run

QUESTION = Question("Review it.", "data", {})


class Bench:
    """A reviewer that fails in those ways, one question after the other, then answers; asked in a run."""

    def __init__(
        self, *kinds: ErrorKind, on_limit: OnLimit = "wait", resets: float | None = None, times: int = 1
    ) -> None:
        self.run = Run(on_limit)
        self.asked = 0
        self.kinds = list(kinds) * times
        self._resets = resets
        self.left: float | None = None

    def __call__(self, _question: Question) -> str:
        self.asked += 1
        if not self.kinds:
            return "SHIP"
        kind = self.kinds.pop(0)
        resets_at = None if self._resets is None else (self.run.time.now + timedelta(seconds=self._resets)).isoformat()
        raise ModelError("so it said", AgentFault(kind=kind, message="so it said", resets_at=resets_at))

    def ask(self, task: str = "one") -> str:
        ask = self.run.patience.patiently(
            self, "quick", Task(id=task, title=""), seconds_left=lambda: self.left, report=self.run.told.append
        )
        return ask(QUESTION)

    def gives_up(self, task: str = "one") -> tuple[str, str]:
        with pytest.raises(GivenUpError) as given_up:
            self.ask(task)
        return given_up.value.stop_reason, str(given_up.value)

    @property
    def waited(self) -> float:
        return (self.run.time.now - NOON).total_seconds()


def test_what_heals_is_waited_for_and_the_same_question_asked_again() -> None:
    bench = Bench("network", "overloaded", "rate-limit")
    assert bench.ask() == "SHIP"
    assert (bench.asked, bench.waited) == (4, 5 + 10 + 20)
    told = [event.reason for event in bench.run.told if isinstance(event, events.Waiting) and event.begins]
    assert told[0] == "reviewer quick: network: so it said"
    bench.kinds = ["network"]
    assert bench.ask() == "SHIP"
    assert bench.waited == 35 + 5, "after an answer it begins anew"


def test_a_usage_limit_is_waited_for_until_it_resets() -> None:
    bench = Bench("usage-limit", resets=7.5)
    assert bench.ask() == "SHIP"
    assert (bench.asked, bench.waited) == (2, 9.5)


@pytest.mark.parametrize("on_limit", ["stop", "wait"])
def test_a_limit_ends_the_run_where_it_is_not_to_be_waited_for(on_limit: OnLimit) -> None:
    bench = Bench("usage-limit", on_limit=on_limit, resets=90_000)
    why, told = bench.gives_up()
    assert (why, bench.asked, bench.waited) == ("rate-limited", 1, 0)
    assert "the reviewer's usage limit is reached" in told


@pytest.mark.parametrize("kind", sorted(faults.CANNOT_HEAL))
def test_what_a_person_must_mend_ends_the_run_at_once(kind: ErrorKind) -> None:
    bench = Bench(kind)
    assert bench.gives_up() == ("error", "so it said")
    assert (bench.asked, bench.waited) == (1, 0)


def test_backing_off_in_vain_ends() -> None:
    bench = Bench("network", times=99)
    assert bench.gives_up()[0] == "error"
    assert bench.asked == faults.MOST_BACK_OFFS
    bench = Bench("overloaded", times=99)
    assert bench.gives_up()[0] == "rate-limited"


def test_a_reviewer_that_crashes_blocks_one_task_and_ends_the_run_at_the_next() -> None:
    bench = Bench("crash", times=99)
    assert bench.gives_up("one") == ("blocked", "the reviewer failed 3 times in a row at this task; crash: so it said")
    assert bench.asked == faults.MOST_AT_ONE_TASK
    assert bench.gives_up("two")[0] == "error"
    assert (bench.asked, bench.waited) == (6, 0)


def test_an_order_ends_the_wait_and_so_does_the_time_of_the_run() -> None:
    bench = Bench("usage-limit", resets=60)
    bench.run.time.interrupted = NOON + timedelta(seconds=3)
    assert bench.gives_up()[0] == "paused"
    assert (bench.asked, bench.waited) == (1, 3)
    bench = Bench("usage-limit", resets=60)
    bench.left = 30.0
    assert bench.gives_up()[0] == "max-wall-time"
    assert (bench.asked, bench.waited) == (1, 0)


@pytest.mark.parametrize(
    "failure",
    [
        lambda: ModelRefusedError("I will not look"),
        lambda: ModelRefusedError("too long", AgentFault(kind="context-too-long", message="too long")),
        lambda: ModelRefusedError("denied", AgentFault(kind="permission", message="denied")),
    ],
)
def test_what_may_be_the_questions_doing_is_not_asked_again(failure: Callable[[], ModelError]) -> None:
    run, raised = Run(), failure()

    def ask(_question: Question) -> str:
        raise raised

    with pytest.raises(ModelError) as given:
        run.patience.patiently(
            ask, "quick", Task(id="one", title=""), seconds_left=lambda: None, report=run.told.append
        )(QUESTION)
    assert given.value is raised
