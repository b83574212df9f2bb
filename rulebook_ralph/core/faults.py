"""What to do when an agent failed for a reason that is not the task's: wait, go on at once, stop, or give up the task.

None of these failures counts as an attempt at the task; each is bounded by how often it came in a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from rulebook_ralph.core.evidence import AgentFault, ErrorKind

OnLimit = Literal["wait", "stop", "fallback"]
"""What a usage limit leads to: waiting until it resets, the end of the run, or another agent meanwhile."""

Remedy = Literal["retry", "wait", "fallback", "give-up-task", "stop"]

CANNOT_HEAL: frozenset[ErrorKind] = frozenset({"authentication", "billing", "not-installed"})
_LIMITS: frozenset[ErrorKind] = frozenset({"rate-limit", "overloaded"})
_BACKS_OFF: frozenset[ErrorKind] = _LIMITS | {"network"}
_OF_THE_TASK: frozenset[ErrorKind] = frozenset({"crash", "cut-off", "unknown", "permission", "context-too-long"})
NOT_COUNTED: frozenset[ErrorKind] = CANNOT_HEAL | _BACKS_OFF | _OF_THE_TASK | {"usage-limit"}
"""Failures that say nothing of the task. `max-turns` and `max-budget` are limits that somebody set for the work."""
WORTH_ASKING_AGAIN: frozenset[ErrorKind] = NOT_COUNTED - {"permission", "context-too-long"}
"""Failures of a model that another question to it would not have spared it."""

MOST_LIMITS = 24
MOST_BACK_OFFS = 8
MOST_AT_ONE_TASK = 3
TASKS_BEFORE_THE_END = 2
"""So many tasks given up in a row for the agent's failures mean that it is the agent, not the tasks."""

_FIRST_WAIT = 5.0
_LONGEST_WAIT = 300.0
_LIMIT_FIRST_WAIT = 300.0
_LIMIT_LONGEST_WAIT = 3600.0
_SLACK = timedelta(seconds=2)
_MINUTE = timedelta(seconds=60)
"""Clocks differ, so a limit is asked again a moment after it was said to reset; a time told to the minute means any
second of it."""
_FAR = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Troubles:
    """How often agents failed since one last came to its end: at usage limits, at what is backed off from, and for what
    is neither at each task by itself, since several may fail in turns; `task_id` was the last one. `given_up` are the
    tasks that were given up for it.
    """

    limits: int = 0
    back_offs: int = 0
    task_id: str = ""
    at_tasks: Mapping[str, int] = field(default_factory=dict)
    given_up: int = 0

    @property
    def at_task(self) -> int:
        """How often in a row at the last task."""
        return self.at_tasks.get(self.task_id, 0)

    def and_one(self, kind: ErrorKind, task_id: str) -> "Troubles":
        """With one more failure. No kind begins anew because another came between, else two in turns never end."""
        at_tasks = self.at_tasks
        if kind in _OF_THE_TASK:
            at_tasks = {**at_tasks, task_id: at_tasks.get(task_id, 0) + 1}
        return Troubles(
            limits=self.limits + (kind == "usage-limit"),
            back_offs=self.back_offs + (kind in _BACKS_OFF),
            task_id=task_id,
            at_tasks=at_tasks,
            given_up=self.given_up,
        )

    def and_one_beside(self, kind: ErrorKind, task_id: str) -> "Troubles":
        """The same for one that began before another's failure was waited for: what the service refuses to several at
        once, it refuses once.
        """
        return replace(self.and_one(kind, task_id), limits=self.limits, back_offs=self.back_offs)

    def ended_at(self, task_id: str) -> "Troubles":
        """After an agent came to its end at a task: only what others failed at is still so."""
        return Troubles(at_tasks=self._without(task_id))

    def after(self, remedy: Remedy) -> "Troubles":
        """What is left of them for the next agent or task."""
        if remedy == "give-up-task":
            return replace(self, task_id="", at_tasks=self._without(self.task_id), given_up=self.given_up + 1)
        return Troubles(limits=self.limits) if remedy == "fallback" else self

    def _without(self, task_id: str) -> Mapping[str, int]:
        return {task: times for task, times in self.at_tasks.items() if task != task_id}


@dataclass(frozen=True, slots=True)
class Response:
    """What to do. `seconds` to wait (0 for at once), `until` where there is a time to wait for; `reason` for people.
    `limited`: it is a limit of the service that leads to this, not an agent that cannot work.
    """

    remedy: Remedy
    reason: str
    seconds: float = 0.0
    until: datetime | None = None
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Means:
    """What there is against failures: what a usage limit leads to, whether another agent can take over, and how long a
    limit may be waited for (seconds). `who` failed, for people.
    """

    on_limit: OnLimit = "wait"
    has_fallback: bool = False
    longest_wait: float = 24 * 3600.0
    who: str = "the agent"

    @property
    def end(self) -> Remedy:
        """What is left when this agent is of no use any more."""
        return "fallback" if self.has_fallback else "stop"


def respond(fault: AgentFault, troubles: Troubles, means: Means, *, now: datetime) -> Response:
    """The remedy for a failure that does not count. `troubles` include it; `now` has a time zone."""
    said = f"{fault.kind}: {fault.message}"
    if fault.kind in CANNOT_HEAL:
        return Response(means.end, f"{means.who} cannot work ({fault.kind}): {fault.message}")
    if fault.kind == "usage-limit":
        return _limited(fault, troubles, means, now=now)
    if fault.kind in _BACKS_OFF:
        return _backing_off(said, troubles, means, limited=fault.kind in _LIMITS, now=now)
    if troubles.at_task < MOST_AT_ONE_TASK:
        return Response("retry", said)
    if troubles.given_up + 1 >= TASKS_BEFORE_THE_END:
        return Response(means.end, f"at {troubles.given_up + 1} tasks in a row, {said}")
    return Response("give-up-task", f"{means.who} failed {troubles.at_task} times in a row at this task; {said}")


def _backing_off(said: str, troubles: Troubles, means: Means, *, limited: bool, now: datetime) -> Response:
    if troubles.back_offs >= MOST_BACK_OFFS:
        reason = f"{means.who} failed {troubles.back_offs} times in a row, the last time with {said}"
        return Response(means.end, reason, limited=limited)
    seconds = _backed_off(troubles.back_offs, _FIRST_WAIT, _LONGEST_WAIT)
    return Response("wait", said, seconds, now + timedelta(seconds=seconds), limited)


def _limited(fault: AgentFault, troubles: Troubles, means: Means, *, now: datetime) -> Response:
    stated = free_again(fault.resets_at)
    until = stated if stated is not None and stated > now else None
    when = f", until {fault.resets_at}" if until else ""
    if until is None:  # not stated, or passed already as the clocks differ: ask again later and later
        until = now + timedelta(seconds=_backed_off(troubles.limits, _LIMIT_FIRST_WAIT, _LIMIT_LONGEST_WAIT))
    seconds = (until - now).total_seconds()
    reason = f"{means.who}'s usage limit is reached{when}: {fault.message}"
    if troubles.limits >= MOST_LIMITS:
        return Response("stop", f"{troubles.limits} times in a row, {reason}", seconds, until, limited=True)
    if means.on_limit == "fallback" and means.has_fallback:
        return Response("fallback", reason, seconds, until, limited=True)
    if means.on_limit == "stop":
        return Response("stop", reason, seconds, until, limited=True)
    if seconds > means.longest_wait:
        longer = f"that is more than limits.maxLimitWait ({means.longest_wait:.0f} s)"
        return Response("stop", f"{reason}; {longer}", seconds, until, limited=True)
    return Response("wait", reason, seconds, until, limited=True)


def free_again(resets_at: str | None) -> datetime | None:
    """When an agent may be asked again whose limit resets at an ISO time with a zone; None for anything else."""
    try:
        reset = datetime.fromisoformat(resets_at) if resets_at else None
    except ValueError:
        return None
    if reset is None or reset.tzinfo is None:
        return None
    return min(reset, _FAR) + (_SLACK if reset.second or reset.microsecond else _MINUTE)


def _backed_off(times: int, first: float, longest: float) -> float:
    return min(longest, first * 2.0 ** min(max(times, 1) - 1, 20))
