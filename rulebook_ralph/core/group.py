"""Several tasks that are worked on in one iteration, in one tree: nobody can tell then which of them a change is for.

Pure functions on tasks.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.selection import may_join, next_task


def group_of(
    prd: Prd, first: Task, *, most: int, all_may: bool, alike: Callable[[Task, Task], bool]
) -> tuple[Task, ...]:
    """The task that is to be worked on and those that begin with it, up to `most` in all: what could be worked on
    beside it, as far as it is `alike` and stands where it stands. Tasks that were tried together stay together.
    """
    found, seen = [first], {first.id}
    while len(found) < most and may_join(first, all_may=all_may):
        task = next_task(prd, busy=seen)
        if task is None or not may_join(task, all_may=all_may):
            break
        seen.add(task.id)
        if _stand_alike(first, task) and alike(first, task):
            found.append(task)
    return tuple(found)


def _stand_alike(one: Task, other: Task) -> bool:
    """Whether neither was tried yet, or both together and as often; of two iterations each has feedback of its own."""
    together = one.settled_iteration == other.settled_iteration
    return one.attempts == other.attempts and (together or not one.attempts)


def as_one(tasks: Sequence[Task]) -> Task:
    """What the tasks say together, by the name of the first; a single one is itself."""
    if len(tasks) == 1:
        return tasks[0]
    return replace(
        tasks[0],
        title="; ".join(task.title for task in tasks),
        description="\n\n".join(f"{task.id}: {task.title}\n{task.description}".rstrip() for task in tasks),
        outcome=_lines(task.outcome for task in tasks),
        notes=_lines(task.notes for task in tasks),
        dependencies=_each_once(task.dependencies for task in tasks),
        acceptance_criteria=_each_once(task.acceptance_criteria for task in tasks),
        relevant_files=_each_once(task.relevant_files for task in tasks),
        metadata={},
    )


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def _each_once(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for texts in lists for text in texts))


def parts_of(whole: int, parts: int) -> tuple[int, ...]:
    """`whole` in that many parts, none of it lost: the first ones are the larger."""
    share, rest = divmod(whole, parts)
    return tuple(share + (number < rest) for number in range(parts))
