"""How events are put into words, and into whole lines that read well in a log; the live display shows them too. Pure;
others' text is made printable.
"""

from collections.abc import Sequence

from rulebook_ralph.report import events
from rulebook_ralph.report.stream import table_lines
from rulebook_ralph.tasks.results import CheckResult, telling_line
from rulebook_ralph.tasks.text import clipped, cost, counted, cut, duration, money, printable, some, tokens

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
_HEADINGS = ("Task", "Title", "Status", "Attempts", "Cost", "Commit")
_MOST_ISSUES = 10
_TITLE_COLUMNS = 60
_MOST_TASKS = 50


def attempt(event: events.IterationOpened) -> str:
    """Where a task among others stands: `#7 · coder · attempt 1 of 3`."""
    return f"#{event.iteration_number} · {clipped(event.stage)} · attempt {event.attempt} of {event.max_attempts}"


def activity(event: events.AgentActivity) -> str:
    """A tool in use or a retry as one line."""
    return "  ".join(filter(None, (clipped(event.text), clipped(event.detail))))


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


def review_step(tier: str, reviewer: str) -> str:
    """What a look at the change is called: `quick review (sonnet)`."""
    return f"{tier} review ({clipped(reviewer)})"


def review_ending(event: events.ReviewEnded) -> CheckResult:
    """How a reviewer's look ended, as a gate's end is told."""
    review, look = event.review, event.review.looks[0]
    return CheckResult(
        step=review_step(look.tier, look.reviewer),
        command="",
        passed=look.decision == "SHIP",
        reason=str(review),
        duration_ms=look.duration_ms,
    )


def spent(usd: float, used: int, iterations: int) -> list[str]:
    """What so many iterations took: cost and tokens, as far as agents told any."""
    if not iterations:
        return []
    return [cost(usd, used or iterations), *([tokens(used)] if used else [])]


def waiting(event: events.Waiting) -> str:
    """What a run waits for, and how long still."""
    until = event.until.astimezone().strftime("%H:%M:%S")
    return f"waiting until {until}, {duration(event.seconds)} left: {clipped(event.reason)}"


def lines_of(event: events.Event, *, quiet: bool = False, width: int | None = None) -> list[str]:
    """What is said of an event; nothing of an agent's texts. With `quiet` only how iterations end, warnings, and the
    end of the run without its table, which is cut to `width` columns where that is given.
    """
    match event:
        case events.Notice(level, text):
            told = clipped(text) if level == "warning" or not quiet else ""
            return [f"warning: {told}" if level == "warning" else told] if told else []
        case events.BranchWaiting():
            return [f"warning: {_branch_waiting(event)}"]
        case events.IterationSettled():
            return [_settled(event)]
        case events.Waiting():
            return [waiting(event)] if event.begins else [] if event.seconds else ["the wait is over"]
        case events.RunEnded():
            return _ended(event, quiet=quiet, width=width)
    return [] if quiet else _at_work(event)


def _at_work(event: events.Event) -> list[str]:
    match event:
        case events.RunPlanned():
            return _planned(event)
        case events.IterationOpened():
            return [_opened(event)]
        case events.AgentActivity(kind="tool" | "retry"):
            return [f"  {activity(event)}"]
        case events.GateEnded():
            return [_gate(event)]
        case events.ReviewStarted():
            return [f"  {review_step(event.tier, event.reviewer)}"]
    return _review(event) if isinstance(event, events.ReviewEnded) else []


def _planned(event: events.RunPlanned) -> list[str]:
    """What is to be done, and what is at most to come."""
    work = f"{event.open_tasks:,} of {counted(event.total_tasks, 'task')} open"
    time = "no limit of time" if event.max_wall_time is None else f"at most {duration(event.max_wall_time)}"
    most = "no limit of cost" if event.max_cost_usd is None else f"at most {money(event.max_cost_usd)}"
    at_once = f", {event.workers:,} at once" if event.workers > 1 else ""
    return [
        f"{clipped(event.project)}: {work} · branch {clipped(event.branch)} · agent {clipped(event.agent)}",
        f"at most {counted(event.max_iterations, 'iteration')}{at_once} · {time} · {most}",
    ]


def _opened(event: events.IterationOpened) -> str:
    """`read: Read it · #7, 2 of at most 9 in this run · attempt 1 of 3`, and the stage unless it is the coder's."""
    place = f"#{event.iteration_number}, {event.index:,} of at most {event.max_iterations:,} in this run"
    stage = "" if event.stage == "coder" else f" · {clipped(event.stage)}"
    tried = f"attempt {event.attempt} of {event.max_attempts}{stage}"
    return f"{clipped(event.task_id)}: {clipped(event.title)} · {place} · {tried}"


def _branch_waiting(event: events.BranchWaiting) -> str:
    files = f" ({some([clipped(name) for name in event.files])})" if event.files else ""
    where = f"the work is in {clipped(event.ref)}, bring it in with: ralph land"
    return f"{clipped(event.branch)} waits: {clipped(event.reason)}{files}; {where}"


def _gate(event: events.GateEnded) -> str:
    result = event.result
    base = f" ({clipped(event.about)})" if event.about else " on the base" if event.on_base else ""
    what = f"  {'gate ' if result.method == 'gate' else ''}{check_name(result)}{base}"
    if result.skipped:
        return f"{what}: {gate_failure(result)}"
    failed = "red" if event.about else "FAILED"
    outcome = f"ok{flakiness(result)}" if result.passed else f"{failed} ({gate_failure(result)})"
    return f"{what}: {outcome} · {duration(result.duration_ms / 1000)}"


def _review(event: events.ReviewEnded) -> list[str]:
    """How it ended, the worst issues, how many more there are, and what nobody looked at."""
    ending, review = review_ending(event), event.review
    more = len(review.issues) - _MOST_ISSUES
    return [
        f"  {ending.step}: {clipped(ending.reason)} · {duration(ending.duration_ms / 1000)}",
        *(
            f"    {issue.severity}  {clipped(issue.place)}: {clipped(issue.description)}"
            for issue in review.issues[:_MOST_ISSUES]
        ),
        *([f"    … and {more:,} more"] if more > 0 else []),
        *(f"    not reviewed: {clipped(name)}" for name in review.not_reviewed[:_MOST_ISSUES]),
    ]


def _settled(event: events.IterationSettled) -> str:
    reason = clipped(event.reason)
    because = f" ({reason})" if reason and event.outcome not in ("completed", reason) else ""
    facts = [
        counted(event.files_changed, "file") if event.files_changed else "no change",
        duration(event.duration_ms / 1000),
        "" if event.cost_usd is None else money(event.cost_usd),
        tokens(event.usage.total) if event.usage.total else "",
        f"commit {_short(event.commit)}" if event.commit else "",
        f"{event.completed_tasks:,} of {counted(event.total_tasks, 'task')} completed",
    ]
    task, outcome = clipped(event.task_id), OUTCOMES[event.outcome]
    return f"#{event.iteration_number} {task}: {outcome}{because} · {' · '.join(filter(None, facts))}"


def _ended(event: events.RunEnded, *, quiet: bool, width: int | None) -> list[str]:
    lines = [_ending(event)]
    if event.stop_reason not in _SAID_BY_THE_NEXT_STEP:
        lines.append(clipped(event.reason))
    if of := event.totals:
        facts = [counted(of.iterations, "iteration"), *spent(of.cost_usd, of.tokens, of.iterations)]
        lines.append(f"all runs: {' · '.join(facts)}")
    if event.tasks and not quiet:
        shown = _telling(event.tasks)
        lines += table_lines(_HEADINGS, map(_row, shown), width)
        if left_out := len(event.tasks) - len(shown):
            lines.append(f"… and {left_out:,} more")
    return [*filter(None, lines), *(f"next: {clipped(step)}" for step in event.next_steps)]


def _ending(event: events.RunEnded) -> str:
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
    facts = [f"{event.completed_count:,} completed{blocked}", counted(event.iterations, "iteration")]
    facts += [took, *spent(event.cost_usd, event.tokens, event.iterations)]
    return f"{words}: {' · '.join(facts)}"


def _row(task: events.TaskLine) -> tuple[str, ...]:
    """The cells under the headings."""
    return (
        clipped(task.task_id),
        cut(clipped(task.title), _TITLE_COLUMNS),
        clipped(task.status).replace("_", " "),
        str(task.attempts) if task.attempts else "",
        money(task.cost_usd) if task.cost_usd else "",
        _short(task.commit or ""),
    )


def _telling(tasks: Sequence[events.TaskLine]) -> list[events.TaskLine]:
    """As many tasks as are shown, in their order: those first that something happened to."""
    ranked = sorted(range(len(tasks)), key=lambda index: (not tasks[index].attempts, tasks[index].status != "blocked"))
    return [tasks[index] for index in sorted(ranked[:_MOST_TASKS])]


def _short(commit: str) -> str:
    return printable(commit)[:8]
