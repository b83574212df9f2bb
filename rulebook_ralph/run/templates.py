"""The templates that prompts are made of: those built in, and a person's own in their place.

A person's stand in `.rulebook-ralph/templates/`, by the name of the built-in one that they replace, or by a name of
their own that another of them includes. `builtin/NAME` is always the built-in one. They are read once, whole, as
values, and may have come with a clone: they see what they are given, and open no file. What comes out is bounded, and
so are ranges, products and powers. That a template takes long is its owner's to see.
"""

import functools
import itertools
import re
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rulebook_ralph import resources
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import STATE_FOLDER, Prd, Task
from rulebook_ralph.tasks.text import LONGEST_MESSAGE, Problem, escaped, nearest
from rulebook_ralph.tasks.text import estimated_tokens as tokens

SUFFIX = ".md.j2"
PLAN = f"plan{SUFFIX}"
BUILT_IN = "builtin/"
SHOWN_FOLDER = f"{STATE_FOLDER}/templates"

PURPOSES: Mapping[str, str] = {
    f"frame{SUFFIX}": "what the prompts of all stages have in common; they fill its blocks role, stage and change",
    f"coder{SUFFIX}": "the prompt of the stage coder",
    f"reviewer{SUFFIX}": "the prompt of the stage reviewer",
    f"tester{SUFFIX}": "the prompt of the stage tester",
    f"qa{SUFFIX}": "the prompt of the stage qa",
    PLAN: "what `ralph plan` asks a planner, in its blocks role and rules; it has variables of its own",
}
"""The built-in templates and what each is for."""

VARIABLES: Mapping[str, str] = {
    "rules": "list: the rules of the project and the task",
    "prd": "the task list without what moves in it, as JSON or as a table",
    "progress": "progress.txt, or its newest entries and what the older ones taught",
    "statuses_heading": "the line that ends what is the same in one prompt after another, for a model's cache",
    "statuses": "how many tasks have which status, and which",
    "commits": "the last commits, one a line",
    "dependencies": "list: what each task that this one needs brought about",
    "files": "list: the task's relevantFiles",
    "task": "the task as it stands in prd.json: task.id, task.priority, task.metadata, …; not cut to the budget",
    "title": "the task's title",
    "description": "the task's description",
    "outcome": "the task's outcome",
    "criteria": "the task's acceptance criteria, one a line",
    "notes": "the task's notes",
    "stage": "coder, reviewer, tester or qa",
    "success": "what the stage must bring about, as its criteria describe it",
    "steps": "list: the gates, and what the stop criteria ask for",
    "may_change": "list: globs of check files that the task may change without being asked",
    "red": "list: the gates that were red before the task began, each with its output",
    "last": "list: what the last attempt reported, changed and was refused for",
    "checks": "list: what else the stage's criteria have Ralph look at",
    "promise": "the word that the agent is to give when all is done",
    "changed": "list: files changed for the task so far; empty for the coder",
    "base": "the commit that the work is compared with, 12 characters",
    "feedback": "why the last attempt did not do; empty at the first",
    "iteration": "number of the iteration in this run",
    "max_iterations": "the most iterations of this run",
    "attempt": "number of the attempt at this stage of the task",
    "max_attempts": "the most attempts at it",
}
"""What every template but PLAN can use. Texts unless it says list or number; all but `task` are cut to
`limits.promptTokens`.
"""

PLAN_VARIABLES: Mapping[str, str] = {
    "faults": "list: what is wrong with the answer before; empty at first",
    "questions_left": "number of the questions that may be asked; 0 where nobody is there",
    "most_tasks": "number of the tasks that a plan may have",
    "stages": "list: the stages that the tasks go through",
    "has_gates": "whether a required gate is configured",
}
"""What PLAN can use. It makes the instructions; what is wanted and the project follow them as data."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,99}}{re.escape(SUFFIX)}")
_LARGEST = 1 << 20
"""Bytes of a template."""
_LONGEST = 8 << 20
"""Characters of a prompt."""
_LARGEST_RESULT = {"*": 1_000_000, "**": 10_000}
"""The most that the sides of an operation may come to when they are multiplied."""


class BrokenTemplateError(RalphError):
    """A template that no prompt can be made of, with its file and line."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem}; mend it, or remove the file to have the built-in prompt back")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Templates:
    """A person's own templates, name and text, as they were at one moment; without any the built-in ones hold."""

    own: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.own)

    def found(self, name: str) -> tuple[str, str] | None:
        """The text of the template that a prompt means by a name, and the file that messages name; None without one."""
        for each, text in self.own:
            if each == name:
                return text, shown(name)
        plain = name.removeprefix(BUILT_IN)
        return (built_in(plain), f"{BUILT_IN}{plain}") if plain in PURPOSES else None

    def blamed(self, stage: str, told: str) -> Problem:
        """What is wrong with a stage's prompt as a whole, at the file that most likely makes it."""
        likely = (f"{stage}{SUFFIX}", f"frame{SUFFIX}", *sorted(self.names))
        return Problem(shown(next(name for name in likely if name in self.names)), None, "", told)

    def rendered(self, name: str, values: Mapping[str, object]) -> str:
        """The text that a template gives. Raises BrokenTemplateError whatever goes wrong in it."""
        try:
            return _bounded(_environment(self).get_template(name).generate(values))
        except Exception as error:
            raise BrokenTemplateError(_problem(error, name, values)) from error

    def require_length(self, text: str, stage: str, most: int) -> None:
        """Raises BrokenTemplateError where a stage's prompt takes more than `most` tokens, and one of these made it."""
        if self.own and (taken := tokens(text)) > most:
            told = f"the prompt would take {taken} tokens, more than limits.promptTokens ({most})"
            raise BrokenTemplateError(self.blamed(stage, told))


BUILT_IN_ALONE = Templates()


def built_in(name: str) -> str:
    """The text of a built-in template, one of PURPOSES."""
    return resources.template_text(f"prompts/{name}")


def shown(name: str) -> str:
    """A template of a person's own as messages name it."""
    return f"{SHOWN_FOLDER}/{name}"


# A person's own


def read(folder: Path) -> tuple[Templates, tuple[Problem, ...]]:
    """The templates in that folder, and what stands there and is none. No link is followed."""
    if folder.is_symlink():
        return Templates(), (Problem(SHOWN_FOLDER, None, "", "is a symbolic link; make it a folder"),)
    own: list[tuple[str, str]] = []
    found: list[Problem] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith((".", "#")) or path.name.endswith(("~", ".orig")):
            continue  # what editors and systems leave there
        try:
            own.append((path.name, _text(path)))
        except RalphError as error:
            found.append(Problem(shown(escaped(path.name)), None, "", str(error)))
    return Templates(tuple(own)), tuple(found)


def _text(path: Path) -> str:
    """Raises RalphError with why that is no template, and what to do."""
    if not _NAME.fullmatch(path.name):
        stem = path.name.partition(".")[0]
        hint = f"did you mean {stem}{SUFFIX}?" if f"{stem}{SUFFIX}" in PURPOSES else "rename it or move it away"
        raise RalphError(f"is no name of a template, such as coder{SUFFIX}; {hint}")
    try:
        return disk.read_file(path, largest=_LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RalphError("is not UTF-8 text; save it as such") from None
    except OSError as error:
        raise RalphError(f"cannot be read: {error.strerror or error}") from error


def problems(root: Path, config: Config | None = None, prd: Prd | None = None) -> tuple[Problem, ...]:
    """Everything wrong with the templates of the project at `root`: each is tried with nothing in its variables, with
    something in all of them, and with the first open task of a task list.
    """
    own, found = read(StateFolder(root).templates)
    if not own.own:
        return found
    tasks = [task for task in prd.tasks if task.status != "completed"][:1] if prd else []
    broken = tuple(dict.fromkeys(_broken(own, config or Config(), tasks)))
    return (*found, *(broken or _unused(own)))


def require_good(root: Path, config: Config, prd: Prd) -> None:
    """Raises RalphError with the first problem."""
    if found := problems(root, config, prd):
        raise RalphError(f"{found[0]}; mend it, or remove the file to have the built-in prompt back")


def sample(described: Mapping[str, str], *, full: bool) -> dict[str, object]:
    """A value for each variable: something in all of them, or nothing in all that may be empty."""
    text = "-" if full else ""
    kinds: Mapping[str, object] = {"list:": [text] if full else [], "number": 1, "whether": full}
    return {name: kinds.get(what.split()[0], text) for name, what in described.items()}


def _broken(own: Templates, config: Config, tasks: Sequence[Task]) -> Iterator[Problem]:
    """Why the prompt of a stage, or that for a plan, cannot be made or would not do."""
    sampled = Task(id="sample", title="A sample")
    cases = [(sampled, False), (sampled, True), *((task, False) for task in tasks)]
    for stage, (task, full) in itertools.product(STAGES, cases):
        promise = requirements.criteria_for(config, task, stage).promise
        asked = requirements.stop_criteria_for(config, task)
        given = {"task": task, "stage": stage, "promise": promise, "base": "0" * 12}
        try:
            text = own.rendered(f"{stage}{SUFFIX}", sample(VARIABLES, full=full) | given)
            own.require_length(text, stage, config.limits.prompt_tokens)
        except BrokenTemplateError as error:
            yield error.problem
            continue
        if promise not in text and asked.require_promise and not asked.success_regex:
            told = f"the prompt of the stage {stage} does not say what completes it; have {{{{ promise }}}} in it"
            yield own.blamed(stage, told)
    for full in (False, True):
        try:
            own.rendered(PLAN, sample(PLAN_VARIABLES, full=full) | {"questions_left": int(full)})
        except BrokenTemplateError as error:
            yield error.problem


def _unused(own: Templates) -> Iterator[Problem]:
    """Templates of other names than the built-in ones that no other names: misspelt, most likely."""
    for name in sorted(own.names - PURPOSES.keys()):
        if not any(name in text for other, text in own.own if other != name):
            near = nearest(name, PURPOSES)
            told = f"did you mean {near}?" if near else "include it in one, or remove it"
            yield Problem(shown(name), None, "", f"no prompt uses it; {told}")


# Rendering


def _bounded(pieces: Iterable[str]) -> str:
    whole, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > _LONGEST:
            raise SecurityError(f"the prompt is longer than {_LONGEST} characters")
        whole.append(piece)
    return "".join(whole)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(_LARGEST_RESULT)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        sizes = [abs(side) if isinstance(side, (int, float)) else len(side) for side in (left, right)]
        if sizes[0] * sizes[1] > _LARGEST_RESULT[operator]:
            raise SecurityError(f"a result of {operator} would be too large")
        return super().call_binop(context, operator, left, right)


@functools.lru_cache(maxsize=8)
def _environment(templates: Templates) -> _Sandbox:
    def load(name: str) -> tuple[str, str, Any] | None:
        found = templates.found(name)
        return found and (*found, None)

    environment = _Sandbox(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        optimized=False,  # else constants are worked out where nothing is intercepted
    )
    del environment.globals["lipsum"]
    return environment


def _problem(error: Exception, name: str, values: Mapping[str, object]) -> Problem:
    """What went wrong, at the innermost line of a template."""
    file, line = shown(name), None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith((BUILT_IN, SHOWN_FOLDER)):
            file, line = frame.f_code.co_filename, number
    if isinstance(error, jinja2.TemplateSyntaxError):
        file, line = error.filename or file, error.lineno
    return Problem(file, line, "", escaped(_message(error, values), LONGEST_MESSAGE))


def _message(error: Exception, known: Collection[str]) -> str:
    match error:
        case RecursionError():
            return f"templates extend or include each other without end; the built-in one of a name is {BUILT_IN}NAME"
        case jinja2.UndefinedError():
            told = str(error)
            near = nearest(told.split("'")[1] if "'" in told else told, known)
            return f"{told}; " + (f"did you mean {near}?" if near else "see what there is: ralph templates list")
        case jinja2.TemplateNotFound():
            return f"there is no template {error.name!r}; the built-in ones are {BUILT_IN}NAME (ralph templates list)"
        case jinja2.TemplateError():
            return str(error)
    return f"{type(error).__name__}: {error}"
