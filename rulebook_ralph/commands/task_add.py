"""`ralph task add`: a new task, with what completes it."""

from typing import Any

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.task_delivery import carry_out
from rulebook_ralph.commands.task_options import option_name, word_options, words_given
from rulebook_ralph.core.edits import Add
from rulebook_ralph.core.problem import Fault


@click.command("add")
@click.argument("task_id", metavar="ID")
@click.argument("title")
@word_options
@click.pass_obj
def add_command(app: App, /, *, task_id: str, title: str, **given: Any) -> int:
    """Add a task at the end of the list.

    What completes it is said for each stage: --coder-promise, --coder-verify and so on, and likewise --reviewer-…,
    --tester-… and --qa-…. A command alone means --coder-verify external, a check alone semantic.
    """
    words = {"title": title, **words_given(given)}
    if given["note"]:
        words["notes"] = given["note"].strip()
    return carry_out(app, Add(task_id=task_id, words=words), name=_name)


def _name(fault: Fault) -> str:
    return {"id": "ID", "title": "TITLE", "notes": "--note"}.get(str(fault.path[0]), "") or option_name(fault)
