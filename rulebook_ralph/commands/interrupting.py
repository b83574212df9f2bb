"""^C and its like, as an order to end that a command can look at."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rulebook_ralph.cancellation import Cancellation


@contextmanager
def interruptible() -> Iterator[Cancellation]:
    """^C (or SIGTERM, or a closed terminal) once asks to end after cleaning up; twice ends at once.

    Only signals count: the first ^C of a run that was cancelled from elsewhere does not cut its cleaning up short.
    """
    cancelled = Cancellation()
    asked = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        cancelled.set()

    orders = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants to outlive the terminal
        orders.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in orders}
    try:
        yield cancelled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
