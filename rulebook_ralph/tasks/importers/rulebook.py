"""Tasks from a rulebook: a folder for each task below `.rulebook/tasks/` or `rulebook/tasks/`.

`archive/` and plain files beside the task folders are no tasks. A task that cannot be read whole is left out and named;
the others are read all the same.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.importers import rulebook_text
from rulebook_ralph.tasks.importers.rulebook_text import CHECKLIST
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    LONGEST_SHOWN,
    SourceProblem,
    SourceReading,
    UnreadableError,
    complexity,
    read_text,
    read_text_if_there,
    refuse_link_out,
)
from rulebook_ralph.tasks.model import Json, Task, problem_with_id
from rulebook_ralph.tasks.text import escaped, some

PROPOSAL = "proposal.md"
MARKS = (PROPOSAL, CHECKLIST)
"""The files by which a folder is known as a task's."""

_PLACES = (".rulebook/tasks", "rulebook/tasks")
_ARCHIVE = "archive"
_ARCHIVED = re.compile(r"\d{4}-\d{2}-\d{2}-(.+)")


@dataclass(frozen=True, slots=True)
class TaskFolder:
    """A task as its own folder tells it; priority and dependencies need the other tasks."""

    task: Task
    metadata: Path
    blocked_by: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


# Places


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
    shown = escaped(str(path), LONGEST_SHOWN)
    try:
        if path.is_file() and path.name in MARKS:
            path = path.parent
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise RalphError(f"{shown} {what}: name a project, a tasks folder or a task folder")
        if places := _places(path):
            return places
        if path.name in (".rulebook", "rulebook") and (path / "tasks").is_dir():
            return (path / "tasks",)
        if _is_task(path) or path.name == "tasks" or any(_is_task(child) for child in _folders(path)):
            return (path,)
    except OSError as error:
        raise _unreadable(path, error) from error
    raise RalphError(
        f"{shown} has no rulebook tasks: expected .rulebook/tasks/ or rulebook/tasks/ with a folder per task"
    )


def _unreadable(path: Path, error: OSError) -> RalphError:
    return RalphError(f"{escaped(str(error.filename or path), LONGEST_SHOWN)} cannot be read: {error.strerror}")


def _places(root: Path) -> tuple[Path, ...]:
    """The tasks folders of a project; of two, empty ones do not count."""
    there = [root / place for place in _PLACES if (root / place).is_dir()]
    return tuple([place for place in there if _folders(place)] or there[:1])


def _folders(place: Path) -> list[Path]:
    named = (each for each in place.iterdir() if not each.name.startswith(".") and each.name.casefold() != _ARCHIVE)
    return sorted(each for each in named if each.is_dir() or (each.is_symlink() and not each.exists()))


def _is_task(folder: Path) -> bool:
    return folder.is_dir() and any((folder / mark).is_file() for mark in MARKS)


# Reading


def read_all(paths: Sequence[Path], *, root: Path, known_ids: Collection[str] = ()) -> SourceReading:
    """Read everything the paths mean (see `locate`) as one list, in the order of the paths, then of the folder names.

    `known_ids` are tasks of the PRD that may be depended on although they are not read. Raises RalphError where a path
    means nothing; whatever is wrong inside a task is in the problems.
    """
    root = root.resolve()
    problems: list[SourceProblem] = []
    refused: list[str] = []
    whole: dict[str, None] = {}
    archived: set[str] = set()
    found: dict[str, TaskFolder] = {}
    for place in dict.fromkeys(place.resolve() for path in paths for place in locate(path)):
        single = _is_task(place)
        within = place.parent if single else place
        try:
            folders = [place] if single else _folders(place)
            archived |= (
                {child.name for child in (within / _ARCHIVE).iterdir()} if (within / _ARCHIVE).is_dir() else set()
            )
        except OSError as error:
            raise _unreadable(place, error) from error
        if not single:
            whole[_path_from(root, place)] = None
        for folder in folders:
            try:
                _take(folder, within, root, found, problems)
            except UnreadableError as error:
                problems.append(error.problem)
                refused.append(folder.name)
    archived |= {match[1] for name in archived if (match := _ARCHIVED.fullmatch(name))}
    needs = dependencies(list(found.values()), problems, known_ids=known_ids, done_ids=archived)
    phases = [rulebook_text.phase_of(each.task.id) for each in found.values()]
    last = max((phase for phase in phases if phase is not None), default=-1)
    ranks = [last + 2 if phase is None else phase + 1 for phase in phases]  # without a phase: after the last one
    tasks = (
        replace(each.task, priority=rank, dependencies=needs[each.task.id])
        for each, rank in zip(found.values(), ranks, strict=True)
    )
    return SourceReading(tuple(tasks), tuple(problems), tuple(whole), tuple(refused))


def _take(folder: Path, within: Path, root: Path, found: dict[str, TaskFolder], problems: list[SourceProblem]) -> None:
    """Read a folder into `found` (by id without case); the same folder named twice is taken once."""
    if wrong := problem_with_id(folder.name):
        raise UnreadableError(folder, None, f"the folder's name is the task's id, and {wrong}: rename it")
    earlier = found.get(folder.name.casefold())
    if earlier is None:
        found[folder.name.casefold()] = _read_folder(folder, within, root, problems)
    elif earlier.task.source != _path_from(root, folder):
        message = f"has the same id as {earlier.task.source} (upper and lower case count as equal): rename one of them"
        raise UnreadableError(folder, None, message)


def _read_folder(folder: Path, within: Path, root: Path, problems: list[SourceProblem]) -> TaskFolder:
    """Read a task folder. `within` is what no link may lead out of; paths in the task are relative to `root`.

    Raises UnreadableError for the first file that cannot be taken: a task with half its criteria would look finished
    too early.
    """
    refuse_link_out(folder, within=within)
    proposal = read_text_if_there(folder / PROPOSAL, within=within)
    checklist_text = read_text_if_there(folder / CHECKLIST, within=within)
    spec_files = list(_spec_files(folder / "specs", within=within))
    if proposal is None and checklist_text is None and not spec_files:
        raise UnreadableError(folder, None, f"has no {PROPOSAL}, no {CHECKLIST} and no specs: it is not a task")
    title, description = rulebook_text.read_proposal(proposal or "")
    checklist = rulebook_text.read_checklist(checklist_text or "")
    specs = [rulebook_text.read_spec(read_text(file, within=within)) for file in spec_files]
    troubles = [checklist.trouble, *(trouble for _, trouble in specs)]
    for file, trouble in zip((folder / CHECKLIST, *spec_files), troubles, strict=True):
        if trouble is not None:
            raise UnreadableError(file, trouble[0] + 1, trouble[1])
    requirements = [criteria for groups, _ in specs for criteria in groups]
    kept, blocked_by, blocks = _metadata(folder / ".metadata.json", within, problems)
    design = [folder / "design.md"] if read_text_if_there(folder / "design.md", within=within) is not None else []
    pointers = [f"Design: {_path_from(root, file)}" for file in design]
    pointers += [f"Spec: {_path_from(root, file)}" for file in spec_files]
    if checklist.has_prose:
        pointers.append(f"Notes beside the checklist: {_path_from(root, folder / CHECKLIST)}")
    named = rulebook_text.named_files(
        [proposal or "", checklist_text or ""], lambda name: _is_file(root / name, within=root)
    )
    files = dict.fromkeys([*(_path_from(root, file) for file in (*design, *spec_files)), *named])
    task = Task(
        id=folder.name,
        title=rulebook_text.readable_title(title or rulebook_text.clean_title(checklist.title), folder.name),
        description="\n\n".join(filter(None, (description, "\n".join(pointers)))),
        status="completed" if checklist.completed else "pending",
        acceptance_criteria=tuple(dict.fromkeys([*checklist.items, *(line for each in requirements for line in each)])),
        estimated_complexity=complexity(len(checklist.items) + len(requirements)),
        relevant_files=tuple(files)[: rulebook_text.MAX_FILES],
        source=_path_from(root, folder),
        metadata=kept | (DONE_BEFORE if checklist.completed else {}),
    )
    return TaskFolder(task, folder / ".metadata.json", blocked_by, blocks)


def _metadata(file: Path, within: Path, problems: list[SourceProblem]) -> tuple[Json, tuple[str, ...], tuple[str, ...]]:
    """What is kept of a .metadata.json, and the ids under `blockedBy` and `blocks`; its status is not believed, as the
    boxes are the truth.
    """
    text = read_text_if_there(file, within=within)
    if text is None:
        return {}, (), ()
    try:
        value = json_file.decode(text.encode(), file.name)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        line = where.split(":")[1:2]
        raise UnreadableError(file, int(line[0]) if line else None, message) from None
    if not isinstance(value, dict):
        raise UnreadableError(file, 1, "must hold a JSON object")
    references: list[tuple[str, ...]] = []
    for key in ("blockedBy", "blocks"):
        listed = value.pop(key, None) or []
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            problems.append(SourceProblem(file, None, f"{key} must be a list of task ids: it is left out"))
            listed = []
        references.append(tuple(dict.fromkeys(listed)))
    value.pop("status", None)
    return value, references[0], references[1]


def _spec_files(folder: Path, *, within: Path) -> Iterator[Path]:
    """Every spec.md below `specs/`, sorted. A link to a folder is refused: what it holds may be endless."""
    if not os.path.lexists(folder):
        return
    refuse_link_out(folder, within=within)
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise UnreadableError(Path(parent) / name, None, "is a link to a folder: copy the folder instead")
        found += [Path(parent) / name for name in names if name == "spec.md"]
    yield from sorted(found)


def _refuse(error: OSError) -> NoReturn:
    raise UnreadableError(Path(error.filename), None, f"cannot be read: {error.strerror}") from error


def _is_file(path: Path, *, within: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and path.resolve().is_relative_to(within)
    except (OSError, RuntimeError, ValueError):
        return False


def _path_from(root: Path, path: Path) -> str:
    """The path relative to `root`, with slashes; absolute where it lies outside."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


# Order


def dependencies(
    folders: Sequence[TaskFolder],
    problems: list[SourceProblem],
    *,
    known_ids: Collection[str] = (),
    done_ids: Collection[str] = (),
) -> Mapping[str, tuple[str, ...]]:
    """What each task depends on: its `blockedBy`, and the tasks that say they block it.

    `known_ids` are tasks that exist elsewhere; `done_ids` those put away as done, which nobody has to wait for. Unknown
    ids, a task's own and a link that closes a cycle are left out, and each is a problem.
    """
    needs: dict[str, dict[str, Path]] = {folder.task.id: {} for folder in folders}
    for folder in folders:
        owner = folder.task.id
        links = [(owner, each, "blockedBy") for each in folder.blocked_by]
        for task_id, needed, key in (*links, *((each, owner, "blocks") for each in folder.blocks)):
            other = needed if key == "blockedBy" else task_id
            if other == owner:
                message = f"{key} names the task itself ({owner}): it is left out"
                problems.append(SourceProblem(folder.metadata, None, message))
            elif task_id in needs and (needed in needs or needed in known_ids):
                needs[task_id].setdefault(needed, folder.metadata)
            elif other not in known_ids and other not in done_ids:
                message = f"{key} names an unknown task, {other!r}: it is left out"
                problems.append(SourceProblem(folder.metadata, None, message))
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            cycle = error.args[1]  # each is needed by the next one
            file = needs[cycle[1]].pop(cycle[0])
            shown = some(list(reversed(cycle)), 12, " → ")
            message = f"dependencies form a cycle ({shown}): the last of these links is left out"
            problems.append(SourceProblem(file, None, message))
        else:
            return {task_id: tuple(wanted) for task_id, wanted in needs.items()}
