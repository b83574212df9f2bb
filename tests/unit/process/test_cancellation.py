"""An order that a signal handler gives in the midst of whatever its thread does."""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

import pytest

from rulebook_ralph.cli.app import interruptible
from rulebook_ralph.process.cancellation import Cancellation

Trace = Callable[[FrameType, str, object], "Trace | None"]


def readable(order: Cancellation) -> bool:
    return bool(select.select([order], [], [], 0)[0])


def test_it_is_readable_while_it_is_set() -> None:
    order = Cancellation()
    assert (order.is_set(), readable(order), order.wait(0)) == (False, False, False)
    for _ in range(3):
        order.set()
    assert (order.is_set(), readable(order), order.wait(), order.wait(0)) == (True, True, True, True)
    order.clear()
    assert (order.is_set(), readable(order), order.wait(0.001)) == (False, False, False)
    for _ in range(100_000):  # more than a pipe holds
        order.set()
    order.clear()
    assert not readable(order)


def test_every_thread_that_waits_is_woken() -> None:
    order, other = Cancellation(), Cancellation()
    woken: list[bool] = []
    threads = [threading.Thread(target=lambda: woken.append(order.wait(10))) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: woken.append(Cancellation(other, order).wait(10))))
    for thread in threads:
        thread.start()
    order.set()
    for thread in threads:
        thread.join(10)
    assert woken == [True] * 5
    assert not Cancellation(other).wait(0.001)
    assert not Cancellation(other, other).is_set()


@contextmanager
def at_line(code: CodeType, number: int, do: Callable[[], None]) -> Iterator[list[int]]:
    """Do something once before the line of that number of a function, counted as they are come to, as a signal handler
    might be called there; the lines that were come to.
    """
    seen: list[int] = []

    def trace(frame: FrameType, event: str, _arg: object) -> "Trace | None":
        if event == "call":
            return trace if frame.f_code is code else None
        if event == "line":
            seen.append(frame.f_lineno)
            if len(seen) == number:
                sys.settrace(None)
                do()
                sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


@pytest.fixture
def guarded() -> Iterator[None]:
    """What hangs ends the process."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("set", lambda order: order.set()),
        ("clear", lambda order: order.clear()),
        ("wait", lambda order: order.wait(0)),
        ("wait", lambda order: Cancellation(Cancellation(), order).wait(0.001)),
    ],
)
def test_a_signal_at_any_line_of_it_never_locks_its_own_thread(
    name: str, call: Callable[[Cancellation], object]
) -> None:
    function = getattr(Cancellation, name)
    handler = signal.signal(signal.SIGUSR1, lambda *_: order.set())
    try:
        for number in range(1, 20):
            order = Cancellation()
            if name == "clear":
                order.set()
            with at_line(function.__code__, number, lambda: signal.raise_signal(signal.SIGUSR1)) as seen:
                call(order)
            assert order.is_set() == readable(order), "also where it came between the two halves of clearing"
            if len(seen) < number:
                break
            assert order.is_set() or (name, number) == ("clear", 1)
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert number > 1


_NESTED = """
import signal, sys
from rulebook_ralph.process.cancellation import Cancellation
order = Cancellation()
signal.signal(signal.SIGUSR1, lambda *_: order.set())
def trace(frame, event, arg):
    if frame.f_code is Cancellation.set.__code__ and event == "line":
        signal.raise_signal(signal.SIGUSR1)
    return trace
sys.settrace(trace)
order.set()
sys.settrace(None)
print("set", order.is_set())
"""


def test_a_second_signal_while_the_first_is_handled() -> None:
    """With the lock of a `threading.Event` the thread would wait for itself: this is what must not be inherited."""
    done = subprocess.run([sys.executable, "-c", _NESTED], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout == "set True\n"


def test_the_first_signal_asks_and_the_second_ends() -> None:
    with interruptible() as cancelled:
        os.kill(os.getpid(), signal.SIGINT)
        assert cancelled.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


def test_the_first_signal_after_an_order_from_elsewhere_still_only_asks() -> None:
    with interruptible() as cancelled:
        cancelled.set()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_follows_others_is_set_with_each_of_them_and_alone() -> None:
    leader = Cancellation()
    leader.at_once = Cancellation()
    first, second = Cancellation(Cancellation(), leader), Cancellation(leader)
    first.set()
    assert not leader.is_set()
    assert not second.wait(0)
    leader.set()
    assert second.wait(0)
    assert Cancellation(leader).is_set()
    assert second.at_once is leader.at_once
