"""What one run was asked from another terminal, and what it tells of itself there."""

from collections.abc import Callable
from threading import Event, Lock

from msgspec.structs import replace

from rulebook_ralph.cancellation import Cancellation, Either
from rulebook_ralph.clock import Clock
from rulebook_ralph.control import Answer
from rulebook_ralph.core import events, orders
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.orders import Cancel, Look, Order, Pause, Situation
from rulebook_ralph.core.policy import Stop

PAUSED = Stop("paused", "paused as asked; 'ralph resume' goes on")
CANCELLED = Stop("cancelled", "cancelled as asked; the tree is as before the attempt, what was made is in its snapshot")
INTERRUPTED = Stop("interrupted", "interrupted; 'ralph resume' continues")


class Orders:
    """For one run. Orders come in another thread than the one that obeys; ^C comes by `cancelled` alone.

    `paused` is set while a pause is asked for, `either` while there is any reason not to wait for an agent.
    """

    def __init__(self, cancelled: Event, *, report: Callable[[events.Event], None], clock: Clock) -> None:
        self._cancelled = cancelled
        self._report = report
        self._clock = clock
        self._lock = Lock()
        self._situation = Situation()
        self._cancels = False
        self.paused = Cancellation()
        self.either = Either(cancelled, self.paused) if isinstance(cancelled, Cancellation) else cancelled

    def report(self, event: events.Event) -> None:
        """Pass on what happens in the run, keeping where it stands."""
        with self._lock:
            self._situation = orders.after(self._situation, event, at=self._clock.iso())
        self._report(event)

    def notice(self, level: str, text: str) -> None:
        """Report what a person is to know."""
        self.report(events.Notice("warning" if level == "warning" else "info", text))

    def take(self, order: Order) -> Answer:
        """Obey; what the person is told."""
        before = self.situation
        match order:
            case Look():
                return Answer("", situation=before)
            case Cancel():
                self._cancels = True
                self._cancelled.set()
                if before.ending != "cancelled":
                    self._report(events.Notice("info", "ralph cancel: ending now"))
                return Answer("cancelling", situation=before)
            case Pause():
                return self._pause(before, undo=order.undo)

    @property
    def situation(self) -> Situation:
        """Where the run stands."""
        with self._lock:
            situation = self._situation
        if not self._cancelled.is_set():
            return replace(situation, pausing=self.paused.is_set())
        return replace(situation, ending="cancelled" if self._cancels else "interrupted")

    def stop(self) -> Stop | None:
        """Why the run ends now, whatever there is to do."""
        if not self._cancelled.is_set():
            return None
        return CANCELLED if self._cancels else INTERRUPTED

    def pause(self) -> Stop | None:
        """Why the run ends between two iterations."""
        return PAUSED if self.paused.is_set() else None

    def judged(self, record: Iteration) -> Iteration:
        """The record, of an attempt that was cancelled if that is what ended it."""
        return orders.cancelled(record) if self._cancels else record

    def _pause(self, before: Situation, *, undo: bool) -> Answer:
        if before.ending:
            return Answer(f"the run is ending already ({before.ending})", situation=before)
        if undo and not before.pausing:
            return Answer("no pause was asked for; the run goes on", situation=before)
        if undo:
            self.paused.clear()
            self._report(events.Notice("info", "ralph pause --undo: going on"))
            return Answer("the pause is taken back; the run goes on", situation=before)
        self.paused.set()
        when = _when(before)
        if not before.pausing:
            self._report(events.Notice("info", f"ralph pause: the run ends {when}"))
        return Answer(f"the run ends {when}; go on later with: ralph resume", situation=before)


def _when(situation: Situation) -> str:
    """A wait ends as soon as a pause is asked for."""
    working = [each for each in situation.at_work if each.waiting is None]
    if situation.waiting or (situation.at_work and not working):
        return "now, as no agent works"
    return f"after {orders.named(working)}" if working else "before the next iteration"
