"""What a prompt shows of a project within a number of tokens: its tasks, what they brought about, its progress.

Pure functions. What is left out of a long progress.txt moves in blocks of entries, so that two prompts in a row begin
alike for as long as possible.
"""

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.model import LOOP_FIELDS, CompletionSummary, Prd, Task
from rulebook_ralph.tasks.struct_reading import camel
from rulebook_ralph.tasks.text import BYTES_PER_TOKEN, one_line, some
from rulebook_ralph.tasks.text import estimated_tokens as tokens

BLOCK = 50
"""Entries of a long progress.txt are left out in blocks of this many."""
_MOVING = {*map(camel, LOOP_FIELDS), "status", "$extra", "metadata", "source", "completion", "overrides"}
"""Keys of a task that its prompt leaves out of the list."""
_MOST_DEPENDENCIES = 20
_TABLE_ROWS = 60
_CUT = "\n[… cut here, as it is too long for this prompt]"


def cut(text: str, limit: int) -> str:
    """The text while it fits `limit` tokens; else its beginning, saying so; nothing where not even that fits."""
    if 4 * len(text) <= BYTES_PER_TOKEN * limit or tokens(text) <= limit:
        return text
    room = limit * BYTES_PER_TOKEN - len(_CUT.encode())
    if room < 0:
        return ""
    return text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + _CUT


def few(texts: Iterable[str], limit: int) -> list[str]:
    """The first texts that fit `limit` tokens together, each with its dash and line end."""
    kept: list[str] = []
    for text in texts:
        shown = cut(text, limit - 2)
        limit -= tokens(shown) + 2
        if limit < 0 or (text and not shown):
            break
        kept.append(shown)
    return kept


class Rest:
    """Hands out what is left of a prompt: to each part its share of the whole (tokens) at most."""

    def __init__(self, whole: int, left: int) -> None:
        self._whole = whole
        self._left = left

    def text(self, text: str, share: float) -> str:
        """The text, cut where it must be."""
        shown = cut(text, min(int(self._whole * share), self._left))
        self._left -= tokens(shown) + 1
        return shown

    def items(self, texts: Iterable[str], share: float) -> list[str]:
        """The first of the texts that fit."""
        kept = few(texts, min(int(self._whole * share), self._left))
        self._left -= sum(tokens(text) + 2 for text in kept)
        return kept


def built_on(prd: Prd, task: Task, limit: int) -> list[str]:
    """What each task that this one needs brought about, in equal parts of `limit` tokens."""
    needed = task.dependencies[:_MOST_DEPENDENCIES]
    return [brought_about(prd.task(each), limit // len(needed) - 2) for each in needed]


def brought_about(task: Task, limit: int) -> str:
    """A task for those that build on it, in `limit` tokens: the words, then as many files as fit."""
    whole = cut(one_line(f"{task.id}: {task.title}{'. ' + task.summary if task.summary else ''}", 4 * limit), limit)
    facts = task.completion_summary or CompletionSummary()
    for name, files in (("files created", facts.files_created), ("files modified", facts.files_modified)):
        for most in (20, 5):
            longer = f"{whole}\n  {name}: {some(files, most)}"
            if files and tokens(longer) <= limit:
                whole = longer
                break
    return whole


def task_list(prd: Prd, *, limit: int) -> str:
    """The PRD without its moving fields: as JSON while it fits `limit` tokens, else a table of ids and titles."""
    if sum(len(task.description) for task in prd.tasks) < limit * BYTES_PER_TOKEN:
        whole = _static_json(prd)
        if tokens(whole) + 4 <= limit:
            return f"```json\n{whole}\n```"
    rows: list[str] = []
    room = limit * BYTES_PER_TOKEN - 300
    for task in prd.tasks:
        row = f"- {task.id} (priority {task.priority}): {' '.join(task.title[:120].split())}"
        room -= len(row.encode("utf-8", "replace")) + 1
        if room < 0:
            break
        rows.append(row)
    left_out = len(prd.tasks) - len(rows)
    note = f"{len(prd.tasks)} tasks; too many to be shown whole"
    more = [f"… and {left_out} more tasks"] if left_out else []
    return "\n".join([f"Project {prd.project[:40]}: {note}.", *rows, *more])


def recent_progress(text: str, *, limit: int) -> str:
    """progress.txt while it fits `limit` tokens; else its newest entries and the learnings of those left out."""
    if tokens(text) <= limit:
        return text.rstrip("\n") + "\n"
    entries = progress.entries(text)
    if not entries:
        return cut(text, limit).rstrip("\n") + "\n"
    room = int(limit * 0.75)
    dropped = _left_out([entry.text for entry in entries], room * BYTES_PER_TOKEN)
    kept = (cut(entry.text, room // 2) for entry in entries[dropped:])
    learnings = _learnings(entries[:dropped], room=int(limit * 0.15) * BYTES_PER_TOKEN)
    note = f"({dropped} older entries are left out here)"
    return "\n".join([note, *learnings, *(text.rstrip("\n") for text in kept)]) + "\n"


def _left_out(entries: Sequence[str], room: int) -> int:
    """How many of the oldest entries to leave out so that the others fit `room` bytes.

    They go in blocks of BLOCK entries, or of half the room where those would be longer: what stays begins at the same
    entry for as long as possible.
    """
    sizes = [min(len(entry.encode("utf-8", "replace")), room // 2) for entry in entries]
    starts, block = [0], 0
    for index, size in enumerate(sizes):
        if index - starts[-1] == BLOCK or (block and block + size > room // 2):
            starts.append(index)
            block = 0
        block += size
    total = sum(sizes)
    for start, following in itertools.pairwise(starts):
        if total <= room:
            return start
        total -= sum(sizes[start:following])
    return starts[-1]


def status_table(prd: Prd) -> str:
    """Counts, and the status of every task, or of those that matter now when they are many."""
    by_status: dict[str, list[Task]] = {"in_iteration": [], "blocked": [], "pending": [], "completed": []}
    for task in prd.tasks:
        by_status[task.status].append(task)
    lines = [", ".join(f"{len(tasks)} {status}" for status, tasks in by_status.items()) + f", {len(prd.tasks)} in all"]
    all_fit = len(prd.tasks) <= _TABLE_ROWS
    for status, tasks in by_status.items():
        shown = tasks if all_fit else (tasks[-10:] if status == "completed" else tasks[:20])
        for task in shown:
            why = f" ({' '.join(task.blocked_reason.split())[:200]})" if task.blocked_reason else ""
            lines.append(f"- {task.id}: {status}{why}")
        if len(shown) < len(tasks):
            lines.append(f"- … {len(tasks) - len(shown)} more {status}")
    return "\n".join(lines)


def _learnings(entries: Sequence[progress.ProgressEntry], *, room: int) -> list[str]:
    """What older entries taught, each once, the newest that fit."""
    seen: set[str] = set()
    lines: list[str] = []
    for learning in (learning for entry in reversed(entries) for learning in entry.learnings):
        if progress.folded(learning) in seen:
            continue
        seen.add(progress.folded(learning))
        room -= len(learning.encode("utf-8", "replace")) + 3
        if room < 0:
            break
        lines.append(f"- {learning}")
    return ["Learned in older iterations:", *reversed(lines)] if lines else []


def _static_json(prd: Prd) -> str:
    tasks = [
        {key: value for key, value in msgspec.to_builtins(task).items() if key not in _MOVING and value not in ("", ())}
        for task in prd.tasks
    ]
    whole = {"project": prd.project, "description": prd.description, "tasks": tasks}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode("utf-8")
