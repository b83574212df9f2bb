"""What a run does about agents and reviewers that fail: it waits, backs off, goes on with another one, or gives up;
all bounded.
"""

from collections.abc import Callable
from datetime import datetime
from threading import Event, Lock

from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, faults
from rulebook_ralph.core.evidence import AgentFault, Iteration
from rulebook_ralph.core.faults import Means, Response, Troubles
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.policy import Stop
from rulebook_ralph.core.question import Ask, GivenUpError, ModelError, Question
from rulebook_ralph.core.settings import Config
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.rules.attempt import AgentEnd

_TICK = 1.0
_ORDERS = ("interrupted", "cancelled", "max-wall-time")
"""Ends that Ralph itself brought about, whatever the agent was struggling with."""


class Patience:
    """For one run: how often agents failed in a row, and what there is to wait for, until `cancelled` is set.

    Reviewers are asked in the threads of the attempts, all else is for the thread that settles them.
    """

    def __init__(
        self,
        config: Config,
        crew: Crew,
        *,
        clock: Clock,
        cancelled: Event,
        report: Callable[[events.Event], None],
    ) -> None:
        self._config = config
        self._crew = crew
        self._clock = clock
        self._cancelled = cancelled
        self._report = report
        self._troubles = Troubles()
        self._pending: Response | None = None
        self._of_reviewers: dict[str, Troubles] = {}
        self._waited_for: dict[str, datetime] = {}
        self._counting = Lock()

    def use(self, config: Config, crew: Crew) -> None:
        """Go on with another configuration: what is waited for, and how often who failed, stays."""
        self._config, self._crew = config, crew

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to wait for before the next agent starts."""
        return self._pending is not None

    def look_at(self, judged: Iteration, executor: str) -> Response | None:
        """The remedy for an agent's failure, None where there is nothing to remedy; a fallback is taken at once."""
        fault, verdict = judged.fault, judged.verdict
        if judged.agent_status == "finished" or verdict is None or verdict.counts:
            self._troubles = self._troubles.ended_at(judged.task_id)
            return None
        if fault is None or fault.kind not in faults.NOT_COUNTED or verdict.hook != AgentEnd.name:
            return None  # what the user's own hooks say of a failure goes
        if verdict.stop_reason in _ORDERS:
            return None
        pending = self._pending  # nothing begins before it is waited for, so this one went on beside the one it is of
        counted = self._troubles.and_one_beside if pending else self._troubles.and_one
        troubles = counted(fault.kind, judged.task_id)
        response = faults.respond(fault, troubles, self._means(executor), now=self._clock.now())
        if response.remedy == "fallback":
            self._fall_back(executor, response)
        self._troubles = troubles.after(response.remedy)
        if response.remedy == "wait":
            self._pending = _later(pending, response)
        return response

    def expect(self, task: Task, executor: str, last_agent: str) -> Stop | None:
        """Before a task whose agent was limited in an earlier run: wait for it as this run would; why the run ends."""
        until, now = faults.free_again(task.retry_after), self._clock.now()
        acting = self._crew.acting(executor, now)
        if self._pending or until is None or until <= now or self._crew.member(acting).agent.name != last_agent:
            return None
        told = AgentFault(kind="usage-limit", message=f"so {last_agent} said before", resets_at=task.retry_after)
        response = faults.respond(told, Troubles(limits=1), self._means(acting), now=now)
        if response.remedy == "stop":
            return Stop("rate-limited", response.reason)
        if response.remedy == "fallback":
            self._fall_back(acting, response)
        else:
            self._pending = response
        return None

    def wait(self, *, seconds_left: float | None) -> Stop | None:
        """Wait for what is pending, telling how long; why the run ends instead, where it does.

        `seconds_left` is what the run's own time limit leaves, None where it has none.
        """
        pending, self._pending = self._pending, None
        if pending is None or pending.until is None:
            return None
        if seconds_left is not None and pending.seconds >= seconds_left:
            return Stop("max-wall-time", f"the run's time limit comes before the agent can go on: {pending.reason}")
        self._wait_until(pending.until, pending.reason, self._report)
        return None

    def patiently(
        self,
        ask: Ask,
        reviewer: str,
        task: Task,
        *,
        seconds_left: Callable[[], float | None],
        report: Callable[[events.Event], None],
    ) -> Ask:
        """Ask a reviewer, and ask it again while what failed may heal: the work waits for it, and its agent with it.
        What it gives raises GivenUpError where that comes to nothing, and ModelError for what may be the question's
        doing. `report` is told of the wait.
        """

        def asked(question: Question) -> str:
            while True:
                try:
                    answer = ask(question)
                except ModelError as error:
                    self._bear(error, reviewer, task, seconds_left, report)
                    continue
                with self._counting:
                    self._of_reviewers[reviewer] = self._troubles_of(reviewer).ended_at(task.id)
                return answer

        return asked

    def _bear(
        self,
        error: ModelError,
        reviewer: str,
        task: Task,
        seconds_left: Callable[[], float | None],
        report: Callable[[events.Event], None],
    ) -> None:
        """Wait until a reviewer that failed may be asked again. Raises the error, or GivenUpError."""
        fault = error.fault
        if fault is None or fault.kind not in faults.WORTH_ASKING_AGAIN:
            raise error
        limits = self._config.limits
        means = Means(limits.on_limit, longest_wait=limits.max_limit_wait, who="the reviewer")
        with self._counting:
            before, now = self._troubles_of(reviewer), self._clock.now()
            is_waited_for = now < self._waited_for.get(reviewer, now)  # in another thread
            troubles = (before.and_one_beside if is_waited_for else before.and_one)(fault.kind, task.id)
            response = faults.respond(fault, troubles, means, now=now)
            self._of_reviewers[reviewer] = troubles.after(response.remedy)
            if response.until is not None and not is_waited_for:  # else those who wait in turns would never be counted
                self._waited_for[reviewer] = response.until
        if response.remedy == "give-up-task":
            raise GivenUpError(response.reason, "blocked")
        if response.remedy == "stop":
            why = str(error) if fault.kind in faults.CANNOT_HEAL else response.reason
            raise GivenUpError(why, "rate-limited" if response.limited else "error")
        left = seconds_left()
        if left is not None and response.seconds >= left:
            raise GivenUpError(f"the run's time limit comes before it can be: {response.reason}", "max-wall-time")
        if response.until and not self._wait_until(response.until, f"reviewer {reviewer}: {response.reason}", report):
            raise GivenUpError(f"the run was told to end while it was waited for: {response.reason}", "paused")

    def _wait_until(self, until: datetime, reason: str, report: Callable[[events.Event], None]) -> bool:
        """Tell every second how long it is still; False where the order to end came before."""
        begins = True
        while (left := (until - self._clock.now()).total_seconds()) > 0:
            if self._cancelled.is_set():
                return False
            report(events.Waiting(reason, until, left, begins))
            begins = False
            if _ordered(self._cancelled, min(_TICK, left)):
                return False
        report(events.Waiting(reason, until, 0.0))
        return True

    def _troubles_of(self, reviewer: str) -> Troubles:
        return self._of_reviewers.get(reviewer, Troubles())

    def _means(self, executor: str) -> Means:
        limits = self._config.limits
        has_fallback = bool(self._crew.fallback_of(executor, self._clock.now()))
        return Means(limits.on_limit, has_fallback, limits.max_limit_wait)

    def _fall_back(self, executor: str, response: Response) -> None:
        other = self._crew.substitute(executor, until=response.until, now=self._clock.now())
        again = f", until {_clock_time(response.until)}" if response.until else ""
        self._report(events.Notice("warning", f"{response.reason}; going on with {other}{again}"))


def _later(one: Response | None, other: Response) -> Response:
    """Of two that are waited for, the one that lasts longer."""
    if one is None or one.until is None or other.until is None:
        return other
    return one if one.until > other.until else other


def _ordered(order: Event, seconds: float) -> bool:
    """Whether the order to end has come, at the latest after so many seconds."""
    return order.wait(seconds)


def _clock_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%H:%M:%S")
