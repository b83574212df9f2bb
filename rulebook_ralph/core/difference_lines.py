"""What an edit of the task list changes, in lines that a person can judge it by. Nothing in them is invisible, or
cut: what is agreed to is what was shown."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from rulebook_ralph.core.merging import Difference
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.core.struct_reading import camel
from rulebook_ralph.core.task_words import USUAL, words_of
from rulebook_ralph.core.whole_text import whole

LONGEST = 240
"""Characters of a value whose beginning is left out where it stays as it was, unless it says what is run."""

_LEAD = 40
_RUN = re.compile(r"[^:]*: (?:completion|overrides)\b")
_NONE = "(none)"


def lines_of(differences: Iterable[Difference]) -> Iterator[str]:
    """One line for each value that changes: `task: field: before → after`."""
    for found in differences:
        task_id = escaped(found.task_id) if found.task_id else "list"
        if isinstance(found.after, Task) and not found.field:
            yield from _new(task_id, found.after)
        elif not found.field:
            title = found.before.title if isinstance(found.before, Task) else ""
            yield f"{task_id}: removed from the list ({_shown(title)})"
        else:
            name = "" if found.field == "extra" else camel(found.field)
            yield from _changed(f"{task_id}: {name}".rstrip(), _plain(found.before), _plain(found.after))


def _new(task_id: str, task: Task) -> Iterator[str]:
    yield f"{task_id}: new task, {task.status}"
    for key, value in words_of(task).items():
        if value != USUAL.get(key):
            yield from _changed(f"{task_id}: {whole(key)}", None, value, new=True)


def _changed(name: str, before: Any, after: Any, *, new: bool = False) -> Iterator[str]:
    if not new and isinstance(after, dict) and after and (before is None or isinstance(before, dict)):
        before = before or {}
        for key in {**before, **after}:
            if before.get(key) != after.get(key) or (key in before) != (key in after):
                joint = "." if not name.endswith(":") else " "
                yield from _changed(f"{name}{joint}{whole(key)}", before.get(key), after.get(key))
    elif new and isinstance(after, dict) and after:
        for key, value in after.items():
            yield from _changed(f"{name}.{whole(key)}", None, value, new=True)
    elif new:
        yield f"{name}: {_shown(after)}"
    else:
        start = 0 if _RUN.match(name) else _same_start(before, after)
        yield f"{name}: {_shown(before, start)} → {_shown(after, start)}"


def _same_start(before: Any, after: Any) -> int:
    """How much of two long values is left out at their beginning, as it is the same."""
    texts = (_text(before), _text(after))
    if max(map(len, texts)) <= LONGEST:
        return 0
    same = next((place for place, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    return max(0, same - _LEAD)


def _shown(value: Any, start: int = 0) -> str:
    return ("…" if start else "") + whole(_text(value)[start:])


def _text(value: Any) -> str:
    return _NONE if value is None else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
