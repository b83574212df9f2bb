"""Which iterations of a long history may go. Pure functions on values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.core.model import Task


@dataclass(frozen=True, slots=True)
class Past:
    """What an iteration file says: whose iteration it was, with the `others` of a group, and whether it is settled."""

    task_id: str
    settled: bool
    others: Collection[str] = ()


def superfluous(
    files: Mapping[int, Past | None], snapshots: Mapping[int, Collection[str]], tasks: Sequence[Task], *, keep: int
) -> frozenset[int]:
    """The numbers of the iterations of which file and snapshots may be removed.

    `files` are the iteration files, None for one that cannot be read; `snapshots` the ids of the tasks that have one
    under that number. Left out, and so kept, are the newest `keep` (at least 1) of each, so that no number is used
    twice; all of tasks that are not completed, with the iterations they name; and what is not settled or unreadable.
    """
    newest = {number for kept in (files, snapshots) for number in sorted(kept)[-max(1, keep) :]}
    going_on = [task for task in tasks if task.status != "completed"]
    named = {number for task in going_on for number in (task.settled_iteration, task.iteration_number)}
    open_ids = {task.id for task in going_on}
    return frozenset(
        number
        for number in files.keys() | snapshots.keys()
        if number not in newest
        and number not in named
        and (number not in files or _is_over(files[number], open_ids))
        and open_ids.isdisjoint(snapshots.get(number, ()))
    )


def _is_over(past: Past | None, open_ids: set[str]) -> bool:
    return past is not None and past.settled and open_ids.isdisjoint((past.task_id, *past.others))
