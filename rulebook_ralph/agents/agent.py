"""The one interface to a coding agent, and how an agent is found by its name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.idleness import LastChange


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """An agent as configured (`tools.executors[]`). `prompt_via` is stdin, file or argument, for the `command` type;
    `endpoint` is the address of a server, for an agent that can attach to one.
    """

    id: str
    type: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    model: str = ""
    permissions: str = "full"
    prompt_via: str = "stdin"
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Limits of one run; None is no limit. Times in seconds; idle means no byte of output and no change in the
    workspace for that long. `cost_usd` is for agents that can be given a budget.
    """

    wall_time: float | None = None
    idle_time: float | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Everything an agent gets for one run. Raw output is streamed to `output_file`; `cancelled` ends the run early.

    `last_change` tells when the workspace changed last (idleness.py).
    """

    prompt: str
    workspace: Path
    output_file: Path
    limits: AgentLimits
    environment: dict[str, str]
    cancelled: Event
    report: Callable[[AgentActivity], None]
    last_change: LastChange | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether an agent can be started at all; `problem` is one line with what to do."""

    installed: bool
    version: str = ""
    problem: str = ""


class Agent(Protocol):
    """A coding agent that can be given a prompt in a workspace."""

    name: str

    def probe(self) -> Probe:
        """Look, without cost, whether the agent can run here."""
        ...

    def run(self, assignment: Assignment) -> AgentResult:
        """Run to the end. Never raises for what the agent does; leaves no process behind."""
        ...
