"""The lists of a Markdown file as trees of items, with their boxes and the rows they stand in."""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from rulebook_ralph.sources.markdown import Line, heading, is_break, lines, list_item, shortened

_BOX = re.compile(r"\[(.?)\](?:\s+|$)")
_BOX_IN_ROW = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\[(.?)\]")
_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_BOX_MARKS = " xX-~/>!?"
_DEEPEST = 40


@dataclass(slots=True)
class Item:
    """One item. `box` is whether its box is ticked, None for a plain bullet; `row` counts from 0. The first of `lines`
    is what follows the bullet and the box. `holds_box` is whether a box stands below it.
    """

    indent: int
    section: str
    box: bool | None
    row: int
    lines: list[Line]
    children: list["Item"] = field(default_factory=list)
    holds_box: bool = False


@dataclass(frozen=True, slots=True)
class Title:
    text: str


class Tree:
    """Takes lines one by one and builds the items of all lists; `rest` is everything else, with the lists' roots."""

    def __init__(self) -> None:
        self.title = ""
        self.roots: list[Item] = []
        self.rest: list[str | Title | Item] = []
        self._headings: list[tuple[int, str]] = []
        self._open: list[Item] = []
        self._gap = False
        self._row = -1

    def take(self, line: Line) -> None:
        self._row += 1
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
            self.rest.append(Title(title))
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
        for above in self._open if box is not None else ():
            above.holds_box = True
        section = " / ".join(title for _, title in self._headings)
        item = Item(line.indent, section, box, self._row, [Line(text.strip(), line.indent)])
        (self._open[-1].children if self._open else self.roots).append(item)
        if not self._open:
            self.rest.append(item)
        self._open.append(item)


def read_tree(text: str) -> Tree:
    """The items of a text with LF line ends."""
    tree = Tree()
    for line in lines(text):
        tree.take(line)
    return tree


def all_of(item: Item) -> Iterator[Item]:
    """The item and everything below it."""
    yield item
    for child in item.children:
        yield from all_of(child)


def is_done(group: Item, done: Container[int]) -> bool:
    """Whether every box below a group is ticked, or that of an item whose `id()` is in `done`; groups inside are done
    as their items are.
    """
    below = [one for one in _inside(group) if one.box is not None]
    return all(one.box or id(one) in done or one.holds_box for one in below)


def _inside(item: Item) -> Iterator[Item]:
    return (one for child in item.children for one in all_of(child))


def ticked_row(row: str) -> str | None:
    """The row of an item with its box ticked. Where a marker stands in its place, as in `- [P] 3.1 …`, one is put in.

    None where the row is not that of such an item.
    """
    if (box := _BOX_IN_ROW.match(row)) is None:
        return None
    if box[1] not in _BOX_MARKS:
        start = box.start(1) - 1
        return f"{row[:start]}[x] {row[start:]}"
    return row if box[1] in ("x", "X") else f"{row[: box.start(1)]}x{row[box.end(1) :]}"


def unticked_row(row: str) -> str:
    """The row with its box open, if it has one."""
    box = _BOX_IN_ROW.match(row)
    return row if box is None or box[1] not in _BOX_MARKS else f"{row[: box.start(1)]} {row[box.end(1) :]}"
