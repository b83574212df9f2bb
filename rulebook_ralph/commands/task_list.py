"""`ralph task list`: the tasks and where they stand."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.core.lifecycle import STATUSES
from rulebook_ralph.core.model import Json, Task
from rulebook_ralph.state import store


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_command(app: App, *, status: str | None, json: bool) -> int:
    """The tasks in the order of the file; `needs` are the tasks that must be completed first."""
    prd = store.read_prd(state_folder(app))
    shown = [task for task in prd.tasks if status in (None, task.status)]
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    with app.console(json=json) as console:
        if json:
            console.json({"tasks": [_brief(task) for task in shown]})
        elif shown:
            headings = ("status", "task", "priority", "title", "needs")
            console.table(headings, (_row(task, completed) for task in shown))
        else:
            console.line(f"no task is {status}" if status else "no tasks yet; 'ralph task add' makes one")
    return 0


def _row(task: Task, completed: set[str]) -> tuple[str, ...]:
    open_needs = () if task.status == "completed" else task.dependencies
    needs = ", ".join(needed for needed in open_needs if needed not in completed)
    return (task.status, task.id, str(task.priority), task.title, needs)


def _brief(task: Task) -> Json:
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "priority": task.priority,
        "dependencies": task.dependencies,
        "attempts": task.attempts,
        "blockedReason": task.blocked_reason,
    }
