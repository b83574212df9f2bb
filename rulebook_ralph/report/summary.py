"""An account of the work as Markdown, for a pull request. Every text of an agent's or a person's stays words.

A heading, link, image, HTML, mention of a team (`@team`) or issue (`#12`), closing word or math in such a text comes
to nothing, in CommonMark and on GitHub and GitLab, which look for mentions after Markdown is done, so that a backslash
does not stop them: a zero-width space does.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rulebook_ralph.report.account import Account, TaskAccount, snapshot
from rulebook_ralph.run.summaries import NEEDS_APPROVAL, mending
from rulebook_ralph.tasks import text
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.results import CheckResult, Evidence
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.tasks.text import counted, printable, printable_block

LONGEST = 65_536
"""Characters that GitHub takes for the text of a pull request."""
_ROOM_FOR_THE_REST = 200
_MOST_TASKS = 100
_MOST = 20
"""Lines of any other list."""
_MOST_FILES = 12
_APART = "\u200b"
_MEANS_SOMETHING = re.compile(r"([\\`*_\[\]|~$]|#(?=[ #]|$))")
_AT_THE_BEGINNING = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_REFERS = re.compile(r"[@#](?=[\w-])|[!%&^](?=\w)|:(?=//)|www(?=\.)|GH(?=-\d)", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TICKS = re.compile(r"`+")

Section = Sequence[str]
"""Lines that belong together."""


def whole(account: Account, *, longest: int = LONGEST) -> str:
    """The whole project's, at most `longest` characters; what does not fit is said to be left out."""
    reviewed = [line for each in account.tasks if each.review for line in _review(f"- {_named(each)}", each.review)]
    learned = [f"- {inline(learning)}" for learning in account.learnings[-_MOST:]]
    learned += _more(len(account.learnings) - _MOST, "older learning")
    sections = [
        _head(account),
        *_tasks("Blocked", "blocked task", map(_blocked, account.of("blocked"))),
        *([f"In iteration now: {_named(each)}, {each.task.stage or 'coder'}"] for each in account.of("in_iteration")),
        _section("Reviews", reviewed),
        _section(f"Gates, as they ran last (#{account.gates_of})", _results(account.gates)),
        *_tasks("Done", "completed task", map(_done, account.of("completed"))),
        *_tasks("Still open", "open task", ([f"- {_named(each)}"] for each in account.of("pending"))),
        _how_to_verify(account),
        _section("Learned on the way", learned),
        _unreadable(account),
    ]
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


def _section(heading: str, lines: Section) -> Section:
    return [f"### {heading}", "", *lines] if lines else []


def _tasks(heading: str, noun: str, tasks: Iterable[Section]) -> Iterator[Section]:
    """A section for each task, of which the first has the heading."""
    found = list(tasks)
    for index, lines in enumerate(found[:_MOST_TASKS]):
        yield lines if index else _section(heading, lines)
    yield _more(len(found) - _MOST_TASKS, noun)


def _more(count: int, noun: str) -> list[str]:
    return [f"- … and {counted(count, f'more {noun}')}"] if count > 0 else []


# The whole project


def _head(account: Account) -> Section:
    prd = account.prd
    facts = (
        f"branch {code(prd.work_branch)}",
        counted(prd.totals.iterations, "iteration"),
        f"agents worked {text.duration(account.duration_ms / 1000)}",
        text.cost(prd.totals.cost_usd, prd.totals.tokens or prd.totals.iterations),
        text.tokens(prd.totals.tokens),
    )
    completed = len(account.of("completed"))
    heading = f"## {inline(prd.project)}: {completed} of {counted(len(prd.tasks), 'task')} completed"
    return [heading, "", " · ".join(facts)]


def _blocked(told: TaskAccount) -> Section:
    task = told.task
    see = f"{code(f'ralph show {task.settled_iteration}')}; " if task.settled_iteration else ""
    way = f"{see}{mending(task)}, then {code('ralph run')}"
    if (task.blocked_reason or "").startswith(NEEDS_APPROVAL):
        way = f"look at the work and agree to it: {code(f'ralph approve --show {shlex.quote(task.id)}')}"
    return [
        f"- {_named(told)}: {inline(task.blocked_reason or 'no reason told')}",
        f"  To go on: {way}",
    ]


def _done(told: TaskAccount) -> Section:
    task = told.task
    facts = [code(told.commit[:12]), _attempts(told), text.money(task.cost_usd) if task.cost_usd else ""]
    lines = [inline(task.summary, 600)] if task.summary else []
    if brought := task.completion_summary:
        lines += [*_files("New", brought.files_created), *_files("Changed", brought.files_modified)]
    lines += _evidence(told.evidence)
    return [f"- {_named(told)} · {' · '.join(filter(None, facts))}", *(f"  {line}" for line in lines)]


def _how_to_verify(account: Account) -> Section:
    commands = list(dict.fromkeys(gate.command for gate in account.gates if gate.command))
    gates = {f"{gate.step}: {gate.command}" for gate in account.gates}
    summaries = [each.task.completion_summary for each in account.of("completed")]
    told = [step for facts in summaries if facts for step in facts.verification_steps if step not in gates]
    steps = [*map(code, commands), *map(inline, dict.fromkeys(told))]
    shown = [f"- {step}" for step in [code("ralph verify"), *steps[:_MOST]]]
    return _section("How to verify it", [*shown, *_more(len(steps) - _MOST, "step")])


def _unreadable(account: Account) -> Section:
    if not account.unreadable:
        return []
    files = counted(len(account.unreadable), "iteration file is", "iteration files are")
    return [f"*{files} left out, as nobody can read them: {inline(account.unreadable[0])}*"]


# One task


def _task_head(told: TaskAccount) -> Section:
    task = told.task
    cost = text.cost(task.cost_usd, task.tokens or task.settled_iteration or 0)
    spent = [text.duration(told.duration_ms / 1000), cost, text.tokens(task.tokens) if task.tokens else ""]
    facts = [f"task {code(task.id)}", _attempts(told), *(spent if told.records or task.settled_iteration else [])]
    lines = [f"## {inline(task.title)}: {task.status.replace('_', ' ')}", "", " · ".join(filter(None, facts))]
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
    heading = f"#{record.iteration_number}: {record.stage}, attempt {record.attempt}, {ended}"
    lines = [f"### {heading}", "", " · ".join(filter(None, facts))]
    if record.verdict is not None and record.verdict.reason:
        lines.append(f"- Verdict: {inline(record.verdict.reason, 600)}")
    lines += _results(check for check in record.checks if check.method == "gate")
    lines += [f"- {line}" for line in _evidence(record.evidence)]
    if record.review is not None:
        lines += _review("- Review", record.review)
    lines += [f"- {line}" for line in _files("Files", record.files_changed)]
    if kept := snapshot(account, record):
        lines.append(f"- Snapshot: {code(kept)}")
    if record.commit and record.tasks_completed:
        lines.append(f"- Commit: {code(record.commit)}")
    if feedback := block(record.feedback):
        lines += ["", "Feedback to the next attempt:", "", *feedback]
    return lines


# Parts of both


def _named(told: TaskAccount) -> str:
    return f"**{inline(told.task.title)}** ({code(told.task.id)})"


def _attempts(told: TaskAccount) -> str:
    """`2 attempts`, or by stage where there are several: `coder 2, reviewer 1`."""
    attempts = told.task.attempts
    if len(attempts) > 1:
        return ", ".join(f"{inline(stage, 20)} {count}" for stage, count in attempts.items())
    return counted(sum(attempts.values()), "attempt") if attempts else ""


def _evidence(evidence: Evidence | None) -> list[str]:
    """What shows that the work is there: what turned from red to green, and what was asked about it."""
    if evidence is None:
        return []
    lines = []
    if evidence.turned:
        lines.append(f"Failed before, pass now: {_codes(evidence.turned)}")
    by = "a person" if evidence.judged_by == "person" else evidence.judged_by
    who = f"Answered by {by}" if by else "Not answered yet"
    for item in evidence.asked[:_MOST]:
        place = f" ({code(f'{item.file}:{item.line}' if item.line else item.file)})" if item.file else ""
        answered = f"{item.answer or 'no answer'}{f', {inline(item.reason)}' if item.reason else ''}"
        lines.append(f"{who}: {inline(item.item)}: {answered}{place}")
    return lines


def _results(gates: Iterable[CheckResult]) -> Section:
    return [
        f"- {inline(gate.step)}: **{gate.ending}**{'' if gate.required else ' (not required)'}"
        f"{f' ({inline(gate.reason, 120)})' if gate.reason and not gate.passed else ''}, {code(gate.command)}, "
        f"{text.duration(gate.duration_ms / 1000)}"
        for gate in gates
    ]


def _review(what: str, review: Review) -> Iterator[str]:
    why = f" ({inline(review.reason)})" if review.reason else ""
    yield f"{what}: {review.decision}{why}, {review.summary}"
    for issue in review.issues[:_MOST]:
        yield f"  - {issue.severity}, {inline(issue.type, 40)}, {code(issue.place)}: {inline(issue.description)}"
    yield from (f"  {line}" for line in _more(len(review.issues) - _MOST, "issue"))


def _files(word: str, files: Sequence[str]) -> list[str]:
    return [f"{word}: {_codes(files)}"] if files else []


def _codes(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_FILES} more" if len(texts) > _MOST_FILES else ""
    return f"{', '.join(map(code, texts[:_MOST_FILES]))}{more}"


# Markdown of texts that others wrote


def inline(text: str, longest: int = 300) -> str:
    """The text as words on one line, also in a cell of a table; cut to `longest` characters."""
    words = _cut(" ".join(printable(text).split()), longest)
    words = _REFERS.sub(lambda found: f"{found[0]}{_APART}", words)
    words = _AT_THE_BEGINNING.sub(_not_a_mark, words)
    return _MEANS_SOMETHING.sub(r"\\\1", words.translate(_ENTITIES)) if words else ""


def code(text: str, longest: int = 200) -> str:
    """The text as it is, on one line in a code span; empty for an empty one. Not for a cell of a table."""
    words = _cut(" ".join(printable(text).split()), longest)
    if not words:
        return ""
    fence = "`" * (_longest_run(words) + 1)
    room = " " if words[0] == "`" or words[-1] == "`" else ""
    return f"{fence}{room}{words}{room}{fence}"


def block(text: str, longest: int = 3000) -> list[str]:
    """The lines of a fenced block that holds the text as it is; cut to `longest` characters. None for an empty text."""
    shown = printable_block(text).strip("\n")
    if not shown.strip():
        return []
    if len(shown) > longest:
        shown = f"{shown[:longest]}\n… {len(shown) - longest} characters left out …"
    fence = "`" * max(3, _longest_run(shown) + 1)
    return [f"{fence}text", *shown.split("\n"), fence]


def _not_a_mark(found: re.Match[str]) -> str:
    """A number is told from that of a list by what comes between it and its point, a mark by what comes before it."""
    return f"{found[0]}{_APART}" if found[0].isdigit() else f"{_APART}{found[0]}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def _longest_run(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
