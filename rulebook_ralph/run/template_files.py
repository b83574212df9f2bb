"""A project's own templates: whether prompts can be made of them, and what holds of them while a run goes on."""

from collections.abc import Callable, Iterator
from pathlib import Path

from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import prompt, templates
from rulebook_ralph.run.planning import Planning
from rulebook_ralph.run.prompt import Prompt, Situation
from rulebook_ralph.run.template_sandbox import BrokenTemplateError
from rulebook_ralph.run.templates import BUILT_IN_ALONE, PURPOSES, Templates
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Prd, Stage, Task
from rulebook_ralph.tasks.results import CheckResult, ParsedIteration
from rulebook_ralph.tasks.text import Fault, Problem, nearest

_SAMPLE = Task(
    id="sample",
    title="A sample",
    description="What it does.",
    dependencies=("sample-bare",),
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
    parsed=ParsedIteration(summary="A sample."),
)
_RED = CheckResult(step="tests", command="make test", passed=False, output="A sample of output.")
_BARE = Task(id="sample-bare", title="A sample")
_SAMPLES = Prd(version=1, project="sample", tasks=(_SAMPLE, _BARE))


class TemplateFiles:
    """Makes the prompts of a run. `say` is told once of each edit: that it holds now, or why the last one goes on."""

    def __init__(self, folder: Path, say: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._say = say
        self._seen = templates.fingerprints(folder)
        self._good = templates.read(folder)[0]

    def prompt(self, situation: Situation) -> Prompt:
        """The prompt by the templates as they stand now; by the last good ones where these are broken, and where no
        others were good, by the built-in ones: an agent that can work is not kept from it.
        """
        self._take_edits(situation)
        try:
            return prompt.render(situation, self._good)
        except BrokenTemplateError as error:
            self._say("warning", f"{error}; this prompt is the built-in one")
            return prompt.render(situation, BUILT_IN_ALONE)

    def _take_edits(self, situation: Situation) -> None:
        now = templates.fingerprints(self._folder)
        if now == self._seen:
            return
        self._seen = now
        read, problems = templates.read(self._folder)
        problem = str(problems[0]) if problems else ""
        try:
            prompt.render(situation, read)
        except BrokenTemplateError as error:
            problem = problem or str(error)
        if problem:
            self._say("warning", f"{problem}; going on with the templates as they were")
            return
        if read != self._good:
            self._good = read
            self._say("info", "the templates were edited: going on with them")


def problems(root: Path, config: Config | None = None, prd: Prd | None = None) -> tuple[Problem, ...]:
    """Everything wrong with the templates of the project at `root`: each stage's prompt is made for a bare task, for
    one that has all, and for the first open one of a task list.
    """
    read, found = templates.read(StateFolder(root).templates)
    if not read.own:
        return found
    config = config or Config()
    cases = [(_SAMPLES, _BARE), (_SAMPLES, _SAMPLE)]
    if prd is not None:
        cases += [(prd, task) for task in prd.tasks if task.status != "completed"][:1]
    broken = [_unmakable(read, config, stage, *case) for stage in STAGES for case in cases]
    told = tuple(dict.fromkeys(each for each in (*broken, _unmakable_plan(read)) if each is not None))
    return (*found, *told, *(() if told else _unused(read)))


def require_good(root: Path, config: Config, prd: Prd) -> None:
    """Raises RalphError with the first problem."""
    if found := problems(root, config, prd):
        raise RalphError(f"{found[0]}; mend it, or remove the file to have the built-in prompt back")


def _unmakable(read: Templates, config: Config, stage: Stage, prd: Prd, task: Task) -> Problem | None:
    """Why the prompt of a stage cannot be made; but for the sample it is that of a first attempt."""
    later = task is _SAMPLE
    situation = Situation(
        config=config,
        prd=prd,
        task=task,
        stage=stage,
        base="0" * 40,
        progress="",
        iteration=1,
        max_iterations=9,
        attempt=1,
        changed=("a/file.txt",) if later else (),
        commits=("0000000 a commit",) if later else (),
        feedback="A sample of feedback." if later else "",
        last=_LAST if later else None,
        red=(_RED,) if later else (),
    )
    try:
        text = prompt.render(situation, read).prompt
    except BrokenTemplateError as error:
        return error.problem
    asked = requirements.stop_criteria_for(config, task)
    promise = requirements.criteria_for(config, task, stage).promise
    if promise in text or not asked.require_promise or asked.success_regex:
        return None
    told = f"the prompt of the stage {stage} does not say what completes it; have {{{{ promise }}}} in it"
    return Problem(read.blamed(stage), None, "", told)


def _unmakable_plan(read: Templates) -> Problem | None:
    """Why nobody can be asked for a plan, at first or again."""
    try:
        planning = Planning(Config(), _SAMPLES, "What is wanted.", {}, str, read)
        planning.question()
        planning.question((("A question?", "An answer."),), 1, "{}", (Fault((), "A fault."),))
    except BrokenTemplateError as error:
        return error.problem
    return None


def _unused(read: Templates) -> Iterator[Problem]:
    """Templates of other names than the built-in ones that no other names: misspelt, most likely."""
    for name in sorted(read.names - PURPOSES.keys()):
        if not any(name in text for other, text in read.own if other != name):
            near = nearest(name, PURPOSES)
            told = f"did you mean {near}?" if near else "include it in one, or remove it"
            yield Problem(templates.shown(name), None, "", f"no prompt uses it; {told}")
