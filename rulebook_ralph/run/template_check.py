"""Whether prompts can be made of a project's templates: each stage's is made for a bare task and for one that has all.

Nothing is looked at, and jinja2 not loaded, where a project has no templates of its own.
"""

import difflib
from collections.abc import Iterator
from pathlib import Path

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import templates
from rulebook_ralph.run.templates import PLAN, PURPOSES, Templates
from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import CompletionSummary, Prd, Stage, Task
from rulebook_ralph.tasks.results import CheckResult, ParsedIteration
from rulebook_ralph.tasks.text import Fault, Problem

_BEFORE = Task(
    id="sample-before",
    title="A sample",
    status="completed",
    summary="It is there.",
    completion_summary=CompletionSummary(files_created=("a/file.txt",)),
)
_SAMPLE = Task(
    id="sample",
    title="A sample",
    description="What it does.",
    dependencies=("sample-before",),
    acceptance_criteria=("It works.",),
    outcome="It is there.",
    relevant_files=("a/file.txt",),
    may_change=("a/golden.txt",),
    notes="A note.",
)
_LAST = Iteration(
    iteration_number=1,
    phase="settled",
    task_id="sample",
    stage="coder",
    attempt=1,
    agent="sample",
    timestamp="",
    started_at="",
    base_commit="0" * 40,
    files_changed=("a/file.txt",),
    parsed=ParsedIteration(summary="A sample."),
    checks=(CheckResult(step="tests", command="make test", passed=False, output="A sample of output."),),
)
_BARE = Task(id="sample-bare", title="A sample")
_SAMPLES = Prd(version=1, project="sample", tasks=(_BEFORE, _SAMPLE, _BARE))


def problems(root: Path, config: Config | None = None, prd: Prd | None = None) -> tuple[Problem, ...]:
    """Everything wrong with the templates of the project at `root`; with a task list, also for its first open tasks."""
    read, found = templates.read(StateFolder(root).templates)
    if not read.own:
        return found
    config = config or Config()
    cases = [(stage, _SAMPLES, task) for stage in STAGES for task in (_BARE, _SAMPLE)]
    if prd is not None:
        cases += [(stage, prd, task) for stage, task in _first_open(config, prd).items()]
    broken = (_unmakable(read, config, *case) for case in cases)
    told = tuple(dict.fromkeys(each for each in (*broken, _unmakable_plan(read)) if each is not None))
    return (*found, *told, *(() if told else _unused(read)))


def require_good(root: Path, config: Config, prd: Prd) -> None:
    """Raises RalphError with the first problem."""
    if found := problems(root, config, prd):
        raise RalphError(f"{found[0]}; mend it, or remove the file to have the built-in prompt back")


def _first_open(config: Config, prd: Prd) -> dict[Stage, Task]:
    """For each stage that is worked on, the first task that is still open."""
    found: dict[Stage, Task] = {}
    for task in prd.tasks:
        if task.status != "completed":
            for stage in requirements.stages_of(config, task):
                found.setdefault(stage, task)
    return found


def _unmakable(read: Templates, config: Config, stage: Stage, prd: Prd, task: Task) -> Problem | None:
    """Why the prompt of a stage cannot be made; but for the sample it is that of a first attempt."""
    from rulebook_ralph.run import prompt as prompts  # noqa: PLC0415 - jinja2
    from rulebook_ralph.run.template_sandbox import BrokenTemplateError  # noqa: PLC0415

    later = task is _SAMPLE
    situation = prompts.Situation(
        prd=prd,
        task=task,
        stage=stage,
        criteria=requirements.criteria_for(config, task, stage),
        stop_criteria=requirements.stop_criteria_for(config, task),
        base="0" * 40,
        changed=("a/file.txt",) if later else (),
        progress=progress.header("sample", created_at="2026-01-01T00:00:00.000Z", task_count=1),
        commits=("0000000 a commit",) if later else (),
        rules=("A rule.",) if later else requirements.rules_for(config, task),
        steps=(VerificationStep(name="tests", command="make test"),) if later else config.verification.steps,
        feedback="A sample of feedback." if later else "",
        iteration=1,
        max_iterations=9,
        attempt=1,
        max_attempts=9,
        prompt_tokens=config.limits.prompt_tokens,
        codebase=("A fact.",) if later else (),
        last=_LAST if later else None,
        red=_LAST.checks if later else (),
    )
    try:
        prompt = prompts.render(situation, read).text
    except BrokenTemplateError as error:
        return error.problem
    asked, promise = situation.stop_criteria, situation.criteria.promise
    if promise in prompt or not asked.require_promise or asked.success_regex:
        return None
    told = f"the prompt of the stage {stage} does not say what completes it; have {{{{ promise }}}} in it"
    return Problem(read.blamed(stage), None, "", told)


def _unmakable_plan(read: Templates) -> Problem | None:
    """Why nobody can be asked for a plan, at first or again."""
    if PLAN not in read.names:
        return None
    from rulebook_ralph.run.planning import Planning  # noqa: PLC0415 - few projects have one
    from rulebook_ralph.run.template_sandbox import BrokenTemplateError  # noqa: PLC0415

    try:
        planning = Planning(Config(), _SAMPLES, "What is wanted.", {}, str, read)
        planning.question()
        planning.question((("A question?", "An answer."),), 1, "{}", (Fault((), "A fault."),))
    except BrokenTemplateError as error:
        return error.problem
    return None


def _unused(read: Templates) -> Iterator[Problem]:
    """Templates of other names than the built-in ones that no other includes: misspelt, most likely."""
    from rulebook_ralph.run.template_sandbox import referenced  # noqa: PLC0415 - jinja2

    for name in sorted(read.names - PURPOSES.keys() - referenced(read)):
        near = difflib.get_close_matches(name, PURPOSES, n=1)
        told = f"did you mean {near[0]}?" if near else "include it in one, or remove it"
        yield Problem(templates.shown(name), None, "", f"no prompt uses it; {told}")
