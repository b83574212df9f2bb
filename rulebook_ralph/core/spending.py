"""What models took that were asked in passing, summed up by whoever pays for it."""

from collections.abc import Callable
from threading import Lock

from rulebook_ralph.core.evidence import Usage

Spend = Callable[[Usage, float | None], None]
"""Told what one question took: tokens, and dollars where they are known."""


class Ledger:
    """Sums what is spent, from any thread. The cost is None as long as none was told."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._usage = Usage()
        self._cost: float | None = None

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        with self._lock:
            was = self._usage
            self._usage = Usage(
                input_tokens=was.input_tokens + usage.input_tokens,
                output_tokens=was.output_tokens + usage.output_tokens,
                cache_read_tokens=was.cache_read_tokens + usage.cache_read_tokens,
                cache_write_tokens=was.cache_write_tokens + usage.cache_write_tokens,
            )
            if cost_usd is not None:
                self._cost = (self._cost or 0.0) + cost_usd

    def take(self) -> tuple[Usage, float | None]:
        """All that was spent since it was last taken."""
        with self._lock:
            taken = self._usage, self._cost
            self._usage, self._cost = Usage(), None
            return taken


def nobody_pays(_usage: Usage, _cost_usd: float | None) -> None:
    """Where nothing is summed up."""
