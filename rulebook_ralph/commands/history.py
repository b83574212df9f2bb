"""`ralph history`: the iterations so far, one line each."""

import click

from rulebook_ralph.app import App
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.core import amounts
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.state import history


@click.command()
@click.option("--task", metavar="ID", help="Only the iterations of this task.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="The newest N.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, task: str | None, limit: int, json: bool) -> int:
    """The iterations so far, the newest last."""
    folder = state_folder(app)
    shown: list[Iteration] = []
    numbers = history.numbers(folder)
    for number in reversed(numbers):
        record = history.read(folder, number)
        if task is None or task in record.tasks:
            shown.append(record)
        if len(shown) == limit:
            break
    shown.reverse()
    with app.console(json=json) as console:
        if json:
            console.json({"iterations": [_brief(record) for record in shown]})
        elif shown:
            console.table(("#", "task", "stage", "attempt", "result", "time", "cost", "why"), map(_row, shown))
            if len(numbers) < numbers[-1]:
                console.line(f"kept: {len(numbers)} of {counted(numbers[-1], 'iteration')}; the others were pruned")
        else:
            console.line("no iterations yet; 'ralph run' starts")
    return 0


def _row(record: Iteration) -> tuple[str, ...]:
    completed = bool(record.tasks_completed)
    reason = record.verdict.reason if record.verdict else ""
    return (
        str(record.iteration_number),
        record.names,
        record.stage,
        str(record.attempt),
        result_of(record),
        amounts.duration(record.duration_ms / 1000),
        "" if record.cost_usd is None else amounts.money(record.cost_usd),
        (record.commit or "")[:10] if completed else reason if result_of(record) != "verified" else "",
    )


def result_of(record: Iteration) -> str:
    """How an iteration ended, in a word: a stage that holds is verified, only the last one completes the task."""
    between = record.completion_status == "completed" and not record.tasks_completed
    return "verified" if between else record.completion_status or record.phase


def _brief(record: Iteration) -> dict[str, object]:
    return {
        "iterationNumber": record.iteration_number,
        "taskId": record.task_id,
        "tasksAttempted": record.tasks,
        "stage": record.stage,
        "attempt": record.attempt,
        "phase": record.phase,
        "completionStatus": record.completion_status,
        "reason": record.verdict.reason if record.verdict else None,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
        "commit": record.commit,
        "costUsd": record.cost_usd,
        "durationMs": record.duration_ms,
    }
