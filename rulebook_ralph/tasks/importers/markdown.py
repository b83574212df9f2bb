"""A Markdown file as task files need it: headings, text, code, and lists as trees of items with their boxes.

Nesting is CommonMark's, so that a file reads as it is shown. What stands in quotations, comments and code is no item.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

LONGEST_CONTEXT = 1000
"""Characters of context repeated before each of many lines; longer ones are told once, so that sizes stay linear."""
DEEPEST = 60
"""Levels of markdown-it; a list takes two. What lies deeper is not read."""

BOX = re.compile(r"\[(.?)\](?:\s+|$)")
_BOX_IN_ROW = re.compile(r"\s*(?:#{1,6}\s+|(?:(?:[-*+]|\d{1,9}[.)])\s+)+)\[(.?)\]")
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
class Block:
    """A paragraph, a quotation or a table, its lines without indentation; or code with its fences, as it stands."""

    lines: tuple[str, ...]
    code: bool = False

    @property
    def content(self) -> str:
        """The code without its fences."""
        return "\n".join(self.lines[1:-1])


@dataclass(slots=True)
class Item:
    """One item of a list. `text` is what follows the bullet and the box on its first line, `parts` all below it. `box`
    is whether its box is ticked, None for a plain bullet; `row` counts from 0. `holds_box`: a box stands below it.
    """

    row: int
    section: str
    text: str = ""
    box: bool | None = None
    parts: "list[Block | Item]" = field(default_factory=list)
    holds_box: bool = False

    @property
    def children(self) -> "list[Item]":
        return [part for part in self.parts if isinstance(part, Item)]

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]


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
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - see _parser

    tokens: list[Token] = []
    _parser().block.parse(text, _parser(), {}, tokens)
    reader = _Reader(text.split("\n"))
    deep = next((token for token in tokens if token.level >= DEEPEST - 2), None)
    if deep is not None:
        reader.found.trouble = (deep.map[0] if deep.map else 0, "is nested too deeply")
    for node in SyntaxTreeNode(tokens).children:
        reader.take(node)
    return reader.found


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs 30 ms, and few commands read Markdown

    # without indented code, reference definitions and underlined headings: no task is lost in one of them
    return MarkdownIt("commonmark", {"maxNesting": DEEPEST}).disable(["code", "reference", "lheading"])


class _Reader:
    def __init__(self, rows: list[str]) -> None:
        self.found = MarkdownFile()
        self._rows = rows
        self._headings: list[tuple[int, str]] = []

    def take(self, node: "SyntaxTreeNode") -> None:
        """A part at the top of the file."""
        if node.type == "heading":
            self._enter(int(node.tag[1]), node)
        elif node.type in ("bullet_list", "ordered_list"):
            section = " / ".join(title for _, title in self._headings)
            self.found.flow += [self._item(each, section) for each in node.children]
        elif block := self._block(node):
            self.found.flow.append(block)

    def _enter(self, level: int, node: "SyntaxTreeNode") -> None:
        text = _content(node).strip()
        self.found.flow.append(Heading(level, text, _rows_of(node)[0]))
        self._headings = [entry for entry in self._headings if entry[0] < level]
        if level > 1:
            self._headings.append((level, shortened(_HEADING_NUMBER.sub("", text, count=1))))

    def _item(self, node: "SyntaxTreeNode", section: str) -> Item:
        item = Item(_rows_of(node)[0], section)
        begun = False
        for part in node.children:
            if part.type in ("bullet_list", "ordered_list"):
                item.parts += [self._item(each, section) for each in part.children]
            elif block := self._block(part, item.row):
                if not begun and not block.code:
                    block = _begin(item, block)
                if block.lines:
                    item.parts.append(block)
            begun = True
        item.holds_box = any(child.box is not None or child.holds_box for child in item.children)
        return item

    def _block(self, node: "SyntaxTreeNode", bullet_row: int = -1) -> Block | None:
        first, last = _rows_of(node)
        rows = self._rows[first:last]
        match node.type:
            case "fence":
                if len(rows) == 1 or rows[-1].strip().strip(node.markup[0]):
                    self.found.trouble = self.found.trouble or (first, "begins a block of code that never ends")
                if first == bullet_row:
                    rows[0] = _BULLET.sub(lambda bullet: " " * len(bullet[0]), rows[0], count=1)
                return Block(tuple(rows), code=True)
            case "html_block" if node.content.lstrip().startswith("<!--"):
                if "-->" not in node.content:
                    self.found.trouble = self.found.trouble or (first, "begins a comment that never ends")
                return None
            case "paragraph" | "heading":
                rows = _content(node).split("\n")
            case "blockquote" | "html_block":
                pass
            case _:
                return None
        return Block(tuple(row.strip() for row in rows))


def _begin(item: Item, block: Block) -> Block:
    """Give the item its first line; the rest of the block is left. An empty mark too: `[]` is how many write a box."""
    first, *rest = block.lines
    boxed = BOX.match(first)
    if boxed and boxed[1] in _BOX_MARKS:
        item.box = boxed[1] in ("x", "X")
        first = first[boxed.end() :].strip()
    item.text = first
    return Block(tuple(rest))


def _content(node: "SyntaxTreeNode") -> str:
    return node.children[0].content if node.children else ""


def _rows_of(node: "SyntaxTreeNode") -> tuple[int, int]:
    return node.map or (0, 0)


def all_of(item: Item) -> Iterator[Item]:
    """The item and everything below it."""
    yield item
    for child in item.children:
        yield from all_of(child)


def is_done(group: Item, done: Container[int] = ()) -> bool:
    """Whether every box below a group is ticked, or that of an item whose `id()` is in `done`; groups inside are done
    as their items are.
    """
    below = [one for child in group.children for one in all_of(child) if one.box is not None]
    return all(one.box or id(one) in done or one.holds_box for one in below)


def ticked_row(row: str) -> str | None:
    """The row of an item or heading with its box ticked. Where a marker stands in its place, as in `- [P] 3.1 …`, one
    is put in. None where the row is not that of such an item.
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
