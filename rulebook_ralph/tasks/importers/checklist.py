"""Tasks from Markdown plans, in their order: one for each item with a box (`- [ ] 1.2 [P] Title`), or for each heading
that names one (`### Task 2: Title`, `### US-001: Title`).

Boxes below a task are its criteria; where they have ids of their own (`1.1` below `1.`), they are the tasks. Items
without an id get one made of their words, so that it stays when the item moves. A file is taken whole or not at all.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from rulebook_ralph.tasks.importers.checklist_details import command_in, is_label, read_details
from rulebook_ralph.tasks.importers.markdown import (
    BOX,
    Block,
    Heading,
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
    SourceProblem,
    SourceReading,
    UnreadableError,
    complexity,
    read_text,
    word_id,
)
from rulebook_ralph.tasks.model import PARALLEL, VERIFY, Json, Task
from rulebook_ralph.tasks.text import Problem, counted, escaped, printable

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
MARKERS = (PARALLEL, VERIFY, "RED", "GREEN", "YELLOW")
_LONGEST_TITLE = 200

_ID = r"(?:\d{1,6}(?:\.\d{1,6}){1,9}[a-z]?|V\d{1,6}|T\d{3,6}|[A-Z]{1,5}-\d{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|(\d{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[({'|'.join(MARKERS)})\]\s*")
_NAMED_HEADING = re.compile(
    r"(?:(?P<id>(?:US|TASK|STORY|FEAT|BUG|T)-\d{1,6})|(?:(?:Task|Iteration)\s+(?P<task>\d[\w.]{0,9}?)"
    r"|(?:User\s+)?Story\s+(?P<story>\d{1,6})))(?:\s*[:.)\u2013\u2014-]\s+(?P<title>\S.*)|[:.]?\s*$)",
    re.IGNORECASE,
)
_COMMANDS = re.compile(r"validation(?: commands?)?", re.IGNORECASE)
_KIND_OF_FILE = re.compile(r"(?:PRD|plan|product requirements(?: document)?)\s*[:\u2013\u2014-]\s*", re.IGNORECASE)
_RANKED = re.compile(
    r"(?:^|/ )(?:(critical|high|medium|low)[ -]priority|priority[ :-]*(\d{1,3}|critical|high|medium|low)\b)",
    re.IGNORECASE,
)
_OPTIONAL = re.compile(r"(?:^|/ )(?:optional|future(?: enhancements)?|nice[ -]to[ -]have)$", re.IGNORECASE)
_RANKS = {"critical": 1, "high": 1, "medium": 2, "low": 3}
_LAST_RANK = 9


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A task as its line tells it. `id` is the one it has in this file, empty where it has none; `above` are the items
    that it stands below. `headed`: the line is a heading, without a bullet.
    """

    item: Item
    id: str
    title: str
    markers: tuple[str, ...] = ()
    above: tuple[Item, ...] = ()
    headed: bool = False

    @property
    def is_ticked(self) -> bool:
        return bool(self.item.box) or (self.headed and self.item.holds_box and is_done(self.item))

    @property
    def priority(self) -> int:
        """What the headings above say of it: `High Priority`, `Priority 2`; 1 without."""
        if found := _RANKED.search(self.item.section):
            word = (found[1] or found[2]).casefold()
            return _RANKS.get(word) or max(1, int(word))
        return _LAST_RANK if _OPTIONAL.search(self.item.section) else 1


def read(path: Path, shown: str) -> SourceReading:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    document = read_document(read_text(path, within=path.parent))
    if document.trouble is not None:
        raise UnreadableError(path, document.trouble[0] + 1, document.trouble[1])
    entries, outside = _parted(document)
    if wrong := [Problem(shown, line, "", message) for line, message in _faults(entries)]:
        raise RefusedTasksError(wrong)
    needed = dependencies(entries)
    is_headed = any(entry.headed for entry in entries)
    used = {id(one) for entry in entries for one in (*all_of(entry.item), *entry.above)}
    has_prose = any(not isinstance(part, Heading) and id(part) not in used for part in document.flow)
    further = (shown,) if is_headed or has_prose else ()  # what is said of all tasks is read in the plan itself
    command = _validation(document)
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
    meant = [entry for entry in entries if entry.id == task_id] or [entry for entry in entries if entry.title == title]
    if len(meant) > 1:
        meant = [entry for entry in meant if entry.title.startswith(title.removesuffix("…"))]
    if len(meant) != 1:
        return None
    done = {id(one) for entry in entries if entry is meant[0] or entry.is_ticked for one in all_of(entry.item)}
    wanted = [one for one in all_of(meant[0].item) if one.box is not None or one is meant[0].item]
    wanted += [group for group in reversed(meant[0].above) if group.box is not None and is_done(group, done)]
    changes = {one.row: ticked_row(rows[one.row]) for one in wanted}
    if changes[meant[0].item.row] is None and not meant[0].headed:
        return None
    return {row: text for row, text in changes.items() if text is not None and text != rows[row]}


# Entries


def entries_of(document: MarkdownFile) -> tuple[ChecklistEntry, ...]:
    """The tasks of a file, in its order, each with an id."""
    return _parted(document)[0]


def _parted(document: MarkdownFile) -> tuple[tuple[ChecklistEntry, ...], list[Item]]:
    """The tasks, and the items that belong to none of them."""
    headed, outside = _below_headings(document)
    if headed:
        return tuple(headed), outside
    found = [entry for root in document.roots for entry in _within(root, ())]
    return tuple(_with_ids(found)), []


def _below_headings(document: MarkdownFile) -> tuple[list[ChecklistEntry], list[Item]]:
    """The tasks that headings name, each with all up to the next heading of its level; and the items beside them."""
    found: list[ChecklistEntry] = []
    outside: list[Item] = []
    sections: list[Heading] = []
    level = 0
    for part in document.flow:
        if isinstance(part, Heading):
            sections = [above for above in sections if above.level < part.level]
            box = BOX.match(part.text)
            named = _NAMED_HEADING.fullmatch(part.text[box.end() if box else 0 :].strip())
            if named:
                section = " / ".join(above.text for above in sections if above.level > 1)
                item = Item(part.row, section, box=box[1] in ("x", "X") if box else None)
                own = named["id"] or (f"T{named['task']}" if named["task"] else f"S{named['story']}")
                title = " ".join(printable(named["title"] or part.text).split())
                found.append(ChecklistEntry(item, own, title, headed=True))
                level = part.level
            elif level and part.level > level:
                found[-1].item.parts.append(Block((f"**{part.text}**:",)))
            else:
                level = 0
            sections.append(part)
        elif level:
            found[-1].item.parts.append(part)
        elif isinstance(part, Item):
            outside.append(part)
    for entry in found:
        entry.item.holds_box = any(child.box is not None or child.holds_box for child in entry.item.children)
    return found, outside


def _validation(document: MarkdownFile) -> str:
    """The commands below a heading `Validation Commands`, as one; empty where there is none."""
    items: list[str] = []
    fenced: list[str] = []
    inside = False
    for part in document.flow:
        if isinstance(part, Heading):
            inside = _COMMANDS.fullmatch(part.text.strip()) is not None
        elif inside and isinstance(part, Item):
            items.append(part.text)
        elif inside and isinstance(part, Block) and part.code:
            fenced.append(part.content)
    return command_in("", items, fenced)


def _within(item: Item, above: tuple[Item, ...]) -> Iterator[ChecklistEntry]:
    entry = _entry(item, above)
    is_task = item.box is not None or (PARALLEL in entry.markers and bool(entry.id))
    parts = [child for child in item.children if not is_label(child.text)]
    below = [found for child in parts for found in _within(child, (*above, item))]
    if is_task and entry.title and not any(inner.id for inner in below):
        yield entry
    else:
        yield from below


def _entry(item: Item, above: tuple[Item, ...]) -> ChecklistEntry:
    """What the first line of an item says. Ids and markers stand first, in any order."""
    text = item.text if is_label(item.text) else without_leading_bold(item.text)
    rest = printable(without_closing_comment(text)).strip()
    task_id, place = "", 0
    markers: list[str] = []
    while True:
        if (marker := _MARKER.match(rest, place)) is not None:
            markers.append(marker[1])
            place = marker.end()
        elif not task_id and (found := _WITH_ID.match(rest, place)):
            task_id, place = found[1] or found[2], found.end()
        else:
            break
    title = " ".join(without_leading_bold(rest[place:].lstrip()).split())
    return ChecklistEntry(item, task_id, title or task_id, tuple(dict.fromkeys(markers)), above)


def _with_ids(entries: Sequence[ChecklistEntry]) -> Iterator[ChecklistEntry]:
    """Those without an id get one of their first words; where others begin alike, it tells the whole words too, and
    where others are the same, where they stand.
    """
    taken = Counter(entry.id.casefold() for entry in entries if entry.id)
    alike: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        alike[word_id(entry.title)].add(entry.title)
    for entry in entries:
        if entry.id:
            yield entry
            continue
        slug = word_id(entry.title, several=len(alike[word_id(entry.title)]) > 1)
        if slug in taken:
            slug = word_id(entry.title, entry.item.section, *(one.text for one in entry.above), several=True)
        first = slug
        while slug in taken:
            taken[first] += 1
            slug = f"{first}-{taken[first]}"
        taken[slug] = 1
        yield replace(entry, id=slug)


def _faults(entries: Sequence[ChecklistEntry]) -> Iterator[tuple[int | None, str]]:
    """What is wrong in a file, with the lines."""
    if not entries:
        yield None, "has no task: expected items with a box, such as `- [ ] 1.1 Title`, or `### Task 1: Title`"
    above: dict[str, int] = {}
    for entry in entries:
        line = entry.item.row + 1
        if earlier := above.get(entry.id.casefold()):
            yield line, f"'{escaped(entry.id)}' is used already in line {earlier}; ids differ by more than case"
        above.setdefault(entry.id.casefold(), line)


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
