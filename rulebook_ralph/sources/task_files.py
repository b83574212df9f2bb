"""Files of tasks that a person names, each read by its kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rulebook_ralph.core.model import Task
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.sources import checklist, completion_yaml, user_stories
from rulebook_ralph.sources.source import IN_JSON, IN_MARKDOWN, IN_YAML, LONGEST_SHOWN, SUFFIXES, Source, SourceReading
from rulebook_ralph.sources.told_apart import told_apart

_PLANS: Mapping[str, Source] = {**dict.fromkeys(IN_MARKDOWN, checklist), **dict.fromkeys(IN_JSON, user_stories)}


def read_all(paths: Sequence[Path], *, root: Path, known: Sequence[Task], read: Sequence[Task]) -> SourceReading:
    """Read the files as one list: those in YAML first, then the plans, in their order.

    `known` are the tasks of the PRD, `read` those that another source gave just now. Tasks in YAML depend on any of
    them, so an id in use is refused there; plans know only themselves, and are told apart. Raises RalphError.
    """
    yaml = [path for path in paths if path.suffix in IN_YAML]
    ids = [task.id for task in (*known, *read)]
    first = completion_yaml.read_all(yaml, root=root, known_ids=ids) if yaml else SourceReading()
    plans = [_source_of(path).read_all([path], root=root) for path in dict.fromkeys(paths) if path not in yaml]
    taken = [task.id for task in (*read, *first.tasks)]
    tasks = told_apart([task for plan in plans for task in plan.tasks], known, taken)
    readings = (first, *plans)
    return SourceReading(
        tasks=(*first.tasks, *tasks),
        problems=tuple(problem for reading in readings for problem in reading.problems),
        folders=tuple(folder for reading in readings for folder in reading.folders),
    )


def _source_of(path: Path) -> Source:
    if path.suffix in _PLANS:
        return _PLANS[path.suffix]
    shown = escaped(str(path), LONGEST_SHOWN)
    raise RalphError(f"{shown} is none of the files that tasks are read from: {', '.join(SUFFIXES)}")
