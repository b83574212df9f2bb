"""`ralph task`: the task list from the command line, also while a run goes on."""

import click
import msgspec

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.main import CommandGroup
from rulebook_ralph.cli.places import state_folder
from rulebook_ralph.cli.task_edit import carry_out, yaml_text
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import text
from rulebook_ralph.tasks.edits import Move, TaskChange, find, words_of
from rulebook_ralph.tasks.lifecycle import STATUSES
from rulebook_ralph.tasks.model import Json, Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.struct_reading import camel

_NAMES = ("add", "note", "list", "show", "edit", "unblock", "reopen", "done", "remove")
_PLACES = {name: f"{'task_edit' if name in ('add', 'edit') else 'task'}:{name}_command" for name in _NAMES}
_BRIEF = ("id", "title", "status", "priority", "dependencies", "attempts", "blocked_reason")


@click.group(cls=CommandGroup, places=_PLACES, epilog="'ralph task COMMAND --help' says more of each.")
def task_command() -> None:
    """Add, change and look at tasks.

    These commands change .rulebook-ralph/prd.json as an editor would, checked before anything is written. While a run
    goes on it takes the change over at once; agents cannot use them.
    """


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@json_object
@click.pass_obj
def list_command(app: App, *, status: str | None, json: bool) -> None:
    """The tasks in the order of the file; `needs` are the tasks that must be completed first."""
    prd = read_prd(state_folder(app).prd)
    shown = [task for task in prd.tasks if status in (None, task.status)]
    completed = {task.id for task in prd.tasks if task.status == "completed"}
    with app.console(json=json) as console:
        if json:
            console.json({"tasks": [{camel(name): getattr(task, name) for name in _BRIEF} for task in shown]})
        elif shown:
            headings = ("status", "task", "priority", "title", "needs")
            console.table(headings, (_row(task, completed) for task in shown))
        else:
            console.line(f"no task is {status}" if status else "no tasks yet; 'ralph task add' makes one")


def _row(task: Task, completed: set[str]) -> tuple[str, ...]:
    open_needs = () if task.status == "completed" else task.dependencies
    needs = ", ".join(needed for needed in open_needs if needed not in completed)
    return (task.status, task.id, str(task.priority), task.title, needs)


@click.command("show")
@click.argument("task_id", metavar="ID")
@click.option("--json", is_flag=True, help="Print it as it stands in prd.json.")
@click.pass_obj
def show_command(app: App, task_id: str, *, json: bool) -> None:
    """One task: what is wanted, what completes it, how far it is."""
    task = find(read_prd(state_folder(app).prd), task_id)
    with app.console(json=json) as console:
        if json:
            console.json(_whole(task))
            return
        console.line(f"{task.id}: {task.status}")
        for name, value in _facts(task):
            console.line(f"  {name:<10}{value}")
        console.line("")
        console.verbatim(yaml_text({key: value for key, value in words_of(task).items() if value not in ("", [], {})}))


def _whole(task: Task) -> Json:
    whole: Json = msgspec.to_builtins(task)
    extra: Json = whole.pop("$extra", {})
    return whole | extra


def _facts(task: Task) -> list[tuple[str, str]]:
    attempts = ", ".join(f"{stage} {count}" for stage, count in task.attempts.items())
    spent = f"{text.cost(task.cost_usd, task.tokens)}, {text.tokens(task.tokens)}"
    facts = (
        ("blocked", task.blocked_reason or ""),
        ("stage", task.stage or ""),
        ("attempts", attempts),
        ("iteration", "" if task.iteration_number is None else f"#{task.iteration_number}"),
        ("started", task.started_at or ""),
        ("completed", task.completed_at or ""),
        ("summary", task.summary),
        ("cost", spent if task.cost_usd or task.tokens else ""),
    )
    return [(name, value) for name, value in facts if value]


@click.command("note")
@click.argument("task_id", metavar="ID")
@click.argument("text")
@click.pass_obj
def note_command(app: App, task_id: str, text: str) -> int:
    """Add TEXT to a task's notes, which the next attempt is given."""
    if not text.strip():
        raise RalphError("TEXT: must not be empty")
    return carry_out(app, TaskChange(task_id=task_id, note=text))


@click.command("unblock")
@click.argument("task_id", metavar="ID")
@click.option("--note", metavar="TEXT", default="", help="Added to the notes, which agents are given.")
@click.pass_obj
def unblock_command(app: App, task_id: str, *, note: str) -> int:
    """Make a blocked task pending again, with its attempts anew."""
    return carry_out(app, Move(task_id=task_id, to="unblock", reason=note))


@click.command("reopen")
@click.argument("task_id", metavar="ID")
@click.option("--reason", metavar="TEXT", required=True, help="What is missing; added to the notes.")
@click.pass_obj
def reopen_command(app: App, task_id: str, *, reason: str) -> int:
    """Make a completed task pending again."""
    return carry_out(app, Move(task_id=task_id, to="reopen", reason=reason))


@click.command("done")
@click.argument("task_id", metavar="ID")
@click.option("--reason", metavar="TEXT", required=True, help="Why it counts as done; kept in the task list.")
@click.pass_obj
def done_command(app: App, task_id: str, *, reason: str) -> int:
    """Declare a task done whose work was there already. Nothing is checked: it is your word."""
    return carry_out(app, Move(task_id=task_id, to="done", reason=reason))


@click.command("remove")
@click.argument("task_id", metavar="ID")
@click.pass_obj
def remove_command(app: App, task_id: str) -> int:
    """Take a task off the list; not while others depend on it. Its history stays."""
    return carry_out(app, Move(task_id=task_id, to="remove"))
