"""`progress.txt`: the append-only log for people and agents.

A header, then one entry for each settled iteration. What stands at the beginning of a line is Ralph's; text from agents
is indented. An entry ends with its own end line, so a torn or forged one is recognised; a torn tail is closed, never
rewritten.
"""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rulebook_ralph.core.evidence import Iteration
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.core.printable import printable
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.state import disk

_START_WORDS = "## Iteration "
_START = re.compile(rf"^{_START_WORDS}([0-9]{{1,12}}) · ", re.MULTILINE)
_NEXT_START = re.compile(rf"\n{_START_WORDS}([0-9]{{1,12}}) · ")
"""The same below the first line: it begins with what can be looked for fast."""
_UNDECODABLE = re.compile(
    "[\udc80-\udcff](?![\udc80-\udcff]{0,2}(?:\n|\\Z))"
)  # a line may break off within a character
_TORN_END = "## End of a torn entry\n"
_INDENT = "    "
MAX_TEXT = 4000
LARGEST = 64 * 1024 * 1024
"""Bytes of a progress.txt that are looked through."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One whole entry: its number and its text with the end line."""

    number: int
    text: str

    @property
    def learnings(self) -> tuple[str, ...]:
        return tuple(line[len(_LEARNING) :] for line in self.text.splitlines() if line.startswith(_LEARNING))


_LEARNING = f"{_INDENT}learned: "
_LEARNED = re.compile(rf"^{_LEARNING}(.*)$", re.MULTILINE)


def unheard(text: str, learnings: Sequence[str]) -> list[str]:
    """The learnings that no entry of the text tells yet, each once."""
    known = {folded(found[1]) for found in _LEARNED.finditer(text)} if learnings else set()
    fresh: dict[str, str] = {}
    for learning in learnings:
        if (key := folded(learning)) and key not in known:
            fresh.setdefault(key, learning)
    return list(fresh.values())


def folded(learning: str) -> str:
    """By which a learning is recognised: without case, spaces and what stands at its end."""
    return _one_line(learning).casefold().rstrip(".!; ")


def header(project: str, *, created_at: str, task_count: int) -> str:
    """The beginning of a new progress.txt: what it is, and the first iteration marker."""
    return (
        f"# Progress of {_one_line(project)}\n"
        "# Append-only: one entry for each settled iteration. Ralph writes it, people and agents read it.\n"
        "\n"
        f"## Iteration 0 · initialised · {created_at}\n"
        f"{_INDENT}tasks: {task_count}\n"
        f"{_end(0)}"
    )


def entry(iteration: Iteration, *, gates: Sequence[str], reason: str, learnings: Sequence[str], summary: str) -> str:
    """The entry of a settled iteration. `gates` are ready-made phrases such as `tests passed`."""
    status = iteration.completion_status or "failed"
    which = f"{iteration.stage} · attempt {iteration.attempt}"
    lines = [
        f"## Iteration {iteration.iteration_number} · {iteration.names} · {which} · {status}",
        f"{_INDENT}at: {iteration.ended_at or iteration.started_at}",
    ]
    if gates:
        lines.append(f"{_INDENT}gates: {_one_line(', '.join(gates))}")
    if iteration.review:
        lines.append(f"{_INDENT}review: {_one_line(str(iteration.review))}")
    if iteration.commit:
        lines.append(f"{_INDENT}commit: {iteration.commit[:12]}")
    if summary:
        lines.append(f"{_INDENT}summary: {_one_line(summary)}")
    if reason:
        lines.append(f"{_INDENT}reason: {_one_line(reason)}")
    lines.extend(f"{_LEARNING}{_one_line(learning)}" for learning in learnings)
    return "\n".join(lines) + "\n" + _end(iteration.iteration_number)


def closing(text: str) -> str:
    """What must be appended before a new entry so that a torn tail is closed; empty for a whole file."""
    line_end = "" if not text or text.endswith("\n") else "\n"
    return line_end + (_TORN_END if _open_tail(text) else "")


def entries(text: str) -> list[Entry]:
    """All whole entries, in order, without the initial marker."""
    found: list[Entry] = []
    first = _START.match(text)
    start, number = 0, int(first.group(1)) if first else 0
    for match in itertools.chain(_NEXT_START.finditer(text), (None,)):
        following = match.start() + 1 if match else len(text)
        if number:
            end = f"\n{_end(number)}"
            if (at := text.find(end, start, following)) >= 0:
                found.append(Entry(number, text[start : at + len(end)]))
        start, number = following, int(match.group(1)) if match else 0
    return found


def has_entry(text: str, number: int) -> bool:
    """Whether the whole entry of that iteration stands in the text; it may lack the last line feed."""
    end = f"\n{_end(number)}"
    return end in text or text.endswith(end[:-1])


def head(text: str) -> str:
    """What stands before the first entry of an iteration."""
    for match in _START.finditer(text):
        if int(match.group(1)):
            return text[: match.start()]
    return text


def problems(root: Path) -> list[Problem]:
    """What is wrong with a project's progress.txt: a torn entry that is not closed, an entry that stands twice."""
    name = f"{STATE_FOLDER}/progress.txt"
    if (root / name).is_symlink():
        return [Problem(name, None, "", disk.IS_LINK)]
    try:
        text = disk.read_file(root / name, largest=LARGEST).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Problem(name, None, "", f"cannot be read: {error.strerror}")]
    found = []
    if undecodable := _UNDECODABLE.search(text):
        line = text.count("\n", 0, undecodable.start()) + 1
        found.append(Problem(name, line, "", "cannot be read as UTF-8 text"))
    seen: set[int] = set()
    starts = list(_START.finditer(text))
    line, counted = 1, 0
    for match, following in itertools.zip_longest(starts, starts[1:]):
        number = int(match.group(1))
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        block = text[match.start() : following.start() if following else len(text)]
        if not _is_closed(block, number):
            found.append(Problem(name, line, "", f"the entry of iteration {number} has no end line: it is torn"))
        elif has_entry(block, number):
            if number in seen:
                found.append(Problem(name, line, "", f"iteration {number} has a second entry"))
            seen.add(number)
    return found


def _open_tail(text: str) -> bool:
    start = len(text)
    while (start := text.rfind(_START_WORDS, 0, start)) >= 0:
        if match := _START.match(text, start):
            return not _is_closed(text[start:], int(match.group(1)))
    return False


def _is_closed(block: str, number: int) -> bool:
    """Whether an entry's end line stands in the block that begins with it, at the beginning of a line."""
    return has_entry(block, number) or f"\n{_TORN_END}" in block


def _end(number: int) -> str:
    return f"## End of iteration {number}\n"


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())[:MAX_TEXT]
