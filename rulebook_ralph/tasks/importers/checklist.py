"""Tasks from Markdown plans: one for each item with a box (`- [ ] 1.2 [P] Title`), in the plan's order.

An item with further boxes below it is a group of tasks. Where it has an id or details of its own (`**Do**: …`) it is a
task itself, and boxes below it without an id are its details. Items without an id of their own get one made of their
words, so that it stays when the item moves. A file is taken whole or not at all.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rulebook_ralph.tasks.importers.checklist_details import Details, is_label, read_details
from rulebook_ralph.tasks.importers.markdown import (
    Item,
    MarkdownFile,
    all_of,
    is_done,
    read_document,
    ticked_row,
    without_closing_comment,
    without_leading_bold,
)
from rulebook_ralph.tasks.importers.source import (
    COMMIT_MESSAGE,
    DONE_BEFORE,
    RefusedTasksError,
    UnreadableError,
    complexity,
    read_text,
)
from rulebook_ralph.tasks.model import PARALLEL, VERIFY, Json, Task
from rulebook_ralph.tasks.text import Problem, escaped, printable

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
MARKERS = (PARALLEL, VERIFY, "RED", "GREEN", "YELLOW")
MOST_DEPENDENCIES = 500_000
_LONGEST_TITLE = 200
_LONGEST_SLUG = 48

_ID = r"(?:\d{1,6}(?:\.\d{1,6}){1,9}[a-z]?|V\d{1,6}|T\d{3,6}|[A-Z]{1,5}-\d{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|(\d{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[(?:({'|'.join(MARKERS)})|FIX\s+({_ID}|\d{{1,6}}))\]\s*")


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A task as its line tells it. `id` is the one it has in this file, empty where it has none; `fixes` are the ids
    that `[FIX …]` names, `above` the items that it stands below.
    """

    item: Item
    id: str
    title: str
    markers: tuple[str, ...]
    fixes: tuple[str, ...]
    above: tuple[Item, ...]

    @property
    def is_ticked(self) -> bool:
        return bool(self.item.box)


def read(path: Path, shown: str) -> tuple[Task, ...]:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    document = read_document(read_text(path, within=path.parent))
    if document.trouble is not None:
        raise UnreadableError(path, document.trouble[0] + 1, document.trouble[1])
    entries = entries_of(document)
    if wrong := [Problem(shown, line, "", message) for line, message in _faults(entries)]:
        raise RefusedTasksError(wrong)
    needed = dependencies(entries)
    if needed is None:
        told = "has runs of [P] so long one after the other that nobody could follow them"
        raise RefusedTasksError([Problem(shown, None, "", told)])
    return tuple(_task(entry, after, shown) for entry, after in zip(entries, needed, strict=True))


def ticked(rows: Sequence[str], task_id: str, title: str) -> dict[int, str] | None:
    """The rows of a checklist (without line ends) that change where a task's box is ticked: row -> what it becomes.

    With it go the boxes of its details, and of groups of which every task is ticked then. None where the task is not
    found: where several bear its id, it is the one with that title.
    """
    entries = entries_of(read_document("\n".join(rows)))
    meant = [entry for entry in entries if entry.id == task_id]
    if len(meant) > 1:
        meant = [entry for entry in meant if entry.title.startswith(title.removesuffix("…"))]
    if len(meant) != 1:
        return None
    done = {id(one) for entry in entries if entry is meant[0] or entry.is_ticked for one in all_of(entry.item)}
    wanted = list(all_of(meant[0].item))
    wanted += [group for group in reversed(meant[0].above) if is_done(group, done)]
    changes = {one.row: ticked_row(rows[one.row]) for one in wanted if one.box is not None or one is meant[0].item}
    if changes[meant[0].item.row] is None:
        return None
    return {row: text for row, text in changes.items() if text is not None and text != rows[row]}


# Entries


def entries_of(document: MarkdownFile) -> tuple[ChecklistEntry, ...]:
    """The tasks of a file, in its order, each with an id."""
    found = [entry for root in document.roots for entry in _within(root, ())]
    taken = Counter(entry.id.casefold() for entry in found if entry.id)
    return tuple(entry if entry.id else _with_id(entry, taken) for entry in found)


def _within(item: Item, above: tuple[Item, ...]) -> Iterator[ChecklistEntry]:
    entry = _entry(item, above)
    is_task = item.box is not None or (PARALLEL in entry.markers and bool(entry.id))
    whole = is_task and (bool(entry.id) or any(is_label(child.text) for child in item.children))
    parts = [child for child in item.children if not is_label(child.text)]
    below = [found for child in parts for found in _within(child, (*above, item))]
    if whole and not any(inner.id for inner in below):
        below = []
    if is_task and not below and entry.title:
        yield entry
    yield from below


def _entry(item: Item, above: tuple[Item, ...]) -> ChecklistEntry:
    """What the first line of an item says. Ids and markers stand first, in any order."""
    text = item.text if is_label(item.text) else without_leading_bold(item.text)
    rest = printable(without_closing_comment(text)).strip()
    task_id, place = "", 0
    markers: list[str] = []
    fixes: list[str] = []
    while True:
        if (marker := _MARKER.match(rest, place)) is not None:
            (markers if marker[1] else fixes).append(marker[1] or marker[2])
            place = marker.end()
        elif not task_id and (found := _WITH_ID.match(rest, place)):
            task_id, place = found[1] or found[2], found.end()
        else:
            break
    title = " ".join(without_leading_bold(rest[place:].lstrip()).split())
    return ChecklistEntry(
        item, task_id, title or task_id, tuple(dict.fromkeys(markers)), tuple(dict.fromkeys(fixes)), above
    )


def _with_id(entry: ChecklistEntry, taken: Counter[str]) -> ChecklistEntry:
    """With an id made of the words; of several with the same words the later ones tell where they stand."""
    title = entry.title
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    whole = "-".join(re.findall(r"[a-z0-9]+", plain.replace("'", "")))
    slug = whole
    if len(whole) > _LONGEST_SLUG:
        slug = whole[: _LONGEST_SLUG + 1].rpartition("-")[0] or whole[:_LONGEST_SLUG]
    if slug != whole or len(plain) != len(title) or not slug:
        slug = f"{slug or 'item'}-{_digest(title)}"
    if slug in taken:
        slug = f"{slug}-{_digest(title, entry.item.section, *(one.text for one in entry.above))}"
    first = slug
    while slug in taken:
        taken[first] += 1
        slug = f"{first}-{taken[first]}"
    taken[slug] = 1
    return ChecklistEntry(entry.item, slug, title, entry.markers, entry.fixes, entry.above)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _faults(entries: Sequence[ChecklistEntry]) -> Iterator[tuple[int | None, str]]:
    """What is wrong in a file, with the lines: ids used twice, `[FIX …]` of what does not stand above."""
    if not entries:
        yield None, "has no task: expected items with a box, such as `- [ ] 1.1 Title`"
    above: dict[str, int] = {}
    ids: set[str] = set()
    for entry in entries:
        line = entry.item.row + 1
        if earlier := above.get(entry.id.casefold()):
            yield line, f"'{escaped(entry.id)}' is used already in line {earlier}; ids differ by more than case"
        for fixed in entry.fixes:
            if fixed not in ids:
                yield line, f"[FIX {escaped(fixed)}]: no task of that id stands above"
        above.setdefault(entry.id.casefold(), line)
        ids.add(entry.id)


def dependencies(entries: Sequence[ChecklistEntry]) -> list[tuple[str, ...]] | None:
    """What each task depends on; None where there would be more than `MOST_DEPENDENCIES`.

    A run of adjacent `[P]`s under one heading depends on what came before it, and what follows on all of them. Tasks
    that were done at the import do not let those behind them overtake what is still open before.
    """
    found: list[tuple[str, ...]] = []
    before: tuple[str, ...] = ()
    still_open: tuple[str, ...] = ()
    count = 0
    for run in _runs(entries):
        needed = tuple(dict.fromkeys((*still_open, *before)))
        count += len(needed) * len(run)
        if count > MOST_DEPENDENCIES:
            return None
        found += [tuple(dict.fromkeys((*needed, *entry.fixes))) for entry in run]
        before = tuple(entry.id for entry in run)
        still_open = tuple(entry.id for entry in run if not entry.is_ticked) or still_open
    return found


def _runs(entries: Sequence[ChecklistEntry]) -> Iterator[list[ChecklistEntry]]:
    """A check is never done beside others, whatever it is marked as."""
    beside = [PARALLEL in entry.markers and VERIFY not in entry.markers for entry in entries]
    numbered = zip(entries, beside, range(len(entries)), strict=True)
    for _, group in groupby(numbered, key=lambda each: each[0].item.section if each[1] else each[2]):
        yield [entry for entry, _, _ in group]


# Tasks


def _task(entry: ChecklistEntry, needed: tuple[str, ...], shown: str) -> Task:
    is_check = VERIFY in entry.markers
    details = read_details(entry.item, entry.title, is_check=is_check)
    whole = entry.title if len(entry.title) > _LONGEST_TITLE else ""
    criteria: Json = {"promise": VERIFIED} if is_check else {}
    if details.command:
        criteria |= {"verificationMethod": "external", "verificationConfig": {"command": details.command}}
    message: Json = {COMMIT_MESSAGE: details.commit_message} if details.commit_message else {}
    return Task(
        id=entry.id,
        title=f"{entry.title[: _LONGEST_TITLE - 1]}…" if whole else entry.title,
        description="\n\n".join(part for part in (whole, details.description, _context(entry, details)) if part),
        status="completed" if entry.is_ticked else "pending",
        dependencies=needed,
        acceptance_criteria=details.criteria,
        estimated_complexity=complexity(len(details.criteria)) if details.criteria else None,
        relevant_files=details.files,
        markers=entry.markers,
        completion={"qa" if is_check else "coder": criteria} if criteria else {},
        overrides={"stages": ["qa"]} if is_check else {},
        source=shown,
        metadata=message | (DONE_BEFORE if entry.is_ticked else {}),
    )


def _context(entry: ChecklistEntry, details: Details) -> str:
    above = " / ".join(filter(None, [entry.item.section, *(item.text for item in entry.above)]))
    lines = [f"Part of: {above}"] if above else []
    lines += [f"Mends: {', '.join(entry.fixes)}"] if entry.fixes else []
    return "\n".join([*lines, *(f"{kind.capitalize()}: {text}" for kind, text in details.notes)])
