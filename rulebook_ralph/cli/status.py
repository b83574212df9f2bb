"""`ralph status`: where the tasks stand, and what a run does now. Reads one file and lists one folder, to be quick.
And `ralph history`: the iterations so far.
"""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import open_root, private_folder, state_folder
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.tasks import prd_file, text
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.tasks.text import counted

if TYPE_CHECKING:
    from rulebook_ralph.run.control import LimitWait, RunSituation  # sockets, only while a run goes on
    from rulebook_ralph.run.lock import Holder
    from rulebook_ralph.tasks.history import Iteration

_ROWS = 40
_STATUSES = ("completed", "in_iteration", "pending", "blocked")
_TOLD = ("id", "title", "status", "stage", "attempts", "blocked_reason")
_ITERATION = (
    *("iteration_number", "task_id", "stage", "attempt", "phase", "completion_status"),
    *("started_at", "ended_at", "commit", "cost_usd", "duration_ms"),
)
_RESULTS = {"completed": "green", "verified": "cyan", "failed": "yellow", "blocked": "red", "limited": "yellow"}
_STYLES = {"status": {"completed": "green", "in iteration": "bold", "blocked": "red", "pending": "dim"}}


class _Work(NamedTuple):
    """The run that goes on, or the watch that waits for something to do, and what it says of itself; else the run that
    died.
    """

    running: "Holder | None" = None
    watching: "Holder | None" = None
    situation: "RunSituation | None" = None
    dead: "Holder | None" = None


@click.command("status")
@click.option("--all", "everything", is_flag=True, help="List every task, however many.")
@json_object
@click.pass_obj
def status_command(app: App, *, everything: bool, json: bool) -> None:
    """Where the tasks stand, what they cost so far, and whether a run goes on and what it does."""
    folder = state_folder(app)
    prd, problem = _list(app, folder)
    work = _at_work(folder)
    with app.console(json=json, paged=True) as console:
        if json:
            console.json(_as_json(prd, work, problem, folder))
        else:
            lines = [*_work_lines(work, folder, app.clock.now()), *([problem] if problem else [])]
            _print(console, prd, everything=everything, lines=lines)


def _list(app: App, folder: StateFolder) -> tuple[Prd, str]:
    """The list, and what is wrong with its file where it is the saved one instead. Raises RalphError."""
    try:
        return prd_file.decode_prd_quick(prd_file.read_prd_bytes(folder.prd), name=str(folder.prd)), ""
    except RalphError as error:
        from rulebook_ralph.git import attempts  # noqa: PLC0415 - git, only where something is amiss

        _, repository = open_root(app)
        for reference in attempts.state_references(repository):
            if (data := attempts.file_of_state(repository, reference, folder.prd.name)) is not None:
                saved = prd_file.decode_prd_quick(data, name=f"{reference}:{folder.prd.name}")
                return saved, f"{error}; this is the list as Ralph saved it, the next run merges both"
        raise


def _at_work(folder: StateFolder) -> _Work:
    private = private_folder(folder)
    locks = [private / name for name in ("lock", "watching")]
    if not any(lock.is_file() and lock.stat().st_size for lock in locks):  # who lets go of one leaves it empty
        return _Work()
    from rulebook_ralph.run import control, lock  # noqa: PLC0415 - not where nothing ever ran

    running = lock.holder(private / lock.LOCK)
    watching = None if running else lock.holder(private / lock.WATCH)
    holder = running or watching
    situation = control.situation(private, holder) if holder else None
    return _Work(running, watching, situation, None if running else lock.dead_run(private / lock.LOCK))


def _work_lines(work: _Work, folder: StateFolder, now: datetime) -> list[str]:
    """Who works on the project, and what a run says of itself; or that the last one died."""
    lines = []
    if holder := work.running or work.watching:
        lines.append(f"{'running' if work.running else 'watching'}: {holder.told()}")
    if situation := work.situation:
        for each in situation.at_work:
            stage = "" if each.stage == "coder" else f" ({each.stage})"
            since = text.duration((now - datetime.fromisoformat(each.since)).total_seconds())
            lines.append(f"at work: #{each.iteration_number}, {each.task_id}: {each.title}{stage}")
            lines.append(f"  attempt {each.attempt}, agent {each.agent}, for {since}")
            lines += [f"  {_waiting_line(each.waiting, now)}"] if each.waiting else []
        lines += [_waiting_line(situation.waiting, now)] if situation.waiting else []
        these = "these iterations" if len(situation.at_work) > 1 else "this iteration"
        lines += [f"pausing: it ends after {these}"] if situation.pausing else []
        lines += [f"ending now: {situation.ending}"] if situation.ending else []
    if work.dead:
        from rulebook_ralph.tasks import history  # noqa: PLC0415 - only after a crash

        left = ", ".join(f"#{number}" for number in history.unsettled_numbers(folder))
        lines.append(f"the last run is dead: {work.dead.told()} ended{f' in {left}' if left else ''}")
        lines.append("  ralph resume saves its work and goes on")
    return lines


def _waiting_line(waiting: "LimitWait", now: datetime) -> str:
    if not waiting.until:
        return waiting.reason
    until = datetime.fromisoformat(waiting.until).astimezone(now.tzinfo)
    left = text.duration((until - now).total_seconds())
    return f"waiting until {until:%H:%M:%S} ({left} more): {waiting.reason}"


def _print(console: Console, prd: Prd, *, everything: bool, lines: list[str]) -> None:
    of = {status: [task for task in prd.tasks if task.status == status] for status in _STATUSES}
    console.line(f"{prd.project}: {len(of['completed'])} of {counted(len(prd.tasks), 'task')} completed")
    open_ones = (f"{len(of[status])} {status.replace('_', ' ')}" for status in _STATUSES if status != "completed")
    console.line(f"  {', '.join(open_ones)}")
    totals = prd.totals
    spent = f"{text.cost(totals.cost_usd, totals.tokens or totals.iterations)}, {text.tokens(totals.tokens)}"
    console.line(f"  {counted(totals.iterations, 'iteration')}, {spent}")
    for line in lines:
        console.line(f"  {line}")
    shown = prd.tasks
    if len(shown) > _ROWS and not everything:
        telling = (of["in_iteration"][:_ROWS], of["blocked"][:15], of["pending"][:10], of["completed"][-10:])
        ids = {task.id for some in telling for task in some}
        shown = tuple(task for task in prd.tasks if task.id in ids)
    console.line("")
    console.table(("status", "task", "title", "attempts", "why"), map(_row, shown), styles=_STYLES)
    if len(shown) < len(prd.tasks):
        console.line(f"… {len(prd.tasks) - len(shown)} more; --all lists them")


def _row(task: Task) -> tuple[str, ...]:
    later = task.status == "in_iteration" and task.stage not in (None, "coder")
    status = task.status.replace("_", " ")
    attempts = str(sum(task.attempts.values()) or "")
    return (f"{status} ({task.stage})" if later else status, task.id, task.title, attempts, task.blocked_reason or "")


def _as_json(prd: Prd, work: _Work, problem: str, folder: StateFolder) -> dict[str, object]:
    """What other systems keep in files of their own: `taskIndex` is the task at work, or the next, from 0."""
    from rulebook_ralph.tasks import history  # noqa: PLC0415 - a tenth of the time that the table takes

    numbers = history.numbers(folder)
    statuses = [task.status for task in prd.tasks]
    totals, used = prd.totals, prd.totals.tokens or prd.totals.iterations
    return {
        "project": prd.project,
        "branch": prd.work_branch,
        "phase": "execution" if work.running else "idle",
        "taskIndex": next((statuses.index(each) for each in ("in_iteration", "pending") if each in statuses), None),
        "totalTasks": len(prd.tasks),
        "completed": statuses.count("completed"),
        "blocked": statuses.count("blocked"),
        "iterationNumber": numbers[-1] if numbers else 0,
        "totals": {**msgspec.to_builtins(totals), "costUsd": text.known_cost(totals.cost_usd, used)},
        "running": _running_as_json(work),
        "tasks": [
            {camel(name): getattr(task, name) for name in _TOLD}
            | {"costUsd": text.known_cost(task.cost_usd, task.settled_iteration or 0)}
            for task in prd.tasks
        ],
        "watching": work.watching,
        "dead": work.dead,
        "problem": problem or None,
    }


def _running_as_json(work: _Work) -> dict[str, object] | None:
    """The run, and with `answers` what it says of itself: `waiting` and `ending` are null without one."""
    if work.running is None:
        return None
    told: dict[str, object] = {name: getattr(work.running, name) for name in ("pid", "since", "command")}
    if (situation := work.situation) is None:
        return {**told, "answers": False}
    says = {"iterations": situation.at_work, "waiting": situation.waiting, "pausing": situation.pausing}
    return {**told, "answers": True, **says, "ending": situation.ending or None}


@click.command("history")
@click.option("--task", metavar="ID", help="Only the iterations of this task.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="The newest N.")
@json_object
@click.pass_obj
def history_command(app: App, *, task: str | None, limit: int, json: bool) -> None:
    """The iterations so far, the newest last."""
    from rulebook_ralph.tasks import history  # noqa: PLC0415 - see above

    folder = state_folder(app)
    shown: list[Iteration] = []
    numbers = history.numbers(folder)
    for number in reversed(numbers):
        record = history.read(folder, number)
        if task is None or task in record.tasks:
            shown.append(record)
        if len(shown) == limit:
            break
    shown.reverse()
    with app.console(json=json, paged=True) as console:
        if json:
            console.json({"iterations": [_brief(record) for record in shown]})
        elif shown:
            headings = ("", "task", "stage", "attempt", "result", "time", "cost", "why")
            console.table(headings, map(_iteration_row, shown), styles={"result": _RESULTS})
            if len(numbers) < numbers[-1]:
                console.line(f"kept: {len(numbers)} of {counted(numbers[-1], 'iteration')}; the others were pruned")
        else:
            console.line("no iterations yet; 'ralph run' starts")


def _iteration_row(record: "Iteration") -> tuple[str, ...]:
    completed = bool(record.tasks_completed)
    return (
        f"#{record.iteration_number}",
        record.names,
        record.stage,
        str(record.attempt),
        result_of(record),
        text.duration(record.duration_ms / 1000),
        "" if record.cost_usd is None else text.money(record.cost_usd),
        (record.commit or "")[:10] if completed else _why(record),
    )


def _why(record: "Iteration") -> str:
    """What the result's word does not say already."""
    reason, result = record.verdict.reason if record.verdict else "", result_of(record)
    return "" if result in ("verified", reason) else reason


def result_of(record: "Iteration") -> str:
    """How an iteration ended, in a word: a stage that holds is verified, only the last one completes the task."""
    between = record.completion_status == "completed" and not record.tasks_completed
    return "verified" if between else record.completion_status or record.phase


def _brief(record: "Iteration") -> dict[str, object]:
    told = {camel(name): getattr(record, name) for name in _ITERATION}
    return told | {"tasksAttempted": record.tasks, "reason": record.verdict.reason if record.verdict else None}
