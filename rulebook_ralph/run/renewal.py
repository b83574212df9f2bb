"""Whether a watch (`--watch`) has something to do again, compared with what its last run left. Pure functions.

A list that nobody touched gives no reason, whatever a run made of it: so no run starts the next one by itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Limits
from rulebook_ralph.run.policy import RunTally
from rulebook_ralph.run.retry import free_again
from rulebook_ralph.tasks.merge import PERSONS_FIELDS
from rulebook_ralph.tasks.model import Prd, Status, Task
from rulebook_ralph.tasks.results import StopReason
from rulebook_ralph.tasks.text import counted, some

AT_LEAST_BETWEEN = timedelta(seconds=60)
"""Between a run and one that only an agent's limit starts."""

_ENDS_WATCH: tuple[StopReason, ...] = ("paused", "cancelled", "interrupted", "error", "max-wall-time", "max-cost")


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the last run left. `tried` are tasks as they were when they were last worked on."""

    prd: Prd
    config: Config
    at: datetime
    tried: Mapping[str, Task] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A new run is called for. `reopen` are blocked tasks that it tries again."""

    reason: str
    reopen: tuple[str, ...] = ()


def ends_watch(stop_reason: StopReason, limits: Limits) -> bool:
    """Whether the watch ends with a run: a person ended it, its agent cannot work, or a limit that a person set."""
    return stop_reason in _ENDS_WATCH or (stop_reason == "max-iterations" and limits.max_iterations is not None)


def renewal(left: LastRun, prd: Prd, config: Config, *, now: datetime, only: Collection[str] = ()) -> Renewal | None:
    """Why a run is to start now, with the list and configuration as they are; None where nothing calls for one."""
    reconfigured = config != left.config
    blocked = (task for task in prd.tasks if task.status == "blocked" and not requirements.over_budget(config, task))
    reopen = tuple(task.id for task in blocked if reconfigured or _words_changed(left, task))
    able = workable(prd, only=only, reopen=reopen)
    if reconfigured and able:
        return Renewal("config.yaml was edited", reopen)
    before = {task.id: task.status for task in left.prd.tasks}
    could = workable(left.prd, only=only)
    news: dict[str, list[str]] = {}
    for task in able.values():
        if what := _news(left, task, before.get(task.id), now, could=task.id in could):
            news.setdefault(what, []).append(task.id)
    if not news:
        return None
    return Renewal("; ".join(f"{some(ids)} {what}" for what, ids in news.items()), reopen)


def next_look(left: LastRun, prd: Prd, *, only: Collection[str] = ()) -> datetime | None:
    """When a task may be worked on whose agent was limited; None where no time is known."""
    return min((at for task in workable(prd, only=only).values() if (at := _free_again(left, task))), default=None)


def waiting_for(prd: Prd, *, only: Collection[str] = ()) -> str:
    """What would start the next run, in one line."""
    tasks = [task for task in prd.tasks if not only or task.id in only]
    blocked = [task.id for task in tasks if task.status == "blocked"]
    still_open = [task.id for task in tasks if task.status in ("pending", "in_iteration")]
    parts = [f"{len(ids)} {what} ({some(ids)})" for what, ids in (("open", still_open), ("blocked", blocked)) if ids]
    told = f"{counted(len(tasks), 'task')} completed"
    way = "or end this (^C) and: ralph resume" if still_open else "or: ralph task add"
    if blocked:
        way = f"or: ralph task unblock {blocked[0]}"
    return f"waiting: {', '.join(parts) or told}; edit prd.json, {way}"


def limits_left(limits: Limits, spent: RunTally) -> Limits:
    """What the limits of a run leave for the next one of a watch, all runs of which they hold together."""
    used = (
        ("max_iterations", spent.iterations, 1),
        ("max_tokens", spent.tokens, 1),
        ("max_run_wall_time", spent.elapsed, 1e-6),
        ("max_cost_usd", spent.cost_usd, 1e-6),
    )
    known = ((name, getattr(limits, name), amount, least) for name, amount, least in used)
    return replace(limits, **{name: max(least, limit - amount) for name, limit, amount, least in known if limit})


def workable(prd: Prd, *, only: Collection[str], reopen: Collection[str] = ()) -> dict[str, Task]:
    """The tasks that could be worked on now, in file order."""
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    return {
        task.id: task
        for task in prd.tasks
        if (task.status in ("pending", "in_iteration") or (task.status == "blocked" and task.id in reopen))
        and (not only or task.id in only)
        and completed.issuperset(task.dependencies)
    }


def _news(left: LastRun, task: Task, before: Status | None, now: datetime, *, could: bool) -> str:
    """What makes a task worth a run that was in the status `before` and `could` be worked on; empty for nothing."""
    if before is None:
        return "was added"
    if task.status == "blocked" or (could and _words_changed(left, task)):
        return "was changed"
    if not could:
        return "was unblocked" if before == "blocked" else "can be worked on"
    until = _free_again(left, task)
    return "may go on, as the agent's limit is over" if until is not None and until <= now else ""


def _free_again(left: LastRun, task: Task) -> datetime | None:
    """When a task may go on that the last run left because of its agent's limit."""
    until = free_again(task.retry_after)
    return None if until is None or until <= left.at else max(until, left.at + AT_LEAST_BETWEEN)


def _words_changed(left: LastRun, task: Task) -> bool:
    before = left.tried.get(task.id) or next((each for each in left.prd.tasks if each.id == task.id), None)
    return before is not None and any(getattr(before, name) != getattr(task, name) for name in PERSONS_FIELDS)
