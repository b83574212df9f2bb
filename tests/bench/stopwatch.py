"""Where the time of a run goes: agent and gates, git, fsync; the rest is Ralph's own."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from rulebook_ralph.agents import cli as agents
from rulebook_ralph.git import command, objects, repository
from rulebook_ralph.process import supervisor

Span = tuple[float, float]


@dataclass
class Stopwatch:
    """From when to when what was done, by kind. Some of it happens beside other things, so spans may overlap.

    `cpu` is what this process had used whenever an agent started: unlike a time it tells the same on a busy machine.
    """

    spans: dict[str, list[Span]] = field(default_factory=dict)
    cpu: list[float] = field(default_factory=list)

    def watched(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        spans = self.spans.setdefault(kind, [])

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            if kind == "agent":
                self.cpu.append(time.process_time())
            try:
                return function(*arguments, **named)
            finally:
                spans.append((started, time.perf_counter()))

        return timed

    def within(self, begin: float, end: float, *kinds: str) -> float:
        """Seconds between the two moments in which at least one of those kinds was going on."""
        found = [span for kind in kinds or self.spans for span in self.spans[kind]]
        return covered([(max(a, begin), min(b, end)) for a, b in found if a < end and b > begin])


def covered(spans: Sequence[Span]) -> float:
    """Seconds that at least one span covers."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopwatch]:
    """Time what is not Ralph's own."""
    watch = Stopwatch()
    monkeypatch.setattr(repository.Repository, "run", watch.watched("git", repository.Repository.run))
    for name in ("_answer", "move", "write"):
        monkeypatch.setattr(objects.Objects, name, watch.watched("git's objects", getattr(objects.Objects, name)))
    monkeypatch.setattr(command.Conversation, "say", watch.watched("words to git", command.Conversation.say))
    monkeypatch.setattr(agents, "run", watch.watched("agent", supervisor.run))
    monkeypatch.setattr(supervisor, "run", watch.watched("gates", supervisor.run))
    monkeypatch.setattr(os, "fsync", watch.watched("fsync", os.fsync))
    yield watch
