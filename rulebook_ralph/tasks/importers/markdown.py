"""A Markdown file as task files need it: headings, text, code, and lists as trees of items with their boxes.

Nesting is CommonMark's, so that a file reads as it is shown. What stands in quotations, comments and code is no item.
"""

import re
import textwrap
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rulebook_ralph.tasks.importers.source import UnreadableError
from rulebook_ralph.tasks.text import cut

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

LONGEST_CONTEXT = 1000
"""Characters of context repeated before each of many lines; longer ones are told once, so that sizes stay linear."""
LONGEST_HEADING = 200
"""Columns of a heading that is repeated before the lines below it."""
CODE = r"(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
"""Inline code, as a regular expression."""

_DEEPEST = 60
"""Levels of markdown-it; a list takes two. What lies deeper is not read."""
_CODE = re.compile(CODE)
_BOX = re.compile(r"\[(.?)\](?:\s+|$)")
_BOX_IN_ROW = re.compile(r"\s*(?:#{1,6}\s+|(?:(?:[-*+]|\d{1,9}[.)])\s+)+)\[(.?)\]")
_BOX_MARKS = " xX-~/>!?"
_HEADING_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_NUMBER = re.compile(r"(\d+(?:\.\d+)+[a-z]?[.):]?|\d+[.)])\s+")
_BOLD_START = re.compile(r"(\*\*|__)(?=[^\s*_])([^*]+?)\1")


@dataclass(frozen=True, slots=True)
class Heading:
    """`row` counts from 0; `section` are the headings above it but for the file's title."""

    level: int
    text: str
    row: int
    section: str


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a quotation or a table, its lines without indentation. Of fenced code, `code` is what is inside."""

    text: str
    code: str | None = None


@dataclass(slots=True, eq=False)
class Item:
    """One item of a list. `text` is what follows the bullet and the box on its first line, `parts` all below it. `box`
    is whether its box is ticked, None for a plain bullet; `source` are its rows, of which the first counts from 0.
    """

    row: int
    section: str
    source: Sequence[str] = ()
    text: str = ""
    box: bool | None = None
    parts: "list[Block | Item]" = field(default_factory=list)

    @property
    def children(self) -> "list[Item]":
        return [part for part in self.parts if isinstance(part, Item)]

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]

    @property
    def holds_box(self) -> bool:
        """Whether a box stands below it."""
        return any(child.box is not None or child.holds_box for child in self.children)

    @property
    def as_written(self) -> str:
        return textwrap.dedent("\n".join(self.source)).strip()

    def whole(self) -> "Iterator[Item]":
        """The item and everything below it."""
        yield self
        for child in self.children:
            yield from child.whole()

    def is_done(self, done: "Container[Item]" = ()) -> bool:
        """Whether every box below it is ticked, or that of an item in `done`; groups are done as their items are."""
        below = (one for child in self.children for one in child.whole() if one.box is not None)
        return all(one.box or one in done or one.holds_box for one in below)


@dataclass(slots=True)
class MarkdownFile:
    """`flow` is all that stands at the top, in its order."""

    rows: list[str]
    path: Path | None
    flow: list[Heading | Block | Item] = field(default_factory=list)

    @property
    def roots(self) -> list[Item]:
        return [part for part in self.flow if isinstance(part, Item)]

    @property
    def headings(self) -> list[Heading]:
        return [part for part in self.flow if isinstance(part, Heading)]

    @property
    def title(self) -> str:
        """The first heading of level 1, or empty."""
        return next((heading.text for heading in self.headings if heading.level == 1), "")


def read_document(text: str, path: Path | None = None) -> MarkdownFile:
    """The parts of a text with LF line ends. Raises UnreadableError where a part of it is hidden, and the file's `path`
    is given.
    """
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - see _parser

    found = MarkdownFile(text.split("\n"), path)
    above: list[Heading] = []
    for node in SyntaxTreeNode(_parser().parse(text)).children:
        above = [each for each in above if node.type != "heading" or each.level < int(node.tag[1])]
        titles = (_HEADING_NUMBER.sub("", each.text, count=1) for each in above if each.level > 1)
        section = " / ".join(cut(title, LONGEST_HEADING) for title in titles)
        if node.type == "heading":
            above.append(Heading(int(node.tag[1]), _content(node), _rows_of(node)[0], section))
            found.flow.append(above[-1])
        elif node.type in ("bullet_list", "ordered_list"):
            found.flow += [_item(each, section, found) for each in node.children]
        elif block := _block(node, found):
            found.flow.append(block)
    return found


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs 30 ms, and few commands read Markdown

    # without indented code, reference definitions and underlined headings: no task is lost in one of them
    blocks_alone = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).disable(["code", "reference", "lheading"])
    return blocks_alone.disable(["inline", "text_join"])


def _item(node: "SyntaxTreeNode", section: str, file: MarkdownFile) -> Item:
    first, last = _rows_of(node)
    item = Item(first, section, file.rows[first:last])
    for number, part in enumerate(node.children):
        if part.type in ("bullet_list", "ordered_list"):
            item.parts += [_item(each, section, file) for each in part.children]
        elif block := _block(part, file):
            if number == 0 and block.code is None:
                item.text, _, rest = block.text.partition("\n")
                block = Block(rest)
            if block.text:
                item.parts.append(block)
    boxed = _BOX.match(item.text)
    if boxed and boxed[1] in _BOX_MARKS:  # an empty mark too: `[]` is how many write a box
        item.box = boxed[1] in ("x", "X")
        item.text = item.text[boxed.end() :].strip()
    return item


def _block(node: "SyntaxTreeNode", file: MarkdownFile) -> Block | None:
    first, last = _rows_of(node)
    rows = file.rows[first:last]
    match node.type:
        case "fence":
            if file.path and (len(rows) == 1 or rows[-1].strip().strip(node.markup[0])):
                raise UnreadableError(file.path, first + 1, "begins a block of code that never ends")
            return Block(f"{node.markup}{node.info}\n{node.content}{node.markup}", node.content.strip("\n"))
        case "html_block" if node.content.lstrip().startswith("<!--"):
            if file.path and "-->" not in node.content:
                raise UnreadableError(file.path, first + 1, "begins a comment that never ends")
            return None
        case "paragraph" | "heading":
            rows = _content(node).split("\n")
        case "blockquote" | "html_block":
            pass
        case _:
            return None
    return Block("\n".join(row.strip() for row in rows))


def _content(node: "SyntaxTreeNode") -> str:
    return node.children[0].content.strip() if node.children else ""


def _rows_of(node: "SyntaxTreeNode") -> tuple[int, int]:
    return node.map or (0, 0)


# Words


def codes_in(text: str) -> list[str]:
    """The contents of the inline code, without those that are empty."""
    return [code for found in _CODE.finditer(text) if (code := found["code"].strip())]


def without_codes(text: str) -> str:
    """The text without its inline code."""
    return _CODE.sub("", text)


def without_closing_comment(text: str) -> str:
    """The text without the comments it ends with; a comment in the middle of a sentence is part of it and stays."""
    parts = text.split("<!--")
    while len(parts) > 1 and parts[-1].find("-->") == len(parts[-1].rstrip()) - 3:
        parts.pop()
    return "<!--".join(parts).rstrip()


def without_leading_bold(text: str) -> str:
    """`**A**: b` as `A: b`."""
    return _BOLD_START.sub(r"\2", text, count=1) if _BOLD_START.match(text) else text


# Boxes


def criteria(roots: Sequence[Item]) -> list[tuple[Item, str]]:
    """The criteria that the lists tell, each with the item it stands in: one for each item with a box that has no
    further box below it, behind the text of the items above it, so that no word of the list is lost.

    The same words under two headings are two criteria, told apart by their heading.
    """
    found: list[tuple[Item, str]] = []
    for _, siblings in groupby(roots, key=lambda root: root.section):
        found += _leaves(list(siblings), "")
    sections: dict[str, set[str]] = {}
    for item, text in found:
        sections.setdefault(text, set()).add(item.section)
    return [
        (item, f"{item.section}: {text}" if item.section and len(sections[text]) > 1 else text) for item, text in found
    ]


def _leaves(siblings: list[Item], context: str) -> Iterator[tuple[Item, str]]:
    numbered = all(_NUMBER.match(without_leading_bold(item.text)) for item in siblings if item.box is not None)
    for item in siblings:
        own = words_of(item, drop_number=numbered and item.box is not None)
        if item.holds_box:
            above = _joined(context, own)
            if len(above) > LONGEST_CONTEXT:  # once on its own, not before each child: lists stay linear in size
                yield item, above
                above = ""
            yield from _leaves(item.children, above)
        elif item.box is not None and own:
            yield item, _joined(context, own)


def words_of(item: Item, *, drop_number: bool = False) -> str:
    """An item's own text and its plain details, on one line but for code."""
    text = without_leading_bold(item.text)
    if drop_number:
        text = without_leading_bold(_NUMBER.sub("", text, count=1))
    after_code = False
    for block in item.blocks:
        is_code = block.code is not None
        text += ("\n" if is_code or after_code else " ") + (block.text if is_code else " ".join(block.text.split("\n")))
        after_code = is_code
    text = without_closing_comment(text.strip())
    details = [words_of(child) for child in item.children if child.box is None and not child.holds_box]
    if told := "; ".join(filter(None, details)):
        return f"{text} {told}" if text.endswith(":") else f"{text} — {told}"
    return text


def _joined(context: str, text: str) -> str:
    if not context or context.endswith("\n```"):
        return f"{context}\n{text}".lstrip()
    return f"{context} {text}" if context.endswith((".", ":", "!", "?")) else f"{context}: {text}"


def ticked_row(row: str) -> str:
    """The row of an item or heading with its box ticked. Where a marker stands in its place, as in `- [P] 3.1 …`, one
    is put in. Any other row stays as it is.
    """
    if (box := _BOX_IN_ROW.match(row)) is None or box[1] in ("x", "X"):
        return row
    if box[1] not in _BOX_MARKS:
        return f"{row[: box.start(1) - 1]}[x] {row[box.start(1) - 1 :]}"
    return f"{row[: box.start(1)]}x{row[box.end(1) :]}"
