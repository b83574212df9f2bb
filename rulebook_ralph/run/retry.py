"""What a run does when an agent or a model fails for a reason that is not the task's: it waits, goes on at once or with
another agent, gives up the task, or ends. None of these failures counts as an attempt; each is bounded by how often it
came in a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event, Lock
from typing import Literal

from rulebook_ralph.agents.question import Ask, GivenUpError, ModelError, Question
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.clock import Clock
from rulebook_ralph.config.settings import Config
from rulebook_ralph.report import events
from rulebook_ralph.run.summaries import FAILED_AT_IT
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentFault, ErrorKind
from rulebook_ralph.verify.rules import CANNOT_HEAL

OnLimit = Literal["wait", "stop", "fallback"]
Remedy = Literal["retry", "wait", "fallback", "give-up-task", "stop"]

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
_TICK = 1.0
_ORDERS = ("interrupted", "cancelled", "max-wall-time")
"""Ends that Ralph itself brought about, whatever the agent was struggling with."""


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

    def and_one(self, kind: ErrorKind, task_id: str, *, beside: bool = False) -> "Troubles":
        """With one more failure. No kind begins anew because another came between, else two in turns never end. What
        the service refuses to several at once, it refuses once: `beside` began before another's failure was waited for.
        """
        of_task = {task_id: self.at_tasks.get(task_id, 0) + 1} if kind in _OF_THE_TASK else {}
        return replace(
            self,
            limits=self.limits + (kind == "usage-limit" and not beside),
            back_offs=self.back_offs + (kind in _BACKS_OFF and not beside),
            task_id=task_id,
            at_tasks={**self.at_tasks, **of_task},
        )

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
    """What to do. `until` where there is a time to wait for; `reason` for people.
    `limited`: it is a limit of the service that leads to this, not an agent that cannot work.
    """

    remedy: Remedy
    reason: str
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
        until = now + _backed_off(troubles.back_offs, _FIRST_WAIT, _LONGEST_WAIT)
        in_vain = f"{means.who} failed {troubles.back_offs} times in a row, the last time with {said}"
        waits = troubles.back_offs < MOST_BACK_OFFS
        limited = fault.kind in _LIMITS
        return Response("wait", said, until, limited) if waits else Response(means.end, in_vain, limited=limited)
    if troubles.at_task < MOST_AT_ONE_TASK:
        return Response("retry", said)
    if (given_up := troubles.given_up + 1) < TASKS_BEFORE_THE_END:
        return Response("give-up-task", f"{means.who} failed {troubles.at_task} {FAILED_AT_IT}; {said}")
    return Response(means.end, f"at {given_up} tasks in a row, {said}")


def _limited(fault: AgentFault, troubles: Troubles, means: Means, *, now: datetime) -> Response:
    stated = free_again(fault.resets_at)
    until = stated if stated is not None and stated > now else None
    when = f", until {fault.resets_at}" if until else ""
    if until is None:  # not stated, or passed already as the clocks differ: ask again later and later
        until = now + _backed_off(troubles.limits, _LIMIT_FIRST_WAIT, _LIMIT_LONGEST_WAIT)
    reason = f"{means.who}'s usage limit is reached{when}: {fault.message}"
    remedy: Remedy = "stop"
    seconds = (until - now).total_seconds()
    if troubles.limits >= MOST_LIMITS:
        reason = f"{troubles.limits} times in a row, {reason}"
    elif means.on_limit == "fallback" and means.has_fallback:
        remedy = "fallback"
    elif means.on_limit != "stop" and seconds > means.longest_wait:
        reason = f"{reason}; that is more than limits.maxLimitWait ({means.longest_wait:.0f} s)"
    elif means.on_limit != "stop":
        remedy = "wait"
    return Response(remedy, reason, until, limited=True)


def free_again(resets_at: str | None) -> datetime | None:
    """When an agent may be asked again whose limit resets at an ISO time with a zone; None for anything else."""
    try:
        reset = datetime.fromisoformat(resets_at) if resets_at else None
    except ValueError:
        return None
    if reset is None or reset.tzinfo is None:
        return None
    return min(reset, _FAR) + (_SLACK if reset.second or reset.microsecond else _MINUTE)


def _backed_off(times: int, first: float, longest: float) -> timedelta:
    return timedelta(seconds=min(longest, first * 2.0 ** min(max(times, 1) - 1, 20)))


class RetryPolicy:
    """For one run: how often agents and models failed in a row, and what follows from it.

    Models are asked in the threads of the attempts, all else is for the thread that settles them.
    """

    def __init__(
        self,
        config: Config,
        roster: Roster,
        *,
        clock: Clock,
        cancelled: Event,
        report: Callable[[events.Event], None],
    ) -> None:
        self._config = config
        self._roster = roster
        self._clock = clock
        self._cancelled = cancelled
        self._report = report
        self._started = clock.monotonic()
        self._troubles = Troubles()
        self._waiting: Response | None = None
        self._of_models: dict[str, Troubles] = {}
        self._waited_for: dict[str, datetime] = {}
        self._counting = Lock()
        self._questions = count(1)

    def use(self, config: Config, roster: Roster) -> None:
        """Go on with another configuration: what is waited for, and how often who failed, stays."""
        self._config, self._roster = config, roster

    def look_at(self, judged: Iteration, executor: str) -> Response | None:
        """The remedy for an agent's failure, None where there is nothing to remedy; a fallback is taken at once."""
        fault, verdict = judged.fault, judged.verdict
        if judged.agent_status == "finished" or verdict is None or verdict.counts:
            self._troubles = self._troubles.ended_at(judged.task_id)
            return None
        if fault is None or fault.kind not in NOT_COUNTED or verdict.stop_reason in _ORDERS:
            return None
        if verdict.hook != "agent":  # what the user's own hooks say of a failure goes
            return None
        waiting = self._still_waited_for()  # nothing begins before that, so this one went on beside the one it is of
        troubles = self._troubles.and_one(fault.kind, judged.task_id, beside=waiting is not None)
        response = respond(fault, troubles, self._means(executor), now=self._clock.now())
        self._troubles = troubles.after(response.remedy)
        return self._taken(response, executor, waiting)

    def before(self, task: Task, executor: str) -> Response | None:
        """Before an agent begins at a task that was limited in an earlier run: the remedy, as that run would have had
        it; None where it may begin.
        """
        until, now = free_again(task.retry_after), self._clock.now()
        if until is None or until <= now or self._roster.acting(executor, now) != executor:
            return None
        limit = AgentFault(kind="usage-limit", message="so it said before", resets_at=task.retry_after)
        response = self._taken(
            respond(limit, Troubles(limits=1), self._means(executor), now=now), executor, self._still_waited_for()
        )
        return None if response.remedy == "fallback" else response

    def asked_again(self, ask: Ask, who: str = "the judging model") -> Ask:
        """Asks a model, and asks it again while what failed may heal: the work waits for it, and no agent is charged.

        What it gives raises GivenUpError where that comes to nothing, and ModelError for what may be the question's
        doing.
        """

        def asking(question: Question) -> str:
            name = f"question {next(self._questions)}"
            while True:
                try:
                    answer = ask(question)
                except ModelError as error:
                    self._wait_for_model(error, who, name)
                    continue
                with self._counting:
                    self._of_models[who] = self._of_models.get(who, Troubles()).ended_at(name)
                return answer

        return asking

    def _wait_for_model(self, error: ModelError, who: str, question: str) -> None:
        """Wait until a model that failed may be asked again. Raises the error, or GivenUpError."""
        fault = error.fault
        if fault is None or fault.kind not in WORTH_ASKING_AGAIN:
            raise error
        limits, now = self._config.limits, self._clock.now()
        means = Means(limits.on_limit, longest_wait=limits.max_limit_wait, who=who)
        with self._counting:
            before = self._of_models.get(who, Troubles())
            is_waited_for = now < self._waited_for.get(who, now)  # in another thread
            troubles = before.and_one(fault.kind, question, beside=is_waited_for)
            response = respond(fault, troubles, means, now=now)
            self._of_models[who] = troubles.after(response.remedy)
            if response.until is not None and not is_waited_for:  # else those who wait in turns would never be counted
                self._waited_for[who] = response.until
        if response.remedy == "give-up-task":
            raise GivenUpError(response.reason, "blocked")
        if response.remedy == "stop":
            why = str(error) if fault.kind in CANNOT_HEAL else response.reason
            raise GivenUpError(why, "rate-limited" if response.limited else "error")
        until, limit, elapsed = response.until, limits.max_run_wall_time, self._clock.monotonic() - self._started
        if until and limit is not None and (until - now).total_seconds() >= limit - elapsed:
            raise GivenUpError(f"the run's time limit comes before it can be: {response.reason}", "max-wall-time")
        if until and not self._wait_until(until, response.reason):
            raise GivenUpError(f"the run was told to end while it was waited for: {response.reason}", "paused")

    def _wait_until(self, until: datetime, reason: str) -> bool:
        """Tell every second how long it is still; False where the order to end came before."""
        begins = True
        while (left := (until - self._clock.now()).total_seconds()) > 0:
            if self._cancelled.is_set():
                return False
            self._report(events.Waiting(reason, until, left, begins))
            begins = False
            self._cancelled.wait(min(_TICK, left))
        self._report(events.Waiting(reason, until, 0.0))
        return True

    def _taken(self, response: Response, executor: str, waiting: Response | None) -> Response:
        """The response carried out as far as that is done here; of two that are waited for, the one that lasts longer
        is given back.
        """
        if response.remedy == "fallback":
            other = self._roster.substitute(executor, until=response.until, now=self._clock.now())
            again = f", until {response.until.astimezone():%H:%M:%S}" if response.until else ""
            self._report(events.Notice("warning", f"{response.reason}; going on with {other}{again}"))
        elif response.remedy == "wait":
            longer = waiting and waiting.until and response.until and waiting.until > response.until
            self._waiting = waiting if longer else response
            return self._waiting or response
        return response

    def _still_waited_for(self) -> Response | None:
        waiting = self._waiting
        return waiting if waiting and waiting.until and waiting.until > self._clock.now() else None

    def _means(self, executor: str) -> Means:
        limits = self._config.limits
        has_fallback = bool(self._roster.fallback_of(executor, self._clock.now()))
        return Means(limits.on_limit, has_fallback, limits.max_limit_wait)
