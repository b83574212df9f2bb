"""An iteration that goes on, as those know it who wait for it."""

from dataclasses import dataclass

from rulebook_ralph.agents.agent import Agent
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.loop.iteration import Assignment
from rulebook_ralph.loop.worker import Worker
from rulebook_ralph.workspace import guard


@dataclass(frozen=True, slots=True)
class Opened:
    """An iteration that was opened: the assignment, its record, its agent, where it is worked on, and what is put back
    there when others have worked.
    """

    assignment: Assignment
    record: Iteration
    executor: str
    agent: Agent
    guarded: guard.Guard
    worker: Worker


@dataclass(frozen=True, slots=True)
class Beside:
    """The iterations that are not settled when another is opened: how many, at how many of them somebody works, and
    what they cost at most, in dollars.
    """

    opened: int = 0
    running: int = 0
    cost_usd: float = 0.0


ALONE = Beside()
