"""What a person may write of a task, as plain values under the file's keys, and a task made of it again."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from rulebook_ralph.core.criteria_reading import canonical, completion_faults, override_faults
from rulebook_ralph.core.model import LOOP_FIELDS, Json, Task
from rulebook_ralph.core.problem import Fault
from rulebook_ralph.core.refusal import explained
from rulebook_ralph.core.struct_reading import camel

_ENTRY = "$extra"
_LOOP_KEYS = frozenset(map(camel, LOOP_FIELDS))
WORDS: tuple[str, ...] = tuple(
    key for key in Task.__struct_encode_fields__ if key not in {"id", "status", _ENTRY, *_LOOP_KEYS}
)
"""The keys that a person writes, in the order of the file."""

USUAL: Mapping[str, Any] = {
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


def words_of(task: Task) -> Json:
    """A person's words of a task, the unknown keys last; lists are lists."""
    whole: Json = _listed(msgspec.to_builtins(task))
    extra: Json = whole.pop(_ENTRY, {})
    whole = {**USUAL, **whole}
    return {key: whole[key] for key in WORDS if key in whole} | extra


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_words(task: Task, words: Json, faults: list[Fault]) -> Task:
    """The task with these words in place of its own; what is wrong with them is added to `faults`, their paths begin
    at the task. A key that is unknown is kept where the task had it before.
    """
    before = len(faults)
    faults += [Fault((key,), told) for key in words if (told := _misplaced(key, task.extra))]
    written = {key: value for key, value in words.items() if key in WORDS}
    try:
        read = msgspec.convert({"title": "", **written, "id": task.id}, Task)
    except msgspec.ValidationError as error:
        faults.append(explained(error, Task))
        return task
    faults += _content_faults(read)
    facts = {name: getattr(task, name) for name in ("status", *LOOP_FIELDS)}
    extra = {key: value for key, value in words.items() if key not in WORDS}
    completion = canonical(read.completion) if len(faults) == before else read.completion
    return msgspec.structs.replace(read, completion=completion, extra=extra, **facts)


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


def _content_faults(task: Task) -> Iterator[Fault]:
    if not task.title.strip():
        yield Fault(("title",), "must not be empty")
    for key, texts in (("acceptanceCriteria", task.acceptance_criteria), ("relevantFiles", task.relevant_files)):
        for place, text in enumerate(texts):
            if not text.strip():
                yield Fault((key, place), "must not be empty")
    yield from completion_faults(task.completion, ("completion",))
    yield from override_faults(task.overrides, ("overrides",))


def nearest(name: str, known: Collection[str]) -> str:
    """The name that was probably meant, or none."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    folded = {each.casefold(): each for each in known}
    near = get_close_matches(name[:200].casefold(), folded, n=1)
    return folded[near[0]] if near else ""
