"""Orders to a run and what it tells of itself, as values; and the one who obeys."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.clock import Clock
from rulebook_ralph.commands.cancel import nothing_to_cancel, told
from rulebook_ralph.core import events, orders
from rulebook_ralph.core.evidence import CompletionStatus, Iteration, StopReason, Usage, Verdict
from rulebook_ralph.core.orders import AtWork, Cancel, Look, Order, Pause, Situation, Wait
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.orders import Orders

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT = "2026-03-01T12:00:00.000Z"
WORK = AtWork(iteration_number=3, task_id="one", title="Do one", stage="coder", attempt=2, agent="a", since=AT)
BESIDE = replace(WORK, iteration_number=4, task_id="two")
LIMIT = Wait(until="2026-03-01T12:01:30Z", reason="the limit")


def opened(number: int = 3, task: str = "one") -> events.IterationOpened:
    return events.IterationOpened(number, 1, 9, task, "Do one", "coder", 2, 5, 0, 1, agent="a")


def settled(number: int = 3) -> events.IterationSettled:
    return events.IterationSettled(number, "one", "retry", "", None, 0, 1, Usage(), None, 0.0, 0, 0, 1)


def waiting(seconds: float) -> events.Waiting:
    return events.Waiting("the limit", NOON + timedelta(seconds=90), seconds)


def record(
    stop_reason: StopReason | None = None, status: CompletionStatus | None = None, *, of: AtWork = WORK
) -> Iteration:
    return Iteration(
        iteration_number=of.iteration_number,
        phase="judged",
        task_id=of.task_id,
        stage="coder",
        attempt=2,
        agent="a",
        timestamp=AT,
        started_at=AT,
        base_commit="",
        verdict=Verdict(action="stop", hook="agent", reason="r", stop_reason=stop_reason, counts=False),
        stop_reason=stop_reason,
        feedback="f",
        completion_status=status,
    )


class Run:
    """One that obeys, with what it reported."""

    def __init__(self) -> None:
        self.reported: list[events.Event] = []
        self.cancelled = Cancellation()
        clock = Clock(now=lambda: NOON, monotonic=lambda: 0.0)
        self.orders = Orders(self.cancelled, report=self.reported.append, clock=clock)

    def says(self, order: Order) -> str:
        return self.orders.take(order).text

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.reported if isinstance(event, events.Notice)]


# Where a run stands


def test_the_situation_follows_what_the_run_reports() -> None:
    situation = orders.after(Situation(), opened(), at=AT)
    assert situation == Situation(at_work=(WORK,))
    assert orders.after(situation, events.AgentActivity("tool", "Bash"), at="later") is situation
    situation = orders.after(situation, settled(), at="later")
    assert situation == Situation()
    situation = orders.after(situation, waiting(90.0), at=AT)
    assert situation == Situation(waiting=LIMIT)
    assert orders.after(situation, waiting(0), at=AT) == Situation()
    assert orders.after(situation, opened(), at=AT) == Situation(at_work=(WORK,)), "a wait that was cut short is over"


def test_several_iterations_go_on_until_each_is_settled() -> None:
    situation = Situation()
    for event in (opened(), opened(4, "two"), events.WithinIteration(4, waiting(90.0))):
        situation = orders.after(situation, event, at=AT)
    assert situation == Situation(at_work=(WORK, replace(BESIDE, waiting=LIMIT)))
    assert orders.after(situation, events.WithinIteration(9, waiting(90.0)), at=AT) == situation, "it is settled"
    assert orders.after(situation, events.WithinIteration(4, waiting(0)), at=AT) == Situation(at_work=(WORK, BESIDE))
    assert orders.after(situation, settled(4), at="later") == Situation(at_work=(WORK,))
    situation = orders.after(situation, settled(3), at="later")
    assert situation == Situation(at_work=(replace(BESIDE, waiting=LIMIT),))


def test_looking_changes_nothing() -> None:
    run = Run()
    run.orders.report(opened())
    answer = run.orders.take(Look())
    assert (answer.situation, answer.refused) == (Situation(at_work=(WORK,)), False)
    assert run.reported == [opened()], "and the person at the run's terminal is told nothing"
    assert run.orders.stop() is None
    assert run.orders.pause() is None


# Pausing


def test_a_pause_ends_the_run_between_two_iterations_and_is_taken_back() -> None:
    run = Run()
    run.orders.report(opened())
    assert run.says(Pause()) == "the run ends after iteration 3 (one); go on later with: ralph resume"
    assert run.says(Pause()).startswith("the run ends after iteration 3"), "twice is once"
    assert run.orders.situation == Situation(at_work=(WORK,), pausing=True)
    assert run.orders.paused.is_set()
    assert run.orders.stop() is None, "not now"
    stop = run.orders.pause()
    assert stop is not None
    assert stop.stop_reason == "paused"
    assert run.says(Pause(undo=True)) == "the pause is taken back; the run goes on"
    assert run.says(Pause(undo=True)) == "no pause was asked for; the run goes on"
    assert run.orders.pause() is None
    assert run.notices == ["ralph pause: the run ends after iteration 3 (one)", "ralph pause --undo: going on"]


def test_a_pause_says_when() -> None:
    run = Run()
    assert run.says(Pause()).startswith("the run ends before the next iteration")
    run = Run()
    run.orders.report(waiting(9))
    assert run.says(Pause()).startswith("the run ends now, as no agent works")
    run = Run()
    run.orders.report(opened())
    run.orders.report(opened(4, "two"))
    assert run.says(Pause()).startswith("the run ends after iterations 3, 4 (one, two);")
    run.orders.report(events.WithinIteration(3, waiting(9)))
    assert run.says(Pause()).startswith("the run ends after iteration 4 (two);")
    run.orders.report(events.WithinIteration(4, waiting(9)))
    assert run.says(Pause()).startswith("the run ends now, as no agent works")


# Cancelling


def test_a_cancelled_run_ends_now_and_says_so() -> None:
    run = Run()
    run.orders.report(opened())
    run.says(Pause())
    for _ in range(2):
        assert run.orders.take(Cancel()).situation is not None
    assert run.cancelled.is_set()
    assert run.orders.situation == Situation(at_work=(WORK,), ending="cancelled")
    stop = run.orders.stop()
    assert stop is not None
    assert stop.stop_reason == "cancelled"
    assert run.notices[1:] == ["ralph cancel: ending now"]
    assert run.says(Pause()) == "the run is ending already (cancelled)"


def test_after_a_signal_it_is_interrupted_unless_it_is_cancelled_too() -> None:
    run = Run()
    run.cancelled.set()
    assert run.orders.situation.ending == "interrupted"
    stop = run.orders.stop()
    assert stop is not None
    assert stop.stop_reason == "interrupted"
    assert run.orders.judged(record("interrupted")) == record("interrupted")
    run.says(Cancel())
    stop = run.orders.stop()
    assert stop is not None
    assert stop.stop_reason == "cancelled"


@pytest.mark.parametrize("reason", [None, "blocked", "error", "paused", "max-wall-time"])
def test_an_attempt_that_came_to_an_end_of_its_own_stays_what_it_was(reason: StopReason | None) -> None:
    assert orders.cancelled(record(reason)) == record(reason)


def test_an_attempt_that_was_cut_short_is_cancelled_and_not_counted() -> None:
    run = Run()
    run.says(Cancel())
    judged = run.orders.judged(record("interrupted"))
    assert judged.verdict is not None
    assert (judged.stop_reason, judged.verdict.stop_reason, judged.verdict.counts) == ("cancelled", "cancelled", False)
    assert "tree put back" in judged.feedback


CUT_SHORT = record(status="cancelled")
COMPLETED = record(status="completed", of=replace(WORK, iteration_number=5, task_id="three"))


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ((), "cancelled; "),
        ((CUT_SHORT,), "cancelled: iteration 3 (one) is not counted, its work is saved (ralph show 3 --diff); "),
        ((COMPLETED,), "cancelled: iteration 5 (three) had ended as completed; "),
        (
            (CUT_SHORT, COMPLETED, record(status="cancelled", of=BESIDE)),
            (
                "cancelled: iterations 3, 4 (one, two) are not counted, their work is saved (ralph show NUMBER --diff); "
                "iteration 5 (three) had ended as completed; "
            ),
        ),
    ],
)
def test_what_is_said_of_the_end(records: tuple[Iteration, ...], says: str) -> None:
    assert told(records) == f"{says}go on with: ralph resume"


def test_what_is_said_where_there_is_nothing_to_cancel() -> None:
    assert nothing_to_cancel([]) == "no run is going on in this project"
    assert "died in iteration 3 (one); 'ralph resume'" in nothing_to_cancel([record()])
    assert "died in iterations 3, 4 (one, two); 'ralph" in nothing_to_cancel([record(), record(of=BESIDE)])


# Messages


@pytest.mark.parametrize("order", [Pause(), Pause(undo=True), Cancel(), Look()])
def test_orders_are_read_as_they_were_sent(order: Order) -> None:
    assert orders.decode(msgspec.json.encode(order)) == order


@pytest.mark.parametrize("message", [b'{"order":"stop"}', b'{"order":"pause","undo":3}', b'{"order":"x\\u0000"}'])
def test_an_unknown_order_is_refused(message: bytes) -> None:
    with pytest.raises(RalphError, match="this is no order"):
        orders.decode(message)


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_whatever_else_comes_is_no_order(message: bytes) -> None:
    assert orders.decode(message) is None


def test_deep_nesting_is_no_order() -> None:
    assert orders.decode(b'{"order":' * 100_000) is None
