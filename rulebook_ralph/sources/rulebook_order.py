"""The order among imported tasks: priorities from phases, dependencies from references. Pure."""

from collections.abc import Collection, Mapping, Sequence

from rulebook_ralph.sources.rulebook_metadata import Reference
from rulebook_ralph.sources.rulebook_task import TaskFolder
from rulebook_ralph.sources.source import SourceProblem

LONGEST_CYCLE_SHOWN = 12


def priorities(phases: Sequence[int | None]) -> list[int]:
    """1 is first: phase N gives N + 1, so that phase 0 exists; tasks without a phase come after the last phase."""
    last = max((phase for phase in phases if phase is not None), default=-1)
    return [(last + 1 if phase is None else phase) + 1 for phase in phases]


def dependencies(
    folders: Sequence[TaskFolder], *, known_ids: Collection[str], done_ids: Collection[str]
) -> tuple[dict[str, tuple[str, ...]], list[SourceProblem]]:
    """What each task depends on: its `blockedBy`, and the tasks that say they block it.

    `known_ids` are tasks that exist elsewhere; `done_ids` those put away as done, which nobody has to wait for. Unknown
    ids, a task's own and the link that closes a cycle are left out, and each is a problem.
    """
    problems: list[SourceProblem] = []
    ids = {folder.task.id for folder in folders}
    needs: dict[str, dict[str, Reference]] = {folder.task.id: {} for folder in folders}

    def known(owner: str, reference: Reference, key: str) -> bool:
        if reference.task_id == owner:
            message = f"{key} names the task itself ({owner}): it is left out"
        elif reference.task_id in ids or (key == "blockedBy" and reference.task_id in known_ids):
            return True
        elif reference.task_id in known_ids or reference.task_id in done_ids:
            return False
        else:
            message = f"{key} names an unknown task, {reference.task_id!r}: it is left out"
        problems.append(SourceProblem(reference.file, reference.line, message))
        return False

    for folder in folders:
        owner = folder.task.id
        for reference in folder.blocked_by:
            if known(owner, reference, "blockedBy"):
                needs[owner].setdefault(reference.task_id, reference)
        for reference in folder.blocks:
            if known(owner, reference, "blocks"):
                needs[reference.task_id].setdefault(owner, reference)
    problems += _break_cycles(needs)
    return {task_id: tuple(wanted) for task_id, wanted in needs.items()}, problems


def _break_cycles(needs: Mapping[str, dict[str, Reference]]) -> list[SourceProblem]:
    """Take out the link that closes each cycle, found by one walk in the order of the tasks."""
    problems: list[SourceProblem] = []
    seen: set[str] = set()
    for start in needs:
        path: dict[str, list[str]] = {} if start in seen else {start: list(needs[start])}
        while path:
            task, left = next(reversed(path.items()))
            seen.add(task)
            if not left:
                path.popitem()
                continue
            needed = left.pop(0)
            if needed in path:
                reference = needs[task].pop(needed)
                message = (
                    f"dependencies form a cycle ({_told(list(path), needed)}): the last of these links is left out"
                )
                problems.append(SourceProblem(reference.file, reference.line, message))
            elif needed in needs and needed not in seen:
                path[needed] = list(needs[needed])
    return problems


def _told(path: list[str], first: str) -> str:
    cycle = path[path.index(first) :]
    shown = cycle if len(cycle) <= LONGEST_CYCLE_SHOWN else [*cycle[: LONGEST_CYCLE_SHOWN - 2], "…", cycle[-1]]
    return " → ".join([*shown, first])
