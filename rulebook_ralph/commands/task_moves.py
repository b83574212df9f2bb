"""`ralph task note`, `unblock`, `reopen`, `done` and `remove`."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.task_delivery import carry_out, place_of
from rulebook_ralph.core.edits import Change, Done, Remove, Reopen, Unblock
from rulebook_ralph.core.problem import Fault
from rulebook_ralph.errors import RalphError


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
    return carry_out(app, Change(task_id=task_id, note=text))


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
