"""Tasks of several plans in one list: every plan may begin with 1.1. Pure."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath

from msgspec.structs import replace

from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import Task

ID_IN_SOURCE = "idInSource"
"""Where the id that a task has in its own file stands in its metadata, when it is called otherwise in the PRD."""
_LONGEST_PREFIX = 40
_SAYS_NOTHING = frozenset(("tasks", "task", "todo", "plan", "prd", "readme", "checklist", "index"))


def id_in_source(task: Task) -> str:
    """What a task is called in its own file."""
    own = task.metadata.get(ID_IN_SOURCE)
    return own if isinstance(own, str) else task.id


def told_apart(tasks: Sequence[Task], known: Sequence[Task], taken: Collection[str]) -> tuple[Task, ...]:
    """The tasks with ids that no other task has. `known` are those of the PRD, `taken` further ids in use.

    A task that was imported from its file before keeps the id it got then. Where new tasks of a file have ids in use,
    all of the file's new ones get its name before theirs.
    """
    used = {task_id.casefold() for task_id in (*taken, *(task.id for task in known))}
    before = {(task.source, id_in_source(task)): task.id for task in known}
    found: list[Task] = []
    for source, group in groupby(tasks, key=lambda task: task.source):
        own = list(group)
        new = [task.id for task in own if (source, task.id) not in before]
        prefix = next(each for each in _prefixes(source) if _are_free(each, new, used))
        names = {task.id: before.get((source, task.id)) or f"{prefix}{task.id}" for task in own}
        used |= {name.casefold() for name in names.values()}
        found += (_named(task, names) for task in own)
    return tuple(found)


def _named(task: Task, names: Mapping[str, str]) -> Task:
    name = names[task.id]
    if name != task.id:
        task = replace(task, id=name, metadata={**task.metadata, ID_IN_SOURCE: task.id})
    return replace(task, dependencies=tuple(names.get(needed, needed) for needed in task.dependencies))


def _are_free(prefix: str, ids: Sequence[str], used: Collection[str]) -> bool:
    names = (f"{prefix}{task_id}" for task_id in ids)
    return all(name.casefold() not in used and problem_with_id(name) is None for name in names)


def _prefixes(source: str) -> Iterator[str]:
    """None; the name of the file, or of its folder where the file's says nothing; the same with a number from it."""
    path = PurePosixPath(source)
    named = path.parent.name if path.stem.casefold() in _SAYS_NOTHING and path.parent.name else path.stem
    name = re.sub(r"[^A-Za-z0-9]+", "-", named)[:_LONGEST_PREFIX].strip("-") or "plan"
    yield ""
    yield f"{name}-"
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    for length in range(4, len(digest)):
        yield f"{name}-{digest[:length]}-"
