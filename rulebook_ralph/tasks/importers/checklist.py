"""Tasks from Markdown plans, in their order: one for each item with a box (`- [ ] 1.2 [P] Title`), or for each heading
that names one (`### Task 2: Title`, `### US-001: Title`).

Boxes below a task are its criteria; where they have ids of their own (`1.1` below `1.`), they are the tasks. Items
without an id get one made of their words, so that it stays when the item moves. A file is taken whole or not at all.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from rulebook_ralph.tasks.importers.checklist_details import read_details
from rulebook_ralph.tasks.importers.checklist_entries import ChecklistEntry, commands_for_all, entries_of, parted
from rulebook_ralph.tasks.importers.markdown import Heading, all_of, is_done, read_document, ticked_row
from rulebook_ralph.tasks.importers.source import (
    COMMIT_MESSAGE,
    DONE_BEFORE,
    RefusedTasksError,
    SourceProblem,
    SourceReading,
    UnreadableError,
    complexity,
    is_of_words,
    read_text,
)
from rulebook_ralph.tasks.model import PARALLEL, VERIFY, Json, Task
from rulebook_ralph.tasks.text import Problem, counted, escaped

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
_LONGEST_TITLE = 200
_KIND_OF_FILE = re.compile(r"(?:PRD|plan|product requirements(?: document)?)\s*[:\u2013\u2014-]\s*", re.IGNORECASE)


def read(path: Path, shown: str) -> SourceReading:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    document = read_document(read_text(path, within=path.parent))
    if document.trouble is not None:
        raise UnreadableError(path, document.trouble[0] + 1, document.trouble[1])
    entries, outside = parted(document)
    if wrong := [Problem(shown, line, "", message) for line, message in _faults(entries)]:
        raise RefusedTasksError(wrong)
    needed = dependencies(entries)
    is_headed = any(entry.headed for entry in entries)
    used = {id(one) for entry in entries for one in (*all_of(entry.item), *entry.above)}
    has_prose = any(not isinstance(part, Heading) and id(part) not in used for part in document.flow)
    further = (shown,) if is_headed or has_prose else ()  # what is said of all tasks is read in the plan itself
    command = commands_for_all(document)
    tasks = (_task(entry, after, shown, command, further) for entry, after in zip(entries, needed, strict=True))
    left = [one for item in outside for one in all_of(item) if one.box is not None]
    told = f"{counted(len(left), 'box', 'boxes')} below none of the tasks' headings: left out"
    problems = (SourceProblem(path, left[0].row + 1, told),) if left else ()
    about = _KIND_OF_FILE.sub("", document.title, count=1) if is_headed else ""
    return SourceReading(tuple(tasks), problems, (shown,), description=about)


def ticked(rows: Sequence[str], task_id: str, title: str) -> dict[int, str] | None:
    """The rows of a checklist (without line ends) that change where a task's box is ticked: row -> what it becomes.

    With it go the boxes of its criteria, and of groups of which every task is ticked then. None where the task is not
    found: where several bear its id, it is the one with that title.
    """
    entries = entries_of(read_document("\n".join(rows)))
    meant = [entry for entry in entries if entry.id == task_id]
    if len(meant) != 1 or is_of_words(task_id, meant[0].title):
        alike = [entry for entry in entries if entry.title.startswith(title.removesuffix("…"))]
        meant = [entry for entry in meant if entry in alike] or [entry for entry in alike if entry.title == title]
    if len(meant) != 1:
        return None
    done = {id(one) for entry in entries if entry is meant[0] or entry.is_ticked for one in all_of(entry.item)}
    wanted = [one for one in all_of(meant[0].item) if one.box is not None or one is meant[0].item]
    wanted += [group for group in reversed(meant[0].above) if group.box is not None and is_done(group, done)]
    changes = {one.row: ticked_row(rows[one.row]) for one in wanted}
    if changes[meant[0].item.row] is None and not meant[0].headed:
        return None
    return {row: text for row, text in changes.items() if text is not None and text != rows[row]}


# Order


def _faults(entries: Sequence[ChecklistEntry]) -> Iterator[tuple[int | None, str]]:
    """What is wrong in a file, with the lines."""
    if not entries:
        yield None, "has no task: expected items with a box, such as `- [ ] 1.1 Title`, or `### Task 1: Title`"
    above: dict[str, ChecklistEntry] = {}
    for entry in entries:
        earlier = above.setdefault(entry.id.casefold(), entry)
        if earlier is not entry:
            rule = "" if earlier.id == entry.id else "; ids differ by more than case"
            yield entry.item.row + 1, f"'{escaped(entry.id)}' is used already in line {earlier.item.row + 1}{rule}"


def dependencies(entries: Sequence[ChecklistEntry]) -> list[tuple[str, ...]]:
    """What each task depends on.

    Those of a higher priority come first, else the order is the file's. A run of adjacent `[P]`s under one heading
    depends on what came before it, and what follows on all of them. Tasks that were done at the import do not let those
    behind them overtake what is still open before.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    still_open: tuple[str, ...] = ()
    for run in _runs(sorted(entries, key=lambda entry: entry.priority)):
        needed = tuple(dict.fromkeys((*still_open, *before)))
        found |= dict.fromkeys((entry.id for entry in run), needed)
        before = tuple(entry.id for entry in run)
        still_open = tuple(entry.id for entry in run if not entry.is_ticked) or still_open
    return [found[entry.id] for entry in entries]


def _runs(entries: Sequence[ChecklistEntry]) -> Iterator[list[ChecklistEntry]]:
    """A check is never done beside others, whatever it is marked as."""
    beside = [PARALLEL in entry.markers and VERIFY not in entry.markers for entry in entries]
    numbered = zip(entries, beside, range(len(entries)), strict=True)
    for _, group in groupby(numbered, key=lambda each: each[0].item.section if each[1] else each[2]):
        yield [entry for entry, _, _ in group]


# Tasks


def _task(entry: ChecklistEntry, needed: tuple[str, ...], shown: str, command: str, further: tuple[str, ...]) -> Task:
    """`command` is run for every task of the file but where it names one of its own; `further` are files to read."""
    is_check = VERIFY in entry.markers
    details = read_details(entry.item, entry.title, is_check=is_check)
    command = details.command or command
    whole = entry.title if len(entry.title) > _LONGEST_TITLE else ""
    above = " / ".join(filter(None, [entry.item.section, *(item.text for item in entry.above)]))
    context = f"Part of: {above}" if above else ""
    criteria: Json = {"promise": VERIFIED} if is_check else {}
    if command:
        criteria |= {"verificationMethod": "external", "verificationConfig": {"command": command}}
    message: Json = {COMMIT_MESSAGE: details.commit_message} if details.commit_message else {}
    return Task(
        id=entry.id,
        title=f"{entry.title[: _LONGEST_TITLE - 1]}…" if whole else entry.title,
        description="\n\n".join(part for part in (whole, details.description, context) if part),
        priority=entry.priority,
        status="completed" if entry.is_ticked else "pending",
        dependencies=needed,
        acceptance_criteria=details.criteria,
        estimated_complexity=complexity(len(details.criteria)) if details.criteria else None,
        relevant_files=tuple(dict.fromkeys((*details.files, *further))),
        markers=entry.markers,
        completion={"qa" if is_check else "coder": criteria} if criteria else {},
        overrides={"stages": ["qa"]} if is_check else {},
        source=shown,
        metadata=message | (DONE_BEFORE if entry.is_ticked else {}),
    )
