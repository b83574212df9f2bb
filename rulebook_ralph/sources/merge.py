"""A second import into a PRD that already lives. Pure: what a run or a person has set stays as it is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.sources.insertion import with_inserted
from rulebook_ralph.sources.source import SUFFIXES


@dataclass(frozen=True, slots=True)
class Difference:
    """A pending task whose source now says more than the PRD. `missing` are the acceptance criteria that the PRD does
    not have, `stages` those for which the source has criteria that differ.
    """

    task_id: str
    missing: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge:
    """`prd` is the very one given if nothing was added. `problems` are lines about tasks not taken over, `ticked` the
    tasks still to be completed whose source says that they are done.
    """

    prd: Prd
    added: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    differs: tuple[Difference, ...] = ()
    problems: tuple[str, ...] = ()
    ticked: tuple[str, ...] = ()


def merge(
    prd: Prd, imported: Sequence[Task], *, folders: Collection[str] | None = None, refused: Collection[str] = ()
) -> Merge:
    """Add the tasks the PRD does not have yet where their source has them (insertion.py); change nothing else.

    `folders` are the folders and files that were read whole, as in `SourceReading.folders`: a task of the PRD from one
    of them that was not imported has vanished. It is kept and listed. Without `folders`, those the imported tasks come
    from count. `refused` are ids that are still there but could not be read.
    """
    known = {task.id.casefold(): task for task in prd.tasks}
    added: list[Task] = []
    differs: list[Difference] = []
    problems: list[str] = []
    ticked: list[str] = []
    for task in imported:
        existing = known.get(task.id.casefold())
        if existing is None:
            known[task.id.casefold()] = task
            added.append(task)
        elif existing.id != task.id:
            problems.append(
                f"{task.source or task.id}: its id equals that of the task {existing.id} but for upper and lower case:"
                " rename one of them"
            )
        else:
            if task.status == "completed" != existing.status:
                ticked.append(task.id)
            if difference := _difference(existing, task):
                differs.append(difference)
    ids = {task.id for task in known.values()}
    added = [_with_known_dependencies(task, ids, problems) for task in added]
    return Merge(
        prd=msgspec.structs.replace(prd, tasks=with_inserted(prd.tasks, added, imported)) if added else prd,
        added=tuple(task.id for task in added),
        vanished=_vanished(prd, imported, folders, refused),
        differs=tuple(differs),
        problems=tuple(problems),
        ticked=tuple(dict.fromkeys(ticked)),
    )


def _difference(existing: Task, imported: Task) -> Difference | None:
    had = set(existing.acceptance_criteria)
    missing = tuple(criterion for criterion in imported.acceptance_criteria if criterion not in had)
    more = len(imported.acceptance_criteria) > len(existing.acceptance_criteria)
    other = [stage for stage, criteria in imported.completion.items() if existing.completion.get(stage) != criteria]
    if existing.status != "pending" or not ((more and missing) or other):
        return None
    return Difference(existing.id, missing if more else (), tuple(other))


def _with_known_dependencies(task: Task, ids: Collection[str], problems: list[str]) -> Task:
    known = tuple(needed for needed in task.dependencies if needed in ids)
    if known == task.dependencies:
        return task
    unknown = ", ".join(needed for needed in task.dependencies if needed not in ids)
    problems.append(f"{task.source or task.id}: depends on what is not in the PRD ({unknown}): left out")
    return msgspec.structs.replace(task, dependencies=known)


def _vanished(
    prd: Prd, imported: Sequence[Task], folders: Collection[str] | None, refused: Collection[str]
) -> tuple[str, ...]:
    read = set(folders) if folders is not None else {_origin(task) for task in imported if task.source}
    there = {task.id.casefold() for task in imported} | {one.casefold() for one in refused}
    return tuple(
        task.id for task in prd.tasks if task.source and _origin(task) in read and task.id.casefold() not in there
    )


def _origin(task: Task) -> str:
    """The folder that a task's own folder lies in, or the file that the task stands in."""
    if task.source.endswith(SUFFIXES):
        return task.source
    return task.source.rpartition("/")[0] or "."
