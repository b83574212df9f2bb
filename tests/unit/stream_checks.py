"""What holds of every agent's stream, whatever comes: no bytes raise, and none but a terminal success are one."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st

from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.transcript import Reader, Transcript, conclude
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Ended

NOW = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)
PARTS = st.floats(0, 1)
REST = st.binary(max_size=20)
DAMAGE = st.lists(st.tuples(PARTS, st.integers(0, 255)), min_size=1, max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
CHANGES = st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=2, max_size=7), JSON), min_size=1, max_size=6)


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@dataclass
class Stream:
    """A reader under test. `is_success` says of a whole stream, in its own way, whether it tells of a good end."""

    make: Callable[[Report, Now], Reader]
    is_success: Callable[[bytes], bool]
    activities: list[AgentActivity] = field(default_factory=list)

    def read(self, stream: bytes, *, piece: int = 1000) -> Transcript:
        self.activities.clear()
        reader = self.make(self.activities.append, lambda: NOW)
        for start in range(0, len(stream), piece):
            reader.feed(stream[start : start + piece])
        return reader.close()

    def concluded(self, stream: bytes, exit_code: int = 0) -> AgentResult:
        return conclude("mine", Ended(exit_code), self.read(stream))

    def check(self, stream: bytes) -> None:
        got = self.concluded(stream)
        assert got.status in ("finished", "failed", "truncated")
        assert got.status != "finished" or self.is_success(stream)
        assert msgspec.json.decode(msgspec.json.encode(got), type=AgentResult) == got

    def check_cut(self, whole: bytes, part: float, rest: bytes) -> None:
        self.check(whole[: int(len(whole) * part)] + rest)

    def check_damaged(self, whole: bytes, damage: list[tuple[float, int]]) -> None:
        stream = bytearray(whole)
        for place, byte in damage:
            stream[int((len(stream) - 1) * place)] = byte
        self.check(bytes(stream))

    def check_changed(self, events: list[Any], changes: list[tuple[list[int], object]]) -> None:
        for path, new in changes:
            events = _replaced(events, path, new) if events else []
        self.check(lines(*events))


def is_event(stream: bytes, matches: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether any line of the stream is a JSON object that matches."""
    for line in stream.split(b"\n"):
        try:
            event = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and matches(event):
            return True
    return False


def _replaced(value: Any, path: list[int], new: object) -> Any:
    """`value` with the part that `path` leads to, an index at each level, put to `new`."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    key = list(value)[path[0] % len(value)] if isinstance(value, dict) else path[0] % len(value)
    changed = value.copy()
    changed[key] = _replaced(value[key], path[1:], new)
    return changed
