"""What is said of each event, as whole lines that read well in a log. Pure; others' text is made printable."""

from rulebook_ralph.report import words
from rulebook_ralph.report.events import (
    BranchWaiting,
    Event,
    GateEnded,
    IterationOpened,
    IterationSettled,
    Notice,
    ReviewEnded,
    ReviewStarted,
    RunEnded,
    RunPlanned,
    Waiting,
)
from rulebook_ralph.report.stream import table_lines
from rulebook_ralph.tasks.text import clipped, duration

_MOST_TASKS = 50


def lines_of(event: Event, *, quiet: bool = False, width: int | None = None) -> list[str]:
    """What is said of an event; nothing of an agent's activity. With `quiet` no begin and no table, which is cut to
    `width` columns where that is given.
    """
    lines: list[str] = []
    match event:
        case Notice() | BranchWaiting():
            text, warning = words.remark(event)
            lines = [f"warning: {text}" if warning else text] if text else []
        case RunPlanned():
            what, most = words.plan(event)
            lines = [f"{clipped(event.project)}: {what}", most]
        case IterationOpened() if not quiet:
            lines = [f"{clipped(event.task_id)}: {clipped(event.title)} · {words.place(event)}"]
        case GateEnded():
            lines = [_gate_line(event)]
        case ReviewStarted() | ReviewEnded():
            lines = _review_lines(event)
        case IterationSettled():
            lines = [_settled_line(event)]
        case Waiting():
            lines = _waiting_lines(event)
        case RunEnded():
            lines = _ending_lines(event, quiet=quiet, width=width)
        case _:
            pass
    return lines


def _waiting_lines(event: Waiting) -> list[str]:
    if event.begins:
        return [words.waiting(event)]
    return [] if event.seconds else ["waited long enough, going on"]


def _gate_line(event: GateEnded) -> str:
    result = event.result
    base = f" ({clipped(event.about)})" if event.about else " on the base" if event.on_base else ""
    if result.skipped:
        return f"  gate {clipped(result.step)}{base}: {words.gate_failure(result)}"
    failed = "red" if event.about else "FAILED"
    outcome = f"ok{words.flakiness(result)}" if result.passed else f"{failed} ({words.gate_failure(result)})"
    return f"  gate {clipped(result.step)}{base}: {outcome} · {duration(result.duration_ms / 1000)}"


def _review_lines(event: ReviewStarted | ReviewEnded) -> list[str]:
    if isinstance(event, ReviewStarted):
        return [f"  {words.review_step(event.tier, event.reviewer)}"]
    ending = words.review_ending(event)
    first = f"  {ending.step}: {clipped(ending.reason)} · {duration(ending.duration_ms / 1000)}"
    return [first, *(f"    {line}" for line in words.issue_lines(event))]


def _settled_line(event: IterationSettled) -> str:
    reason = clipped(event.reason)
    because = f" ({reason})" if reason and event.outcome != "completed" else ""
    done = f"{event.completed_tasks:,} of {words.count(event.total_tasks, 'task')} completed"
    facts = " · ".join([*words.settled_facts(event), done])
    task = clipped(event.task_id)
    return f"#{event.iteration_number} {task}: {words.OUTCOMES[event.outcome]}{because} · {facts}"


def _ending_lines(event: RunEnded, *, quiet: bool, width: int | None) -> list[str]:
    lines = [words.ending(event)]
    if reason := words.ending_reason(event):
        lines.append(reason)
    if event.tasks and not quiet:
        shown, left_out = words.telling(event.tasks, _MOST_TASKS)
        lines += table_lines(words.SUMMARY_HEADINGS, map(words.summary_row, shown), width)
        if left_out:
            lines.append(f"… and {left_out:,} more")
    return lines + [f"next: {clipped(step)}" for step in event.next_steps]
