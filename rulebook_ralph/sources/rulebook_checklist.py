"""A task's `tasks.md`: its leaf items as acceptance criteria, and whether every box is ticked.

A leaf is an item with a box that has no further box below it. The text of the items above it is put before its own,
details below it (plain bullets, code) after it, so that no word of the list is lost. A file without a single box is
read as a plain list of items, all open.
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rulebook_ralph.sources.checklist_tree import Item, Title, all_of, is_done, read_tree, ticked_row
from rulebook_ralph.sources.markdown import LONGEST_CONTEXT, Line, without_closing_comment, without_leading_bold

FILE_NAME = "tasks.md"
_NUMBER = re.compile(r"(\d+(?:\.\d+)+[a-z]?[.):]?|\d+[.)])\s+")


@dataclass(frozen=True, slots=True)
class Checklist:
    """`title` is the file's first heading of level 1; `prose` what stands outside of the items, under its headings."""

    title: str = ""
    items: tuple[str, ...] = ()
    completed: bool = False
    prose: str = ""


def read(text: str) -> Checklist:
    """Read the text of a tasks.md."""
    tree = read_tree(text)
    boxes = [item.box for root in tree.roots for item in all_of(root) if item.box is not None]
    if not boxes:
        for root in tree.roots:
            for item in all_of(root):
                item.box, item.holds_box = False, bool(item.children)
    return Checklist(
        title=tree.title,
        items=tuple(dict.fromkeys(criterion for _, criterion in criteria(tree.roots))),
        completed=bool(boxes) and all(boxes),
        prose=_prose(tree.rest) if boxes else "",
    )


def ticked(rows: Sequence[str], verified: Collection[str]) -> dict[int, str] | None:
    """The rows of a tasks.md (without line ends) that change where the boxes of those criteria are ticked: row -> what
    it becomes. With them go the boxes of items of which all are ticked then. None where none of the criteria is found.
    """
    tree = read_tree("\n".join(rows))
    meant = [item for item, criterion in criteria(tree.roots) if criterion in verified]
    done = {id(item) for item in meant if item.box is not None}
    boxes = [item for root in tree.roots for item in all_of(root) if item.box is False]
    wanted = [item for item in boxes if id(item) in done or (item.holds_box and is_done(item, done))]
    changes = {item.row: ticked_row(rows[item.row]) for item in wanted}
    return {row: text for row, text in changes.items() if text is not None} if meant else None


def criteria(roots: Sequence[Item]) -> list[tuple[Item, str]]:
    """The criteria that the lists tell, each with the item it stands in; the same words may come more than once."""
    found: list[tuple[Item, str]] = []
    for _, siblings in groupby(roots, key=lambda root: root.section):
        found += _leaves(list(siblings), "")
    return _told_apart(found)


def _leaves(siblings: list[Item], context: str) -> Iterator[tuple[Item, str]]:
    numbered = _numbers_to_drop(siblings)
    for item in siblings:
        own = _whole(item, drop_number=numbered and item.box is not None)
        if item.holds_box:
            above = _joined(context, own)
            if len(above) > LONGEST_CONTEXT:  # once on its own, not before each child: lists stay linear in size
                yield item, above
                above = ""
            yield from _leaves(item.children, above)
        elif item.box is not None and own:
            yield item, _joined(context, own)


def _numbers_to_drop(siblings: list[Item]) -> bool:
    """Numbers are dropped where every item has one; a lone `2.0 …` may be a version, a lone `1.1 …` starts a list."""
    found = [_NUMBER.match(_unbold(item.lines[0].text)) for item in siblings if item.box is not None]
    if not found or not all(found):
        return False
    first = found[0]
    return len(found) > 1 or (first is not None and first[1].rstrip(".):").split(".")[-1] == "1")


def _unbold(text: str) -> str:
    return without_leading_bold(text)


def _whole(item: Item, *, drop_number: bool) -> str:
    """An item's own text and its plain details, on one line but for fenced code."""
    first, *rest = item.lines
    start = _unbold(first.text)
    if drop_number:
        start = _unbold(_NUMBER.sub("", start, count=1))
    text = without_closing_comment(_flowed([Line(start, first.indent), *rest]))
    details = [_whole(child, drop_number=False) for child in item.children if child.box is None and not child.holds_box]
    told = "; ".join(detail for detail in details if detail)
    if not told:
        return text
    return f"{text} {told}" if text.endswith(":") else f"{text} — {told}"


def _flowed(parts: list[Line]) -> str:
    """Text lines joined to one, blocks of code kept as they are."""
    rows: list[str] = []
    for code, group in groupby(parts, key=lambda line: line.code):
        texts = [line.text for line in group]
        rows.append(textwrap.dedent("\n".join(texts)) if code else " ".join(text for text in texts if text))
    return "\n".join(row for row in rows if row)


def _joined(context: str, text: str) -> str:
    if not context:
        return text
    if context.endswith("\n```"):
        return f"{context}\n{text}"
    return f"{context} {text}" if context.endswith((".", ":", "!", "?")) else f"{context}: {text}"


def _prose(rest: list["str | Title | Item"]) -> str:
    """Text and plain lists outside of the checklist, with those headings that stand right over some."""
    told: list[str] = []
    over = ""
    for part in rest:
        if isinstance(part, Title):
            over = part.text
            continue
        if isinstance(part, Item):
            text = "" if part.holds_box or part.box is not None else f"- {_whole(part, drop_number=False)}"
        else:
            text = part
        if text and over:
            told += ["", f"## {over}"]
            over = ""
        if not over:
            told.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(told)).strip()


def _told_apart(found: list[tuple[Item, str]]) -> list[tuple[Item, str]]:
    """The same words under two headings are two criteria, told apart by their heading."""
    sections: dict[str, set[str]] = {}
    for item, text in found:
        sections.setdefault(text, set()).add(item.section)
    return [
        (item, f"{item.section}: {text}" if item.section and len(sections[text]) > 1 else text) for item, text in found
    ]
