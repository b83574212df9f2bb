"""`ralph status`: where the tasks stand. Reads one file and lists one folder; made to be quick."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.console import Console
from rulebook_ralph.core import amounts
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.state import history, lock, overview, store
from rulebook_ralph.state.lock import Holder
from rulebook_ralph.state.overview import Overview, TaskOverview
from rulebook_ralph.state.store import StateFolder

_ROWS = 40
_STATUSES = ("completed", "in_iteration", "pending", "blocked")


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every task, however many.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, everything: bool, json: bool) -> int:
    """Where the tasks stand, what they cost so far, and whether a run goes on."""
    folder = state_folder(app)
    prd = overview.decode(store.read_prd_bytes(folder), name=str(folder.prd))
    running = _holder(folder)
    with app.console(json=json) as console:
        if json:
            console.json(_as_json(prd, running, folder))
        else:
            _tell(console, prd, running, everything=everything)
    return 0


def _holder(folder: StateFolder) -> Holder | None:
    """Who runs on the project; the lock lies in the git folder, which is found without starting git."""
    git = folder.root / ".git"
    if git.is_file():
        git = folder.root / git.read_text("utf-8").removeprefix("gitdir:").strip()
    return lock.holder(git / "ralph" / "lock")


def _tell(console: Console, prd: Overview, running: Holder | None, *, everything: bool) -> None:
    places: dict[str, list[int]] = {status: [] for status in _STATUSES}
    for index, task in enumerate(prd.tasks):
        places[task.status].append(index)
    console.line(f"{prd.project}: {len(places['completed'])} of {len(prd.tasks)} tasks completed")
    console.line("  " + ", ".join(f"{len(places[status])} {status}" for status in _STATUSES if status != "completed"))
    totals = prd.totals
    console.line(
        f"  {counted(totals.iterations, 'iteration')}, "
        f"{amounts.money(totals.cost_usd)}, {amounts.tokens(totals.tokens)}"
    )
    if running is not None:
        console.line(f"  running: process {running.pid} ('ralph {running.command}', since {running.since})")
    all_of_them = everything or len(prd.tasks) <= _ROWS
    shown = range(len(prd.tasks)) if all_of_them else _most_telling(places)
    console.line("")
    console.table(("status", "task", "title", "attempts", "why"), (_row(prd.tasks[index]) for index in shown))
    if len(shown) < len(prd.tasks):
        console.line(f"… {len(prd.tasks) - len(shown)} more; --all lists them")


def _most_telling(places: dict[str, list[int]]) -> list[int]:
    """Of many tasks: those at work, blocked ones, the next pending and the last completed, in file order."""
    return sorted(
        places["in_iteration"][:5] + places["blocked"][:15] + places["pending"][:10] + places["completed"][-10:]
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


def _as_json(prd: Overview, running: Holder | None, folder: StateFolder) -> dict[str, object]:
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
        "running": running,
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
