"""The prompt of one iteration: stable parts first, so that a model's prefix cache hits, then what changes.

Stable is everything up to the table of statuses: two prompts in a row are identical up to it, because progress.txt is
append-only and what is left out of a long one moves in blocks of entries.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, StopCriteria, VerificationStep
from rulebook_ralph.run import templates
from rulebook_ralph.run.excerpts import Rest, built_on, few, recent_progress, status_table, task_list
from rulebook_ralph.run.project import Say
from rulebook_ralph.run.templates import BUILT_IN_ALONE, SUFFIX, VARIABLES, BrokenTemplateError, Templates
from rulebook_ralph.tasks.criteria import External, MultiStage, Semantic, Verification, with_acceptance_criteria
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Prd, Stage, Task
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.tasks.text import estimated_tokens as tokens
from rulebook_ralph.tasks.text import one_line, some
from rulebook_ralph.verify import reviewers

STATUSES_HEADING = "# Statuses now"

_TAG = re.compile(r"<\s*(promise|ralph)\s*>", re.IGNORECASE)
_PRD_SHARE = 0.30
_PROGRESS_SHARE = 0.30
_RULES_SHARE = 0.08
_DEPENDENCIES_SHARE = 0.05
_LONGEST_REPORT = 1_000
_SLACK = 100
"""Tokens for headings, numbers and the task's id."""
_BESIDE = (
    "Other agents work on other tasks at this moment, each in a clone of its own, and all of it is merged: change what "
    "this task needs and nothing else."
)
_REQUIRED = (
    ("require_passing_tests", "A gate of the kind test must have run and passed."),
    ("require_lint", "A gate of the kind lint must have run and passed."),
    ("require_type_check", "A gate of the kind typecheck must have run and passed."),
    ("require_no_errors", "The last run of each command that you use must have succeeded."),
)


class Prompt(NamedTuple):
    """A prompt in two parts."""

    stable: str
    moving: str

    @property
    def prompt(self) -> str:
        return self.stable + self.moving


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


def render(situation: Situation, own: Templates = BUILT_IN_ALONE) -> Prompt:
    """The prompt for a task; stays under `limits.promptTokens`. Raises BrokenTemplateError for a person's template.

    The stable parts have fixed shares, so that what changes below moves nothing in them; the rest shares what is left,
    the most important parts first.
    """
    name, most = f"{situation.stage}{SUFFIX}", situation.config.limits.prompt_tokens
    budget = max(0, most - _fixed_tokens(name, own) - _SLACK)
    # a tag that Ralph reads is never spelt out, so that an agent that repeats its prompt claims nothing
    prompt = _TAG.sub(r"[\1]", own.rendered(name, variables(situation, budget)))
    own.require_length(prompt, situation.stage, most)
    stable = prompt.find(f"\n{STATUSES_HEADING}\n") + 1
    return Prompt(prompt[:stable], prompt[stable:])


def variables(situation: Situation, budget: int) -> dict[str, object]:
    """What a template is given (VARIABLES), in `budget` tokens, the task itself aside."""
    now, task, config = situation, situation.task, situation.config
    criteria = requirements.criteria_for(config, task, now.stage)
    stop_criteria = requirements.stop_criteria_for(config, task)
    looked_for = reviewers.looked_for(config, task, last_stage=requirements.stages_of(config, task)[-1] == now.stage)
    steps = (*map(gate_line, config.verification.gates), *_required(stop_criteria))
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
        "checks": rest.items([*criteria_lines(criteria.verification, task), *_reviewed(looked_for)], 0.05),
        "feedback": rest.text(now.feedback, 0.10),
        "criteria": rest.text("\n".join(f"- {criterion}" for criterion in task.acceptance_criteria), 0.15),
        "description": rest.text(task.description, 0.15),
        "red": rest.items(map(_red, now.red), 0.06),
        "may_change": rest.items(task.may_change, 0.01),
        "last": rest.items(_last_reported(now.last, now.standing), 0.05) if now.last else [],
        "outcome": rest.text(task.outcome, 0.03),
        "notes": rest.text(task.notes, 0.03),
        "statuses": rest.text(status_table(now.prd), 0.06),
        "dependencies": rest.items(built_on(now.prd, task, int(budget * _DEPENDENCIES_SHARE)), _DEPENDENCIES_SHARE),
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


@functools.lru_cache(maxsize=32)
def _fixed_tokens(name: str, own: Templates) -> int:
    """What a template itself takes, with all of its headings."""
    return tokens(own.rendered(name, templates.sample(VARIABLES, full=True) | {"task": Task(id="-", title="-")}))


class TemplateFiles:
    """Makes the prompts of a run. `say` is told once of each edit: that it holds now, or why the last one goes on."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder
        self._say = say
        self._read = templates.read(folder)
        self._good = self._read[0]

    def prompt(self, situation: Situation) -> Prompt:
        """The prompt by the templates as they stand now; by the last good ones where these are broken, and where no
        others were good, by the built-in ones: an agent that can work is not kept from it.
        """
        before, self._read = self._read, templates.read(self._folder)
        if self._read != before:
            self._take_edits(situation)
        try:
            return render(situation, self._good)
        except BrokenTemplateError as error:
            self._say("warning", f"{error}; this prompt is the built-in one")
            return render(situation)

    def _take_edits(self, situation: Situation) -> None:
        edited, problems = self._read
        problem = str(problems[0]) if problems else ""
        try:
            render(situation, edited)
        except BrokenTemplateError as error:
            problem = problem or str(error)
        if problem:
            self._say("warning", f"{problem}; going on with the templates as they were")
        elif edited != self._good:
            self._good = edited
            self._say("info", "the templates were edited: going on with them")


# How a stage's verification is told to the agent, one line for each thing that must hold


def gate_line(step: VerificationStep) -> str:
    """A gate: its command, where it runs, and when it is left out."""
    notes = [
        "" if step.working_dir == "." else f"in {step.working_dir}",
        "" if step.required else "a warning only",
        f"for changes of {some(step.when)}" if step.when else "",
    ]
    told = ", ".join(filter(None, notes))
    return f"{step.name}: `{step.command}`{f' ({told})' if told else ''}"


def _required(stop: StopCriteria) -> list[str]:
    """What the stop criteria ask for besides the promise. A pattern is not spelled out: an agent that repeats its
    prompt has not matched it.
    """
    told = [text for name, text in _REQUIRED if getattr(stop, name)]
    if stop.success_regex:
        how = "stands for the promise below" if stop.require_promise else "must be in your final message"
        told.append(f"A text that the project's own pattern matches (stopCriteria.successRegex) {how}.")
    return told


def criteria_lines(verification: Verification, task: Task) -> Iterator[str]:
    """What a stage's criteria verify."""
    if isinstance(verification, External):
        yield f"Ralph runs `{verification.command}`; it must {_expected(verification)}."
    elif isinstance(verification, Semantic):
        if verification.negative_patterns:
            texts = ", ".join(verification.negative_patterns)
            yield f"Nothing that you add, nor your final message, may contain: {texts}."
        if wanted := "; ".join(_criteria(verification, task)):
            yield f"A model judges on the diff, with a file and line for each, whether all of these hold: {wanted}"
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            for line in criteria_lines(part.verification, task):
                yield f"{part.name}: {line}{'' if part.required else ' (a warning only)'}"


def _reviewed(looked_for: Sequence[str]) -> list[str]:
    """That somebody reviews the work, and for what; nothing where nobody does."""
    names = list(dict.fromkeys(" ".join(each.replace("_", " ").split()) for each in looked_for))
    told = f"Last, a reviewer sees the task and the diff, looks for {some(names, 20)}, and must find nothing to mend."
    return [told] if names else []


def _criteria(verification: Semantic, task: Task) -> Iterator[str]:
    for text in verification.check_for:
        asked = with_acceptance_criteria(text, task.acceptance_criteria, without="the task is done as described")
        spelled_out_above = asked != (text,) and asked == task.acceptance_criteria
        yield "the acceptance criteria above" if spelled_out_above else "; ".join(asked)


def _expected(external: External) -> str:
    parts = [f"end with exit code {external.success_exit_code}"]
    if external.output_contains:
        parts.append(f"print {external.output_contains!r}")
    if external.output_not_contains:
        parts.append(f"not print {external.output_not_contains!r}")
    return " and ".join(parts)
