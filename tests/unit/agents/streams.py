"""What holds of every agent's stream, whatever comes: no bytes raise, and none but a terminal success are one."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.cli import CliAgent, conclude
from rulebook_ralph.agents.reader import Reader
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.process.supervisor import Ended
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
NOW = datetime(2026, 11, 21, 20, 19, tzinfo=UTC)
PARTS = st.floats(0, 1)
REST = st.binary(max_size=20)
DAMAGE = st.lists(st.tuples(PARTS, st.integers(0, 255)), min_size=1, max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
CHANGES = st.lists(st.tuples(st.lists(st.integers(0, 40), min_size=2, max_size=7), JSON), min_size=1, max_size=6)

_WANTED = {"codex": b"turn.completed", "opencode": b"stop", "aider": b" received.", "copilot": b"exitCode"}


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


@lru_cache
def capture(agent: str, scenario: str, end: str = "out") -> bytes:
    path = CAPTURES / agent / f"{scenario}.{end}"
    return path.read_bytes() if end == "out" or path.exists() else b""


@dataclass
class Stream:
    """One kind of agent, and what is made of what it prints."""

    kind: str

    def adapter(self) -> CliAgent:
        agent = registry.create(Executor(id=self.kind, type=self.kind), {})
        assert isinstance(agent, CliAgent)
        return agent

    def read(self, stream: bytes, *, piece: int = 1000, shown: list[AgentActivity] | None = None) -> Reader:
        seen: list[AgentActivity] = [] if shown is None else shown
        reader = self.adapter().reader(seen.append, lambda: NOW)
        for start in range(0, len(stream), piece):
            reader.feed(stream[start : start + piece])
        reader.close()
        return reader

    def shown(self, stream: bytes) -> list[AgentActivity]:
        activities: list[AgentActivity] = []
        self.read(stream, shown=activities)
        return activities

    def concluded(self, stream: bytes, ended: Ended | int = 0) -> AgentResult:
        ended = Ended(ended) if isinstance(ended, int) else ended
        reader = self.read(stream)
        reader.exited(ended)
        return conclude(self.kind, ended, reader)

    def tells_success(self, stream: bytes) -> bool:
        """Whether there is anything at all that a terminal success is made of."""
        document = self.kind == "gemini" and b'"response"' in stream and b'"stats"' in stream
        wanted = _WANTED.get(self.kind, b"success")
        return document or any(
            wanted in line and (b"{" in line or self.kind == "aider") for line in stream.split(b"\n")
        )

    def check(self, stream: bytes) -> None:
        got = self.concluded(stream)
        assert got.status in ("finished", "failed", "truncated")
        assert got.status != "finished" or self.tells_success(stream)
        assert msgspec.json.decode(msgspec.json.encode(got), type=AgentResult) == got

    def check_cut(self, whole: bytes, part: float, rest: bytes) -> None:
        self.check(whole[: int(len(whole) * part)] + rest)

    def check_damaged(self, whole: bytes, damage: list[tuple[float, int]]) -> None:
        stream = bytearray(whole)
        for place, byte in damage if stream else []:
            stream[int((len(stream) - 1) * place)] = byte
        self.check(bytes(stream))

    def check_changed(self, events: list[Any], changes: list[tuple[list[int], object]]) -> None:
        for path, new in changes:
            events = _replaced(events, path, new) if events else []
        self.check(lines(*events) if isinstance(events, list) else lines(events))


def _replaced(value: Any, path: list[int], new: object) -> Any:
    """`value` with the part that `path` leads to, an index at each level, put to `new`."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    key = list(value)[path[0] % len(value)] if isinstance(value, dict) else path[0] % len(value)
    changed = value.copy()
    changed[key] = _replaced(value[key], path[1:], new)
    return changed
