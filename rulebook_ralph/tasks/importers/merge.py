"""A second import into a PRD that already lives. Pure: what a run or a person has set stays as it is."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from math import inf
from pathlib import PurePosixPath

from msgspec.structs import replace

from rulebook_ralph.tasks.importers.source import SUFFIXES, RefusedTasksError, is_of_words, word_id
from rulebook_ralph.tasks.model import Prd, Task, problem_with_id
from rulebook_ralph.tasks.text import Problem, counted

ID_IN_SOURCE = "idInSource"
"""Where the id that a task has in its own file stands in its metadata, when it is called otherwise in the PRD."""
_LONGEST_PREFIX = 40
_SAYS_NOTHING = frozenset(("tasks", "task", "todo", "plan", "prd", "readme", "checklist", "index"))


@dataclass(frozen=True, slots=True)
class Merge:
    """`prd` is the very one given if nothing changed. `differs` says how the source of pending tasks is another now,
    `updated` are those that have its criteria, `problems` lines about tasks not taken over, `ticked` those still to be
    completed whose source says that they are done.
    """

    prd: Prd
    added: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    ticked: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()


def merge(
    prd: Prd,
    imported: Sequence[Task],
    *,
    folders: Collection[str] = (),
    refused: Collection[str] = (),
    update: bool = False,
) -> Merge:
    """Add the tasks the PRD does not have yet where their source has them; change nothing else, but with `update` the
    criteria and texts of pending tasks whose source has other criteria.

    `folders` are the folders and files that were read whole, as in `SourceReading.folders`: a task of the PRD from one
    of them that was not imported has vanished. It is kept and listed. `refused` are ids that are still there but could
    not be read.
    """
    known = {task.id.casefold(): task for task in prd.tasks}
    added: list[Task] = []
    differs: dict[str, str] = {}
    problems: list[str] = []
    ticked: dict[str, None] = {}
    for task in imported:
        existing = known.setdefault(task.id.casefold(), task)
        if existing is task:
            added.append(task)
        elif existing.id != task.id:
            problems.append(
                f"{task.source or task.id}: its id equals that of the task {existing.id} but for upper and lower case:"
                " rename one of them"
            )
        else:
            if task.status == "completed" != existing.status:
                ticked[task.id] = None
            if told := _difference(existing, task):
                differs[task.id] = told
                if update:
                    prd = prd.replacing(_updated(existing, task))
    ids = {task.id for task in known.values()}
    added = [_with_known_dependencies(task, ids, problems) for task in added]
    there = {*(task.id.casefold() for task in imported), *(one.casefold() for one in refused)}
    origins = {  # the file that a task stands in, or the folder that its own folder lies in
        task.id: task.source if task.source.endswith(SUFFIXES) else task.source.rpartition("/")[0] or "."
        for task in prd.tasks
        if task.source
    }
    return Merge(
        prd=replace(prd, tasks=_with_inserted(prd.tasks, added, imported)) if added else prd,
        added=tuple(task.id for task in added),
        vanished=tuple(each for each, origin in origins.items() if origin in folders and each.casefold() not in there),
        differs=() if update else tuple(differs.values()),
        problems=tuple(problems),
        ticked=tuple(ticked),
        updated=tuple(differs) if update else (),
    )


def _difference(existing: Task, imported: Task) -> str:
    """What the source of a pending task says otherwise than the PRD; empty where that is nothing that counts."""
    missing = {one for one in imported.acceptance_criteria if one not in existing.acceptance_criteria}
    other = [stage for stage, each in imported.completion.items() if existing.completion.get(stage) != each]
    told = [f"lists {counted(len(missing), 'other criterion', 'other criteria')}"] if missing else []
    told += [f"has other criteria for {', '.join(other)}"] if other else []
    return f"{existing.id}: its source {' and '.join(told)}" if told and existing.status == "pending" else ""


def _updated(existing: Task, imported: Task) -> Task:
    return replace(
        existing,
        title=imported.title,
        description=imported.description,
        outcome=imported.outcome,
        acceptance_criteria=imported.acceptance_criteria,
        completion={**existing.completion, **imported.completion},
    )


def _with_known_dependencies(task: Task, ids: Collection[str], problems: list[str]) -> Task:
    if unknown := [needed for needed in task.dependencies if needed not in ids]:
        told = f"depends on what is not in the PRD ({', '.join(unknown)}): left out"
        problems.append(f"{task.source or task.id}: {told}")
        task = replace(task, dependencies=tuple(needed for needed in task.dependencies if needed in ids))
    return task


# Places of new tasks


def _with_inserted(known: Sequence[Task], added: Sequence[Task], imported: Sequence[Task]) -> tuple[Task, ...]:
    """The known tasks in their order, with the added ones where their source (`imported`) has them, else at the end.

    Open tasks that nobody began wait for those added ones that they would wait for after a first import; what comes
    after a task that was begun waits in its stead. Nothing waits where that closes a cycle with what a person set.
    """
    tasks = {task.id: task for task in (*known, *added)}
    new = {task.id for task in added}
    waiting = dict(tasks)
    in_stead: dict[str, tuple[str, ...]] = {}
    for task in imported:
        further = [one for each in task.dependencies for one in ((each,) if each in new else in_stead.get(each, ()))]
        if (mine := tasks.get(task.id)) is None:
            continue
        if mine.status == "pending" and not any(mine.attempts.values()):
            waiting[task.id] = replace(mine, dependencies=tuple(dict.fromkeys((*mine.dependencies, *further))))
        else:
            in_stead[task.id] = tuple(further)
    try:
        TopologicalSorter({task.id: task.dependencies for task in waiting.values()}).prepare()
    except CycleError:
        waiting = tasks
    return tuple(waiting[task_id] for task_id in _order(known, new, imported))


def _order(known: Sequence[Task], new: Collection[str], imported: Sequence[Task]) -> list[str]:
    """The ids. An added task stands behind the one before it in its source, or before the first known one of that."""
    places = {task.id: (float(index), 0) for index, task in enumerate(known)}
    known_ids = set(places)
    last = {task.source: places[task.id][0] - 0.5 for task in reversed(imported) if task.id in known_ids}
    for number, task in enumerate(imported, 1):
        if task.id in known_ids:
            last[task.source] = places[task.id][0]
        elif task.id in new:
            places[task.id] = (last.get(task.source, inf), number)
    return sorted(places, key=lambda task_id: places[task_id])


# Tasks of several plans in one list: every plan may begin with 1.1


def id_in_source(task: Task) -> str:
    """What a task is called in its own file."""
    own = task.metadata.get(ID_IN_SOURCE)
    return own if isinstance(own, str) else task.id


def told_apart(tasks: Sequence[Task], known: Sequence[Task], taken: Collection[str]) -> tuple[Task, ...]:
    """The tasks with ids that no other task has. `known` are those of the PRD, `taken` further ids in use.

    A task that was imported from its file before keeps the id it got then. Where new tasks of a file have ids in use,
    all of the file's new ones get its name before theirs. Raises RefusedTasksError where that makes no ids.
    """
    used = {task_id.casefold() for task_id in (*taken, *(task.id for task in known))}
    by_id = {(task.source, id_in_source(task)): task for task in known}
    by_title = _once(known)
    found: list[Task] = []
    for source, group in groupby(tasks, key=lambda task: task.source):
        own = list(group)
        before = {task.id: same.id for task in own if (same := by_id.get((source, task.id))) and _is_same(task, same)}
        for key, task in _once(own).items():
            same = by_title.get(key)
            if same and task.id not in before and same.id not in before.values() and is_of_words(task.id, task.title):
                before[task.id] = same.id
        new = [task.id for task in own if task.id not in before]
        prefix = next((each for each in _prefixes(source) if _are_free(each, new, used)), None)
        if prefix is None:
            told = "has ids that are in use already, and too long to be told apart: shorten them"
            raise RefusedTasksError([Problem(source, None, "", told)])
        names = {task.id: before.get(task.id) or f"{prefix}{task.id}" for task in own}
        used |= {name.casefold() for name in names.values()}
        found += (_named(task, names) for task in own)
    return tuple(found)


def _once(tasks: Sequence[Task]) -> Mapping[tuple[str, str], Task]:
    """The tasks by source and title, without titles that a source has several times."""
    often = Counter((task.source, task.title) for task in tasks)
    return {key: task for task in tasks if often[key := (task.source, task.title)] == 1}


def _is_same(task: Task, known: Task) -> bool:
    """Whether tasks of one file with one id are the same. Where the id is made of words, a known one whose title could
    give that id, too, may have been another item of the file; one whose title could not was edited in the list.
    """
    own = re.fullmatch(rf"{re.escape(word_id(known.title))}(-\d+)?", id_in_source(known))
    return task.title == known.title or not is_of_words(task.id, task.title) or own is None


def _named(task: Task, names: Mapping[str, str]) -> Task:
    name = names[task.id]
    own = {} if name == task.id else {ID_IN_SOURCE: task.id}
    needed = tuple(names.get(needed, needed) for needed in task.dependencies)
    return replace(task, id=name, metadata=task.metadata | own, dependencies=needed)


def _are_free(prefix: str, ids: Sequence[str], used: Collection[str]) -> bool:
    names = (f"{prefix}{task_id}" for task_id in ids)
    return all(name.casefold() not in used and problem_with_id(name) is None for name in names)


def _prefixes(source: str) -> Iterator[str]:
    """None; the name of the file, or of its folder where the file's says nothing; the same with a number."""
    path = PurePosixPath(source)
    named = path.parent.name if path.stem.casefold() in _SAYS_NOTHING and path.parent.name else path.stem
    name = re.sub(r"[^A-Za-z0-9]+", "-", named)[:_LONGEST_PREFIX].strip("-") or "plan"
    yield from ("", f"{name}-", *(f"{name}-{number}-" for number in range(2, 100)))
