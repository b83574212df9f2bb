"""What stays on the screen above the live lines: plan, ends of iterations, summary. Pure; imports rich."""

from collections.abc import Callable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from rulebook_ralph import console_words as words
from rulebook_ralph.console_lane import gate_mark
from rulebook_ralph.console_scene import Gate
from rulebook_ralph.core.amounts import duration, money
from rulebook_ralph.core.events import GateEnded, IterationSettled, Notice, ReviewEnded, RunEnded, RunPlanned, TaskLine
from rulebook_ralph.core.printable import clipped, cut, display_width, fold

Rows = list[Text | Table]

_INDENT = "    "
_WIDEST = 92
_REASON_LINES = 4
_MOST_TASKS = 30
_NARROW_TABLE = 70
_MARKS = {
    "completed": ("✔", "green"),
    "verified": ("✔", "cyan"),
    "retry": ("✘", "yellow"),
    "sent-back": ("✘", "yellow"),
    "blocked": ("■", "red"),
    "interrupted": ("■", "yellow"),
    "limited": ("■", "yellow"),
}
_STATUSES = {
    "completed": ("✔", "green"),
    "blocked": ("■", "red"),
    "in_iteration": ("▸", "cyan"),
}


def notice(event: Notice, width: int) -> Rows:
    lines = fold(clipped(event.text), width - 2)
    if event.level == "info":
        return [Text("  " + line) for line in lines]
    return [Text(("! " if index == 0 else "  ") + line, "yellow") for index, line in enumerate(lines)]


def of_task(task: str, rows: Callable[[int], Rows], width: int) -> Rows:
    """`rows` for the width that is left, each said to be of `task`, which works beside others."""
    name = cut(clipped(task), max(width // 3, 1)) + ": "
    named = [
        Text.assemble((name, "bold"), row) for row in rows(max(width - display_width(name), 3)) if isinstance(row, Text)
    ]
    for row in named:
        row.truncate(width, overflow="ellipsis")
    return [*named]


def planned(event: RunPlanned, width: int) -> Rows:
    facts = [Text("  " + line, "dim") for part in words.plan(event) for line in fold(part, width - 2)]
    return [Text(cut(clipped(event.project), width), "bold"), *facts]


def base_gate(event: GateEnded, width: int) -> Rows:
    result = event.result
    row = Text.assemble(gate_mark(result), f" gate {clipped(result.step)}")
    row.append(f"  {duration(result.duration_ms / 1000)}", "dim")
    row.append(words.flakiness(result) if result.passed else "  " + words.gate_failure(result), "yellow")
    row.append("  before the first agent", "dim")
    row.truncate(width, overflow="ellipsis")
    return [row]


def reviewed(event: ReviewEnded, width: int) -> Rows:
    """What a reviewer found, the worst first; nothing where it found nothing."""
    lines = words.issue_lines(event)
    if not lines:
        return []
    step = words.review_ending(event).step
    rows: Rows = [Text(cut(f"{_INDENT}{step}:", width), "dim")]
    return [*rows, *(Text(cut(f"{_INDENT}  {line}", width)) for line in lines)]


def settled(event: IterationSettled, gates: Sequence[Gate], attempt: int | None, width: int) -> Rows:
    """An iteration's end: the task with its sums to the right, why it is not done, the facts, the gates that ran."""
    width = min(width, _WIDEST)
    room = width - len(_INDENT)
    _mark, style = _MARKS[event.outcome]
    outcome, reason = words.OUTCOMES[event.outcome], clipped(event.reason)
    headline, left_over = _headline(event, attempt, width)
    verdict, facts = [], [*left_over, *_lasting(event)]
    if event.outcome == "completed" or not reason:
        facts = [outcome, *facts]
    else:
        verdict = fold(f"{outcome}: {reason}", room)[:_REASON_LINES]
    return [
        headline,
        *(Text(_INDENT + line, style) for line in verdict),
        *(Text(_INDENT + line, "dim") for line in fold(" · ".join(facts), room)),
        *_gate_rows(gates, width),
    ]


def ended(event: RunEnded, width: int) -> Rows:
    """The table of tasks, the run in one line, and what to do next; those lines are left whole, to be copied."""
    good = event.stop_reason in {"complete", "paused"}
    rows: Rows = [Text("")]
    if event.tasks:
        shown, left_out = words.telling(event.tasks, _MOST_TASKS)
        rows.append(_table(shown, width))
        rows += [Text(f"  … and {left_out:,} more", "dim")] if left_out else []
    mark = Text("✔ ", "bold green") if good else Text("■ ", "bold yellow")
    first, *others = fold(words.ending(event), width - 2) or [""]
    rows.append(mark + Text(first, "bold"))
    rows += [Text("  " + line, "bold") for line in others]
    rows += [Text("  " + line) for line in fold(words.ending_reason(event), width - 2)]
    rows += [Text.assemble(("→ ", "cyan"), clipped(step)) for step in event.next_steps]
    return rows


def _headline(event: IterationSettled, attempt: int | None, width: int) -> tuple[Text, list[str]]:
    """The first line, and what found no room in it."""
    mark, style = _MARKS[event.outcome]
    number, task = f"#{event.iteration_number} ", clipped(event.task_id)
    sums = duration(event.duration_ms / 1000)
    if event.cost_usd is not None:
        sums += f"  {money(event.cost_usd)}"
    room = width - len(f"{mark} {number}  {sums}")
    tries = "" if attempt is None else f" · attempt {attempt}"
    left_over: list[str] = []
    if tries and display_width(task) + len(tries) > room:
        tries, left_over = "", [f"attempt {attempt}"]
    task = cut(task, max(room - len(tries), 1))
    space = " " * max(room - display_width(task) - len(tries) + 2, 1)
    row = Text.assemble(
        (mark, f"bold {style}"), " ", (number, "dim"), (task, "bold"), (tries, "dim"), space, (sums, "dim")
    )
    row.truncate(width, overflow="ellipsis")
    return row, left_over


def _lasting(event: IterationSettled) -> list[str]:
    """The facts that the headline does not have."""
    took = duration(event.duration_ms / 1000)
    cost = None if event.cost_usd is None else money(event.cost_usd)
    return [fact for fact in words.settled_facts(event) if fact not in {took, cost}]


def _gate_rows(gates: Sequence[Gate], width: int) -> list[Text]:
    rows: list[Text] = []
    for gate in gates:
        if gate.result is None:
            continue
        part = Text.assemble(gate_mark(gate.result), f" {clipped(gate.step)} ")
        part.append("skipped" if gate.result.skipped else duration(gate.result.duration_ms / 1000), "dim")
        part.append(" flaky" if gate.result.flaky else "", "yellow")
        if rows and rows[-1].cell_len + 3 + part.cell_len <= width:
            rows[-1].append("   ").append_text(part)
        else:
            rows.append(Text(_INDENT).append_text(part))
    for row in rows:
        row.truncate(width, overflow="ellipsis")
    return rows


def _table(tasks: Sequence[TaskLine], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim", width=min(width, 110))
    wide = width >= _NARROW_TABLE
    table.add_column("", width=1)
    table.add_column("Task", ratio=1, no_wrap=True, overflow="ellipsis")
    if wide:
        table.add_column("Status", no_wrap=True)
    table.add_column("Attempts" if wide else "Tries", justify="right", no_wrap=True)
    table.add_column("Cost", justify="right", no_wrap=True)
    if wide:
        table.add_column("Commit", no_wrap=True, style="dim")
    for task in tasks:
        mark, style = _STATUSES.get(task.status, ("○", "dim"))
        name, status, attempts, cost, commit, _reason = map(Text, words.summary_row(task))
        cells = [name, status, attempts, cost, commit] if wide else [name, attempts, cost]
        table.add_row(Text(mark, style), *cells)
    return table
