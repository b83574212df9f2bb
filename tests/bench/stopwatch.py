"""Where the time of a run goes: agent and gates, git, fsync; the rest is Ralph's own."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from rulebook_ralph import supervisor
from rulebook_ralph.workspace import commits, git


@dataclass
class Stopwatch:
    """Seconds and calls by kind, and the moments at which agents started."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)
    starts: list[tuple[float, float]] = field(default_factory=list)

    def watched(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            if kind == "agent and gates":
                self.starts.append((started, sum(self.seconds.values())))
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[kind] += time.perf_counter() - started
                self.calls[kind] += 1

        return timed


@contextmanager
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopwatch]:
    """Time what is not Ralph's own. A snapshot is written beside the gates, so git's time may be counted twice."""
    watch = Stopwatch()
    monkeypatch.setattr(git.Git, "raw", watch.watched("git", git.Git.raw))
    monkeypatch.setattr(commits, "_import", watch.watched("git (beside the gates)", commits._import))
    monkeypatch.setattr(supervisor, "run", watch.watched("agent and gates", supervisor.run))
    monkeypatch.setattr(os, "fsync", watch.watched("fsync", os.fsync))
    yield watch
