"""An account of the work as Markdown, for a pull request. Every text of an agent's or a person's stays words."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from rulebook_ralph.report.account import Account, TaskAccount, snapshot
from rulebook_ralph.report.markdown import block, code, inline
from rulebook_ralph.tasks import text
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.tasks.text import counted

LONGEST = 65_536
"""Characters that GitHub takes for the text of a pull request."""
_ROOM_FOR_THE_REST = 200
_MOST_TASKS = 100
_MOST_ISSUES = 20
_MOST_LEARNINGS = 20
_MOST_STEPS = 20
_MOST_FILES = 12

Section = Sequence[str]
"""Lines that belong together."""


def whole(account: Account, *, longest: int = LONGEST) -> str:
    """The whole project's, at most `longest` characters; what does not fit is said to be left out."""
    sections = [_head(account), *_blocked(account), *_at_work(account), _reviews(account), _gates(account)]
    sections += [*_done(account), _open(account), _how_to_verify(account), _learnings(account), _unreadable(account)]
    return _joined(sections, longest, rest="ralph summary --json")


def story(account: Account, told: TaskAccount, *, longest: int = LONGEST) -> str:
    """One task's: what it is, and each attempt."""
    sections = [_task_head(told), *(_attempt(account, record) for record in told.records)]
    if not told.records:
        sections.append(["No attempt is kept."])
    return _joined(sections, longest, rest=f"ralph summary --task {shlex.quote(told.task.id)} --json")


def _joined(sections: Iterable[Section], longest: int, *, rest: str) -> str:
    """The sections that fit, whole, in their order; a first one that does not fit ends the text."""
    lines: list[str] = []
    room, left_out = longest - _ROOM_FOR_THE_REST, 0
    for section in sections:
        needed = sum(len(line) + 1 for line in section) + 1
        if left_out or needed > room:
            left_out += bool(section)
        elif section:
            lines += [*section, ""]
            room -= needed
    if left_out:
        lines.append(f"*{counted(left_out, 'more section')} left out here; all of it: {code(rest)}*")
    return "\n".join(lines).rstrip("\n") + "\n"


# The whole project


def _head(account: Account) -> Section:
    prd = account.prd
    completed = len(account.of("completed"))
    totals = prd.totals
    facts = (
        f"branch {code(prd.work_branch)}",
        counted(totals.iterations, "iteration"),
        f"agents worked {text.duration(account.duration_ms / 1000)}",
        text.money(totals.cost_usd),
        text.tokens(totals.tokens),
    )
    return [
        f"## {inline(prd.project)}: {completed} of {counted(len(prd.tasks), 'task')} completed",
        "",
        " · ".join(facts),
    ]


def _blocked(account: Account) -> Iterator[Section]:
    tasks = account.of("blocked")
    for index, told in enumerate(tasks[:_MOST_TASKS]):
        lines = ["### Blocked", ""] if index == 0 else []
        task = told.task
        lines.append(f"- **{inline(task.title)}** ({code(task.id)}): {inline(task.blocked_reason or 'no reason told')}")
        see = f"{code(f'ralph show {task.settled_iteration}')}; " if task.settled_iteration else ""
        unblock = code(f"ralph task unblock {shlex.quote(task.id)}")
        lines.append(f"  To go on: {see}change the task or what is in its way, then {unblock} and {code('ralph run')}")
        yield lines
    yield _more(len(tasks) - _MOST_TASKS, "blocked task")


def _at_work(account: Account) -> Iterator[Section]:
    for told in account.of("in_iteration"):
        yield [f"In work now: **{inline(told.task.title)}** ({code(told.task.id)}), {told.task.stage or 'coder'}"]


def _done(account: Account) -> Iterator[Section]:
    tasks = account.of("completed")
    for index, told in enumerate(tasks[:_MOST_TASKS]):
        lines = ["### Done", ""] if index == 0 else []
        task = told.task
        facts = [code(told.commit[:12]), _attempts(task), text.money(task.cost_usd) if task.cost_usd else ""]
        lines.append(f"- **{inline(task.title)}** ({code(task.id)}) · {' · '.join(filter(None, facts))}")
        if task.summary:
            lines.append(f"  {inline(task.summary, 600)}")
        if (facts_of := task.completion_summary) is not None:
            lines += _files("New", facts_of.files_created) + _files("Changed", facts_of.files_modified)
        yield lines
    yield _more(len(tasks) - _MOST_TASKS, "completed task")


def _open(account: Account) -> Section:
    tasks = account.of("pending")
    if not tasks:
        return []
    shown = [f"- {inline(each.task.title)} ({code(each.task.id)})" for each in tasks[:_MOST_TASKS]]
    return ["### Still open", "", *shown, *_more(len(tasks) - _MOST_TASKS, "open task")]


def _gates(account: Account) -> Section:
    if not account.gates:
        return []
    return [f"### Gates, as they ran last (iteration {account.gates_of})", "", *_results(account.gates)]


def _results(gates: Iterable[CheckResult]) -> Section:
    return [
        f"- {inline(gate.step)}: **{gate.ending}**{'' if gate.required else ' (not required)'}"
        f"{f' ({inline(gate.reason, 120)})' if gate.reason and not gate.passed else ''}, {code(gate.command)}, "
        f"{text.duration(gate.duration_ms / 1000)}"
        for gate in gates
    ]


def _reviews(account: Account) -> Section:
    lines = []
    for told in account.tasks:
        if told.review is not None:
            lines.append(f"- **{inline(told.task.title)}** ({code(told.task.id)}): {_decision(told.review)}")
            lines += [f"  {line}" for line in _issues(told.review)]
    return ["### Reviews", "", *lines] if lines else []


def _decision(review: Review) -> str:
    why = f" ({inline(review.reason)})" if review.reason else ""
    return f"{review.decision}{why}, {review.summary}"


def _issues(review: Review) -> Section:
    shown = [
        f"- {issue.severity}, {inline(issue.type, 40)}, {code(issue.place)}: {inline(issue.description)}"
        for issue in review.issues[:_MOST_ISSUES]
    ]
    return [*shown, *_more(len(review.issues) - _MOST_ISSUES, "issue")]


def _how_to_verify(account: Account) -> Section:
    commands = list(dict.fromkeys(gate.command for gate in account.gates if gate.command))
    gates = {f"{gate.step}: {gate.command}" for gate in account.gates}
    told = [
        step
        for each in account.of("completed")
        if each.task.completion_summary is not None
        for step in each.task.completion_summary.verification_steps
        if step not in gates
    ]
    steps = list(dict.fromkeys(told))
    shown = [f"- {code(command)}" for command in ("ralph verify", *commands[:_MOST_STEPS])]
    shown += [f"- {inline(step)}" for step in steps[:_MOST_STEPS]]
    more = len(commands) + len(steps) - len(commands[:_MOST_STEPS]) - len(steps[:_MOST_STEPS])
    return ["### How to verify it", "", *shown, *_more(more, "step")]


def _learnings(account: Account) -> Section:
    if not account.learnings:
        return []
    shown = [f"- {inline(learning)}" for learning in account.learnings[-_MOST_LEARNINGS:]]
    return ["### Learned on the way", "", *shown, *_more(len(account.learnings) - _MOST_LEARNINGS, "older learning")]


def _unreadable(account: Account) -> Section:
    if not account.unreadable:
        return []
    files = counted(len(account.unreadable), "iteration file is", "iteration files are")
    return [f"*{files} left out, as nobody can read them: {inline(account.unreadable[0])}*"]


# One task


def _task_head(told: TaskAccount) -> Section:
    task = told.task
    spent = (text.duration(told.duration_ms / 1000), text.money(task.cost_usd), text.tokens(task.tokens))
    facts = [f"task {code(task.id)}", _attempts(task), *spent]
    lines = [f"## {inline(task.title)}: {task.status}", "", " · ".join(filter(None, facts))]
    if told.commit:
        lines.append(f"Commit {code(told.commit)}")
    if task.blocked_reason:
        lines += ["", f"Blocked: {inline(task.blocked_reason, 1000)}"]
    if task.outcome:
        lines += ["", f"Outcome: {inline(task.outcome, 1000)}"]
    if task.acceptance_criteria:
        lines += ["", *(f"- {inline(criterion)}" for criterion in task.acceptance_criteria[:_MOST_TASKS])]
    if task.summary:
        lines += ["", inline(task.summary, 1000)]
    return lines


def _attempt(account: Account, record: Iteration) -> Section:
    ended = record.completion_status or record.phase
    spent = [text.duration(record.duration_ms / 1000), text.money(record.spent_usd) if record.spent_usd else ""]
    facts = [inline(record.agent), *spent, text.tokens(record.spent_tokens) if record.spent_tokens else ""]
    lines = [
        f"### Iteration {record.iteration_number}: {record.stage}, attempt {record.attempt}, {ended}",
        "",
        " · ".join(filter(None, facts)),
    ]
    if record.verdict is not None and record.verdict.reason:
        lines.append(f"- Verdict: {inline(record.verdict.reason, 600)}")
    lines += _results(check for check in record.checks if check.method == "gate")
    if record.review is not None:
        lines += [f"- Review: {_decision(record.review)}", *(f"  {line}" for line in _issues(record.review))]
    lines += [f"- {line.strip()}" for line in _files("Files", record.files_changed)]
    if kept := snapshot(account, record):
        lines.append(f"- Snapshot: {code(kept)}")
    if record.commit and record.tasks_completed:
        lines.append(f"- Commit: {code(record.commit)}")
    if feedback := block(record.feedback):
        lines += ["", "Feedback to the next attempt:", "", *feedback]
    return lines


# Parts


def _attempts(task: Task) -> str:
    """`2 attempts`, or by stage where there are several: `coder 2, reviewer 1`."""
    if len(task.attempts) > 1:
        return ", ".join(f"{inline(stage, 20)} {count}" for stage, count in task.attempts.items())
    return counted(sum(task.attempts.values()), "attempt") if task.attempts else ""


def _files(word: str, files: Sequence[str]) -> list[str]:
    if not files:
        return []
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    return [f"  {word}: {', '.join(map(code, files[:_MOST_FILES]))}{more}"]


def _more(count: int, noun: str) -> list[str]:
    return [f"- … and {counted(count, f'more {noun}')}"] if count > 0 else []
