"""Ralph itself: its state and configuration files, its prompts."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rulebook_ralph.core import requirements
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.model import Prd
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import notification, preflight, template_check, templates
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis, ok, refused, warning, wrong
from rulebook_ralph.loop.diagnosis.place import Place, Settings
from rulebook_ralph.loop.project import load_prd, refuse_second_state
from rulebook_ralph.state import history, progress, store, validation
from rulebook_ralph.state.store import StateFolder

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
    yield prompts(place.root, place.config, place.prd)
    yield from notifications(place.config, place.environment)


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


def prompts(root: Path, config: Config, prd: Prd | None) -> Diagnosis:
    """Whether the prompt of every stage can be made of the project's own templates."""
    if found := template_check.problems(root, config, prd):
        return wrong(_first(found), f"mend it, or remove the file; {_ALL}")
    own = templates.read(StateFolder(root).templates)[0].names
    return ok(f"prompts: {f'own templates {some(sorted(own))}' if own else 'the built-in ones'}")


def notifications(config: Config, environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Whether a person would be told of a run's end, where that is configured."""
    found = notification.problems(config.notify, environment)
    yield from found
    if config.notify.urls and not found:
        yield ok(f"notifications: {counted(len(config.notify.urls), 'address', 'addresses')}")


def _first(problems: Iterable[Problem]) -> str:
    told = list(problems)
    return f"{told[0]}{f' (and {len(told) - 1} more)' if len(told) > 1 else ''}"
