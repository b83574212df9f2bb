"""A person's edit of the task list as a value, and what it makes of a PRD. Pure; the same at rest and during a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.criteria_reading import canonical, completion_faults, override_faults
from rulebook_ralph.tasks.lifecycle import IllegalTransition, Trigger, advance
from rulebook_ralph.tasks.model import LOOP_FIELDS, Json, Prd, Status, Task, Value
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.struct_reading import camel, first_fault
from rulebook_ralph.tasks.text import Fault, counted, dotted, escaped, nearest, some

_ENTRY = "$extra"
_LOOP_KEYS = frozenset(map(camel, LOOP_FIELDS))
WORDS: tuple[str, ...] = tuple(
    key for key in Task.__struct_encode_fields__ if key not in {"id", "status", _ENTRY, *_LOOP_KEYS}
)
"""The keys of a task that a person writes, in the order of the file."""

_USUAL: Mapping[str, Any] = {
    "title": "",
    "description": "",
    "priority": 1,
    "dependencies": [],
    "acceptanceCriteria": [],
    "outcome": "",
    "relevantFiles": [],
    "completion": {},
    "notes": "",
}
"""The words that are shown even where a task has none of them."""


class Add(Value, frozen=True, kw_only=True, tag_field="edit", tag="add"):
    """New tasks at the end of the list, all or none; each its `id` and its words, as a person may write them."""

    tasks: tuple[Json, ...]


class TaskChange(Value, frozen=True, kw_only=True, tag_field="edit", tag="change"):
    """Other words: those of `instead` take the place of what was there, null for none; then `merge` is laid over,
    objects key by key.
    """

    task_id: str
    instead: Json = {}
    merge: Json = {}
    note: str = ""


class Move(Value, frozen=True, kw_only=True, tag_field="edit", tag="move"):
    """Another status, or no place in the list any more. With `done` a person answers for work that was there already.

    reopen and done need a reason.
    """

    task_id: str
    to: Literal["unblock", "reopen", "done", "remove"]
    reason: str = ""


Edit = Add | TaskChange | Move


class EditRefusedError(RalphError):
    """An edit that is not legal, or not now. `faults` has all that is wrong; their paths begin at the task, or at
    `tasks` where it adds some.
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
            after, answer = _added(prd, edit.tasks)
        case TaskChange():
            after, answer = _changed(prd, edit, at_work)
        case Move():
            after, answer = _moved(prd, edit, at, at_work)
    return Applied(prd if after is prd else replace(after, updated_at=at), answer)


def find(prd: Prd, task_id: str) -> Task:
    """The task of that id; raises RalphError that suggests the nearest."""
    try:
        return prd.task(task_id)
    except KeyError:
        near = nearest(task_id, [task.id for task in prd.tasks])
        hint = f"did you mean '{near}'?" if near else "'ralph task list' has all"
        raise _refusal(f"there is no task '{escaped(task_id)}'; {hint}") from None


# Words


def words_of(task: Task) -> Json:
    """A person's words of a task, the unknown keys last; lists are lists."""
    whole: Json = msgspec.json.decode(msgspec.json.encode(task))
    extra: Json = whole.pop(_ENTRY, {})
    whole = {**_USUAL, **whole}
    return {key: whole[key] for key in WORDS if key in whole} | extra


def _with_words(task: Task, words: Json, faults: list[Fault]) -> Task:
    """The task with these words in place of its own; what is wrong with them is added to `faults`, their paths begin
    at the task. A key that is unknown is kept where the task had it before.
    """
    before = len(faults)
    faults += [Fault((key,), told) for key in words if (told := _misplaced(key, task.extra))]
    written = {key: value for key, value in words.items() if key in WORDS}
    whole = {"title": "", **written, "id": task.id}
    try:
        read = msgspec.convert(whole, Task)
    except msgspec.ValidationError as error:
        faults.append(first_fault(whole, Task, error))
        return task
    if not read.title.strip():
        faults.append(Fault(("title",), "must not be empty"))
    for key, texts in (("acceptanceCriteria", read.acceptance_criteria), ("relevantFiles", read.relevant_files)):
        faults += [Fault((key, at), "must not be empty") for at, text in enumerate(texts) if not text.strip()]
    faults += [*completion_faults(read.completion, ("completion",)), *override_faults(read.overrides, ("overrides",))]
    facts = {name: getattr(task, name) for name in ("status", *LOOP_FIELDS)}
    extra = {key: value for key, value in words.items() if key not in WORDS}
    completion = canonical(read.completion) if len(faults) == before else read.completion
    return replace(read, completion=completion, extra=extra, **facts)


def _misplaced(key: str, kept: Collection[str]) -> str:
    """Why a key is none of a person's; empty where it is one."""
    if key in WORDS or key in kept:
        return ""
    if key == "id":
        return "cannot be changed: branches, commits and the history carry it"
    if key == "status":
        return "is not edited: ralph task unblock, reopen or done"
    if key in _LOOP_KEYS:
        return "is the loop's own"
    near = nearest(camel(key), WORDS)
    return f"unknown key; did you mean `{near}`?" if near else "unknown key"


def _reworded(words: Json, edit: TaskChange) -> Json:
    """The words as the edit wants them. A stage that gets another method loses the configuration of the old one, which
    would not fit.
    """
    words = {key: value for key, value in {**words, **edit.instead}.items() if value is not None}
    if not isinstance(given := edit.merge.get("completion"), dict):
        return _merged(words, edit.merge)
    held = words.get("completion")
    stages = dict(held) if isinstance(held, dict) else {}
    given = {stage: _in_camel(each, "verificationConfig") for stage, each in given.items()}
    for stage, new in given.items():
        old = stages.get(stage)
        if isinstance(old, dict) and isinstance(new, dict):
            method = old.get("verificationMethod", "string_match")
            if new.get("verificationMethod", method) != method:
                stages[stage] = {key: value for key, value in old.items() if key != "verificationConfig"}
    return _merged({**words, "completion": stages}, {**edit.merge, "completion": given})


def _in_camel(value: Any, inside: str = "") -> Any:
    if not isinstance(value, dict):
        return value
    return {camel(key): _in_camel(item) if camel(key) == inside else item for key, item in value.items()}


def _merged(below: Json, above: Json) -> Json:
    whole = dict(below)
    for key, value in above.items():
        held = whole.get(key)
        whole[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return whole


# Adding and changing


def extended(prd: Prd, tasks: Sequence[Json], faults: list[Fault]) -> Prd:
    """The valid PRD with these tasks at its end, pending and without any facts; no task that is there is changed.

    What is wrong is added to `faults`, then what is returned is of no use. Their paths begin at `tasks`.
    """
    added = []
    for index, planned in enumerate(tasks):
        own: list[Fault] = []
        words = {key: value for key, value in planned.items() if key != "id"}
        added.append(_with_words(Task(id=str(planned.get("id", "")), title=""), words, own))
        faults += [Fault(("tasks", index, *path), message) for path, message in own]
    after = replace(prd, tasks=(*prd.tasks, *added))
    first = len(prd.tasks)
    for path, message in problems_of(after):
        match path:
            case ("tasks", int(index), *rest) if index >= first:
                faults.append(Fault(("tasks", index - first, *rest), message))
            case _:
                faults.append(Fault((), message))
    return after


def _added(prd: Prd, tasks: Sequence[Json]) -> tuple[Prd, str]:
    faults: list[Fault] = []
    after = extended(prd, tasks, faults)
    if faults:
        raise EditRefusedError(*dict.fromkeys(faults))
    names = [task.id for task in after.tasks[len(prd.tasks) :]]
    return after, f"{names[0]}: added" if len(names) == 1 else f"added {counted(len(names), 'task')}: {some(names, 8)}"


def _changed(prd: Prd, edit: TaskChange, at_work: Collection[str]) -> tuple[Prd, str]:
    task = find(prd, edit.task_id)
    before = words_of(task)
    words = dict(before)
    if not any(completion_faults(task.completion, ())):
        words["completion"] = canonical(task.completion)
    faults: list[Fault] = []
    changed = _noted(_with_words(task, _reworded(words, edit), faults), edit.note)
    after = words_of(changed)
    names = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if task.id in at_work:
        faults += [Fault((key,), _NOT_NOW) for key in ("dependencies", "overrides") if key in names]
    if not names and not faults:
        return prd, f"{task.id}: nothing changed"
    whole = prd.replacing(changed)
    faults += _faults_of(whole, prd.tasks.index(task))
    if faults:
        raise EditRefusedError(*dict.fromkeys(faults))
    later = "; the attempt now running is judged by what it started with" if task.id in at_work else ""
    return whole, f"{task.id}: changed {some(names, 8)}{later}"


def _faults_of(prd: Prd, index: int) -> Iterator[Fault]:
    """What is wrong with a list of which one task was changed, as seen from that task."""
    for path, message in problems_of(prd):
        match path:
            case ("tasks", place, *rest) if place == index:
                yield Fault(tuple(rest), message)
            case _:  # the task closes a cycle that is told of its first member
                yield Fault(("dependencies",), message)


def _noted(task: Task, note: str) -> Task:
    note = note.strip()
    if not note:
        return task
    return replace(task, notes=f"{task.notes.rstrip()}\n{note}" if task.notes.strip() else note)


# Status and place


_WAIT = "wait until its attempt has ended, or stop the run"
_NOT_NOW = f"cannot change while the task is being worked on; {_WAIT}"
_ONLY: dict[str, str] = {
    "unblock": "only a blocked task can be unblocked",
    "reopen": "only a completed task can be reopened",
    "done": "only a pending or blocked task can be declared done",
}


def _moved(prd: Prd, edit: Move, at: str, at_work: Collection[str]) -> tuple[Prd, str]:
    task, reason = find(prd, edit.task_id), " ".join(edit.reason.split())
    if task.id in at_work:
        raise _refusal(f"{task.id} is being worked on; {_WAIT}")
    depending = [other.id for other in prd.tasks if task.id in other.dependencies]
    if not reason and edit.to in ("reopen", "done"):
        raise EditRefusedError(Fault(("reason",), "must not be empty"))
    if edit.to == "remove":
        if depending:
            name = "depends" if len(depending) == 1 else "depend"
            raise _refusal(f"{some(depending)} {name} on {task.id}; change that first")
        left = tuple(other for other in prd.tasks if other.id != task.id)
        return replace(prd, tasks=left), f"{task.id}: removed"
    if edit.to == "done":
        return prd.replacing(_done(task, reason, at)), f"{task.id}: completed, on your word"
    if edit.to == "reopen" and (waiting := [other for other in depending if other in at_work]):
        raise _refusal(f"{waiting[0]}, which is being worked on, depends on {task.id}; {_WAIT}")
    status = _advanced(task, edit.to)
    anew = replace(task, status=status, stage=None, attempts={}, blocked_reason=None, completed_at=None)
    note, told = (edit.reason, ", with its attempts anew") if edit.to == "unblock" else (f"Reopened: {reason}", "")
    return prd.replacing(_noted(anew, note)), f"{task.id}: pending again{told}"


def _done(task: Task, reason: str, at: str) -> Task:
    if task.status == "in_iteration":  # an earlier run left it between two attempts
        task = replace(task, status=_advanced(task, "interrupt"))
    status = _advanced(task, "done")
    noted = _noted(task, f"Done without an agent: {reason}")
    return replace(noted, status=status, completed_at=at, blocked_reason=None, summary=reason, completion_summary=None)


def _advanced(task: Task, trigger: Trigger) -> Status:
    try:
        return advance(task.status, trigger)
    except IllegalTransition:
        raise _refusal(f"{task.id} is {task.status}; {_ONLY[trigger]}") from None


def _refusal(message: str) -> EditRefusedError:
    return EditRefusedError(Fault((), message))


def decode(data: bytes) -> Edit:
    """An edit that was sent. Raises RalphError."""
    try:
        edit: Edit = msgspec.json.decode(data, type=Edit)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RalphError(f"this is no edit of a task list: {escaped(str(error), 200)}") from None
    return edit
