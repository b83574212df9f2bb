"""What the live display shows, changed by events. Cheap to change: an agent may report 10,000 times a second."""

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime

from rulebook_ralph import console_words as words
from rulebook_ralph.core.events import (
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
    Waiting,
)
from rulebook_ralph.core.evidence import CheckResult

_KEPT_ACTIVITIES = 6
_KEPT_CHARACTERS = 2_000


@dataclass(slots=True)
class Gate:
    """A gate or a review of the present iteration; `result` is None while it runs."""

    step: str
    command: str
    started: datetime
    result: CheckResult | None = None


@dataclass(slots=True)
class Scene:
    """`activity` holds the agent's last doings, each cut."""

    plan: RunPlanned | None = None
    started: datetime | None = None
    iteration: IterationOpened | None = None
    opened: datetime | None = None
    last_sign: datetime | None = None
    activity: deque[AgentActivity] = field(default_factory=lambda: deque(maxlen=_KEPT_ACTIVITIES))
    gates: dict[str, Gate] = field(default_factory=dict)
    completed: int = 0
    total: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    waiting: Waiting | None = None
    ended: bool = False

    def apply(self, event: Event, now: datetime) -> None:  # noqa: C901 - one case for each event
        if self.started is None:
            self.started = now
        match event:
            case AgentActivity():
                self.last_sign = now
                self._add(event)
            case Waiting():
                self.waiting = event if event.seconds > 0 else None
            case GateStarted() | ReviewStarted():
                step, command = _begun(event)
                self.gates[step] = Gate(step, command, now)
            case GateEnded():
                self._end_gate(event, now)
            case ReviewEnded():
                self._end_gate(GateEnded(words.review_ending(event)), now)
            case IterationOpened():
                self.iteration, self.opened, self.last_sign = event, now, now
                self.waiting = None
                self.completed, self.total = event.completed_tasks, event.total_tasks
                self._clear()
            case IterationSettled():
                self.completed, self.total = event.completed_tasks, event.total_tasks
                self.cost_usd, self.tokens = event.run_cost_usd, event.run_tokens
                self.iteration = None
                self._clear()
            case RunPlanned():
                self.plan, self.completed, self.total = event, event.completed_tasks, event.total_tasks
                self.started, self.cost_usd, self.tokens, self.ended = now, 0.0, 0, False
            case RunEnded():
                self.ended = True
            case _:
                pass

    def copy(self) -> "Scene":
        return replace(self, activity=self.activity.copy(), gates={name: replace(g) for name, g in self.gates.items()})

    @property
    def running_gate(self) -> bool:
        return any(gate.result is None for gate in self.gates.values())

    def _clear(self) -> None:
        self.activity.clear()
        self.gates.clear()

    def _end_gate(self, event: GateEnded, now: datetime) -> None:
        step = event.result.step
        if event.on_base:
            self.gates.pop(step, None)
            return
        gate = self.gates.setdefault(step, Gate(step, event.result.command, now))
        gate.result = event.result

    def _add(self, event: AgentActivity) -> None:
        text = event.text[:_KEPT_CHARACTERS]
        self.activity.append(AgentActivity(event.kind, text, event.detail[:_KEPT_CHARACTERS]))


def _begun(event: GateStarted | ReviewStarted) -> tuple[str, str]:
    """The name of what runs now, and its command where it has one."""
    if isinstance(event, GateStarted):
        return event.step, event.command
    return words.review_step(event.tier, event.reviewer), ""
