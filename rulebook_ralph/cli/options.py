"""What several commands take from the command line, and how ^C reaches them."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from types import FrameType

import click

from rulebook_ralph.process.cancellation import Cancellation, Either

_FORM = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?", re.ASCII)

trust_commands = click.option(
    "--trust-commands", is_flag=True, help="Run what is configured without 'ralph trust': for CI."
)
json_object = click.option("--json", is_flag=True, help="Print one JSON object.")


class Duration(click.ParamType[float]):
    """Seconds: a number, or parts such as 90s, 45m, 1h30m."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = _FORM.fullmatch(str(value))
        if match is None or not any(match.groups()):
            self.fail(f"'{value}' is no length of time; write 90s, 45m or 1h30m", param, ctx)
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total <= 0:
            self.fail("must be more than nothing", param, ctx)
        return total


@contextmanager
def interruptible(say: Callable[[], None] | None = None) -> Iterator[Cancellation]:
    """^C (or SIGTERM, or a closed terminal) once asks to end after cleaning up, which `say` says; twice ends at once.

    Only signals count: the first ^C of a run that was cancelled from elsewhere does not cut its cleaning up short.
    """
    cancelled, over = Cancellation(), Cancellation()
    cancelled.at_once = at_once = Cancellation()
    asked = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            at_once.set()
            raise KeyboardInterrupt
        asked = True
        cancelled.set()

    def tell() -> None:
        Either(cancelled, over).wait()  # a signal handler must not write
        if asked and say is not None:
            say()

    orders = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup wants to outlive the terminal
        orders.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in orders}
    telling = Thread(target=tell, name="ralph-interrupt", daemon=True)
    telling.start()
    try:
        yield cancelled
    finally:
        over.set()
        telling.join()
        for number, handler in before.items():
            signal.signal(number, handler)
