"""Orders that reach a running Ralph from another terminal, what they bring about, and edits that wake a watch."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.cli.watch import seen, wait_for_change
from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import events
from rulebook_ralph.run import control, lock
from rulebook_ralph.run.control import AtWork, Cancel, Edit, LimitWait, Look, Orders, Pause, RunSituation, give
from rulebook_ralph.run.inbox import NoAnswerError, ask, post
from rulebook_ralph.run.lock import Held, hold
from rulebook_ralph.tasks.results import Usage
from rulebook_ralph.tasks.text import Fault

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
AT = "2026-03-01T12:00:00.000Z"
CLOCK = Clock(now=lambda: NOON, monotonic=time.monotonic)
WORK = AtWork(iteration_number=3, task_id="one", title="Do one", stage="coder", attempt=2, agent="a", since=AT)
BESIDE = replace(WORK, iteration_number=4, task_id="two")
LIMIT = LimitWait(until="2026-03-01T12:01:30Z", reason="the limit")


def opened(number: int = 3, task: str = "one") -> events.IterationOpened:
    return events.IterationOpened(number, 1, 9, task, "Do one", "coder", 2, 5, 0, 1, agent="a")


def settled(number: int = 3) -> events.IterationSettled:
    return events.IterationSettled(number, "one", "retry", "", None, 0, 1, Usage(), None, 0.0, 0, 0, 1)


def waiting(seconds: float) -> events.Waiting:
    return events.Waiting("the limit", NOON + timedelta(seconds=90), seconds)


class Run:
    """One that obeys, with what it reported."""

    def __init__(self) -> None:
        self.reported: list[events.Event] = []
        self.cancelled = Cancellation()
        self.orders = Orders(self.cancelled, report=self.reported.append, clock=CLOCK)

    def says(self, order: Pause | Cancel | Look) -> str:
        return self.orders.obey(order).text

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.reported if isinstance(event, events.Notice)]

    @contextmanager
    def listening(self, private: Path) -> Iterator[Held]:
        with hold(private, "run", since=AT) as held, self.orders.heard(private):
            yield held


def soon(condition: Callable[[], object], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


# Where a run stands


def test_the_situation_follows_what_the_run_reports() -> None:
    situation = control.after(RunSituation(), opened(), at=AT)
    assert situation == RunSituation(at_work=(WORK,))
    assert control.after(situation, events.AgentActivity("tool", "Bash"), at="later") is situation
    situation = control.after(situation, settled(), at="later")
    assert situation == RunSituation()
    situation = control.after(situation, waiting(90.0), at=AT)
    assert situation == RunSituation(waiting=LIMIT)
    assert control.after(situation, waiting(0), at=AT) == RunSituation()
    assert control.after(situation, opened(), at=AT) == RunSituation(at_work=(WORK,)), (
        "a wait that was cut short is over"
    )


def test_several_iterations_go_on_until_each_is_settled() -> None:
    situation = RunSituation()
    for event in (opened(), opened(4, "two"), events.WithinIteration(4, waiting(90.0))):
        situation = control.after(situation, event, at=AT)
    assert situation == RunSituation(at_work=(WORK, replace(BESIDE, waiting=LIMIT)))
    assert control.after(situation, events.WithinIteration(9, waiting(90.0)), at=AT) == situation, "it is settled"
    assert control.after(situation, events.WithinIteration(4, waiting(0)), at=AT) == RunSituation(
        at_work=(WORK, BESIDE)
    )
    assert control.after(situation, settled(4), at="later") == RunSituation(at_work=(WORK,))


# Obeying


def test_a_pause_ends_the_run_between_two_iterations_and_is_taken_back() -> None:
    run = Run()
    run.orders.report(opened())
    assert run.says(Pause()) == "the run ends after iteration #3 (one); go on later with: ralph resume"
    assert run.says(Pause()).startswith("the run ends after iteration #3"), "twice is once"
    assert run.orders.situation == RunSituation(at_work=(WORK,), pausing=True)
    assert run.orders.paused.is_set()
    assert run.orders.stop() is None, "not now"
    stop = run.orders.pause()
    assert stop is not None
    assert stop.stop_reason == "paused"
    assert run.says(Pause(undo=True)) == "the pause is taken back; the run goes on"
    assert run.says(Pause(undo=True)) == "no pause was asked for; the run goes on"
    assert run.orders.pause() is None
    assert run.notices == ["pausing: the run ends after iteration #3 (one)", "the pause is taken back: the run goes on"]


def test_a_pause_says_when() -> None:
    run = Run()
    assert run.says(Pause()).startswith("the run ends before the next iteration")
    run = Run()
    run.orders.report(waiting(9))
    assert run.says(Pause()).startswith("the run ends now, as no agent works")
    run = Run()
    run.orders.report(opened())
    run.orders.report(opened(4, "two"))
    assert run.says(Pause()).startswith("the run ends after iterations #3, #4 (one, two);")
    run.orders.report(events.WithinIteration(3, waiting(9)))
    assert run.says(Pause()).startswith("the run ends after iteration #4 (two);")


def test_a_cancelled_run_ends_now_and_says_so() -> None:
    run = Run()
    run.orders.report(opened())
    run.says(Pause())
    for _ in range(2):
        assert run.orders.obey(Cancel()).situation is not None
    assert run.cancelled.is_set()
    assert run.orders.situation == RunSituation(at_work=(WORK,), ending="cancelled")
    stop = run.orders.stop()
    assert stop is not None
    assert stop.stop_reason == "cancelled"
    assert run.notices[1:] == ["cancelled: ending now; the attempt is saved and not counted"]
    assert run.says(Pause()) == "the run is ending already (cancelled)"


def test_after_a_signal_it_is_interrupted_unless_it_is_cancelled_too() -> None:
    run = Run()
    run.cancelled.set()
    assert run.orders.situation.ending == "interrupted"
    for reason in ("interrupted", "cancelled"):
        stop = run.orders.stop()
        assert stop is not None
        assert stop.stop_reason == reason
        run.says(Cancel())


# Messages


@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_whatever_else_comes_is_no_order(message: bytes) -> None:
    with pytest.raises(RalphError, match="this is no order"):
        control.decode(message)


@pytest.mark.parametrize("message", [b'{"order":"stop"}', b'{"order":"pause","undo":3}', b'{"order":' * 100_000])
def test_nonsense_is_refused_and_the_run_goes_on(message: bytes, tmp_path: Path) -> None:
    run = Run()
    with run.listening(tmp_path) as held:
        told = ask(tmp_path, held.me, message, seconds=5)
        assert told
        assert json.loads(told)["refused"]
        assert "this is no order" in json.loads(told)["text"]
        assert give(tmp_path, Look(), clock=CLOCK)


_OTHER_TERMINAL = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from rulebook_ralph.cli.watch import seen, wait_for_change
from rulebook_ralph.clock import Clock
from rulebook_ralph.run.control import Cancel, Pause, give
clock = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)
print(give(Path(sys.argv[1]), Cancel() if sys.argv[2] == "cancel" else Pause(), clock=clock).answer.text)
"""


def test_another_process_pauses_and_cancels(tmp_path: Path) -> None:
    run = Run()
    with run.listening(tmp_path):
        for order, told in (("pause", "the run ends before the next iteration"), ("cancel", "cancelling")):
            done = subprocess.run(
                [sys.executable, "-c", _OTHER_TERMINAL, str(tmp_path), order],
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout.startswith(told)
        assert run.cancelled.is_set()
        begun = time.monotonic()
        obeyed = give(tmp_path, Look(), clock=CLOCK)
        assert obeyed
        assert obeyed.answer.situation == RunSituation(ending="cancelled")
        assert control.situation(tmp_path, obeyed.holder) == RunSituation(ending="cancelled")
        assert time.monotonic() - begun < 1.5, "it is heard, not polled for"
    assert give(tmp_path, Cancel(), clock=CLOCK) is None
    assert list((tmp_path / "orders").iterdir()) == []


def test_edits_are_applied_in_the_runs_own_thread_and_answered(tmp_path: Path) -> None:
    class RefusedError(RalphError):
        faults = (Fault(("tasks", 0), "is wrong"),)

    def apply(change: bytes) -> str:
        if change == b'"bad"':
            raise RefusedError("no")
        if change == b'"worse"':
            raise ValueError("oops")
        applied.append((change, threading.current_thread()))
        return "done"

    applied: list[tuple[bytes, threading.Thread]] = []
    answers: dict[str, control.OrderReply] = {}
    woken = threading.Event()

    def send(change: str) -> None:
        obeyed = give(tmp_path, Edit(change=msgspec.Raw(json.dumps(change).encode())), clock=CLOCK)
        assert obeyed
        answers[change] = obeyed.answer

    run = Run()
    threads = [threading.Thread(target=send, args=(change,)) for change in ("good", "bad", "worse", "late")]
    with hold(tmp_path, "run", since=AT), run.orders.heard(tmp_path, wake=woken.set):
        for thread in threads[:3]:
            thread.start()
        assert woken.wait(5)
        assert answers == {}
        while len(answers) < 3:
            run.orders.take_edits(apply)
        threads[3].start()
        assert soon(lambda: not run.orders._edits.empty())
    for thread in threads:
        thread.join()
    assert applied == [(b'"good"', threading.main_thread())]
    assert answers["good"] == control.OrderReply("done")
    assert answers["bad"] == control.OrderReply("no", refused=True, faults=RefusedError.faults)
    assert answers["worse"].text == "unexpected error (ValueError: oops)"
    assert (answers["late"].refused, answers["late"].text[:17]) == (True, "the run is ending")


def test_an_order_to_a_dead_run_is_not_obeyed_by_the_next(tmp_path: Path) -> None:
    run = Run()
    with hold(tmp_path, "run", since=AT) as held:
        dead = replace(held.me, started=1)
        post(tmp_path, dead, msgspec.json.encode(Cancel()))
        with run.orders.heard(tmp_path):
            assert give(tmp_path, Look(), clock=CLOCK)
    assert not run.cancelled.is_set()
    assert list((tmp_path / "orders").iterdir()) == []


def test_a_run_that_does_not_listen_is_named(tmp_path: Path) -> None:
    with hold(tmp_path, "init", since=AT), pytest.raises(RalphError, match="it is no run and ends by itself"):
        give(tmp_path, Pause(), clock=CLOCK)
    with hold(tmp_path, "run", since=AT) as held:
        assert ask(tmp_path, held.me, b"{}", seconds=0.1) is None
        assert list((tmp_path / "orders").iterdir()) == [], "it is taken back"

        def take(_: object) -> None:
            next((tmp_path / "orders").glob("*.message")).unlink()

        threading.Timer(0.1, take, (None,)).start()
        with pytest.raises(NoAnswerError, match="may obey later; look with: ralph status"):
            ask(tmp_path, held.me, b"{}", seconds=0.3)


def test_a_folder_that_cannot_be_made_is_said_and_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "orders").touch()
    run = Run()
    with run.listening(tmp_path) as held:
        assert "cannot reach this run" in run.notices[0]
        with pytest.raises(RalphError, match="cannot write"):
            ask(tmp_path, held.me, b"{}", seconds=1)


def test_between_its_stops_a_session_finds_the_order_at_its_next(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as agent:
        session = {"session": "s-1", "agent": agent.pid}
        with hold(tmp_path, lock.SESSION, since=AT, **session) as held:  # type: ignore[arg-type]
            held.stay()
        obeyed = give(tmp_path, Pause(), clock=CLOCK)
        assert obeyed
        assert obeyed.answer.text == "the session takes it at its next stop"
        run = Run()
        with hold(tmp_path, lock.SESSION, since=AT, **session) as held, run.orders.heard(tmp_path):  # type: ignore[arg-type]
            assert soon(run.orders.paused.is_set)
        agent.kill()


# Waiting for edits


def later(do: Callable[[], object]) -> None:
    threading.Timer(0.15, do).start()


@pytest.mark.parametrize("how", ["write", "rename", "delete", "create"])
def test_an_edit_wakes_and_reading_does_not(how: str, tmp_path: Path) -> None:
    path = tmp_path / "prd.json"
    if how != "create":
        path.write_text("{}")

    def save() -> None:
        if how == "rename":
            (tmp_path / ".prd.swp").write_text("{ }")
            (tmp_path / ".prd.swp").rename(path)
        elif how == "delete":
            path.unlink()
        else:
            path.write_text("{  }")

    paths = (path, tmp_path / "elsewhere" / "config.yaml")
    since = seen(paths)
    later(lambda: ((tmp_path / "progress.txt").write_text("ours"), path.exists() and path.read_bytes()))
    assert not wait_for_change(paths, Cancellation(), 0.4, since=since)
    later(save)
    assert wait_for_change(paths, Cancellation(), 9, since=since)
    assert wait_for_change(paths, Cancellation(), 9, since=since), "made before it was waited for"


def test_cancelling_ends_the_wait_at_once(tmp_path: Path) -> None:
    cancelled = Cancellation()
    later(cancelled.set)
    begun = time.monotonic()
    assert not wait_for_change((tmp_path / "prd.json",), cancelled, 9, since=(None,))
    assert time.monotonic() - begun < 1.5
