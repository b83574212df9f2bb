"""Whether a watch has something to do again, compared with what its last run left. Pure functions on values.

A list that nobody touched gives no reason, whatever a run made of it: so no run starts the next one by itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import asdict, fields, replace

from rulebook_ralph.core import requirements
from rulebook_ralph.core.amounts import money
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.evidence import StopReason
from rulebook_ralph.core.faults import free_again
from rulebook_ralph.core.model import LOOP_FIELDS, Prd, Status, Task
from rulebook_ralph.core.policy import RunTally
from rulebook_ralph.core.settings import Config, Git, Limits

AT_LEAST_BETWEEN = timedelta(seconds=60)
"""Between a run and one that only an agent's limit starts."""

_ENDS_WATCH: tuple[StopReason, ...] = ("paused", "cancelled", "interrupted", "error", "max-wall-time", "max-cost")
_NOTHING_WORKABLE: tuple[StopReason, ...] = ("complete", "blocked", "stuck")
_NOT_WORDS = {
    *LOOP_FIELDS,
    "id",
    "status",
    "priority",
    "estimated_complexity",
    "markers",
    "source",
    "metadata",
    "extra",
}
_WORDS = tuple(each.name for each in fields(Task) if each.name not in _NOT_WORDS)
_LIMITS_OF_RUN = ("max_iterations", "max_run_wall_time", "max_cost_usd", "max_tokens", "on_limit", "max_limit_wait")


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a watch. `prd` and `config` are its last ones; `began` holds the tasks as they were when it began,
    `opened` those it worked on as they were then, `given` the ids of blocked tasks that it was to try again.
    """

    stop_reason: StopReason
    iterations: int
    prd: Prd
    config: Config
    at: datetime
    began: Mapping[str, Task] = field(default_factory=dict)
    opened: Mapping[str, Task] = field(default_factory=dict)
    given: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Left:
    """What the last run left: the list, how its tasks are worked on, the tasks as they were at their last chance, and
    the ids of those that could have been worked on, had the run not ended before.
    """

    prd: Prd
    config: Config
    tried: Mapping[str, Task]
    workable: frozenset[str]
    at: datetime


@dataclass(frozen=True, slots=True)
class Start:
    """A new run is called for. `reopen` are blocked tasks that it tries again."""

    reason: str
    reopen: frozenset[str] = frozenset()


def ends_watch(stop_reason: StopReason, limits: Limits) -> bool:
    """Whether the watch ends with a run: a person ended it, its agent cannot work, or a limit that a person set."""
    return stop_reason in _ENDS_WATCH or (stop_reason == "max-iterations" and limits.max_iterations is not None)


def left(ran: Ran, before: Left | None, *, only: Collection[str] = ()) -> Left:
    """What a run leaves; `before` is what the one before it left.

    A task that was to be tried again has had its chance, also where the run ended before it came to that.
    """
    earlier = {**ran.began, **(before.tried if before else {}), **ran.opened}
    tried = {
        task.id: earlier.get(task.id, task)
        if task.status == "blocked" and task.id not in ran.given - {*ran.opened}
        else task
        for task in ran.prd.tasks
    }
    saw_none = ran.stop_reason in _NOTHING_WORKABLE and (ran.iterations > 0 or before is None)
    workable = frozenset() if saw_none else frozenset(_workable(ran.prd, only=only))
    return Left(ran.prd, ran.config, tried, workable, ran.at)


def as_it_stands(prd: Prd, config: Config, *, at: datetime, only: Collection[str] = ()) -> Left:
    """What a run of another terminal left: nothing of it is news."""
    return Left(prd, config, {task.id: task for task in prd.tasks}, frozenset(_workable(prd, only=only)), at)


def start(left: Left, prd: Prd, config: Config, *, now: datetime, only: Collection[str] = ()) -> Start | None:
    """Why a run is to start now, with the list and configuration as they are; None where nothing calls for one."""
    reconfigured = _deciding(config) != _deciding(left.config)
    blocked = [task for task in prd.tasks if task.status == "blocked"]
    again = (task for task in blocked if reconfigured or _words_changed(left, task))
    reopen = frozenset(task.id for task in again if not requirements.has_spent_all(config.limits, task))
    able = _workable(prd, only=only, reopen=reopen)
    if reconfigured and able:
        return Start("config.yaml was edited", reopen)
    earlier = {task.id: task.status for task in left.prd.tasks}
    news: dict[str, list[str]] = {}
    for task in able.values():
        if what := _news(left, task, earlier.get(task.id), now):
            news.setdefault(what, []).append(task.id)
    if not news:
        return None
    return Start("; ".join(f"{some(ids)} {what}" for what, ids in news.items()), reopen)


def next_look(left: Left, prd: Prd, *, only: Collection[str] = ()) -> datetime | None:
    """When a task may be worked on whose agent was limited; None where no time is known."""
    return min((at for task in _workable(prd, only=only).values() if (at := _free_again(left, task))), default=None)


def waiting_for(left: Left, prd: Prd, *, only: Collection[str] = ()) -> str:
    """What would start the next run, in one line."""
    tasks = [task for task in prd.tasks if not only or task.id in only]
    blocked = [task.id for task in tasks if task.status == "blocked"]
    able = _workable(prd, only=only)
    rest = [task for task in tasks if task.status == "pending" and task.id not in able]
    parts = []
    if able:
        parts.append(f"{len(able)} left by the last run ({some(able)})")
    if blocked:
        parts.append(f"{len(blocked)} blocked ({some(blocked)})")
    if rest:
        completed = {task.id for task in prd.tasks if task.status == "completed"}
        needed = sorted({need for task in rest for need in task.dependencies if need not in completed})
        parts.append(f"{len(rest)} that need {some(needed)}")
    until = next_look(left, prd, only=only)
    goes_on = f"going on at {until.astimezone():%H:%M:%S}, or " if until else ""
    if blocked:
        return f"waiting: {', '.join(parts)}; {goes_on}edit prd.json, or: ralph task unblock {blocked[0]}"
    if parts:
        return f"waiting: {', '.join(parts)}; {goes_on}edit prd.json, or end this (^C) and: ralph resume"
    return f"waiting: {counted(len(tasks), 'task')} completed; edit prd.json, or: ralph task add"


def limits_left(limits: Limits, spent: RunTally) -> Limits:
    """What the limits of a run leave for the next one of a watch, all runs of which they hold together."""
    return replace(
        limits,
        max_iterations=None if limits.max_iterations is None else max(1, limits.max_iterations - spent.iterations),
        max_run_wall_time=_rest(limits.max_run_wall_time, spent.elapsed),
        max_cost_usd=_rest(limits.max_cost_usd, spent.cost_usd),
        max_tokens=None if limits.max_tokens is None else max(1, limits.max_tokens - spent.tokens),
    )


def used_up(limits: Limits, spent: RunTally) -> str:
    """The limit that the runs of a watch have used up together; empty where there is none."""
    if limits.max_cost_usd is not None and spent.cost_usd >= limits.max_cost_usd:
        return f"limits.maxCostUsd ({money(spent.cost_usd)} of {money(limits.max_cost_usd)})"
    if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
        return f"limits.maxTokens ({spent.tokens:,} of {limits.max_tokens:,})"
    if limits.max_run_wall_time is not None and spent.elapsed >= limits.max_run_wall_time:
        return f"the limit of time ({spent.elapsed:.0f} of {limits.max_run_wall_time:.0f} s)"
    if limits.max_iterations is not None and spent.iterations >= limits.max_iterations:
        return f"the limit of iterations ({spent.iterations} of {limits.max_iterations})"
    return ""


def added(spent: RunTally, run: RunTally) -> RunTally:
    """The sums with those of one more run."""
    return RunTally(
        iterations=spent.iterations + run.iterations,
        elapsed=spent.elapsed + run.elapsed,
        cost_usd=spent.cost_usd + run.cost_usd,
        tokens=spent.tokens + run.tokens,
    )


def _rest(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(1e-6, limit - used)


def _workable(prd: Prd, *, only: Collection[str], reopen: Collection[str] = ()) -> dict[str, Task]:
    """The tasks that could be worked on now, in file order."""
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    return {
        task.id: task
        for task in prd.tasks
        if (task.status in ("pending", "in_iteration") or (task.status == "blocked" and task.id in reopen))
        and (not only or task.id in only)
        and completed.issuperset(task.dependencies)
    }


def _news(left: Left, task: Task, before: Status | None, now: datetime) -> str:
    """What makes a task worth a run that the last one did not work on, and left in the status `before`; empty for
    nothing.
    """
    if before is None:
        return "was added"
    if task.id not in left.workable:
        if task.status == "blocked":
            return "was changed"
        return {"blocked": "was unblocked", "completed": "was reopened"}.get(before, "can be worked on")
    if _words_changed(left, task):
        return "was changed"
    until = _free_again(left, task)
    return "may go on, as the agent's limit is over" if until is not None and until <= now else ""


def _free_again(left: Left, task: Task) -> datetime | None:
    """When a task may go on that the last run left because of its agent's limit."""
    until = free_again(task.retry_after)
    if until is None or until <= left.at or task.id not in left.workable:
        return None
    return max(until, left.at + AT_LEAST_BETWEEN)


def _words_changed(left: Left, task: Task) -> bool:
    before = left.tried.get(task.id)
    return before is not None and any(getattr(before, name) != getattr(task, name) for name in _WORDS)


def _deciding(config: Config) -> Config:
    """What of the configuration decides how a task is worked on and judged."""
    none = asdict(Limits())
    limits = replace(config.limits, **{name: none[name] for name in _LIMITS_OF_RUN})
    return replace(config, limits=limits, prices={}, git=Git())
