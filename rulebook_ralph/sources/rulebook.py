"""Tasks from a rulebook: a folder for each task below `.rulebook/tasks/` or `rulebook/tasks/`.

`archive/` and plain files beside the task folders are no tasks. A task that cannot be read whole is left out and named;
the others are read all the same.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.sources import rulebook_order, rulebook_task
from rulebook_ralph.sources.rulebook_task import TaskFolder
from rulebook_ralph.sources.source import LONGEST_SHOWN, SourceProblem, SourceReading
from rulebook_ralph.sources.text_file import UnreadableError

_PLACES = (".rulebook/tasks", "rulebook/tasks")
_ARCHIVE = "archive"
_ARCHIVED = re.compile(r"\d{4}-\d{2}-\d{2}-(.+)")


def find(root: Path) -> Path | None:
    """The tasks folder of a project, or None. With both places filled, `.rulebook/tasks` is named first."""
    try:
        return next(iter(_places(root)), None)
    except OSError as error:
        raise _unreadable(root, error) from error


def locate(path: Path) -> tuple[Path, ...]:
    """The tasks folders or the single task folder that a path given by a person means.

    The path may be a project's root, its `.rulebook` folder, a tasks folder (an archive too), a task folder or a file
    in one. Raises RalphError if it is none of them.
    """
    try:
        return _located(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _located(path: Path) -> tuple[Path, ...]:
    shown = escaped(str(path), LONGEST_SHOWN)
    if path.is_file() and path.name in rulebook_task.MARKS:
        path = path.parent
    if not path.exists():
        raise RalphError(f"{shown} does not exist: name a project, a tasks folder or a task folder")
    if not path.is_dir():
        raise RalphError(f"{shown} is not a folder: name a project, a tasks folder or a task folder")
    if places := _places(path):
        return places
    if _is_task(path):
        return (path,)
    if path.name in (".rulebook", "rulebook") and (path / "tasks").is_dir():
        return (path / "tasks",)
    if path.name == "tasks" or any(_is_task(child) for child in _folders(path)):
        return (path,)
    raise RalphError(
        f"{shown} has no rulebook tasks: expected .rulebook/tasks/ or rulebook/tasks/ with a folder per task"
    )


def _unreadable(path: Path, error: OSError) -> RalphError:
    return RalphError(f"{escaped(str(error.filename or path), LONGEST_SHOWN)} cannot be read: {error.strerror}")


def read(folder: Path, *, root: Path | None = None, known_ids: Collection[str] = ()) -> SourceReading:
    """Read a tasks folder or a single task folder. `root` is the project's, by default as the place tells."""
    return _read([folder], root=_root_of(folder) if root is None else root, known_ids=known_ids)


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read everything the paths mean (see `locate`) as one list, in the order of the paths, then of the folder names.

    `known_ids` are tasks of the PRD that may be depended on although they are not read. Raises RalphError where a path
    means nothing; whatever is wrong inside a task is in the problems.
    """
    return _read([folder for path in paths for folder in locate(path)], root=root, known_ids=known_ids)


def _read(places: Iterable[Path], *, root: Path, known_ids: Collection[str]) -> SourceReading:
    root = root.resolve()
    problems: list[SourceProblem] = []
    refused: list[str] = []
    whole: list[str] = []
    archived: set[str] = set()
    read_folders: dict[str, TaskFolder] = {}
    for place in (one.resolve() for one in dict.fromkeys(places)):
        try:
            single = _is_task(place)
            folders = [place] if single else _folders(place)
        except OSError as error:
            problems.append(SourceProblem(place, None, f"cannot be listed: {error.strerror}"))
            continue
        if not single:
            whole.append(rulebook_task.path_from(root, place))
        archived |= _archived_ids(place.parent if single else place)
        for folder in folders:
            try:
                _take(folder, within=place.parent if single else place, root=root, found=read_folders)
            except UnreadableError as error:
                problems.append(error.problem)
                refused.append(folder.name)
    tasks, order_problems = _in_order(list(read_folders.values()), known_ids, archived)
    return SourceReading(tasks, (*problems, *order_problems), tuple(dict.fromkeys(whole)), tuple(refused))


def _take(folder: Path, *, within: Path, root: Path, found: dict[str, TaskFolder]) -> None:
    """Read a folder into `found` (by id without case); the same folder named twice is taken once."""
    if wrong := problem_with_id(folder.name):
        raise UnreadableError(folder, None, f"the folder's name is the task's id, and {wrong}: rename it")
    earlier = found.get(folder.name.casefold())
    if earlier is None:
        found[folder.name.casefold()] = rulebook_task.read(folder, within=within, root=root)
    elif earlier.task.source != rulebook_task.path_from(root, folder):
        message = f"has the same id as {earlier.task.source} (upper and lower case count as equal): rename one of them"
        raise UnreadableError(folder, None, message)


def _in_order(
    folders: list[TaskFolder], known_ids: Collection[str], archived: set[str]
) -> tuple[tuple[Task, ...], list[SourceProblem]]:
    ranks = rulebook_order.priorities([folder.phase for folder in folders])
    needs, order_problems = rulebook_order.dependencies(folders, known_ids=known_ids, done_ids=archived)
    tasks = tuple(
        rulebook_task.with_place(folder.task, priority=rank, dependencies=needs[folder.task.id])
        for folder, rank in zip(folders, ranks, strict=True)
    )
    return tasks, [*(problem for folder in folders for problem in folder.problems), *order_problems]


def _places(root: Path) -> tuple[Path, ...]:
    """The tasks folders of a project; of two, empty ones do not count."""
    there = [root / place for place in _PLACES if (root / place).is_dir()]
    return tuple([place for place in there if _folders(place)] or there[:1])


def _folders(place: Path) -> list[Path]:
    return sorted(
        child
        for child in place.iterdir()
        if not child.name.startswith(".")
        and child.name.casefold() != _ARCHIVE
        and (child.is_dir() or _is_lost_link(child))
    )


def _is_lost_link(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _is_task(folder: Path) -> bool:
    return folder.is_dir() and any((folder / mark).is_file() for mark in rulebook_task.MARKS)


def _archived_ids(place: Path) -> set[str]:
    """Ids of tasks put away as done, with and without the date their folder got then."""
    try:
        names = {child.name for child in (place / _ARCHIVE).iterdir() if child.is_dir()}
    except OSError:
        return set()
    return names | {match[1] for one in names if (match := _ARCHIVED.fullmatch(one))}


def _root_of(folder: Path) -> Path:
    """The project a tasks folder or task folder belongs to by the usual places; else the folder above it."""
    folder = folder.resolve()
    for parent in (folder, *folder.parents):
        if parent.name == "tasks" and parent.parent.name in (".rulebook", "rulebook"):
            return parent.parent.parent
    return folder.parent
