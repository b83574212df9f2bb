"""What happens in a run, as values that the loop reports and the console shows. No rendering here."""

from datetime import datetime
from typing import Literal

import msgspec

from rulebook_ralph.tasks.model import Status, Totals
from rulebook_ralph.tasks.results import CheckResult, StopReason, Usage
from rulebook_ralph.tasks.review import Review, Tier


class _Event(msgspec.Struct, frozen=True, rename="camel", tag_field="event", tag=True):
    """As JSON it has its name under `event`."""


class Notice(_Event, frozen=True):
    """A line for the person, outside the rhythm of iterations."""

    level: Literal["info", "warning"]
    text: str


class RunPlanned(_Event, frozen=True):
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


class OpenTask(msgspec.Struct, frozen=True, rename="camel"):
    """A task that is not completed."""

    task_id: str
    title: str
    status: Status


class TasksListed(_Event, frozen=True):
    """The first tasks that are not completed, in the order they would be worked on, whenever the list has changed."""

    tasks: tuple[OpenTask, ...]
    more: int = 0


class IterationOpened(_Event, frozen=True):
    """`index` counts in this run, `iteration_number` over the whole project, `attempt` within the stage. The agent may
    be silent for `idle_timeout` seconds.
    """

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
    idle_timeout: float | None = None


class AgentActivity(_Event, frozen=True):
    """Something the agent just did: a line of its text (`detail` is all of it, where there is more), a tool it uses
    (`detail` is the command or file), or the first line of what a tool said that failed.
    """

    kind: Literal["text", "tool", "failure", "retry"]
    text: str
    detail: str = ""


class GateStarted(_Event, frozen=True):
    """Of a gate, and of a criterion, as `result.method` says in the end. `about` says what it is run on where that is
    neither the new code with its checks nor the base as it is: `the base's checks`, for instance. Red is no failure
    there, it tells something.
    """

    step: str
    command: str
    on_base: bool = False
    about: str = ""


class GateEnded(_Event, frozen=True):
    result: CheckResult
    on_base: bool = False
    about: str = ""


class ReviewStarted(_Event, frozen=True):
    tier: Tier
    reviewer: str


class ReviewEnded(_Event, frozen=True):
    """One reviewer looked."""

    review: Review


class IterationSettled(_Event, frozen=True):
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


class Waiting(_Event, frozen=True):
    """Said about every second while a run waits for an agent that is limited; `seconds` are left, 0 at the end.
    `begins`: the first time for this wait.
    """

    reason: str
    until: datetime
    seconds: float
    begins: bool = False


class BranchWaiting(_Event, frozen=True):
    """The branch cannot follow Ralph's work now. `ref` holds the work; `files` are what is in the way."""

    branch: str
    ref: str
    reason: str
    files: tuple[str, ...] = ()


OfOneIteration = Notice | AgentActivity | GateStarted | GateEnded | ReviewStarted | ReviewEnded | Waiting


class WithinIteration(msgspec.Struct, frozen=True):
    """What an agent, gate or reviewer does, where several iterations go on at once: which of them it belongs to."""

    iteration_number: int
    event: OfOneIteration


class TaskLine(msgspec.Struct, frozen=True, rename="camel"):
    """One row of the table at the end of a run: `attempts` and `cost_usd` are this run's."""

    task_id: str
    title: str
    status: str
    attempts: int
    cost_usd: float
    commit: str | None = None
    reason: str = ""


class RunEnded(_Event, frozen=True):
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
    totals: Totals | None = None
    """Of all runs, where there was an earlier one."""
    only: tuple[str, ...] = ()


Told = (
    Notice
    | RunPlanned
    | TasksListed
    | IterationOpened
    | AgentActivity
    | GateStarted
    | GateEnded
    | ReviewStarted
    | ReviewEnded
    | Waiting
    | BranchWaiting
    | IterationSettled
    | RunEnded
)
Event = Told | WithinIteration

VERSION = 1
"""Of the events as JSON (schemas/event.schema.json)."""


def as_object(event: Event, now: datetime) -> dict[str, object]:
    """`{version, event: "GateEnded", at, ...}`; with the number of the iteration it happened within."""
    number = {}
    if isinstance(event, WithinIteration):
        number, event = {"iterationNumber": event.iteration_number}, event.event
    fields = msgspec.to_builtins(event)
    head = {"version": VERSION, "event": fields.pop("event"), "at": now.isoformat(timespec="milliseconds")}
    return {**head, **number, **fields}


class _Place(msgspec.Struct, frozen=True, rename="camel"):
    at: datetime
    iteration_number: int | None = None


def from_json(data: bytes) -> tuple[Event, datetime]:
    """The event in a line of JSON, and when it happened. Raises msgspec.MsgspecError."""
    place = msgspec.json.decode(data, type=_Place)
    event = msgspec.json.decode(data, type=Told)
    if place.iteration_number is None or not isinstance(event, OfOneIteration):
        return event, place.at
    return WithinIteration(place.iteration_number, event), place.at
