"""The time, handed in where it is needed, so that nothing reads it in secret."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Clock:
    """`now` is an aware time, `monotonic` seconds that never go back."""

    now: Callable[[], datetime]
    monotonic: Callable[[], float]

    def iso(self) -> str:
        """Now, in UTC, to the millisecond, as it is written to the state folder."""
        return self.now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def seconds(self) -> int:
        """Now, as seconds since the epoch."""
        return int(self.now().timestamp())
