"""The tasks of a checklist: which of its items are tasks, and how each one is called.

An item with further boxes below it is a group of tasks. Where it has an id or details of its own (`**Do**: …`) it is a
task itself, and boxes below it without an id are its details.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rulebook_ralph.core.model import PARALLEL, VERIFY
from rulebook_ralph.core.printable import printable
from rulebook_ralph.sources.checklist_tree import Item, Tree, all_of, is_done, read_tree, ticked_row
from rulebook_ralph.sources.markdown import without_closing_comment, without_leading_bold

MARKERS = (PARALLEL, VERIFY, "RED", "GREEN", "YELLOW")

_ID = r"(?:\d{1,6}(?:\.\d{1,6}){1,9}[a-z]?|V\d{1,6}|T\d{3,6}|[A-Z]{1,5}-\d{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|(\d{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[(?:({'|'.join(MARKERS)})|FIX\s+({_ID}|\d{{1,6}}))\]\s*")
_LABEL = re.compile(r"(?:\*\*|__)([^*_]{1,40}?)(?:(?:\*\*|__)\s*:|:\s*(?:\*\*|__)\s*:?)\s*")
_LONGEST_SLUG = 48
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A task as its line tells it. `id` is the one it has in this file, `fixes` the ids that `[FIX …]` names; `above`
    are the items that it stands below.
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


@dataclass(frozen=True, slots=True)
class _Start:
    """What the first line of an item says."""

    id: str
    title: str
    markers: tuple[str, ...]
    fixes: tuple[str, ...]


def read_entries(text: str) -> tuple[Entry, ...]:
    """The tasks of a text with LF line ends, in its order."""
    found = list(_found(read_tree(text)))
    taken = Counter(start.id.casefold() for _, start, _ in found if start.id)
    entries = []
    for item, start, above in found:
        task_id = start.id or _derived(start.title, [item.section, *(_text(one) for one in above)], taken)
        entries.append(Entry(item, task_id, start.title, start.markers, start.fixes, above))
    return tuple(entries)


def ticked(rows: Sequence[str], task_id: str, title: str) -> dict[int, str] | None:
    """The rows of a checklist (without line ends) that change where a task's box is ticked: row -> what it becomes.

    With it go the boxes of its details, and of groups of which every task is ticked then. None where the task is not
    found: where several bear its id, it is the one with that title.
    """
    entries = read_entries("\n".join(rows))
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


def _found(tree: Tree) -> Iterator[tuple[Item, _Start, tuple[Item, ...]]]:
    for root in tree.roots:
        yield from _within(root, ())


def _within(item: Item, above: tuple[Item, ...]) -> Iterator[tuple[Item, _Start, tuple[Item, ...]]]:
    start = _start(_text(item))
    is_task = item.box is not None or (PARALLEL in start.markers and bool(start.id))
    whole = is_task and (bool(start.id) or any(is_label(child.lines[0].text) for child in item.children))
    parts = [child for child in item.children if not is_label(_text(child))]
    below = [found for child in parts for found in _within(child, (*above, item))]
    if whole and not any(inner.id for _, inner, _ in below):
        below = []
    if is_task and not below and (start.title or start.id):
        yield item, start, above
    yield from below


def is_label(text: str) -> bool:
    """Whether a text begins with a bold label, as `**Do**: …`."""
    return _LABEL.match(text) is not None


def label_and_rest(text: str) -> tuple[str, str]:
    """The label that a text begins with, empty where there is none, and the rest."""
    label = _LABEL.match(text)
    return (printable(label[1]).strip(), text[label.end() :].strip()) if label else ("", text)


def _text(item: Item) -> str:
    return item.lines[0].text


def _start(text: str) -> _Start:
    """Ids and markers stand first, in any order."""
    rest = printable(without_closing_comment(without_leading_bold(text) if not is_label(text) else text)).strip()
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
    return _Start(task_id, title or task_id, tuple(dict.fromkeys(markers)), tuple(dict.fromkeys(fixes)))


def _derived(title: str, context: Sequence[str], taken: Counter[str]) -> str:
    """An id made of the words of an item; of several with the same words the later ones tell where they stand."""
    slug = _slug(title)
    if slug in taken:
        slug = f"{slug}-{_digest(title, *context)}"
    first = slug
    while slug in taken:
        taken[first] += 1
        slug = f"{first}-{taken[first]}"
    taken[slug] = 1
    return slug


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    words = re.findall(r"[a-z0-9]+", plain.replace("'", ""))
    slug = "-".join(words)[: _LONGEST_SLUG + 1]
    if len(slug) > _LONGEST_SLUG:
        slug = slug.rpartition("-")[0] or slug[:_LONGEST_SLUG]
    elif len(plain) == len(title) and slug:
        return slug
    return f"{slug or 'item'}-{_digest(title)}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
