"""How events are put into words, and into whole lines that read well in a log; the live display shows them too. Pure;
others' text is made printable.
"""

from collections.abc import Sequence

from rulebook_ralph.report.events import (
    AgentActivity,
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
    TaskLine,
    Waiting,
)
from rulebook_ralph.report.stream import table_lines
from rulebook_ralph.tasks.results import CheckResult, telling_line
from rulebook_ralph.tasks.text import clipped, cost, cut, duration, money, printable, some, tokens

OUTCOMES = {
    "completed": "completed",
    "verified": "stage verified",
    "retry": "not accepted, trying again",
    "sent-back": "sent back",
    "blocked": "blocked",
    "interrupted": "interrupted",
    "limited": "stopped at a limit",
}
STOPS = {
    "complete": "all complete",
    "blocked": "ended with blocked tasks",
    "max-iterations": "stopped at the iteration limit",
    "max-wall-time": "stopped at the time limit",
    "max-cost": "stopped at the cost limit",
    "stuck": "stopped: no progress",
    "rate-limited": "stopped at the agent's usage limit",
    "paused": "paused",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "error": "stopped by an error",
}
_SAID_BY_THE_NEXT_STEP = ("complete", "paused", "cancelled", "interrupted")
SUMMARY_HEADINGS = ("Task", "Title", "Status", "Attempts", "Cost", "Commit")
_SHORT_HASH = 8
_MOST_ISSUES = 10
_TITLE_COLUMNS = 60
_MOST_TASKS = 50


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def short(commit: str) -> str:
    return printable(commit)[:_SHORT_HASH]


def plan(event: RunPlanned) -> tuple[str, str]:
    """What is to be done, and what is at most to come."""
    work = f"{event.open_tasks:,} of {count(event.total_tasks, 'task')} open"
    where = f"branch {clipped(event.branch)} · agent {clipped(event.agent)}"
    time = "no limit of time" if event.max_wall_time is None else f"at most {duration(event.max_wall_time)}"
    most = "no limit of cost" if event.max_cost_usd is None else f"at most {money(event.max_cost_usd)}"
    iterations = f"at most {count(event.max_iterations, 'iteration')}"
    if event.workers > 1:
        iterations += f", {event.workers:,} at once"
    return f"{work} · {where}", f"{iterations} · {time} · {most}"


def place(event: IterationOpened) -> str:
    """Where an iteration stands: `#7, 2 of at most 9 in this run · attempt 1 of 3`, and the stage unless it is the
    coder's.
    """
    stage = "" if event.stage == "coder" else f" · {clipped(event.stage)}"
    return (
        f"#{event.iteration_number}, {event.index:,} of at most {event.max_iterations:,} in this run · "
        f"attempt {event.attempt} of {event.max_attempts}{stage}"
    )


def attempt(event: IterationOpened) -> str:
    """Where a task among others stands: `#7 · coder · attempt 1 of 3`."""
    return f"#{event.iteration_number} · {clipped(event.stage)} · attempt {event.attempt} of {event.max_attempts}"


def activity(event: AgentActivity) -> str:
    """A tool in use or a retry as one line."""
    name, detail = clipped(event.text), clipped(event.detail)
    return f"{name}  {detail}" if name and detail else name or detail


def gate_failure(result: CheckResult) -> str:
    """Why a gate is red: its own reason or its exit code; whether it is only optional. Why it was skipped."""
    if result.skipped:
        return f"skipped, {clipped(result.reason)}"
    reason, *more = result.reason.split("; ")
    plain = reason.startswith("exit code")
    told = some(result.failing, 2) or (telling_line(result.output) if plain else "") or clipped(reason)
    because = told or ("no exit code" if result.exit_code is None else f"exit code {result.exit_code}")
    return "; ".join([because, *map(clipped, more), *([] if result.required else ["not required"])])


def check_name(result: CheckResult) -> str:
    """`tests`, or `criterion coder/clean`."""
    return clipped(result.step) if result.method == "gate" else f"criterion {clipped(result.step)}"


def flakiness(result: CheckResult) -> str:
    """What is to be said of a gate that passed only when it was tried again; empty for others."""
    return f" but flaky: {clipped(result.reason)}" if result.flaky else ""


Remark = Notice | BranchWaiting


def remark(event: Remark) -> tuple[str, bool]:
    """What is said outside the rhythm of iterations, empty where it is not worth a line; and whether it warns."""
    match event:
        case Notice():
            return clipped(event.text), event.level == "warning"
        case BranchWaiting():
            files = f" ({some([clipped(name) for name in event.files])})" if event.files else ""
            where = f"the work is in {clipped(event.ref)}, bring it in with: ralph land"
            return f"{clipped(event.branch)} waits: {clipped(event.reason)}{files}; {where}", True


def review_step(tier: str, reviewer: str) -> str:
    """What a look at the change is called: `quick review (sonnet)`."""
    return f"{tier} review ({clipped(reviewer)})"


def review_ending(event: ReviewEnded) -> CheckResult:
    """How a reviewer's look ended, as a gate's end is told."""
    review, look = event.review, event.review.looks[0]
    return CheckResult(
        step=review_step(look.tier, look.reviewer),
        command="",
        passed=look.decision == "SHIP",
        reason=str(review),
        duration_ms=look.duration_ms,
    )


def issue_lines(event: ReviewEnded) -> list[str]:
    """The worst issues, one line each, how many more there are, and what nobody looked at."""
    review = event.review
    worst = review.issues[:_MOST_ISSUES]
    more = len(review.issues) - len(worst)
    return [
        *(f"{issue.severity}  {clipped(issue.place)}: {clipped(issue.description)}" for issue in worst),
        *([f"… and {more:,} more"] if more > 0 else []),
        *(f"not reviewed: {clipped(name)}" for name in review.not_reviewed[:_MOST_ISSUES]),
    ]


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
    if event.stop_reason == "blocked" and all(task.status == "completed" for task in event.tasks):
        words = "ended, but not complete"
    if event.stop_reason == "complete" and event.only:
        words = f"{some([clipped(task_id) for task_id in event.only])} complete"
    took = duration(event.duration_ms / 1000)
    if event.stop_reason == "complete" and not event.iterations:
        return f"nothing to do: {clipped(event.reason)} · {took}"
    blocked = f", {event.failed_count:,} blocked" if event.failed_count else ""
    facts = [f"{event.completed_count:,} completed{blocked}", count(event.iterations, "iteration")]
    facts += [took, *spent(event.cost_usd, event.tokens, event.iterations)]
    return f"{words}: {' · '.join(facts)}"


def spent(usd: float, used: int, iterations: int) -> list[str]:
    """What so many iterations took: cost and tokens, as far as agents told any."""
    if not iterations:
        return []
    return [cost(usd, used or iterations), *([tokens(used)] if used else [])]


def totals(event: RunEnded) -> str:
    """What all runs took together; empty where this was the only one."""
    if event.totals is None:
        return ""
    of = event.totals
    return " · ".join(["all runs: " + count(of.iterations, "iteration"), *spent(of.cost_usd, of.tokens, of.iterations)])


def ending_reason(event: RunEnded) -> str:
    """Why the run ended, where `ending` does not say it already."""
    return "" if event.stop_reason in _SAID_BY_THE_NEXT_STEP else clipped(event.reason)


def summary_row(task: TaskLine) -> tuple[str, str, str, str, str, str]:
    """The cells under `SUMMARY_HEADINGS`."""
    return (
        clipped(task.task_id),
        cut(clipped(task.title), _TITLE_COLUMNS),
        clipped(task.status).replace("_", " "),
        str(task.attempts) if task.attempts else "",
        money(task.cost_usd) if task.cost_usd else "",
        short(task.commit or ""),
    )


def telling(tasks: Sequence[TaskLine], most: int) -> tuple[list[TaskLine], int]:
    """At most `most` tasks in their order, those first that something happened to; and how many are left out."""
    if len(tasks) <= most:
        return list(tasks), 0
    ranked = sorted(range(len(tasks)), key=lambda index: (not tasks[index].attempts, tasks[index].status != "blocked"))
    chosen = sorted(ranked[:most])
    return [tasks[index] for index in chosen], len(tasks) - most


def waiting(event: Waiting) -> str:
    """What a run waits for, and how long still."""
    until = event.until.astimezone().strftime("%H:%M:%S")
    return f"waiting until {until}, {duration(event.seconds)} left: {clipped(event.reason)}"


# Whole lines


def lines_of(event: Event, *, quiet: bool = False, width: int | None = None) -> list[str]:
    """What is said of an event; nothing of an agent's activity. With `quiet` no begin and no table, which is cut to
    `width` columns where that is given.
    """
    lines: list[str] = []
    match event:
        case Notice() | BranchWaiting():
            text, warning = remark(event)
            lines = [f"warning: {text}" if warning else text] if text else []
        case RunPlanned():
            what, most = plan(event)
            lines = [f"{clipped(event.project)}: {what}", most]
        case IterationOpened() if not quiet:
            lines = [f"{clipped(event.task_id)}: {clipped(event.title)} · {place(event)}"]
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
        return [waiting(event)]
    return [] if event.seconds else ["the wait is over"]


def _gate_line(event: GateEnded) -> str:
    result = event.result
    base = f" ({clipped(event.about)})" if event.about else " on the base" if event.on_base else ""
    what = f"gate {clipped(result.step)}" if result.method == "gate" else check_name(result)
    if result.skipped:
        return f"  {what}{base}: {gate_failure(result)}"
    failed = "red" if event.about else "FAILED"
    outcome = f"ok{flakiness(result)}" if result.passed else f"{failed} ({gate_failure(result)})"
    return f"  {what}{base}: {outcome} · {duration(result.duration_ms / 1000)}"


def _review_lines(event: ReviewStarted | ReviewEnded) -> list[str]:
    if isinstance(event, ReviewStarted):
        return [f"  {review_step(event.tier, event.reviewer)}"]
    ending = review_ending(event)
    first = f"  {ending.step}: {clipped(ending.reason)} · {duration(ending.duration_ms / 1000)}"
    return [first, *(f"    {line}" for line in issue_lines(event))]


def _settled_line(event: IterationSettled) -> str:
    reason = clipped(event.reason)
    because = f" ({reason})" if reason and event.outcome not in ("completed", reason) else ""
    done = f"{event.completed_tasks:,} of {count(event.total_tasks, 'task')} completed"
    facts = " · ".join([*settled_facts(event), done])
    task = clipped(event.task_id)
    return f"#{event.iteration_number} {task}: {OUTCOMES[event.outcome]}{because} · {facts}"


def _ending_lines(event: RunEnded, *, quiet: bool, width: int | None) -> list[str]:
    lines = [ending(event)]
    lines += filter(None, [ending_reason(event), totals(event)])
    if event.tasks and not quiet:
        shown, left_out = telling(event.tasks, _MOST_TASKS)
        lines += table_lines(SUMMARY_HEADINGS, map(summary_row, shown), width)
        if left_out:
            lines.append(f"… and {left_out:,} more")
    return lines + [f"next: {clipped(step)}" for step in event.next_steps]
