"""Whether a process that prints nothing is idle: no byte came, and nothing that it works on changed either."""

import time
from collections.abc import Callable

LastChange = Callable[[], float | None]
"""When what a process works on changed last, in seconds since the epoch; None where that cannot be told. A look may
take its time: it is only asked for after the whole idle time without a byte."""

Clock = Callable[[], float]

_MOST_LOOKS = 10


class Idleness:
    """The idle limit of one process, in seconds; None is no limit. Without `last_change` only bytes count.

    A change restarts the clock from the time of that change; there are never more than ten looks in the idle time.
    `wall` is the clock of changes, `monotonic` that of bytes, both in seconds.
    """

    def __init__(
        self,
        limit: float | None,
        last_change: LastChange | None,
        *,
        wall: Clock = time.time,
        monotonic: Clock = time.monotonic,
    ) -> None:
        self._limit = limit
        self._wall = wall
        self._monotonic = monotonic
        self._last_change = last_change
        self._seen: float | None = None
        self._changed = 0.0
        self._next_look = 0.0

    def seconds_left(self, last_byte: float) -> float | None:
        """Until the limit is reached, None without one. Times here are monotonic."""
        if self._limit is None:
            return None
        return max(max(last_byte, self._changed) + self._limit, self._next_look) - self._monotonic()

    def is_over(self) -> bool:
        """Whether the process is idle, to be asked when no time is left: looks whether anything changed meanwhile."""
        if self._limit is None:
            return False
        change = self._last_change() if self._last_change else None
        if change is None or change == self._seen:
            return True
        self._seen = change
        age = max(0.0, self._wall() - change)  # one that lies in the future counts once
        now = self._monotonic()
        self._changed = now - age
        self._next_look = now + self._limit / _MOST_LOOKS
        return age >= self._limit
