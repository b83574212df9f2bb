"""A task's `tasks.md`: its leaf items as acceptance criteria, and whether every box is ticked.

A leaf is an item with a box that has no further box below it. The text of the items above it is put before its own,
details below it (plain bullets, code) after it, so that no word of the list is lost. A file without a single box is
read as a plain list of items, all open.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from rulebook_ralph.sources.markdown import (
    LONGEST_CONTEXT,
    Line,
    heading,
    is_break,
    lines,
    list_item,
    shortened,
    without_closing_comment,
    without_leading_bold,
)

_BOX = re.compile(r"\[(.?)\](?:\s+|$)")
_NUMBER = re.compile(r"(\d+(?:\.\d+)+[a-z]?[.):]?|\d+[.)])\s+")
_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_BOX_MARKS = " xX-~/>!?"
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Checklist:
    """`title` is the file's first heading of level 1; `prose` what stands outside of the items, under its headings."""

    title: str = ""
    items: tuple[str, ...] = ()
    completed: bool = False
    prose: str = ""


@dataclass(slots=True)
class _Item:
    """An item while the tree is built; `box` is None for a plain bullet."""

    indent: int
    section: str
    box: bool | None
    lines: list[Line]
    children: list["_Item"] = field(default_factory=list)
    holds_box: bool = False


@dataclass(frozen=True, slots=True)
class _Title:
    text: str


def read(text: str) -> Checklist:
    """Read the text of a tasks.md."""
    tree = _Tree()
    for line in lines(text):
        tree.take(line)
    boxes = [item.box for root in tree.roots for item in _all_of(root) if item.box is not None]
    if not boxes:
        for root in tree.roots:
            for item in _all_of(root):
                item.box = False
    for root in tree.roots:
        _mark_branches(root)
    found: list[tuple[str, str]] = []
    for section, siblings in groupby(tree.roots, key=lambda root: root.section):
        found += [(section, leaf) for leaf in _leaves(list(siblings), "")]
    return Checklist(
        title=tree.title,
        items=_told_apart(found),
        completed=bool(boxes) and all(boxes),
        prose=_prose(tree.rest) if boxes else "",
    )


class _Tree:
    """Takes lines one by one and builds the items of all lists."""

    def __init__(self) -> None:
        self.title = ""
        self.roots: list[_Item] = []
        self.rest: list[str | _Title | _Item] = []
        self._headings: list[tuple[int, str]] = []
        self._open: list[_Item] = []
        self._gap = False

    def take(self, line: Line) -> None:
        marked = list_item(line)
        if marked is not None:
            self._add(line, marked)
            self._gap = False
        elif found := heading(line):
            self._enter(*found)
        elif not line.text and not line.code:
            self._gap = True
            self.rest.append("")
        elif self._belongs_to_item(line):
            self._open[-1].lines.append(line)
            self._gap = False
        else:
            self._open.clear()
            if not is_break(line):
                self.rest.append(line.text)

    def _enter(self, level: int, title: str) -> None:
        self._open.clear()
        if level == 1 and not self.title:
            self.title = title
        else:
            self.rest.append(_Title(title))
        self._headings = [entry for entry in self._headings if entry[0] < level]
        if level > 1:
            self._headings.append((level, shortened(_HEADING_NUMBER.sub("", title, count=1))))

    def _belongs_to_item(self, line: Line) -> bool:
        """Text goes on with an item at once, or after a blank line where it is indented deeper than the item."""
        if not self._open or is_break(line) or (line.text.startswith((">", "|")) and line.indent == 0):
            return False
        if self._gap and not line.code:
            while self._open and self._open[-1].indent >= line.indent:
                self._open.pop()
        elif self._gap and line.indent <= self._open[0].indent:
            return False
        return bool(self._open)

    def _add(self, line: Line, text: str) -> None:
        box: bool | None = None
        boxed = _BOX.match(text)
        if boxed and boxed[1] in _BOX_MARKS:  # an empty mark too: `[]` is how many write an open box
            box, text = boxed[1] in ("x", "X"), text[boxed.end() :]
        while self._open and (line.indent < self._open[-1].indent + 2 or len(self._open) >= _DEEPEST):
            self._open.pop()
        section = " / ".join(title for _, title in self._headings)
        item = _Item(indent=line.indent, section=section, box=box, lines=[Line(text.strip(), line.indent)])
        (self._open[-1].children if self._open else self.roots).append(item)
        if not self._open:
            self.rest.append(item)
        self._open.append(item)


def _all_of(item: _Item) -> Iterator[_Item]:
    yield item
    for child in item.children:
        yield from _all_of(child)


def _mark_branches(item: _Item) -> bool:
    below = [_mark_branches(child) for child in item.children]
    item.holds_box = any(below)
    return item.holds_box or item.box is not None


def _leaves(siblings: list[_Item], context: str) -> Iterator[str]:
    numbered = _numbers_to_drop(siblings)
    for item in siblings:
        own = _whole(item, drop_number=numbered and item.box is not None)
        if item.holds_box:
            above = _joined(context, own)
            if len(above) > LONGEST_CONTEXT:  # once on its own, not before each child: lists stay linear in size
                yield above
                above = ""
            yield from _leaves(item.children, above)
        elif item.box is not None and own:
            yield _joined(context, own)


def _numbers_to_drop(siblings: list[_Item]) -> bool:
    """Numbers are dropped where every item has one; a lone `2.0 …` may be a version, a lone `1.1 …` starts a list."""
    found = [_NUMBER.match(_unbold(item.lines[0].text)) for item in siblings if item.box is not None]
    if not found or not all(found):
        return False
    first = found[0]
    return len(found) > 1 or (first is not None and first[1].rstrip(".):").split(".")[-1] == "1")


def _unbold(text: str) -> str:
    return without_leading_bold(text)


def _whole(item: _Item, *, drop_number: bool) -> str:
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


def _prose(rest: list["str | _Title | _Item"]) -> str:
    """Text and plain lists outside of the checklist, with those headings that stand right over some."""
    told: list[str] = []
    over = ""
    for part in rest:
        if isinstance(part, _Title):
            over = part.text
            continue
        if isinstance(part, _Item):
            text = "" if part.holds_box or part.box is not None else f"- {_whole(part, drop_number=False)}"
        else:
            text = part
        if text and over:
            told += ["", f"## {over}"]
            over = ""
        if not over:
            told.append(text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(told)).strip()


def _told_apart(found: list[tuple[str, str]]) -> tuple[str, ...]:
    """Each criterion once; the same words under two headings are two criteria, told apart by their heading."""
    sections: dict[str, set[str]] = {}
    for section, text in found:
        sections.setdefault(text, set()).add(section)
    told = (f"{section}: {text}" if section and len(sections[text]) > 1 else text for section, text in found)
    return tuple(dict.fromkeys(told))
