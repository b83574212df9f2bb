"""The tasks of a Markdown plan: items with a box, or headings that name one, with all that stands below them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rulebook_ralph.tasks.importers.checklist_details import command_in, is_label
from rulebook_ralph.tasks.importers.markdown import (
    BOX,
    Block,
    Heading,
    Item,
    MarkdownFile,
    is_done,
    without_closing_comment,
    without_leading_bold,
)
from rulebook_ralph.tasks.importers.source import word_id
from rulebook_ralph.tasks.model import PARALLEL, VERIFY
from rulebook_ralph.tasks.text import printable

MARKERS = (PARALLEL, VERIFY, "RED", "GREEN", "YELLOW")

_ID = r"(?:[0-9]{1,6}(?:\.[0-9]{1,6}){1,9}[a-z]?|V[0-9]{1,6}|T[0-9]{3,6}|[A-Z]{1,5}-[0-9]{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|([0-9]{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[({'|'.join(MARKERS)})\]\s*")
_PARALLEL_LAST = re.compile(rf"\s+\[{PARALLEL}\]$")
_NAMED_HEADING = re.compile(
    r"(?:(?P<id>(?:US|TASK|STORY|FEAT|BUG|T)-[0-9]{1,6})|(?:(?:Task|Iteration)\s+(?P<task>[0-9]{1,6}(?:\.[0-9]{1,6})?[a-z]?)"
    r"|(?:User\s+)?Story\s+(?P<story>[0-9]{1,6})))(?:\s*[:.)\u2013\u2014-]\s+(?P<title>\S.*)|[:.]?\s*$)",
    re.IGNORECASE,
)
_COMMANDS = re.compile(r"validation(?: commands?)?", re.IGNORECASE)
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


def entries_of(document: MarkdownFile) -> tuple[ChecklistEntry, ...]:
    """The tasks of a file, in its order, each with an id."""
    return parted(document)[0]


def parted(document: MarkdownFile) -> tuple[tuple[ChecklistEntry, ...], list[Item]]:
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
                section = " / ".join(above.text for above in sections if above.level > 1 and not _is_of_commands(above))
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


def commands_for_all(document: MarkdownFile) -> str:
    """The commands below a heading `Validation Commands`, as one; empty where there is none."""
    items: list[str] = []
    fenced: list[str] = []
    inside = False
    for part in document.flow:
        if isinstance(part, Heading):
            inside = _is_of_commands(part)
        elif inside and isinstance(part, Item):
            items.append(part.text)
        elif inside and isinstance(part, Block) and part.code:
            fenced.append(part.content)
    return command_in("", items, fenced)


def _is_of_commands(heading: Heading) -> bool:
    return _COMMANDS.fullmatch(heading.text.strip()) is not None


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
    """What the first line of an item says. Ids and markers stand first, in any order; `[P]` may stand last, too."""
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
    rest = rest[place:].lstrip()
    if (last := _PARALLEL_LAST.search(rest)) is not None:
        rest = rest[: last.start()]
        markers.append(PARALLEL)
    title = " ".join(without_leading_bold(rest).split())
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
