"""`ralph graph`: the lifecycle and the task dependencies as Mermaid text."""

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import state_folder
from rulebook_ralph.tasks import lifecycle
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


@click.command()
@click.option("--lifecycle", "part", flag_value="lifecycle", help="Only what a task's status may become.")
@click.option("--tasks", "part", flag_value="tasks", help="Only the tasks and what they depend on.")
@click.pass_obj
def command(app: App, *, part: str | None) -> int:
    """Print the tasks with their dependencies, and the lifecycle of a task, as Mermaid diagrams.

    One of them alone is plain Mermaid; both together are a page of Markdown.
    """
    with app.console() as console:
        if part == "lifecycle":
            console.verbatim(lifecycle.mermaid())
            return 0
        tasks = tasks_diagram(read_prd(state_folder(app).prd))
        if part == "tasks":
            console.verbatim(tasks)
        else:
            console.verbatim(f"{_section('Tasks', tasks)}\n{_section('Lifecycle of a task', lifecycle.mermaid())}")
    return 0


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


def _section(title: str, diagram: str) -> str:
    return f"## {title}\n\n```mermaid\n{diagram}```\n"
