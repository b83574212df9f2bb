"""Ralph itself: its state and configuration files, its prompts."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rulebook_ralph.core import requirements
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.model import Prd, Stage, Task
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import preflight
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, refused, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place, Settings
from rulebook_ralph.loop.project import load_prd, refuse_second_state
from rulebook_ralph.state import history, progress, store, validation

_ALL = "see all: ralph validate"


def examine(place: Place, *, version: str) -> Iterator[Diagnosis]:
    """The installation, then the state folder's files one by one."""
    yield ok(f"ralph {version}, Python {platform.python_version()}")
    yield configuration(place.settings)
    state = _state_folder(place)
    yield state
    if state.state == "ok":
        yield _prd(place)
        yield _histories(place)
    if place.prd is not None:
        yield from _tasks(place, place.prd)
    yield from prompts(place.config, place.prd, place.folder.templates)


def configuration(settings: Settings) -> Diagnosis:
    """The configuration's files, and the first thing that is wrong with them."""
    if settings.problems:
        more = f" (and {len(settings.problems) - 1} more)" if len(settings.problems) > 1 else ""
        return wrong(f"configuration: {settings.problems[0]}{more}", "mend it, then: ralph validate")
    return ok(f"configuration: {', '.join(settings.sources) if settings.sources else 'built-in values alone'}")


def _state_folder(place: Place) -> Diagnosis:
    folder = place.folder
    if not folder.path.is_dir():
        try:
            if place.repository is not None and place.has_commit:
                refuse_second_state(place.repository, folder)
        except RalphError as error:
            return refused(error)
        if place.repository is None or not place.has_commit:
            return wrong(f"no task list in {place.root}", "make a repository with a commit, then: ralph init")
        return wrong(f"no task list in {place.root}", "make one: ralph init")
    if place.project is not None:
        try:
            preflight.require_writable(place.project)
        except RalphError as error:
            return refused(error)
    return ok(f"state folder {folder.path}")


def _prd(place: Place) -> Diagnosis:
    folder = place.folder
    try:
        if folder.prd.exists() and not folder.prd.is_file():
            return wrong(f"{folder.prd} is no regular file", "replace it by the file")
        store.read_prd_bytes(folder)
        problems = validation.prd_problems(folder.prd)
        if not problems:
            load_prd(folder)
    except RalphError as error:
        return refused(error)
    if problems:
        return wrong(_first(problems), _ALL)
    prd = place.prd
    if prd is None:
        return wrong(f"{folder.prd} was changed just now", "look again: ralph doctor")
    still_open = sum(task.status != "completed" for task in prd.tasks)
    return ok(f"prd.json: {counted(len(prd.tasks), 'task')}, {still_open} to be completed")


def _histories(place: Place) -> Diagnosis:
    problems = list(validation.history_problems(place.root))
    log = place.folder.progress
    if log.exists() and not log.is_file():
        problems.append(Problem(str(log), None, "", "is no regular file"))
    else:
        problems += progress.problems(place.root)
    if problems:
        return wrong(_first(problems), _ALL)
    numbers = history.numbers(place.folder)
    return ok(f"history: {counted(len(numbers), 'iteration')}" if numbers else "history: no iteration yet")


def _tasks(place: Place, prd: Prd) -> Iterator[Diagnosis]:
    if place.project is not None:
        try:
            preflight.require_usable_name(place.project, prd)
        except RalphError as error:
            yield refused(error)
    bare = [task.id for task in requirements.tasks_without_criteria(prd)]
    if bare:
        yield warning(
            f"without criteria of their own, so that the gates and the promise decide: {some(bare)}",
            f"say what done means: ralph task edit {bare[0]} --acceptance …",
        )


def prompts(config: Config, prd: Prd | None, templates: Path) -> Iterator[Diagnosis]:
    """Whether the prompt of every stage that is worked on can be made, with the first open task or a sample."""
    tasks = [task for task in prd.tasks if task.status != "completed"] if prd else []
    sample = tasks[0] if tasks else Task(id="sample", title="A sample")
    stages = tuple(dict.fromkeys(stage for task in tasks or [sample] for stage in requirements.stages_of(config, task)))
    problem = _unmakable(config, prd, sample, stages)
    yield problem or ok(f"prompts: {', '.join(stages)}")
    own = sorted(path.name for path in templates.iterdir()) if templates.is_dir() else []
    if own:
        yield warning(f"{templates} is not used: this version has its built-in prompts alone", f"remove {some(own)}")


def _unmakable(config: Config, prd: Prd | None, task: Task, stages: Sequence[Stage]) -> Diagnosis | None:
    from jinja2 import TemplateError  # noqa: PLC0415 - 46 ms, only where a prompt is made

    from rulebook_ralph.loop import brief  # noqa: PLC0415

    for stage in stages:
        situation = brief.Situation(
            prd=prd or Prd(version=1, project="sample", tasks=(task,)),
            task=task,
            stage=stage,
            criteria=requirements.criteria_for(config, task, stage),
            stop_criteria=requirements.stop_criteria_for(config, task),
            base="0" * 40,
            changed=("a/file.txt",),
            progress=progress.header("sample", created_at="2026-01-01T00:00:00.000Z", task_count=1),
            commits=("0000000 a commit",),
            rules=requirements.rules_for(config, task),
            steps=config.verification.steps,
            feedback="a sample of feedback",
            iteration=2,
            max_iterations=9,
            attempt=2,
            max_attempts=9,
            prompt_tokens=config.limits.prompt_tokens,
        )
        try:
            brief.render(situation)
        except (TemplateError, OSError, ValueError) as error:
            line = f" (line {_line(error)})" if _line(error) else ""
            return wrong(f"the prompt of the stage {stage}{line} cannot be made: {error}", "install Ralph again")
    return None


def _line(error: BaseException) -> int:
    """The line of the template that failed, 0 where it is not known."""
    told = getattr(error, "lineno", None)
    if isinstance(told, int):
        return told
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _first(problems: Iterable[Problem]) -> str:
    told = list(problems)
    return f"{told[0]}{f' (and {len(told) - 1} more)' if len(told) > 1 else ''}"
