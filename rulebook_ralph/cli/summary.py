"""`ralph summary` and `ralph graph`: the state as Markdown, and as Mermaid diagrams, for pages elsewhere."""

import click
import msgspec

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import state_folder
from rulebook_ralph.report import account, summary
from rulebook_ralph.tasks import lifecycle
from rulebook_ralph.tasks.edits import find
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.text import cut, printable

_TITLE_COLUMNS = 50
_PLAIN = frozenset(" .,_-:/()")
_STYLES = {
    "pending": "fill:#eeeeee,stroke:#888888,color:#222222",
    "in_iteration": "fill:#fff3c4,stroke:#b58900,color:#222222",
    "completed": "fill:#d5f0d9,stroke:#2e8540,color:#222222",
    "blocked": "fill:#f9d6d5,stroke:#b0302e,color:#222222",
}


@click.command("summary")
@click.option("--task", metavar="ID", help="The story of one task: each attempt, its verdict, feedback and snapshot.")
@json_object
@click.pass_obj
def summary_command(app: App, /, *, task: str | None, json: bool) -> None:
    """Print what was done so far as Markdown: tasks and commits, gates, reviews, cost, what is blocked.

    Reads the state alone, also while a run goes on. `ralph summary | gh pr create --body-file -`
    """
    found = account.read(state_folder(app))
    if task is None:
        as_json, as_text = account.as_json(found), summary.whole(found)
    else:
        wanted = find(found.prd, task)
        one = next(each for each in found.tasks if each.task is wanted)
        as_json, as_text = account.story_as_json(found, one), summary.story(found, one)
    with app.console(json=json) as console:
        if json:
            console.json(msgspec.to_builtins(as_json))
        else:
            console.verbatim(as_text)


@click.command("graph")
@click.option("--lifecycle", "part", flag_value="lifecycle", help="Only what a task's status may become.")
@click.option("--tasks", "part", flag_value="tasks", help="Only the tasks and what they depend on.")
@click.pass_obj
def graph_command(app: App, *, part: str | None) -> None:
    """Print the tasks with their dependencies, and the lifecycle of a task, as Mermaid diagrams.

    One of them alone is plain Mermaid; both together are a page of Markdown.
    """
    diagrams = {"lifecycle": lifecycle.mermaid()}
    if part != "lifecycle":
        diagrams = {"tasks": tasks_diagram(read_prd(state_folder(app).prd)), **diagrams}
    headings = {"tasks": "Tasks", "lifecycle": "Lifecycle of a task"}
    page = (f"## {headings[name]}\n\n```mermaid\n{diagram}```\n" for name, diagram in diagrams.items())
    with app.console() as console:
        console.verbatim(diagrams[part] if part else "\n".join(page))


def tasks_diagram(prd: Prd) -> str:
    """A Mermaid flow chart: an arrow leads from a task to the ones that need it."""
    names = {task.id: f"t{index}" for index, task in enumerate(prd.tasks)}
    lines = ["flowchart TD"]
    for task in prd.tasks:
        title = cut(printable(task.title).strip(), _TITLE_COLUMNS)
        lines.append(f'    {names[task.id]}["{_label(task.id)}<br/>{_label(title)}"]:::{task.status}')
    lines += [f"    {names[needed]} --> {names[task.id]}" for task in prd.tasks for needed in task.dependencies]
    used = {task.status for task in prd.tasks}
    lines += [f"    classDef {status} {style}" for status, style in _STYLES.items() if status in used]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    """The text as part of a quoted label: whatever could mean something to Mermaid or HTML as a character code."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)
