"""How events are put into words, for the live display and plain lines alike. Pure; others' text is made printable."""

import re
from collections.abc import Iterable, Sequence

from rulebook_ralph.core.amounts import duration, money, tokens
from rulebook_ralph.core.events import AgentActivity, IterationOpened, IterationSettled, RunEnded, RunPlanned, TaskLine
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.printable import cut, display_width, printable

OUTCOMES = {
    "completed": "completed",
    "retry": "not done, trying again",
    "blocked": "blocked",
    "interrupted": "interrupted",
    "limited": "ended by a limit",
}
STOPS = {
    "complete": "all complete",
    "blocked": "ended with blocked tasks",
    "max-iterations": "ended by the limit of iterations",
    "max-wall-time": "ended by the limit of time",
    "max-cost": "ended by the limit of cost",
    "stuck": "ended, because nothing moved any more",
    "rate-limited": "ended by the agent's usage limit",
    "paused": "paused",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "error": "ended by an error",
}
SUMMARY_HEADINGS = ("Task", "Status", "Attempts", "Cost", "Commit", "")
_LONGEST = 500
_SHORT_HASH = 8
_NARROWEST_COLUMN = 6
_AMOUNT = re.compile(r"<?\$?\d{1,6}(?:,\d{3})*(?:\.\d+)?[kM]?(?: [a-z]+)?")


def clipped(text: str) -> str:
    """The beginning of an agent's or command's text as one printable line; costs the same however long it is."""
    return cut(printable(text[: 4 * _LONGEST]).strip(), _LONGEST)


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def short(commit: str) -> str:
    return printable(commit)[:_SHORT_HASH]


def plan(event: RunPlanned) -> tuple[str, str]:
    """What is to be done, and what is at most to come."""
    work = f"{event.open_tasks:,} of {count(event.total_tasks, 'task')} open"
    where = f"branch {clipped(event.branch)} · agent {clipped(event.agent)}"
    time = "no limit of time" if event.max_wall_time is None else f"at most {duration(event.max_wall_time)}"
    cost = "no limit of cost" if event.max_cost_usd is None else f"at most {money(event.max_cost_usd)}"
    return f"{work} · {where}", f"at most {count(event.max_iterations, 'iteration')} · {time} · {cost}"


def place(event: IterationOpened) -> str:
    """Where an iteration stands: `iteration 2 of 9 · attempt 1 of 3`, and the stage unless it is the coder's."""
    stage = "" if event.stage == "coder" else f" · {clipped(event.stage)}"
    return (
        f"iteration {event.index:,} of {event.max_iterations:,} · "
        f"attempt {event.attempt} of {event.max_attempts}{stage}"
    )


def activity(event: AgentActivity) -> str:
    """A tool in use or a retry as one line."""
    name, detail = clipped(event.text), clipped(event.detail)
    return f"{name}  {detail}" if name and detail else name or detail


def gate_failure(result: CheckResult) -> str:
    """Why a gate is red: its own reason or its exit code; whether it is only optional."""
    because = clipped(result.reason) or (
        "no exit code" if result.exit_code is None else f"exit code {result.exit_code}"
    )
    return because if result.required else f"{because}, not required"


def settled_facts(event: IterationSettled) -> list[str]:
    """Files, duration, cost, tokens and commit of one iteration, as far as there are any."""
    facts = [
        count(event.files_changed, "file") if event.files_changed else "no change",
        duration(event.duration_ms / 1000),
    ]
    if event.cost_usd is not None:
        facts.append(money(event.cost_usd))
    if event.usage.total:
        facts.append(tokens(event.usage.total))
    if event.commit:
        facts.append(f"commit {short(event.commit)}")
    return facts


def ending(event: RunEnded) -> str:
    """The run in one line."""
    words = STOPS.get(event.stop_reason, event.stop_reason)
    failed = f", {event.failed_count:,} failed" if event.failed_count else ""
    return (
        f"{words}: {event.completed_count:,} completed{failed} · {count(event.iterations, 'iteration')} · "
        f"{duration(event.duration_ms / 1000)} · {money(event.cost_usd)} · {tokens(event.tokens)}"
    )


def summary_row(task: TaskLine) -> tuple[str, str, str, str, str, str]:
    """The cells under `SUMMARY_HEADINGS`."""
    status = "in work" if task.status == "in_iteration" else clipped(task.status)
    return (
        clipped(task.task_id),
        status,
        str(task.attempts) if task.attempts else "",
        money(task.cost_usd) if task.cost_usd else "",
        short(task.commit or ""),
        clipped(task.reason),
    )


def telling(tasks: Sequence[TaskLine], most: int) -> tuple[list[TaskLine], int]:
    """At most `most` tasks in their order, those first that something happened to; and how many are left out."""
    if len(tasks) <= most:
        return list(tasks), 0
    ranked = sorted(range(len(tasks)), key=lambda index: (not tasks[index].attempts, tasks[index].status != "blocked"))
    chosen = sorted(ranked[:most])
    return [tasks[index] for index in chosen], len(tasks) - most


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> list[str]:
    """Aligned columns, amounts to the right; where `width` is given, the widest columns give way until it fits."""
    cells = [[clipped(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(headings, *cells, strict=True)]
    if width is not None:
        _narrow(widths, width - 2 * (len(widths) - 1))
    right = [
        bool(cells) and all(_AMOUNT.fullmatch(row[i]) or not row[i] for row in cells) for i in range(len(headings))
    ]
    return [_aligned(row, widths, right) for row in [list(headings), *cells]]


def _narrow(widths: list[int], room: int) -> None:
    while sum(widths) > room and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for cell, width, to_the_right in zip(row, widths, right, strict=True):
        text = cut(cell, width)
        space = " " * (width - display_width(text))
        parts.append(space + text if to_the_right else text + space)
    return "  ".join(parts).rstrip()
