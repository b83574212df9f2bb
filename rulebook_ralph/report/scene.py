"""What the live display shows, changed by events. Cheap to change: an agent may report 10,000 times a second."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from rulebook_ralph.report import words
from rulebook_ralph.report.events import (
    AgentActivity,
    Event,
    GateEnded,
    GateStarted,
    IterationOpened,
    IterationSettled,
    ReviewEnded,
    ReviewStarted,
    RunEnded,
    RunPlanned,
    TasksListed,
    Waiting,
    WithinIteration,
)
from rulebook_ralph.tasks.results import CheckResult

_KEPT_ACTIVITIES = 200
_KEPT_CHARACTERS = 2_000


@dataclass(slots=True)
class Gate:
    """A gate or a review of an iteration; `result` is None while it runs."""

    step: str
    command: str
    started: datetime
    result: CheckResult | None = None


@dataclass(slots=True)
class Lane:
    """What goes on in one open iteration; without `opened`, what belongs to none, such as gates on the base."""

    opened: IterationOpened | None = None
    since: datetime | None = None
    last_sign: datetime | None = None
    activity: deque[AgentActivity] = field(default_factory=lambda: deque(maxlen=_KEPT_ACTIVITIES))
    gates: dict[str, Gate] = field(default_factory=dict)
    waiting: Waiting | None = None

    def apply(self, event: Event, now: datetime) -> None:
        match event:
            case AgentActivity(kind, text, detail):
                self.last_sign = now
                self.activity.append(AgentActivity(kind, text[:_KEPT_CHARACTERS], detail[:_KEPT_CHARACTERS]))
            case GateStarted():
                step = _named(event.step, event.about)
                self.gates[step] = Gate(step, event.command, now)
            case ReviewStarted():
                step = words.review_step(event.tier, event.reviewer)
                self.gates[step] = Gate(step, "", now)
            case GateEnded():
                self._end_gate(event, now)
            case ReviewEnded():
                self._end_gate(GateEnded(words.review_ending(event)), now)
            case Waiting():
                self.waiting = event if event.seconds > 0 else None
            case _:
                pass

    @property
    def running_gates(self) -> list[Gate]:
        return [gate for gate in self.gates.values() if gate.result is None]

    def _end_gate(self, event: GateEnded, now: datetime) -> None:
        step = _named(event.result.step, event.about)
        if event.on_base or event.about:
            self.gates.pop(step, None)
        else:
            self.gates.setdefault(step, Gate(step, event.result.command, now)).result = event.result


@dataclass(slots=True)
class Scene:
    """A run: `lanes` by the number of their iteration, in the order they were opened. `waiting` holds the whole run.

    `whole_output` and `help` are what a person chose to see; `keys` says that keys are read, `question` what is asked.
    """

    plan: RunPlanned | None = None
    started: datetime | None = None
    lanes: dict[int, Lane] = field(default_factory=dict)
    outside: Lane = field(default_factory=Lane)
    index: int = 0
    completed: int = 0
    total: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    waiting: Waiting | None = None
    ended: bool = False
    listed: TasksListed = field(default_factory=lambda: TasksListed(()))
    keys: bool = False
    whole_output: bool = False
    help: bool = False
    question: str = ""

    def apply(self, event: Event, now: datetime) -> None:
        if self.started is None:
            self.started = now
        match event:
            case Waiting():
                self.waiting = event if event.seconds > 0 else None
            case IterationOpened():
                self.lanes[event.iteration_number] = Lane(event, now, now)
                self.waiting, self.index = None, event.index
                self._count(event)
            case IterationSettled():
                self.lanes.pop(event.iteration_number, None)
                self.cost_usd, self.tokens = event.run_cost_usd, event.run_tokens
                self._count(event)
            case RunPlanned():
                self.plan, self.completed, self.total = event, event.completed_tasks, event.total_tasks
                self.started, self.cost_usd, self.tokens, self.index, self.ended = now, 0.0, 0, 0, False
                self.lanes.clear()
            case TasksListed():
                self.listed = event
            case RunEnded():
                self.ended = True
            case WithinIteration():
                if lane := self.lanes.get(event.iteration_number):  # else it has been settled meanwhile
                    lane.apply(event.event, now)
            case _:
                self.lane_of(event).apply(event, now)

    def lane_of(self, event: Event) -> Lane:
        """Where `event` happens: in its own iteration, in the only one there is, else in none."""
        if isinstance(event, WithinIteration | IterationSettled):
            return self.lanes.get(event.iteration_number, self.outside)
        return next(iter(self.lanes.values())) if len(self.lanes) == 1 else self.outside

    def _count(self, event: IterationOpened | IterationSettled) -> None:
        self.completed, self.total = event.completed_tasks, event.total_tasks
        self.outside = Lane()


def _named(step: str, about: str) -> str:
    """A gate that is run on something else runs beside the one of that name."""
    return f"{step} ({about})" if about else step
