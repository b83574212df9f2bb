"""What happens in a run, as values that the loop reports and the console shows. No rendering here."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rulebook_ralph.tasks.results import CheckResult, StopReason, Usage
from rulebook_ralph.tasks.review import Review, Tier


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the person, outside the rhythm of iterations."""

    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class RunPlanned:
    """Said before the first agent starts: what is at most to come. Seconds and dollars; None is no limit."""

    project: str
    branch: str
    agent: str
    open_tasks: int
    total_tasks: int
    completed_tasks: int
    max_iterations: int
    max_wall_time: float | None
    max_cost_usd: float | None
    workers: int = 1


@dataclass(frozen=True, slots=True)
class IterationOpened:
    """`index` counts in this run, `iteration_number` over the whole project, `attempt` within the stage."""

    iteration_number: int
    index: int
    max_iterations: int
    task_id: str
    title: str
    stage: str
    attempt: int
    max_attempts: int
    completed_tasks: int
    total_tasks: int
    agent: str = ""


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """Something the agent just did: a piece of its text, or a tool it uses (`detail` is the command or file)."""

    kind: Literal["text", "tool", "retry"]
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GateStarted:
    """`about` says what it is run on where that is neither the new code with its checks nor the base as it is: `the
    base's checks`, for instance. Red is no failure there, it tells something.
    """

    step: str
    command: str
    on_base: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class GateEnded:
    result: CheckResult
    on_base: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class ReviewStarted:
    tier: Tier
    reviewer: str


@dataclass(frozen=True, slots=True)
class ReviewEnded:
    """One reviewer looked."""

    review: Review


@dataclass(frozen=True, slots=True)
class IterationSettled:
    """How an iteration ended, and the run's sums so far. `verified`: a stage holds, the task goes
    on with the next; `sent-back`: a later stage was not satisfied, the first one goes on."""

    iteration_number: int
    task_id: str
    outcome: Literal["completed", "verified", "retry", "sent-back", "blocked", "interrupted", "limited"]
    reason: str
    commit: str | None
    files_changed: int
    duration_ms: int
    usage: Usage
    cost_usd: float | None
    run_cost_usd: float
    run_tokens: int
    completed_tasks: int
    total_tasks: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """Said about every second while a run waits for an agent that is limited; `seconds` are left, 0 at the end.
    `begins`: the first time for this wait.
    """

    reason: str
    until: datetime
    seconds: float
    begins: bool = False


@dataclass(frozen=True, slots=True)
class BranchWaiting:
    """The branch cannot follow Ralph's work now. `ref` holds the work; `files` are what is in the way."""

    branch: str
    ref: str
    reason: str
    files: tuple[str, ...] = ()


OfOneIteration = Notice | AgentActivity | GateStarted | GateEnded | ReviewStarted | ReviewEnded | Waiting


@dataclass(frozen=True, slots=True)
class WithinIteration:
    """What an agent, gate or reviewer does, where several iterations go on at once: which of them it belongs to."""

    iteration_number: int
    event: OfOneIteration


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One row of the table at the end of a run."""

    task_id: str
    title: str
    status: str
    attempts: int
    cost_usd: float
    commit: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunEnded:
    stop_reason: StopReason
    reason: str
    tasks: tuple[TaskLine, ...]
    iterations: int
    completed_count: int
    failed_count: int
    cost_usd: float
    tokens: int
    duration_ms: int
    next_steps: tuple[str, ...] = ()


Event = (
    Notice
    | RunPlanned
    | IterationOpened
    | AgentActivity
    | GateStarted
    | GateEnded
    | ReviewStarted
    | ReviewEnded
    | Waiting
    | BranchWaiting
    | WithinIteration
    | IterationSettled
    | RunEnded
)

Report = Callable[[Event], None]
