"""`ralph status`: where the tasks stand, and what a run does now. Reads one file and lists one folder, to be quick."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.console import Console
from rulebook_ralph.core import amounts
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import held, history, lock, overview, store
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.overview import Overview, TaskOverview
from rulebook_ralph.state.store import StateFolder

if TYPE_CHECKING:
    from rulebook_ralph.core.orders import Situation, Wait  # while a run goes on only

_ROWS = 40
_STATUSES = ("completed", "in_iteration", "pending", "blocked")


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every task, however many.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, everything: bool, json: bool) -> int:
    """Where the tasks stand, what they cost so far, and whether a run goes on and what it does."""
    folder = state_folder(app)
    prd, problem = _list(app, folder)
    private = _private(folder)
    running = lock.holder(private / "lock")
    situation = _situation(private, running) if running else None
    watching = None if running else lock.holder(private / lock.WATCH)
    waiting = len(held.find(private / held.FOLDER))
    with app.console(json=json) as console:
        if json:
            more = {"watching": watching, "held": waiting, "problem": problem or None}
            console.json(_as_json(prd, running, situation, folder) | more)
        else:
            told = _run_lines(running, situation, now=app.clock.now()) or _watch_lines(private, watching)
            if problem:
                told.append(problem)
            if waiting:
                told.append(f"held: {counted(waiting, 'edit')} made while an agent worked; see: ralph accept")
            _tell(console, prd, everything=everything, running=told)
    return 0


def _list(app: App, folder: StateFolder) -> tuple[Overview, str]:
    """The list as the next run begins with it, and what is to be said of it. Raises RalphError.

    What a run did that could not read the file is in the saved state alone; it is looked for where the history knows
    more than the list.
    """
    try:
        prd = overview.decode(store.read_prd_bytes(folder), name=str(folder.prd))
        newest = max(history.numbers(folder)[-1:], default=0)
        if newest <= prd.newest or not (saved := _saved_list(app, folder)):
            return prd, ""
    except RalphError as error:
        if not folder.prd.exists() or not (saved := _saved_list(app, folder)):
            raise
        return saved, f"{error}; this is the list that the run went on with: mend the file, both are merged then"
    return saved, "what a run did that could not read prd.json is in this list; the next run writes it there"


def _saved_list(app: App, folder: StateFolder) -> Overview | None:
    from rulebook_ralph.commands.projects import open_root  # noqa: PLC0415 - git, only where something is amiss
    from rulebook_ralph.loop import prd_file  # noqa: PLC0415

    repository = open_root(app)[1]
    try:
        prd = store.read_prd(folder)
    except RalphError:
        found = prd_file.waiting(repository, None)
        return overview.of(found.saved) if found else None
    found = prd_file.waiting(repository, prd)
    return overview.of(found.merged_into(prd)) if found else None


def _private(folder: StateFolder) -> Path:
    """Ralph's own part of the git folder, found without starting git."""
    git = folder.root / ".git"
    if git.is_file():
        git = folder.root / git.read_text("utf-8").removeprefix("gitdir:").strip()
    return git / "ralph"


def _situation(private: Path, running: Holder) -> "Situation | None":
    from rulebook_ralph.commands import ordering  # noqa: PLC0415 - sockets, only while a run goes on

    return ordering.situation(private, running)


def _run_lines(running: Holder | None, situation: "Situation | None", *, now: datetime) -> list[str]:
    """Who works on the project, and what a run says of itself."""
    if running is None:
        return []
    lines = [f"running: {running.told()}"]
    if situation is None:
        return lines
    for work in situation.at_work:
        stage = "" if work.stage == "coder" else f" ({work.stage})"
        lines.append(f"at work: iteration {work.iteration_number}, {work.task_id}: {work.title}{stage}")
        lines.append(f"  attempt {work.attempt}, agent {work.agent}, for {_since(work.since, now)}")
        if work.waiting:
            lines.append(f"  {_waiting_line(work.waiting, now)}")
    if situation.waiting:
        lines.append(_waiting_line(situation.waiting, now))
    if situation.pausing:
        these = "these iterations" if len(situation.at_work) > 1 else "this iteration"
        lines.append(f"pausing: it ends after {these}")
    if situation.ending:
        lines.append(f"ending now: {situation.ending}")
    return lines


def _waiting_line(waiting: "Wait", now: datetime) -> str:
    until = datetime.fromisoformat(waiting.until).astimezone(now.tzinfo)
    left = amounts.duration((until - now).total_seconds())
    return f"waiting until {until:%H:%M:%S} ({left} more): {waiting.reason}"


def _watch_lines(private: Path, watching: Holder | None) -> list[str]:
    """Who waits for something to do, and for what."""
    if watching is None:
        return []
    situation = _situation(private, watching)
    return [f"watching: {watching.told()}", *([situation.waiting.reason] if situation and situation.waiting else [])]


def _since(moment: str, now: datetime) -> str:
    return amounts.duration((now - datetime.fromisoformat(moment)).total_seconds())


def _tell(console: Console, prd: Overview, *, everything: bool, running: list[str]) -> None:
    places: dict[str, list[int]] = {status: [] for status in _STATUSES}
    for index, task in enumerate(prd.tasks):
        places[task.status].append(index)
    console.line(f"{prd.project}: {len(places['completed'])} of {counted(len(prd.tasks), 'task')} completed")
    console.line("  " + ", ".join(f"{len(places[status])} {status}" for status in _STATUSES if status != "completed"))
    totals = prd.totals
    console.line(
        f"  {counted(totals.iterations, 'iteration')}, "
        f"{amounts.money(totals.cost_usd)}, {amounts.tokens(totals.tokens)}"
    )
    for line in running:
        console.line(f"  {line}")
    all_of_them = everything or len(prd.tasks) <= _ROWS
    shown = range(len(prd.tasks)) if all_of_them else _most_telling(places)
    console.line("")
    console.table(("status", "task", "title", "attempts", "why"), (_row(prd.tasks[index]) for index in shown))
    if len(shown) < len(prd.tasks):
        console.line(f"… {len(prd.tasks) - len(shown)} more; --all lists them")


def _most_telling(places: dict[str, list[int]]) -> list[int]:
    """Of many tasks: those at work, blocked ones, the next pending and the last completed, in file order."""
    return sorted(
        places["in_iteration"][:_ROWS] + places["blocked"][:15] + places["pending"][:10] + places["completed"][-10:]
    )


def _row(task: TaskOverview) -> tuple[str, ...]:
    later = task.status == "in_iteration" and task.stage not in (None, "coder")
    return (
        f"{task.status} ({task.stage})" if later else task.status,
        task.id,
        task.title,
        str(sum(task.attempts.values()) or ""),
        task.blocked_reason or "",
    )


def _running_as_json(running: Holder | None, situation: "Situation | None") -> dict[str, object] | None:
    """The run, and with `answers` what it says of itself: `waiting` and `ending` are null without one."""
    if running is None:
        return None
    told: dict[str, object] = {
        "pid": running.pid,
        "since": running.since,
        "command": running.command,
        "answers": situation is not None,
    }
    if situation is not None:
        told["iterations"] = msgspec.to_builtins(situation.at_work)
        told["waiting"] = msgspec.to_builtins(situation.waiting)
        told["pausing"] = situation.pausing
        told["ending"] = situation.ending or None
    return told


def _as_json(
    prd: Overview, running: Holder | None, situation: "Situation | None", folder: StateFolder
) -> dict[str, object]:
    """What other systems keep in files of their own: `taskIndex` is the task at work, or the next, from 0."""
    numbers = history.numbers(folder)
    at_work = next((index for index, task in enumerate(prd.tasks) if task.status == "in_iteration"), None)
    following = next((index for index, task in enumerate(prd.tasks) if task.status == "pending"), None)
    return {
        "project": prd.project,
        "branch": prd.branch or f"ralph/{prd.project}",
        "phase": "execution" if running else "idle",
        "taskIndex": at_work if at_work is not None else following,
        "totalTasks": len(prd.tasks),
        "completed": sum(task.status == "completed" for task in prd.tasks),
        "blocked": sum(task.status == "blocked" for task in prd.tasks),
        "iterationNumber": numbers[-1] if numbers else 0,
        "totals": prd.totals,
        "running": _running_as_json(running, situation),
        "tasks": [
            {
                "id": task.id,
                "title": task.title,
                "status": task.status,
                "stage": task.stage,
                "attempts": task.attempts,
                "blockedReason": task.blocked_reason,
                "costUsd": task.cost_usd,
            }
            for task in prd.tasks
        ],
    }
