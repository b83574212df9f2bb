"""The templates that prompts are made of: those built in, and a person's own in their place.

A person's stand in `.rulebook-ralph/templates/`, by the name of the built-in one that they replace, or by a name of
their own that another of them includes. `builtin/NAME` is always the built-in one. They are read once, whole, as
values: while a prompt is made no file is opened.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph import resources
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.text import Problem, escaped

SUFFIX = ".md.j2"
PLAN = f"plan{SUFFIX}"
BUILT_IN = "builtin/"
LARGEST = 256 * 1024
MOST = 100
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

    def blamed(self, stage: str) -> str:
        """The file to name where a stage's prompt as a whole is not as it should be."""
        likely = (f"{stage}{SUFFIX}", f"frame{SUFFIX}", *sorted(self.names))
        return shown(next(name for name in likely if name in self.names))


BUILT_IN_ALONE = Templates()


def built_in(name: str) -> str:
    """The text of a built-in template, one of PURPOSES."""
    return resources.template_text(f"prompts/{name}")


def shown(name: str) -> str:
    """A template of a person's own as messages name it."""
    return f"{SHOWN_FOLDER}/{name}"


def is_name(name: str) -> bool:
    """Whether a template can have that name: letters, digits, `_` and `-`, then SUFFIX; no folder."""
    return _NAME.fullmatch(name) is not None


def fingerprints(folder: Path) -> Mapping[str, disk.Fingerprint | None]:
    """What tells whether a template was edited, added or removed, without reading one."""
    return {name: disk.fingerprint(folder / name) for name in _listed(folder)}


def read(folder: Path) -> tuple[Templates, tuple[Problem, ...]]:
    """The templates in that folder, and what stands there and is none. No link is followed."""
    if folder.is_symlink():
        return Templates(), (Problem(SHOWN_FOLDER, None, "", "is a symbolic link; make it a folder"),)
    own: dict[str, str] = {}
    found: list[Problem] = []
    names = _listed(folder)
    if len(names) > MOST:
        return Templates(), (Problem(SHOWN_FOLDER, None, "", f"has more than {MOST} files; move away what is none"),)
    for name in names:
        try:
            own[name] = _text(folder / name)
        except _NoTemplateError as error:
            found.append(Problem(shown(escaped(name)), None, "", str(error)))
    return Templates(tuple(own.items())), tuple(found)


class _NoTemplateError(Exception):
    """Why what stands there is no template, and what to do."""


def _text(path: Path) -> str:
    """Raises _NoTemplateError."""
    if not is_name(path.name):
        stem = path.name.partition(".")[0]
        hint = f"did you mean {stem}{SUFFIX}?" if f"{stem}{SUFFIX}" in PURPOSES else "rename it or move it away"
        raise _NoTemplateError(f"is no name of a template, such as coder{SUFFIX}; {hint}")
    if path.is_symlink() or not path.is_file():
        raise _NoTemplateError("is no plain file; replace it by one")
    try:
        return disk.read_file(path, largest=LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _NoTemplateError("is not UTF-8 text; save it as such") from None
    except OSError as error:
        raise _NoTemplateError(f"cannot be read: {error.strerror or error}") from error


def _listed(folder: Path) -> list[str]:
    """What stands in the folder, without what editors and systems leave there."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - before each prompt: a plain system call
    except OSError:
        return []
    return sorted(name for name in names if not name.startswith((".", "#")) and not name.endswith(("~", ".orig")))
