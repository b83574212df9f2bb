"""A Markdown file as task files need it: headings, text, fenced code, and lists as trees of items with their boxes.

Nesting is CommonMark's, so that a file reads as it is shown. What stands in quotations, comments and fenced code is no
item.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST_CONTEXT = 1000
"""Characters of context repeated before each of many lines; longer ones are told once, so that sizes stay linear."""
DEEPEST = 60
"""Levels of markdown-it; a list takes two. What lies deeper is not read."""

_BOX = re.compile(r"\[(.?)\](?:\s+|$)")
_BOX_IN_ROW = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)+\[(.?)\]")
_BOX_MARKS = " xX-~/>!?"
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_BOLD_START = re.compile(r"(\*\*|__)(?=[^\s*_])([^*]+?)\1")


@dataclass(frozen=True, slots=True)
class Heading:
    """`row` counts from 0."""

    level: int
    text: str
    row: int


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line without its indentation; one of a fenced block (`code`) is whole."""

    text: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a quotation, or a fenced block with its fences."""

    lines: tuple[TextLine, ...]

    @property
    def code(self) -> bool:
        return self.lines[0].code


@dataclass(slots=True)
class Item:
    """One item of a list. `box` is whether its box is ticked, None for a plain bullet; `row` counts from 0. The first
    of `lines` is what follows the bullet and the box. `holds_box` is whether a box stands below it.
    """

    row: int
    section: str
    box: bool | None = None
    lines: list[TextLine] = field(default_factory=list)
    children: list["Item"] = field(default_factory=list)
    holds_box: bool = False

    @property
    def text(self) -> str:
        return self.lines[0].text if self.lines else ""


@dataclass(slots=True)
class MarkdownFile:
    """`flow` is all that stands at the top, in its order. `trouble` is a row (from 0) from which on something is hidden
    that was hardly meant to be, and what it is.
    """

    flow: list[Heading | Block | Item] = field(default_factory=list)
    trouble: tuple[int, str] | None = None

    @property
    def roots(self) -> list[Item]:
        return [part for part in self.flow if isinstance(part, Item)]

    @property
    def title(self) -> str:
        """The first heading of level 1, or empty."""
        return next((part.text for part in self.flow if isinstance(part, Heading) and part.level == 1), "")


def read_document(text: str) -> MarkdownFile:
    """The parts of a text with LF line ends."""
    tokens: list[Token] = []
    _parser().block.parse(text, _parser(), {}, tokens)
    return _Reader(text.split("\n")).read(tokens)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs 30 ms, and few commands read Markdown

    # without indented code, reference definitions and underlined headings: no task is lost in one of them
    return MarkdownIt("commonmark", {"maxNesting": DEEPEST}).disable(["code", "reference", "lheading"])


class _Reader:
    def __init__(self, rows: list[str]) -> None:
        self._rows = rows
        self._found = MarkdownFile()
        self._open: list[Item] = []
        self._headings: list[tuple[int, str]] = []
        self._quoted = 0

    def read(self, tokens: "list[Token]") -> MarkdownFile:
        heading = 0
        for token in tokens:
            if token.level >= DEEPEST - 2:
                self._found.trouble = self._found.trouble or (_start(token), "is nested too deeply")
            if token.type == "blockquote_open":
                if not self._quoted:
                    self._take([row.strip() for row in self._rows_of(token)])
                self._quoted += 1
            elif token.type == "blockquote_close":
                self._quoted -= 1
            elif self._quoted:
                continue
            elif token.type == "heading_open" and not self._open:
                heading = int(token.tag[1])
            elif token.type == "inline" and heading:
                self._enter(heading, token)
                heading = 0
            else:
                self._part(token)
        return self._found

    def _part(self, token: "Token") -> None:
        match token.type:
            case "list_item_open":
                self._begin(token)
            case "list_item_close":
                self._open.pop()
            case "inline":
                self._take(token.content.split("\n"))
            case "fence":
                self._take_code(token)
            case "html_block":
                if not token.content.lstrip().startswith("<!--"):
                    self._take([row.strip() for row in self._rows_of(token)])
                elif "-->" not in token.content:
                    self._found.trouble = (_start(token), "begins a comment that never ends")

    def _begin(self, token: "Token") -> None:
        section = " / ".join(title for _, title in self._headings)
        item = Item(_start(token), section)
        if self._open:
            self._open[-1].children.append(item)
        else:
            self._found.flow.append(item)
        self._open.append(item)

    def _enter(self, level: int, token: "Token") -> None:
        self._found.flow.append(Heading(level, token.content.strip(), _start(token)))
        self._headings = [entry for entry in self._headings if entry[0] < level]
        if level > 1:
            title = _HEADING_NUMBER.sub("", token.content.strip(), count=1)
            self._headings.append((level, shortened(title)))

    def _take(self, texts: list[str]) -> None:
        lines = [TextLine(text.strip()) for text in texts]
        if not self._open:
            self._found.flow.append(Block(tuple(lines)))
            return
        item = self._open[-1]
        boxed = None if item.lines else _BOX.match(lines[0].text)
        if boxed and boxed[1] in _BOX_MARKS:  # an empty mark too: `[]` is how many write an open box
            item.box = boxed[1] in ("x", "X")
            lines[0] = TextLine(lines[0].text[boxed.end() :].strip())
            for above in self._open[:-1]:
                above.holds_box = True
        item.lines += lines

    def _take_code(self, token: "Token") -> None:
        first, last = token.map or (0, 0)
        rows = self._rows[first:last]
        if len(rows) == 1 or rows[-1].strip().strip(token.markup[0]):
            self._found.trouble = (first, "begins a block of code that never ends")
        if not self._open:
            self._found.flow.append(Block(tuple(TextLine(row, code=True) for row in rows)))
            return
        item = self._open[-1]
        if not item.lines:
            item.lines.append(TextLine(""))
        if first == item.row:
            rows[0] = _BULLET.sub(lambda bullet: " " * len(bullet[0]), rows[0], count=1)
        item.lines += [TextLine(row, code=True) for row in rows]

    def _rows_of(self, token: "Token") -> list[str]:
        first, last = token.map or (0, 0)
        return self._rows[first:last]


def _start(token: "Token") -> int:
    return token.map[0] if token.map else 0


def all_of(item: Item) -> Iterator[Item]:
    """The item and everything below it."""
    yield item
    for child in item.children:
        yield from all_of(child)


def is_done(group: Item, done: Container[int]) -> bool:
    """Whether every box below a group is ticked, or that of an item whose `id()` is in `done`; groups inside are done
    as their items are.
    """
    below = [one for child in group.children for one in all_of(child) if one.box is not None]
    return all(one.box or id(one) in done or one.holds_box for one in below)


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


def shortened(title: str) -> str:
    """A heading fit to be repeated before the lines below it."""
    return title if len(title) <= LONGEST_CONTEXT // 5 else title[: LONGEST_CONTEXT // 5] + "…"


def inline_parts(text: str) -> list[tuple[bool, str]]:
    """The parts of a line, in order: whether each is inline code, and what it says."""
    tokens = _inline_parser().parseInline(text)
    return [(part.type == "code_inline", part.content) for token in tokens for part in token.children or ()]


def codes_in(text: str) -> list[str]:
    """The contents of the inline code, without those that are empty."""
    return [content.strip() for code, content in inline_parts(text) if code and content.strip()]


@cache
def _inline_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - see _parser

    return MarkdownIt("zero").enable("backticks")


def without_closing_comment(text: str) -> str:
    """The text without the comments it ends with; a comment in the middle of a sentence is part of it and stays."""
    end = len(text.rstrip())
    while text.endswith("-->", 0, end):
        start = text.rfind("<!--", 0, end)
        if start < 0 or text.find("-->", start, end) != end - 3:
            break
        end = start
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def without_leading_bold(text: str) -> str:
    """`**A**: b` as `A: b`."""
    return _BOLD_START.sub(r"\2", text, count=1) if _BOLD_START.match(text) else text
