"""Tasks from a rulebook: a folder for each task below `.rulebook/tasks/` or `rulebook/tasks/`.

`archive/` and plain files beside the task folders are no tasks. A task that cannot be read whole is left out and named,
as one with half its criteria would look finished too early; the others are read all the same.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.importers import rulebook_text
from rulebook_ralph.tasks.importers.markdown import Block, codes_in, read_document
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    LONGEST_SHOWN,
    MAX_FILES,
    SourceReading,
    UnreadableError,
    complexity,
    read_text,
    read_text_if_there,
    refuse_link_out,
    shown_path,
)
from rulebook_ralph.tasks.model import Json, Task, problem_with_id
from rulebook_ralph.tasks.text import Problem, escaped, some

CHECKLIST = "tasks.md"
MARKS = ("proposal.md", CHECKLIST)
"""The files by which a folder is known as a task's."""

_PLACES = (".rulebook/tasks", "rulebook/tasks")
_ARCHIVE = "archive"
_ARCHIVED = re.compile(r"\d{4}-\d{2}-\d{2}-(.+)")
_LONGEST_NAME = 200
_LINE_SUFFIX = re.compile(r":\d+(?:-\d+)?(?::\d+)?$")


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """A task as its own folder tells it; priority and dependencies need the other tasks."""

    task: Task
    blocked_by: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()

    def problem(self, message: str) -> Problem:
        """One of its metadata, where a link to another task is left out."""
        return Problem(f"{self.task.source}/.metadata.json", None, "", message)


def places(root: Path) -> tuple[Path, ...]:
    """The tasks folders of a project."""
    return tuple(root / place for place in _PLACES if (root / place).is_dir())


def locate(path: Path) -> tuple[Path, ...]:
    """The tasks folders or the single task folder that a path given by a person means.

    The path may be a project's root, its `.rulebook` folder, a tasks folder (an archive too), a task folder or a file
    in one. Raises RalphError if it is none of them.
    """
    shown = escaped(str(path), LONGEST_SHOWN)
    try:
        folder = path.parent if path.name in MARKS and path.is_file() else path
        if not folder.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise RalphError(f"{shown} {what}: name a project, a tasks folder or a task folder")
        if there := places(folder.parent if folder.name in (".rulebook", "rulebook") else folder):
            return there
        if _is_task(folder) or folder.name == "tasks" or any(map(_is_task, _folders(folder))):
            return (folder,)
    except OSError as error:
        raise _unreadable(path, error) from error
    raise RalphError(
        f"{shown} has no rulebook tasks: expected .rulebook/tasks/ or rulebook/tasks/ with a folder per task"
    )


def _unreadable(path: Path, error: OSError) -> RalphError:
    return RalphError(f"{escaped(str(path), LONGEST_SHOWN)} cannot be read: {error.strerror}")


def _folders(place: Path) -> list[Path]:
    named = (each for each in place.iterdir() if not each.name.startswith(".") and each.name.casefold() != _ARCHIVE)
    return sorted(each for each in named if each.is_dir() or (each.is_symlink() and not each.exists()))


def _is_task(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


# Reading


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read everything the paths mean (see `locate`) as one list, in the order of the paths, then of the folder names.

    `known_ids` are tasks of the PRD that may be depended on although they are not read. Raises RalphError where a path
    means nothing; whatever is wrong inside a task is in the problems.
    """
    root = root.resolve()
    problems: list[Problem] = []
    refused: list[str] = []
    whole: dict[str, None] = {}
    archived: set[str] = set()
    found: dict[str, TaskFolder] = {}  # by id without case
    for place in dict.fromkeys(place.resolve() for path in paths for place in locate(path)):
        within = place.parent if _is_task(place) else place
        try:
            folders = [place] if within != place else _folders(place)
        except OSError as error:
            raise _unreadable(place, error) from error
        if within == place:
            whole[shown_path(place, root)] = None
        archived |= {archive.name for archive in within.glob(f"{_ARCHIVE}/*")}
        for folder in folders:
            try:
                _take(folder, within, root, found)
            except UnreadableError as error:
                problems.append(error.problem(root))
                refused.append(folder.name)
    archived |= {match[1] for name in archived if (match := _ARCHIVED.fullmatch(name))}
    needs = dependencies(list(found.values()), problems, known_ids=known_ids, done_ids=archived)
    phases = {task_id: rulebook_text.phase_of(task_id) for task_id in needs}
    last = max((phase for phase in phases.values() if phase is not None), default=-1)
    ranks = {task_id: last + 2 if phase is None else phase + 1 for task_id, phase in phases.items()}
    tasks = [
        replace(each.task, priority=ranks[each.task.id], dependencies=needs[each.task.id]) for each in found.values()
    ]
    return SourceReading(tuple(tasks), tuple(problems), tuple(whole), tuple(refused))


def _take(folder: Path, within: Path, root: Path, found: dict[str, TaskFolder]) -> None:
    """Read a folder into `found`; the same one named twice is taken once. Raises UnreadableError."""
    if wrong := problem_with_id(folder.name):
        raise UnreadableError(folder, None, f"the folder's name is the task's id, and {wrong}: rename it")
    earlier = found.get(folder.name.casefold())
    if earlier is None:
        found[folder.name.casefold()] = _read_folder(folder, within, root)
    elif earlier.task.source != shown_path(folder, root):
        message = f"has the same id as {earlier.task.source} (upper and lower case count as equal): rename one of them"
        raise UnreadableError(folder, None, message)


def _read_folder(folder: Path, within: Path, root: Path) -> TaskFolder:
    """`within` is what no link may lead out of; paths in the task are from `root`. Raises UnreadableError for the first
    file that cannot be taken.
    """
    refuse_link_out(folder, within=within)
    proposal, listed = (read_text_if_there(folder / name, within=within) for name in MARKS)
    specs = _spec_files(folder / "specs", within)
    if proposal is None and listed is None and not specs:
        raise UnreadableError(folder, None, f"has no {', no '.join(MARKS)} and no specs: it is not a task")
    heading, description = rulebook_text.read_proposal(proposal or "")
    checklist = read_document(listed or "", folder / CHECKLIST)
    items, completed = rulebook_text.read_checklist(checklist)
    demands = [
        demand
        for file in specs
        for demand in rulebook_text.read_spec(read_document(read_text(file, within=within), file))
    ]
    kept = _metadata(folder / ".metadata.json", within)
    blocked_by, blocks = kept.pop("blockedBy", ()), kept.pop("blocks", ())
    files = [folder / "design.md"] if read_text_if_there(folder / "design.md", within=within) is not None else []
    files += [*specs, *([folder / CHECKLIST] if any(isinstance(part, Block) for part in checklist.flow) else [])]
    named = _named_files(f"{proposal}\n{listed}", root)
    task = Task(
        id=folder.name,
        title=rulebook_text.title_of((heading, checklist.title), folder.name),
        description=description,
        status="completed" if completed else "pending",
        acceptance_criteria=tuple(dict.fromkeys([*items, *demands])),
        estimated_complexity=complexity(len(items) + len(demands)),
        relevant_files=tuple(dict.fromkeys([*(shown_path(file, root) for file in files), *named]))[:MAX_FILES],
        source=shown_path(folder, root),
        metadata=kept | (DONE_BEFORE if completed else {}),
    )
    return TaskFolder(task, blocked_by, blocks)


def _metadata(file: Path, within: Path) -> Json:
    """What a .metadata.json says, `blockedBy` and `blocks` as lists of ids. Its status is not believed: the boxes are
    the truth.
    """
    text = read_text_if_there(file, within=within)
    if text is None:
        return {}
    try:
        value = json_file.decode(text.encode(), file.name)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        line = where.split(":")[1:2]
        raise UnreadableError(file, int(line[0]) if line else None, message) from None
    if not isinstance(value, dict):
        raise UnreadableError(file, 1, "must hold a JSON object")
    for key in ("blockedBy", "blocks"):
        listed = value.get(key) or []
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise UnreadableError(file, None, f"{key} must be a list of task ids")
        value[key] = tuple(dict.fromkeys(listed))
    value.pop("status", None)
    return value


def _spec_files(folder: Path, within: Path) -> list[Path]:
    """Every spec.md below `specs/`, sorted. A link to a folder is refused: what it holds may be endless."""
    if not os.path.lexists(folder):
        return []
    refuse_link_out(folder, within=within)
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        if links := [path for name in folders if (path := Path(parent) / name).is_symlink()]:
            raise UnreadableError(links[0], None, "is a link to a folder: copy the folder instead")
        found += [Path(parent) / name for name in names if name == "spec.md"]
    return sorted(found)


def _refuse(error: OSError) -> NoReturn:
    raise UnreadableError(Path(error.filename), None, f"cannot be read: {error.strerror}") from error


def _named_files(text: str, root: Path) -> list[str]:
    """The project's files that inline code names, in order. `:140` behind a name is a line number."""
    codes = (code for row in text.split("\n") for code in codes_in(row))
    names = dict.fromkeys(_LINE_SUFFIX.sub("", code).removeprefix("./") for code in codes if len(code) < _LONGEST_NAME)
    return [name for name in names if name[:1] not in ("/", "~") and ".." not in name and (root / name).is_file()]


# Order


def dependencies(
    folders: Sequence[TaskFolder],
    problems: list[Problem],
    *,
    known_ids: Collection[str] = (),
    done_ids: Collection[str] = (),
) -> Mapping[str, tuple[str, ...]]:
    """What each task depends on: its `blockedBy`, and the tasks that say they block it.

    `known_ids` are tasks that exist elsewhere; `done_ids` those put away as done, which nobody has to wait for. Unknown
    ids, a task's own and a link that closes a cycle are left out, and each is a problem.
    """
    needs: dict[str, dict[str, TaskFolder]] = {folder.task.id: {} for folder in folders}
    for folder in folders:
        owner = folder.task.id
        links = [("blockedBy", owner, each) for each in folder.blocked_by]
        for key, task_id, needed in (*links, *(("blocks", each, owner) for each in folder.blocks)):
            other = needed if key == "blockedBy" else task_id
            if other == owner:
                problems.append(folder.problem(f"{key} names the task itself ({owner}): it is left out"))
            elif task_id in needs and (needed in needs or needed in known_ids):
                needs[task_id].setdefault(needed, folder)
            elif other not in known_ids and other not in done_ids:
                problems.append(folder.problem(f"{key} names an unknown task, {other!r}: it is left out"))
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            cycle = error.args[1]  # each is needed by the next one
            shown = some(list(reversed(cycle)), 12, " → ")
            told = f"dependencies form a cycle ({shown}): the last of these links is left out"
            problems.append(needs[cycle[1]].pop(cycle[0]).problem(told))
        else:
            return {task_id: tuple(wanted) for task_id, wanted in needs.items()}
