"""`ralph summary`: what was done, as Markdown for a pull request; or the story of one task."""

import click
import msgspec

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.loop import account, account_markdown, preflight


@click.command()
@click.option("--task", metavar="ID", help="The story of one task: each attempt, its verdict, feedback and snapshot.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, /, *, task: str | None, json: bool) -> int:
    """Print what was done so far as Markdown: tasks and commits, gates, reviews, cost, what is blocked.

    Reads the state alone, also while a run goes on. `ralph summary | gh pr create --body-file -`
    """
    told = account.read(state_folder(app))
    if task is not None:
        preflight.require_known_tasks(told.prd, (task,))
        one = next(each for each in told.tasks if each.task.id == task)
        as_json, as_text = account.story_as_json(told, one), account_markdown.story(told, one)
    else:
        as_json, as_text = account.as_json(told), account_markdown.whole(told)
    with app.console(json=json) as console:
        if json:
            console.json(msgspec.to_builtins(as_json))
        else:
            console.verbatim(as_text)
    return 0
