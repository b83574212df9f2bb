"""A person's edit of the task list as a value, and what it makes of a PRD. Pure; the same at rest and during a run."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from rulebook_ralph.core import taking
from rulebook_ralph.core.criteria_reading import canonical, completion_faults
from rulebook_ralph.core.enumeration import counted, some
from rulebook_ralph.core.model import Json, Prd, Status, Task, Value
from rulebook_ralph.core.plan import AddAll, extended
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.problem import Fault, dotted, escaped
from rulebook_ralph.core.rewording import Place, reworded
from rulebook_ralph.core.taking import Put, Take
from rulebook_ralph.core.task_words import nearest, with_words, words_of
from rulebook_ralph.errors import RalphError

if TYPE_CHECKING:
    from rulebook_ralph.core.lifecycle import Trigger


class Add(Value, frozen=True, kw_only=True, tag_field="edit", tag="add"):
    """A new task at the end of the list. `words` are as in task_words."""

    task_id: str
    words: Json


class Change(Value, frozen=True, kw_only=True, tag_field="edit", tag="change"):
    """Other words: what `clear` names is taken away, then `merge` is laid over, objects key by key."""

    task_id: str
    clear: tuple[Place, ...] = ()
    merge: Json = {}
    note: str = ""


class Unblock(Value, frozen=True, kw_only=True, tag_field="edit", tag="unblock"):
    task_id: str
    note: str = ""


class Reopen(Value, frozen=True, kw_only=True, tag_field="edit", tag="reopen"):
    task_id: str
    reason: str


class Done(Value, frozen=True, kw_only=True, tag_field="edit", tag="done"):
    """The work was there already: a person answers for it."""

    task_id: str
    reason: str


class Remove(Value, frozen=True, kw_only=True, tag_field="edit", tag="remove"):
    task_id: str


Edit = Add | AddAll | Change | Unblock | Reopen | Done | Remove | Take
Sent = Edit | Put
"""What a person sends to a run: an edit of the list, or another content of a file beside it."""


class EditRefusedError(RalphError):
    """An edit that is not legal, or not now. `faults` has all that is wrong; their paths begin at the task, or at
    `tasks` where it adds several.
    """

    def __init__(self, *faults: Fault) -> None:
        first = faults[0]
        place = dotted("", first.path).removeprefix(".")
        more = f" (and {counted(len(faults) - 1, 'more problem')})" if len(faults) > 1 else ""
        super().__init__((f"{place}: {first.message}" if place else first.message) + more)
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Applied:
    """The PRD after an edit (the same object where nothing changed), and a line for the person."""

    prd: Prd
    answer: str


def apply(prd: Prd, edit: Edit, *, at: str, at_work: Collection[str] | None = None) -> Applied:
    """The valid PRD with the edit in it, at the ISO time `at`. Raises EditRefusedError.

    `at_work` are the ids of the tasks whose status is now the loop's alone; None: of all that are in iteration.
    """
    if at_work is None:
        at_work = {task.id for task in prd.tasks if task.status == "in_iteration"}
    match edit:
        case Add():
            after, answer = _added(prd, edit)
        case AddAll():
            after, answer = _added_all(prd, edit)
        case Change():
            after, answer = _changed(prd, edit, at_work)
        case Remove():
            after, answer = _removed(prd, edit, at_work)
        case Unblock() | Reopen() | Done():
            after, answer = _moved(prd, edit, at, at_work)
        case Take():
            after, answer = _took(prd, edit, at_work)
    return Applied(prd if after is prd else replace(after, updated_at=at), answer)


def is_to_be_put(edit: Put, current: bytes | None) -> bool:
    """Whether that content is to replace the file's: False where it has it already.

    Raises EditRefusedError where the file was changed since the edit began (taking.CHANGED_SINCE).
    """
    if current == edit.content:
        return False
    if taking.digest(current) != edit.base:
        raise EditRefusedError(taking.CHANGED_SINCE)
    return True


def find(prd: Prd, task_id: str) -> Task:
    """The task of that id; raises RalphError that suggests the nearest."""
    try:
        return prd.task(task_id)
    except KeyError:
        raise EditRefusedError(Fault((), _no_task(task_id, prd))) from None


# Words


def _added(prd: Prd, edit: Add) -> tuple[Prd, str]:
    faults: list[Fault] = []
    task = with_words(Task(id=edit.task_id, title=""), edit.words, faults)
    after = _checked(prd, replace(prd, tasks=(*prd.tasks, task)), len(prd.tasks), faults)
    return after, f"{task.id}: added"


def _added_all(prd: Prd, edit: AddAll) -> tuple[Prd, str]:
    faults: list[Fault] = []
    after = extended(prd, edit.tasks, faults)
    if faults:
        raise EditRefusedError(*dict.fromkeys(faults))
    names = [task.id for task in after.tasks[len(prd.tasks) :]]
    return after, f"added {counted(len(names), 'task')}: {some(names, 8)}"


def _changed(prd: Prd, edit: Change, at_work: Collection[str]) -> tuple[Prd, str]:
    task = find(prd, edit.task_id)
    before = words_of(task)
    words = dict(before)
    if not any(completion_faults(task.completion, ())):
        words["completion"] = canonical(task.completion)
    faults: list[Fault] = []
    changed = _noted(with_words(task, reworded(words, edit.clear, edit.merge), faults), edit.note)
    after = words_of(changed)
    names = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if task.id in at_work:
        faults += [Fault((key,), _NOT_NOW) for key in ("dependencies", "overrides") if key in names]
    if not names and not faults:
        return prd, f"{task.id}: nothing changed"
    index = prd.tasks.index(task)
    whole = _checked(prd, prd.replacing(changed), index, faults)
    later = "; the attempt now running is judged by what it started with" if task.id in at_work else ""
    return whole, f"{task.id}: changed {some(names, 8)}{later}"


def _noted(task: Task, note: str) -> Task:
    note = note.strip()
    if not note:
        return task
    return replace(task, notes=f"{task.notes.rstrip()}\n{note}" if task.notes.strip() else note)


def _took(prd: Prd, edit: Take, at_work: Collection[str]) -> tuple[Prd, str]:
    after = taking.taken(prd, edit, at_work=at_work)
    reopened = {task.id for task in prd.tasks if task.status == "completed"}
    reopened -= {task.id for task in after.tasks if task.status == "completed"}
    faults = list(problems_of(after))
    for task in (task for task in after.tasks if task.id in at_work):
        built_on = (need for need in task.dependencies if need in reopened)
        faults += [Fault((), f"{task.id}, which is being worked on, depends on {need}; {_WAIT}") for need in built_on]
    if faults:
        raise EditRefusedError(*faults)
    later = taking.waiting(prd, edit, at_work=at_work)
    answer = taking.answer(prd, after, at_work=at_work, waiting=later)
    return (prd if after == prd else after), answer


# Status and place


def _removed(prd: Prd, edit: Remove, at_work: Collection[str]) -> tuple[Prd, str]:
    task = find(prd, edit.task_id)
    _require_at_rest(task, at_work)
    if depending := [other.id for other in prd.tasks if task.id in other.dependencies]:
        name = "depends" if len(depending) == 1 else "depend"
        raise EditRefusedError(Fault((), f"{some(depending)} {name} on {task.id}; change that first"))
    left = tuple(other for other in prd.tasks if other.id != task.id)
    return replace(prd, tasks=left), f"{task.id}: removed"


def _moved(prd: Prd, edit: Unblock | Reopen | Done, at: str, at_work: Collection[str]) -> tuple[Prd, str]:
    task = find(prd, edit.task_id)
    _require_at_rest(task, at_work)
    if isinstance(edit, Unblock):
        anew = _noted(_anew(task, "unblock"), edit.note)
        return prd.replacing(anew), f"{task.id}: pending again, with its attempts anew"
    reason = " ".join(edit.reason.split())
    if not reason:
        raise EditRefusedError(Fault(("reason",), "must not be empty"))
    if isinstance(edit, Done):
        return prd.replacing(_done(task, reason, at)), f"{task.id}: completed, on your word"
    if waiting := [other.id for other in prd.tasks if other.id in at_work and task.id in other.dependencies]:
        raise EditRefusedError(Fault((), f"{waiting[0]}, which is being worked on, depends on {task.id}; {_WAIT}"))
    anew = _noted(_anew(task, "reopen"), f"Reopened: {reason}")
    return prd.replacing(anew), f"{task.id}: pending again"


_WAIT = "wait until its attempt has ended, or stop the run"
_NOT_NOW = f"cannot change while the task is being worked on; {_WAIT}"
_ONLY: dict[str, str] = {
    "unblock": "only a blocked task can be unblocked",
    "reopen": "only a completed task can be reopened",
    "done": "only a pending or blocked task can be declared done",
}


def _require_at_rest(task: Task, at_work: Collection[str]) -> None:
    if task.id in at_work:
        raise EditRefusedError(Fault((), f"{task.id} is being worked on; {_WAIT}"))


def _anew(task: Task, trigger: "Trigger") -> Task:
    status = _advanced(task, trigger)
    return replace(task, status=status, stage=None, attempts={}, blocked_reason=None, completed_at=None)


def _done(task: Task, reason: str, at: str) -> Task:
    if task.status == "in_iteration":  # an earlier run left it between two attempts
        task = replace(task, status=_advanced(task, "interrupt"))
    status = _advanced(task, "done")
    noted = _noted(task, f"Done without an agent: {reason}")
    return replace(noted, status=status, completed_at=at, blocked_reason=None, summary=reason, completion_summary=None)


def _advanced(task: Task, trigger: "Trigger") -> Status:
    from rulebook_ralph.core.lifecycle import IllegalTransition, advance  # noqa: PLC0415 - transitions takes 17 ms

    try:
        return advance(task.status, trigger)
    except IllegalTransition:
        raise EditRefusedError(Fault((), f"{task.id} is {task.status}; {_ONLY[trigger]}")) from None


# Validity


def _checked(before: Prd, after: Prd, index: int, faults: list[Fault]) -> Prd:
    """`after`, or EditRefusedError with all that is wrong with its task at `index`, the faults found so far first."""
    known = {each.id for each in after.tasks}
    task = after.tasks[index]
    for path, message in problems_of(after):
        match path:
            case ("tasks", place, "dependencies", int(which)) if (
                place == index and task.dependencies[which] not in known
            ):
                faults.append(Fault(("dependencies", which), _no_task(task.dependencies[which], before)))
            case ("tasks", place, *rest) if place == index:
                faults.append(Fault(tuple(rest), message))
            case _:  # the task closes a cycle that is told of its first member
                faults.append(Fault(("dependencies",), message))
    if faults:
        raise EditRefusedError(*dict.fromkeys(faults))
    return after


def _no_task(task_id: str, prd: Prd) -> str:
    near = nearest(task_id, [task.id for task in prd.tasks])
    shown = escaped(task_id)
    return f"there is no task '{shown}'" + (f"; did you mean '{near}'?" if near else "; 'ralph task list' has all")


def decode(data: bytes) -> Sent:
    """An edit that was sent. Raises RalphError."""
    try:
        edit: Sent = msgspec.json.decode(data, type=Sent)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"this is no edit of a task list: {escaped(str(error), 200)}") from None
    return edit
