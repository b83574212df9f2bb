"""`ralph task show`: one task, whole."""

from typing import Literal

import click
import msgspec

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.commands.task_yaml import yaml_text
from rulebook_ralph.core import amounts, edits
from rulebook_ralph.core.model import Json, Task
from rulebook_ralph.core.task_words import words_of
from rulebook_ralph.state import store


@click.command("show")
@click.argument("task_id", metavar="ID")
@click.option("--json", "form", flag_value="json", help="Print it as it stands in prd.json.")
@click.option(
    "--yaml", "form", flag_value="yaml", help="Print what a person writes of it, as 'ralph task edit' shows it."
)
@click.pass_obj
def show_command(app: App, task_id: str, *, form: Literal["json", "yaml"] | None) -> int:
    """One task: what is wanted, what completes it, how far it is."""
    task = edits.find(store.read_prd(state_folder(app)), task_id)
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
    cost = f"{amounts.money(task.cost_usd)}, {amounts.tokens(task.tokens)}" if task.cost_usd or task.tokens else ""
    facts = (
        ("blocked", task.blocked_reason or ""),
        ("stage", task.stage or ""),
        ("attempts", attempts),
        ("iteration", "" if task.iteration_number is None else f"{task.iteration_number} (ralph show)"),
        ("started", task.started_at or ""),
        ("completed", task.completed_at or ""),
        ("summary", task.summary),
        ("cost", cost),
    )
    return [(name, value) for name, value in facts if value]
