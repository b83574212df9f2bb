"""An edit that was held, as what a person sends to have it made after all. Pure functions on values."""

from collections.abc import Collection, Mapping
from hashlib import sha256

from msgspec.structs import replace

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.merging import differences, merged
from rulebook_ralph.core.model import Prd, Task, Value
from rulebook_ralph.core.problem import Fault


class Take(Value, frozen=True, kw_only=True, tag_field="edit", tag="take"):
    """What an edit of the whole list says otherwise than `base`; tasks of which both say the same are in neither."""

    base: Prd
    theirs: Prd


class Put(Value, frozen=True, kw_only=True, tag_field="edit", tag="put"):
    """Another content of a file of the state folder. `base` is the SHA-256 of what it began with, empty where there was
    no such file.
    """

    name: str
    base: str
    content: bytes


CHANGED_SINCE = Fault((), "the file was changed since that edit began")


def take(base: Prd, theirs: Prd) -> Take:
    """The edit that makes of `base` what `theirs` says, without what it leaves alone."""
    touched = {found.task_id for found in differences(base, theirs)}
    return Take(base=_only(base, touched), theirs=_only(theirs, touched))


def _only(prd: Prd, ids: Collection[str]) -> Prd:
    return replace(prd, tasks=tuple(task for task in prd.tasks if task.id in ids))


def taken(prd: Prd, edit: Take, *, at_work: Collection[str] = ()) -> Prd:
    """`prd` with the edit in it, its tasks in their order and new ones last; it may break rules of a PRD.

    A task at work keeps its status, dependencies and overrides, and stays on the list.
    """
    before = {task.id: task for task in edit.base.tasks}
    wanted = {task.id: task for task in edit.theirs.tasks}
    now = {task.id for task in prd.tasks}
    base = [before.get(task.id, task) for task in prd.tasks if task.id in before or task.id not in wanted]
    base += [task for task in edit.base.tasks if task.id not in now]
    theirs = [found for task in prd.tasks if (found := _wanted(task, before, wanted, at_work)) is not None]
    theirs += [task for task in edit.theirs.tasks if task.id not in now]
    return merged(replace(edit.base, tasks=tuple(base)), prd, replace(edit.theirs, tasks=tuple(theirs)))


def _wanted(
    task: Task, before: Mapping[str, Task], wanted: Mapping[str, Task], at_work: Collection[str]
) -> Task | None:
    """What the edit makes of a task; None where it takes it off the list."""
    if task.id not in before and task.id not in wanted:
        return task
    if task.id not in at_work:
        return wanted.get(task.id)
    old = before.get(task.id, task)
    return replace(wanted.get(task.id, old), status=old.status, dependencies=old.dependencies, overrides=old.overrides)


def waiting(prd: Prd, edit: Take, *, at_work: Collection[str]) -> tuple[str, ...]:
    """The tasks at work of which the edit says what cannot be done before their attempts have ended."""
    whole, now = taken(prd, edit), taken(prd, edit, at_work=at_work)
    return tuple(dict.fromkeys(found.task_id for found in differences(now, whole) if found.task_id))


def answer(before: Prd, after: Prd, *, at_work: Collection[str], waiting: Collection[str]) -> str:
    """A line for the person."""
    names = list(dict.fromkeys(found.task_id or "the head of the list" for found in differences(before, after)))
    parts = [f"taken over: {some(names, 8)}" if names else "nothing changed"]
    if running := [name for name in names if name in at_work]:
        parts.append(f"the attempt now running at {some(running)} is judged by what it started with")
    if waiting:
        parts.append(f"status, dependencies and overrides of {some(waiting)} stay while that is worked on")
    return "; ".join(parts)


def digest(content: bytes | None) -> str:
    """What `Put.base` has for a content; empty for no file."""
    return "" if content is None else sha256(content).hexdigest()
