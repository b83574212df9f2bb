"""The prompt of one iteration: stable parts first, so that a model's prefix cache hits, then what changes.

Stable is everything up to the table of statuses: two prompts in a row are identical up to it, because progress.txt is
append-only and what is left out of a long one moves in blocks of 50 entries.
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.run import expectations
from rulebook_ralph.run.template_sandbox import BrokenTemplateError, rendered
from rulebook_ralph.run.templates import BUILT_IN_ALONE, SUFFIX, VARIABLES, Templates
from rulebook_ralph.run.token_budget import Rest, cut, few
from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import LOOP_FIELDS, CompletionSummary, Prd, Stage, Task
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.tasks.text import BYTES_PER_TOKEN, Problem, one_line, some
from rulebook_ralph.tasks.text import estimated_tokens as tokens
from rulebook_ralph.verify import reviewers

STATUSES_HEADING = "# Statuses now"
BLOCK = 50
"""Entries of a long progress.txt are left out in blocks of this many."""

_MOVING = {*map(camel, LOOP_FIELDS), "status", "$extra", "metadata", "source", "completion", "overrides"}
"""Keys of a task that its prompt leaves out of the list."""
_TAG = re.compile(r"<\s*(promise|ralph)\s*>", re.IGNORECASE)
_PRD_SHARE = 0.30
_PROGRESS_SHARE = 0.30
_RULES_SHARE = 0.08
_DEPENDENCIES_SHARE = 0.05
_MOST_DEPENDENCIES = 20
_LONGEST_REPORT = 1_000
_SLACK = 100
"""Tokens for headings, numbers and the task's id."""
_TABLE_ROWS = 60
_BESIDE = (
    "Other agents work on other tasks at this moment, each in a clone of its own, and all of it is merged: change what "
    "this task needs and nothing else."
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt and where its stable part ends (characters)."""

    prompt: str
    stable_length: int

    @property
    def stable(self) -> str:
        return self.prompt[: self.stable_length]

    @property
    def moving(self) -> str:
        return self.prompt[self.stable_length :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that goes into a prompt, as values. `iteration` is that of this run, `changed` what was changed for the task
    so far; `last` is the attempt before, where this one goes on from it or answers to it; `standing` is the commit that
    completed the task before it was reopened, where its work still stands; `red` are the gates that were red on the
    base already; `beside`: other agents work at the same time.
    """

    config: Config
    prd: Prd
    task: Task
    stage: Stage
    base: str
    progress: str
    iteration: int
    max_iterations: int
    attempt: int
    changed: Sequence[str] = ()
    commits: Sequence[str] = ()
    feedback: str = ""
    last: Iteration | None = None
    standing: str = ""
    red: Sequence[CheckResult] = ()
    beside: bool = False


def render(situation: Situation, templates: Templates = BUILT_IN_ALONE) -> Prompt:
    """The prompt for a task; stays under `limits.promptTokens`. Raises BrokenTemplateError for a person's template.

    The stable parts have fixed shares, so that what changes below moves nothing in them; the rest shares what is left,
    the most important parts first.
    """
    name, most = f"{situation.stage}{SUFFIX}", situation.config.limits.prompt_tokens
    budget = max(0, most - _fixed_tokens(name, templates) - _SLACK)
    prompt = _without_tags(rendered(templates, name, variables(situation, budget)))
    if templates.own and (taken := tokens(prompt)) > most:
        told = f"the prompt would take {taken} tokens, more than limits.promptTokens ({most})"
        raise BrokenTemplateError(Problem(templates.blamed(situation.stage), None, "", told))
    return Prompt(prompt, prompt.find(f"\n{STATUSES_HEADING}\n") + 1)


def variables(situation: Situation, budget: int) -> dict[str, object]:
    """What a template is given (VARIABLES), in `budget` tokens, the task itself aside."""
    now, task, config = situation, situation.task, situation.config
    criteria = requirements.criteria_for(config, task, now.stage)
    stop_criteria = requirements.stop_criteria_for(config, task)
    looked_for = reviewers.looked_for(config, task, last_stage=requirements.stages_of(config, task)[-1] == now.stage)
    steps = (*map(expectations.gate, config.verification.gates), *expectations.required(stop_criteria))
    protect = [f"Change none of these files; an attempt that does is refused: {some(config.protect, 40)}."]
    rules = (*(protect if config.protect else ()), *requirements.rules_for(config, task), *([_BESIDE] * now.beside))
    told_rules = few(rules, int(budget * _RULES_SHARE))
    prd = task_list(now.prd, limit=int(budget * _PRD_SHARE))
    recent = recent_progress(now.progress, limit=int(budget * _PROGRESS_SHARE))
    rest = Rest(budget, budget - sum(map(tokens, (*told_rules, prd, recent))) - 2 * len(told_rules))
    return {
        "rules": told_rules,
        "prd": prd,
        "progress": recent,
        "statuses_heading": STATUSES_HEADING,
        "task": task,
        "stage": now.stage,
        "title": rest.text(" ".join(task.title.split()), 0.03),
        "steps": rest.items(steps, 0.05),
        "success": rest.text(criteria.description, 0.04),
        "checks": rest.items([*expectations.told(criteria, task), *expectations.reviewed(looked_for)], 0.05),
        "feedback": rest.text(now.feedback, 0.10),
        "criteria": rest.text("\n".join(f"- {criterion}" for criterion in task.acceptance_criteria), 0.15),
        "description": rest.text(task.description, 0.15),
        "red": rest.items(map(_red, now.red), 0.06),
        "may_change": rest.items(task.may_change, 0.01),
        "last": rest.items(_last_reported(now.last, now.standing), 0.05) if now.last else [],
        "outcome": rest.text(task.outcome, 0.03),
        "notes": rest.text(task.notes, 0.03),
        "statuses": rest.text(status_table(now.prd), 0.06),
        "dependencies": rest.items(_built_on(now.prd, task, int(budget * _DEPENDENCIES_SHARE)), _DEPENDENCIES_SHARE),
        "files": rest.items(task.relevant_files[:50], 0.03),
        "changed": rest.items(now.changed[:100], 0.03) if now.stage != "coder" else [],
        "base": now.base[:12],
        "commits": rest.text("\n".join(now.commits), 0.03),
        "promise": criteria.promise,
        "iteration": now.iteration,
        "max_iterations": now.max_iterations,
        "attempt": now.attempt,
        "max_attempts": requirements.max_attempts(config, task, now.stage),
    }


def _red(result: CheckResult) -> str:
    """A gate that was red before the task began, with what tells why."""
    failing = f"; failing: {some(result.failing, 10)}" if result.failing else ""
    output = feedback_excerpt(result.output, head=5, tail=25)
    told = f"{result.step} ({result.reason or 'failed'}{failing})"
    return f"{told}. Its output:\n{output}" if output.strip() else told


def _last_reported(last: Iteration, standing: str) -> Iterator[str]:
    """What the attempt before said and did, in its own words and by git."""
    parsed = last.parsed
    if standing:
        told = f"It was completed in commit {standing[:12]}, and reopened. That work still stands in the tree"
        yield f"{told}: see what of the task is missing or wrong now, with: git show {standing[:12]}"
    if parsed is not None and parsed.summary:
        yield f"It reported ({parsed.status}): {one_line(parsed.summary, _LONGEST_REPORT)}"
    if parsed is not None and parsed.errors:
        errors = "; ".join(one_line(error, 300) for error in parsed.errors[:10])
        yield f"It said that this is still wrong: {errors}"
    if last.files_changed:
        kept = "were put back" if last.rolled_back else "stand in the tree as it left them"
        yield f"These files it had changed, and they {kept}: {some(last.files_changed, 40)}"
    if last.evidence is not None and last.evidence.broken:
        yield f"Tests that passed before the task and failed after that attempt: {some(last.evidence.broken, 20)}"
    if last.verdict is not None and last.verdict.action != "complete" and last.verdict.reason:
        yield f"It was refused: {one_line(last.verdict.reason, _LONGEST_REPORT)}"


def _built_on(prd: Prd, task: Task, limit: int) -> list[str]:
    """What each task that this one needs brought about, in equal parts of `limit` tokens."""
    needed = task.dependencies[:_MOST_DEPENDENCIES]
    return [brought_about(prd.task(each), limit // len(needed) - 2) for each in needed]


def brought_about(task: Task, limit: int) -> str:
    """A task for those that build on it, in `limit` tokens: the words, then as many files as fit."""
    whole = cut(one_line(f"{task.id}: {task.title}{'. ' + task.summary if task.summary else ''}", 4 * limit), limit)
    facts = task.completion_summary or CompletionSummary()
    for name, files in (("files created", facts.files_created), ("files modified", facts.files_modified)):
        for most in (20, 5):
            longer = f"{whole}\n  {name}: {some(files, most)}"
            if files and tokens(longer) <= limit:
                whole = longer
                break
    return whole


def _without_tags(prompt: str) -> str:
    """The prompt never spells out a tag that Ralph reads, so that an agent that repeats it claims nothing."""
    return _TAG.sub(r"[\1]", prompt)


def task_list(prd: Prd, *, limit: int) -> str:
    """The PRD without its moving fields: as JSON while it fits `limit` tokens, else a table of ids and titles."""
    if sum(len(task.description) for task in prd.tasks) < limit * BYTES_PER_TOKEN:
        whole = _static_json(prd)
        if tokens(whole) + 4 <= limit:
            return f"```json\n{whole}\n```"
    rows: list[str] = []
    room = limit * BYTES_PER_TOKEN - 300
    for task in prd.tasks:
        row = f"- {task.id} (priority {task.priority}): {' '.join(task.title[:120].split())}"
        room -= len(row.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        rows.append(row)
    left_out = len(prd.tasks) - len(rows)
    note = f"{len(prd.tasks)} tasks; too many to be shown whole"
    more = [f"… and {left_out} more tasks"] if left_out else []
    return "\n".join([f"Project {prd.project[:40]}: {note}.", *rows, *more])


def recent_progress(text: str, *, limit: int) -> str:
    """progress.txt while it fits `limit` tokens; else its newest entries and the learnings of those left out."""
    if tokens(text) <= limit:
        return text.rstrip("\n") + "\n"
    entries = progress.entries(text)
    if not entries:
        return cut(text, limit).rstrip("\n") + "\n"
    room = int(limit * 0.75)
    dropped = _left_out([entry.text for entry in entries], room * BYTES_PER_TOKEN)
    kept = (cut(entry.text, room // 2) for entry in entries[dropped:])
    learnings = _learnings(entries[:dropped], room=int(limit * 0.15) * BYTES_PER_TOKEN)
    note = f"({dropped} older entries are left out here)"
    return "\n".join([note, *learnings, *(text.rstrip("\n") for text in kept)]) + "\n"


def _left_out(entries: Sequence[str], room: int) -> int:
    """How many of the oldest entries to leave out so that the others fit `room` bytes.

    They go in blocks of BLOCK entries, or of half the room where those would be longer: what stays begins at the same
    entry for as long as possible.
    """
    sizes = [min(len(entry.encode("utf-8", "replace")), room // 2) for entry in entries]
    starts, block = [0], 0
    for index, size in enumerate(sizes):
        if index - starts[-1] == BLOCK or (block and block + size > room // 2):
            starts.append(index)
            block = 0
        block += size
    total = sum(sizes)
    for start, following in itertools.pairwise(starts):
        if total <= room:
            return start
        total -= sum(sizes[start:following])
    return starts[-1]


def status_table(prd: Prd) -> str:
    """Counts, and the status of every task, or of those that matter now when they are many."""
    by_status: dict[str, list[Task]] = {"in_iteration": [], "blocked": [], "pending": [], "completed": []}
    for task in prd.tasks:
        by_status[task.status].append(task)
    lines = [", ".join(f"{len(tasks)} {status}" for status, tasks in by_status.items()) + f", {len(prd.tasks)} in all"]
    few = len(prd.tasks) <= _TABLE_ROWS
    for status, tasks in by_status.items():
        shown = tasks if few else (tasks[-10:] if status == "completed" else tasks[:20])
        lines += [f"- {task.id}: {status}" + _why(task) for task in shown]
        if len(shown) < len(tasks):
            lines.append(f"- … {len(tasks) - len(shown)} more {status}")
    return "\n".join(lines)


def _why(task: Task) -> str:
    return f" ({' '.join(task.blocked_reason.split())[:200]})" if task.blocked_reason else ""


def _learnings(entries: Sequence[progress.ProgressEntry], *, room: int) -> list[str]:
    """What older entries taught, each once, the newest that fit."""
    seen: set[str] = set()
    lines: list[str] = []
    for learning in (learning for entry in reversed(entries) for learning in entry.learnings):
        if progress.folded(learning) in seen:
            continue
        seen.add(progress.folded(learning))
        room -= len(learning.encode("utf-8", "replace")) + 3
        if room < 0:
            break
        lines.append(f"- {learning}")
    return ["Learned in older iterations:", *reversed(lines)] if lines else []


def _static_json(prd: Prd) -> str:
    tasks = [
        {key: value for key, value in msgspec.to_builtins(task).items() if key not in _MOVING and value not in ("", ())}
        for task in prd.tasks
    ]
    whole = {"project": prd.project, "description": prd.description, "tasks": tasks}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode("utf-8")


@functools.lru_cache(maxsize=32)
def _fixed_tokens(name: str, templates: Templates) -> int:
    """What a template itself takes, with all of its headings."""
    numbers = dict.fromkeys(("iteration", "max_iterations", "attempt", "max_attempts"), 1)
    values = {**dict.fromkeys(VARIABLES, "-"), **numbers, "task": Task(id="-", title="-")}
    return tokens(rendered(templates, name, values))
