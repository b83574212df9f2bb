"""The tasks of a Markdown plan: items with a box, or headings that name one, with all that stands below them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rulebook_ralph.tasks.importers.markdown import (
    Block,
    Heading,
    Item,
    MarkdownFile,
    without_closing_comment,
    without_leading_bold,
)
from rulebook_ralph.tasks.importers.source import is_of_words, word_id
from rulebook_ralph.tasks.model import PARALLEL, VERIFY
from rulebook_ralph.tasks.text import printable

LABEL = re.compile(r"(?:\*\*|__)([^*_]{1,40}?)(?:(?:\*\*|__)\s*:|:\s*(?:\*\*|__)\s*:?)\s*")
"""A bold label at the beginning of a text, as `**Do**: …`."""

_ID = r"(?:[0-9]{1,6}(?:\.[0-9]{1,6}){1,9}[a-z]?|V[0-9]{1,6}|T[0-9]{3,6}|[A-Z]{1,5}-[0-9]{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|([0-9]{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[({PARALLEL}|{VERIFY}|RED|GREEN|YELLOW)\]\s*")
_NAMED_HEADING = re.compile(
    r"(?:\[(?P<box>.?)\]\s+)?"
    r"(?:(?P<id>(?:US|TASK|STORY|FEAT|BUG|T)-[0-9]{1,6})|(?:(?:Task|Iteration)\s+(?P<task>[0-9]{1,6}(?:\.[0-9]{1,6})?[a-z]?)"
    r"|(?:User\s+)?Story\s+(?P<story>[0-9]{1,6})))(?:\s*[:.)\u2013\u2014-]\s+(?P<title>\S.*)|[:.]?\s*$)",
    re.IGNORECASE,
)
_RANKED = re.compile(
    r"(?:^|/ )(?:(critical|high|medium|low)[ -]priority|priority[ :-]*(\d{1,3}|critical|high|medium|low)\b)",
    re.IGNORECASE,
)
_OPTIONAL = re.compile(r"(?:^|/ )(?:optional|future(?: enhancements)?|nice[ -]to[ -]have)$", re.IGNORECASE)
_RANKS = {"critical": 1, "high": 1, "medium": 2, "low": 3}
_LAST_RANK = 9


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A task as its line tells it. `id` is the one it has in this file, `above` are the items that it stands below.
    `headed`: the line is a heading, without a bullet.
    """

    item: Item
    id: str
    title: str
    markers: tuple[str, ...] = ()
    above: tuple[Item, ...] = ()
    headed: bool = False

    @property
    def is_ticked(self) -> bool:
        return bool(self.item.box) or (self.headed and self.item.holds_box and self.item.is_done())

    @property
    def beside(self) -> str | None:
        """The heading below which others may be worked on with it; a check is never done beside others."""
        return self.item.section if PARALLEL in self.markers and VERIFY not in self.markers else None

    @property
    def priority(self) -> int:
        """What the headings above say of it: `High Priority`, `Priority 2`; 1 without."""
        if found := _RANKED.search(self.item.section):
            word = (found[1] or found[2]).casefold()
            return _RANKS.get(word) or max(1, int(word))
        return _LAST_RANK if _OPTIONAL.search(self.item.section) else 1


def parted(document: MarkdownFile) -> tuple[list[ChecklistEntry], list[Item]]:
    """The tasks of a file, in its order, each with an id; and the items with boxes that belong to none of them."""
    found: list[ChecklistEntry] = []
    outside: list[Item] = []
    level = 0  # of the heading of the task that the parts belong to
    for part in document.flow:
        if not isinstance(part, Heading):
            if level:
                found[-1].item.parts.append(part)
            elif isinstance(part, Item):
                outside += [one for one in part.whole() if one.box is not None]
        elif named := _NAMED_HEADING.fullmatch(part.text):
            item = Item(part.row, part.section, box=named["box"] in ("x", "X") if named["box"] is not None else None)
            own = named["id"] or (f"T{named['task']}" if named["task"] else f"S{named['story']}")
            title = " ".join(printable(named["title"] or part.text).split())
            found.append(ChecklistEntry(item, own, title, headed=True))
            level = part.level
        elif level and part.level > level:
            found[-1].item.parts.append(Block(f"**{part.text}**:"))
        else:
            level = 0
    if found:
        return found, outside
    return list(_with_ids([entry for root in document.roots for entry in _within(root, ())])), []


def _within(item: Item, above: tuple[Item, ...]) -> Iterator[ChecklistEntry]:
    entry = _entry(item, above)
    is_task = item.box is not None or (PARALLEL in entry.markers and bool(entry.id))
    parts = [child for child in item.children if not LABEL.match(child.text)]
    below = [found for child in parts for found in _within(child, (*above, item))]
    if is_task and entry.title and not any(inner.id for inner in below):
        yield entry
    else:
        yield from below


def _entry(item: Item, above: tuple[Item, ...]) -> ChecklistEntry:
    """What the first line of an item says. Ids and markers stand first, in any order; `[P]` may stand last, too."""
    text = item.text if LABEL.match(item.text) else without_leading_bold(item.text)
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
    before = rest.removesuffix(f"[{PARALLEL}]")
    if before != rest and before[-1:].isspace():
        rest = before.rstrip()
        markers.append(PARALLEL)
    title = " ".join(without_leading_bold(rest).split())
    return ChecklistEntry(item, task_id, title or task_id, tuple(dict.fromkeys(markers)), above)


def _with_ids(entries: Sequence[ChecklistEntry]) -> Iterator[ChecklistEntry]:
    """Those without an id get one of their first words; where others begin alike, it tells the whole words too, and
    where others are the same, where they stand.
    """
    taken = Counter(entry.id.casefold() for entry in entries if entry.id)
    alike = Counter(word_id(title) for title in {entry.title for entry in entries})
    for entry in entries:
        slug = entry.id or word_id(entry.title, several=alike[word_id(entry.title)] > 1)
        if not entry.id and slug in taken:
            slug = word_id(entry.title, entry.item.section, *(one.text for one in entry.above), several=True)
        first = slug
        while not entry.id and slug in taken:
            taken[first] += 1
            slug = f"{first}-{taken[first]}"
        taken[slug] += 1
        yield replace(entry, id=slug)


def dependencies(entries: Sequence[ChecklistEntry]) -> list[tuple[str, ...]]:
    """What each task depends on.

    Those of a higher priority come first, else the order is the file's. A run of adjacent `[P]`s under one heading
    depends on what came before it, and what follows on all of them. Tasks that were done at the import do not let those
    behind them overtake what is still open before.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    still_open: tuple[str, ...] = ()
    run: list[ChecklistEntry] = []
    in_order = sorted(entries, key=lambda entry: entry.priority)
    for entry, following in zip_longest(in_order, in_order[1:]):
        run.append(entry)
        if following and entry.beside is not None and entry.beside == following.beside:
            continue
        needed = tuple(dict.fromkeys((*still_open, *before)))
        found |= dict.fromkeys((one.id for one in run), needed)
        before = tuple(one.id for one in run)
        still_open = tuple(one.id for one in run if not one.is_ticked) or still_open
        run = []
    return [found[entry.id] for entry in entries]


def boxes_of(document: MarkdownFile, task_id: str, title: str) -> list[Item] | None:
    """The items whose boxes are ticked when a task is done: its own, those of its criteria, and of groups of which
    every task is ticked then. None where the task is not found: where several bear its id, it is the one with that
    title.
    """
    entries, _ = parted(document)
    meant = [entry for entry in entries if entry.id == task_id]
    if len(meant) != 1 or is_of_words(task_id, meant[0].title):
        alike = [entry for entry in entries if entry.title.startswith(title.removesuffix("…"))]
        meant = [entry for entry in meant if entry in alike] or [entry for entry in alike if entry.title == title]
    if len(meant) != 1:
        return None
    own = list(meant[0].item.whole())
    done = {*own, *(one for entry in entries if entry.is_ticked for one in entry.item.whole())}
    groups = [group for group in reversed(meant[0].above) if group.box is not None and group.is_done(done)]
    return [own[0], *(one for one in own[1:] if one.box is not None), *groups]
