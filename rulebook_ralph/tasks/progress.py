"""`progress.txt`: the append-only log for people and agents.

A header, then one entry for each settled iteration. What stands at the beginning of a line is Ralph's; text from agents
is indented. An entry ends with its own end line, so that a torn or forged one is recognised; a torn tail is closed,
never rewritten.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.text import Problem, one_line

PROGRESS_NAME = ".rulebook-ralph/progress.txt"
LONGEST_TEXT = 4000

_START_WORDS = "## Iteration "
_START = re.compile(rf"^{_START_WORDS}([0-9]{{1,12}}) · ", re.MULTILINE)
_TORN_END = "## End of a torn entry\n"
_INDENT = "    "
_LEARNING = f"{_INDENT}learned: "
_LEARNED = re.compile(rf"^{_LEARNING}(.*)$", re.MULTILINE)


class ProgressEntry(msgspec.Struct, frozen=True, gc=False):
    """One whole entry: its number and its text with the end line."""

    number: int
    text: str

    @property
    def learnings(self) -> tuple[str, ...]:
        return tuple(_LEARNED.findall(self.text))


def read(path: Path) -> str:
    """The text of the file; empty where there is none. Raises OSError."""
    try:
        return disk.read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def header(project: str, *, created_at: str, task_count: int) -> str:
    """The beginning of a new progress.txt: what it is, and the first iteration marker."""
    return f"""\
# Progress of {one_line(project, LONGEST_TEXT)}
# Append-only: one entry for each settled iteration. Ralph writes it, people and agents read it.

## Iteration 0 · initialised · {created_at}
{_INDENT}tasks: {task_count}
{_end(0)}"""


def entry(iteration: Iteration, *, gates: Sequence[str], reason: str, learnings: Sequence[str], summary: str) -> str:
    """The entry of a settled iteration. `gates` are ready-made phrases such as `tests passed`."""
    status = iteration.completion_status or "failed"
    which = f"{iteration.stage} · attempt {iteration.attempt}"
    told = [
        ("at", iteration.ended_at or iteration.started_at),
        ("gates", ", ".join(gates)),
        ("review", str(iteration.review or "")),
        ("commit", (iteration.commit or "")[:12]),
        ("summary", summary),
        ("reason", reason),
        *(("learned", learning) for learning in learnings),
    ]
    lines = [f"## Iteration {iteration.iteration_number} · {iteration.names} · {which} · {status}"]
    lines += [f"{_INDENT}{name}: {one_line(text, LONGEST_TEXT)}" for name, text in told if text]
    return "\n".join(lines) + "\n" + _end(iteration.iteration_number)


def unheard(text: str, learnings: Sequence[str]) -> list[str]:
    """The learnings that no entry of the text tells yet, each once."""
    known = {folded(found[1]) for found in _LEARNED.finditer(text)} if learnings else set()
    first: dict[str, str] = {}
    for learning in learnings:
        first.setdefault(folded(learning), learning)
    return [learning for key, learning in first.items() if key and key not in known]


def closing(text: str) -> str:
    """What must be appended before a new entry so that a torn tail is closed; empty for a whole file."""
    line_end = "" if not text or text.endswith("\n") else "\n"
    start = len(text)
    while (start := text.rfind(_START_WORDS, 0, start)) >= 0:
        if match := _START.match(text, start):
            is_closed = has_entry(text[start:], int(match[1])) or f"\n{_TORN_END}" in text[start:]
            return line_end + ("" if is_closed else _TORN_END)
    return line_end


def entries(text: str) -> list[ProgressEntry]:
    """All whole entries, in order, without the initial marker."""
    starts = [(match.start(), int(match[1])) for match in _START.finditer(text)]
    found: list[ProgressEntry] = []
    for (start, number), (following, _) in pairwise([*starts, (len(text), 0)]):
        end = f"\n{_end(number)}"
        if number and (at := text.find(end, start, following)) >= 0:
            found.append(ProgressEntry(number, text[start : at + len(end)]))
    return found


def has_entry(text: str, number: int) -> bool:
    """Whether the whole entry of that iteration stands in the text; it may lack the last line feed."""
    end = f"\n{_end(number)}"
    return end in text or text.endswith(end[:-1])


def problems(root: Path) -> list[Problem]:
    """Why a project's progress.txt cannot be read; what is torn in it is closed by the next entry."""
    try:
        read(root / PROGRESS_NAME)
    except OSError as error:
        return [Problem(PROGRESS_NAME, None, "", f"cannot be read: {error.strerror}")]
    return []


def folded(learning: str) -> str:
    """By which a learning is recognised: without case, spaces and what stands at its end."""
    return one_line(learning, LONGEST_TEXT).casefold().rstrip(".!; ")


def _end(number: int) -> str:
    return f"## End of iteration {number}\n"
