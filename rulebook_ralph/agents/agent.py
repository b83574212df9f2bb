"""The one interface to a coding agent, and what goes into a run of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from rulebook_ralph.process.box import Box
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult

Report = Callable[[AgentActivity], None]


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of one run; None is no limit. Times in seconds; idle means no byte of output and no change in the
    workspace for that long. `cost_usd` is for agents that can be given a budget.
    """

    wall_time: float | None = None
    idle_time: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """Everything an agent gets for one run. `workspace` is the folder it works in, a path inside `box` where there is
    one. Raw output is streamed to `output_file`, which is outside; `cancelled` ends the run early.
    """

    prompt: str
    workspace: Path
    output_file: Path
    limits: AgentLimits
    environment: Mapping[str, str]
    cancelled: Event
    report: Report
    box: Box | None = None

    @property
    def outside(self) -> Path:
        """The workspace as it is seen from outside the box."""
        binds = self.box.binds if self.box else ()
        for source, place in reversed(binds):
            if self.workspace.is_relative_to(place):
                return source / self.workspace.relative_to(place)
        return self.workspace


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether an agent can be started at all; `problem` is one line with what to do. One that is `misconfigured` cannot
    even be made.
    """

    installed: bool
    version: str = ""
    problem: str = ""
    misconfigured: bool = False


class Agent(Protocol):
    """A coding agent that can be given a prompt in a workspace."""

    name: str

    def probe(self) -> Probe:
        """Look, without cost, whether the agent can run here."""
        ...

    def run(self, invocation: Invocation) -> AgentResult:
        """Run to the end. Never raises for what the agent does; leaves no process behind."""
        ...
