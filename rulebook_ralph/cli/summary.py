"""`ralph summary`: what was done, as Markdown for a pull request; or the story of one task."""

import click
import msgspec

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.options import json_object
from rulebook_ralph.cli.places import state_folder, task_of
from rulebook_ralph.report import account, summary


@click.command()
@click.option("--task", metavar="ID", help="The story of one task: each attempt, its verdict, feedback and snapshot.")
@json_object
@click.pass_obj
def command(app: App, /, *, task: str | None, json: bool) -> int:
    """Print what was done so far as Markdown: tasks and commits, gates, reviews, cost, what is blocked.

    Reads the state alone, also while a run goes on. `ralph summary | gh pr create --body-file -`
    """
    found = account.read(state_folder(app))
    if task is not None:
        wanted = task_of(found.prd, task)
        one = next(each for each in found.tasks if each.task is wanted)
        as_json, as_text = account.story_as_json(found, one), summary.story(found, one)
    else:
        as_json, as_text = account.as_json(found), summary.whole(found)
    with app.console(json=json) as console:
        if json:
            console.json(msgspec.to_builtins(as_json))
        else:
            console.verbatim(as_text)
    return 0
