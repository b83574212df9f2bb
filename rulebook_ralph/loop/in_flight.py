"""The iterations that go on: several at once in threads of their own, or one in the thread that waits for it."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from rulebook_ralph.core.settings import MOST_WORKERS
from rulebook_ralph.loop.iteration import Outcome
from rulebook_ralph.loop.opened import Beside, Opened

_AHEAD = 2
"""So many times as many iterations as workers may be open: those that have ended wait for older ones to be settled."""


@dataclass(frozen=True, slots=True)
class _Begun:
    opened: Opened
    outcome: Future[Outcome]
    work: Callable[[], Outcome] | None = None
    """What is still to be done for the outcome by who waits for it."""

    @property
    def cost_usd(self) -> float:
        """What it may still cost, in dollars; what it did cost, once it has ended."""
        if self.outcome.done() and self.outcome.exception() is None:
            return self.outcome.result().result.cost_usd or 0.0
        return self.opened.assignment.limits.cost_usd or 0.0


class InFlight:
    """Outcomes come out in the order in which their iterations were opened, however long each takes: what is on the
    branch does not depend on who was faster.
    """

    def __init__(self, *, isolated: bool) -> None:
        self._threads = ThreadPoolExecutor(MOST_WORKERS, "ralph-worker") if isolated else None
        self._begun: deque[_Begun] = deque()

    @property
    def opened(self) -> tuple[Opened, ...]:
        """The iterations that are not settled, oldest first."""
        return tuple(begun.opened for begun in self._begun)

    @property
    def beside(self) -> Beside:
        """What they take of the limits of the run."""
        return Beside(len(self._begun), self._running, sum(begun.cost_usd for begun in self._begun))

    def has_room(self, workers: int) -> bool:
        """Whether one more may be opened beside them, where so many work at once."""
        if self._threads is None:
            return not self._begun
        return self._running < workers and len(self._begun) < workers * _AHEAD

    def begin(self, opened: Opened, work: Callable[[], Outcome]) -> None:
        """Let it be worked on; where there is one thread only, from when it is waited for."""
        if self._threads is not None:
            self._begun.append(_Begun(opened, self._threads.submit(work)))
        else:
            self._begun.append(_Begun(opened, Future(), work))

    def next_ended(self) -> tuple[Opened, Outcome] | None:
        """Wait until any has ended; the oldest one with its outcome if it has. Raises what went wrong in it."""
        if (work := self._begun[0].work) is not None:
            return self._begun.popleft().opened, work()
        running = [begun.outcome for begun in self._begun if not begun.outcome.done()]
        if not self._begun[0].outcome.done():
            wait(running, return_when=FIRST_COMPLETED)
        if not self._begun[0].outcome.done():
            return None
        begun = self._begun.popleft()
        return begun.opened, begun.outcome.result()

    @property
    def _running(self) -> int:
        return sum(not begun.outcome.done() for begun in self._begun)

    def end(self) -> None:
        """Wait for all that still run; they have been told to end."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
