"""`ralph task`: the task list from the command line, also while a run goes on."""

from collections.abc import Mapping
from typing import Any, Literal

import click
import msgspec

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.delivery import carry_out, place_of
from rulebook_ralph.cli.main import CommandGroup
from rulebook_ralph.cli.places import state_folder, task_of
from rulebook_ralph.cli.task_edit import yaml_text
from rulebook_ralph.cli.task_options import option_name, word_options, words_given
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import text
from rulebook_ralph.tasks.edits import Add, Done, Remove, Reopen, TaskChange, Unblock, words_of
from rulebook_ralph.tasks.lifecycle import STATUSES
from rulebook_ralph.tasks.model import PARALLEL, Json, Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import Fault

_PLACES = {name: f"task:{name}_command" for name in ("add", "note", "list", "show", "unblock", "reopen", "done")}
_PLACES = {**_PLACES, "edit": "task_edit:edit_command", "remove": "task:remove_command"}


@click.group(cls=CommandGroup, places=_PLACES, epilog="'ralph task COMMAND --help' says more of each.")
def command() -> None:
    """Add, change and look at tasks.

    These commands change .rulebook-ralph/prd.json as an editor would, checked before anything is written. While a run
    goes on it takes the change over at once; agents cannot use them.
    """


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def list_command(app: App, *, status: str | None, json: bool) -> int:
    """The tasks in the order of the file; `needs` are the tasks that must be completed first."""
    prd = read_prd(state_folder(app).prd)
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


@click.command("show")
@click.argument("task_id", metavar="ID")
@click.option("--json", "form", flag_value="json", help="Print it as it stands in prd.json.")
@click.option(
    "--yaml", "form", flag_value="yaml", help="Print what a person writes of it, as 'ralph task edit' shows it."
)
@click.pass_obj
def show_command(app: App, task_id: str, *, form: Literal["json", "yaml"] | None) -> int:
    """One task: what is wanted, what completes it, how far it is."""
    task = task_of(read_prd(state_folder(app).prd), task_id)
    with app.console(json=form == "json") as console:
        if form == "json":
            console.json(_whole(task))
        elif form == "yaml":
            console.verbatim(yaml_text(words_of(task), heading=task.id))
        else:
            console.line(f"{task.id}: {task.status}")
            for name, value in _facts(task):
                console.line(f"  {name:<10}{value}")
            console.line("")
            console.verbatim(
                yaml_text({key: value for key, value in words_of(task).items() if value not in ("", [], {})})
            )
    return 0


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


@click.command("add")
@click.argument("task_id", metavar="ID")
@click.argument("title")
@word_options
@click.option("--strict", is_flag=True, help="Refuse a task without an outcome or without criteria.")
@click.pass_obj
def add_command(app: App, /, *, task_id: str, title: str, strict: bool, **given: Any) -> int:
    """Add a task at the end of the list.

    What completes it is said for each stage: --coder-promise, --coder-verify and so on, and likewise --reviewer-…,
    --tester-… and --qa-…. A command alone means --coder-verify external, a check alone semantic.
    """
    words = {"title": title, **words_given(given)}
    if given["note"]:
        words["notes"] = given["note"].strip()
    if given["parallel"]:
        words["markers"] = [PARALLEL]
    missing = [] if given["outcome"] else ["outcome (--outcome)"]
    missing += [] if given["acceptance"] or "completion" in words else ["criteria (--acceptance, --coder-verify-cmd)"]
    if strict and missing:
        raise RalphError(f"{text.escaped(task_id)} has no {' and no '.join(missing)}; nothing was added")
    code = carry_out(app, Add(tasks=({"id": task_id, **words},)), name=lambda fault: _name_in_add(fault, given))
    if missing and not code:
        with app.console() as console:
            console.line(f"warning: it has no {' and no '.join(missing)}; give them with: ralph task edit {task_id}")
    return code


def _name_in_add(fault: Fault, given: Mapping[str, Any]) -> str:
    fault = Fault(fault.path[2:], fault.message)  # behind `tasks` and its index
    return {"id": "ID", "title": "TITLE", "notes": "--note"}.get(str(next(iter(fault.path), "")), "") or option_name(
        fault, given
    )


def _option(fault: Fault) -> str:
    return "--reason" if fault.path == ("reason",) else place_of(fault)


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
    return carry_out(app, Unblock(task_id=task_id, note=note))


@click.command("reopen")
@click.argument("task_id", metavar="ID")
@click.option("--reason", metavar="TEXT", required=True, help="What is missing; added to the notes.")
@click.pass_obj
def reopen_command(app: App, task_id: str, *, reason: str) -> int:
    """Make a completed task pending again."""
    return carry_out(app, Reopen(task_id=task_id, reason=reason), name=_option)


@click.command("done")
@click.argument("task_id", metavar="ID")
@click.option("--reason", metavar="TEXT", required=True, help="Why it counts as done; kept in the task list.")
@click.pass_obj
def done_command(app: App, task_id: str, *, reason: str) -> int:
    """Declare a task done whose work was there already. Nothing is checked: it is your word."""
    return carry_out(app, Done(task_id=task_id, reason=reason), name=_option)


@click.command("remove")
@click.argument("task_id", metavar="ID")
@click.pass_obj
def remove_command(app: App, task_id: str) -> int:
    """Take a task off the list; not while others depend on it. Its history stays."""
    return carry_out(app, Remove(task_id=task_id))
