"""The texts of a rulebook task: `tasks.md` and the `spec.md` files as acceptance criteria, titles, files they name."""

import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rulebook_ralph.tasks.importers.markdown import (
    LONGEST_CONTEXT,
    Block,
    Heading,
    Item,
    MarkdownFile,
    all_of,
    codes_in,
    inline_parts,
    is_done,
    read_document,
    shortened,
    ticked_row,
    without_closing_comment,
    without_leading_bold,
)

CHECKLIST = "tasks.md"
MAX_FILES = 20

_NUMBER = re.compile(r"(\d+(?:\.\d+)+[a-z]?[.):]?|\d+[.)])\s+")
_DEMAND = re.compile(r"\b(?:SHALL|MUST)\b")
_STEP = re.compile(r"(?:\*\*|__)?(?:given|when|then|and|but)\b", re.IGNORECASE)
_DELTA = re.compile(r"(ADDED|MODIFIED|REMOVED|RENAMED)\s+Requirements?", re.IGNORECASE)
_REQUIREMENT = re.compile(r"requirement:", re.IGNORECASE)
_PREFIX = re.compile(r"(?:requirement|scenario):\s*", re.IGNORECASE)
_REQUIREMENT_MARK = re.compile(r"`?#+\s*Requirement:\s*([^`]*)`?", re.IGNORECASE)
_TITLE_PREFIX = re.compile(
    r"(?:change\s+)?proposal\s*(?::|\s[-\u2013\u2014]\s)\s*|(?:implementation\s+)?tasks?\s*:\s*", re.IGNORECASE
)
_GENERIC_TITLE = re.compile(r"(?:change\s+)?proposal|(?:implementation\s+)?tasks?(?:\s+list)?|checklist", re.IGNORECASE)
_DATE_AND_PHASE = re.compile(r"(?:\d{4}-\d{2}-\d{2}-)?(?:phase[-_]?(\d{1,4})(?:[-_.]|$))?", re.IGNORECASE)
_LINE_SUFFIX = re.compile(r":\d+(?:-\d+)?(?::\d+)?$")


# tasks.md


@dataclass(frozen=True, slots=True)
class Checklist:
    """`title` is the file's first heading of level 1; `has_prose`: text stands outside of the items. `trouble` is as in
    markdown.MarkdownFile.
    """

    title: str
    items: tuple[str, ...]
    completed: bool
    has_prose: bool
    trouble: tuple[int, str] | None


def read_checklist(text: str) -> Checklist:
    """Read the text of a tasks.md. A file without a single box is a plain list of items, all open."""
    tree = read_document(text)
    boxes = [item.box for root in tree.roots for item in all_of(root) if item.box is not None]
    if not boxes:
        for root in tree.roots:
            for item in all_of(root):
                item.box, item.holds_box = False, bool(item.children)
    return Checklist(
        title=tree.title,
        items=tuple(dict.fromkeys(criterion for _, criterion in criteria(tree.roots))),
        completed=bool(boxes) and all(boxes),
        has_prose=any(isinstance(part, Block) for part in tree.flow),
        trouble=tree.trouble,
    )


def ticked(rows: Sequence[str], verified: Collection[str]) -> dict[int, str] | None:
    """The rows of a tasks.md (without line ends) that change where the boxes of those criteria are ticked: row -> what
    it becomes. With them go the boxes of items of which all are ticked then. None where none of the criteria is found.
    """
    tree = read_document("\n".join(rows))
    meant = [item for item, criterion in criteria(tree.roots) if criterion in verified]
    done = {id(item) for item in meant if item.box is not None}
    boxes = [item for root in tree.roots for item in all_of(root) if item.box is False]
    wanted = [item for item in boxes if id(item) in done or (item.holds_box and is_done(item, done))]
    changes = {item.row: ticked_row(rows[item.row]) for item in wanted}
    return {row: text for row, text in changes.items() if text is not None} if meant else None


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
        own = _whole(item, drop_number=numbered and item.box is not None)
        if item.holds_box:
            above = _joined(context, own)
            if len(above) > LONGEST_CONTEXT:  # once on its own, not before each child: lists stay linear in size
                yield item, above
                above = ""
            yield from _leaves(item.children, above)
        elif item.box is not None and own:
            yield item, _joined(context, own)


def _whole(item: Item, *, drop_number: bool) -> str:
    """An item's own text and its plain details, on one line but for code."""
    start = without_leading_bold(item.text)
    if drop_number:
        start = without_leading_bold(_NUMBER.sub("", start, count=1))
    rows = [start]
    for block in item.blocks:
        if block.code:
            rows.append(textwrap.dedent("\n".join(block.lines)))
        elif "\n" in rows[-1]:
            rows.append(" ".join(filter(None, block.lines)))
        else:
            rows[-1] = " ".join(filter(None, (rows[-1], *block.lines)))
    text = without_closing_comment("\n".join(filter(None, rows)))
    details = [_whole(child, drop_number=False) for child in item.children if child.box is None and not child.holds_box]
    if told := "; ".join(filter(None, details)):
        return f"{text} {told}" if text.endswith(":") else f"{text} — {told}"
    return text


def _joined(context: str, text: str) -> str:
    if not context or context.endswith("\n```"):
        return f"{context}\n{text}".lstrip()
    return f"{context} {text}" if context.endswith((".", ":", "!", "?")) else f"{context}: {text}"


# spec.md


@dataclass(slots=True)
class _Section:
    """What stands below one heading; `name` has the headings from its requirement on, else its own."""

    delta: str = ""
    requirement: str = ""
    name: str = ""
    parts: list[Block | Item] = field(default_factory=list)


def read_spec(text: str) -> tuple[list[list[str]], tuple[int, str] | None]:
    """The criteria of a spec.md, those of one requirement together; and trouble as in markdown.MarkdownFile.

    All that stands below a heading is one criterion where it says SHALL or MUST, and so is a removed requirement.
    """
    document = read_document(text)
    found: dict[str, list[str]] = {}
    for section in _sections(document):
        for criterion in _criteria_of(section):
            found.setdefault(section.requirement or criterion, []).append(criterion)
    return list(found.values()), document.trouble


def _sections(document: MarkdownFile) -> list[_Section]:
    sections = [_Section()]
    above: list[tuple[Heading, str]] = []
    for part in document.flow:
        if not isinstance(part, Heading):
            sections[-1].parts.append(part)
            continue
        title = shortened(_PREFIX.sub("", part.text, count=1))
        above = [*(each for each in above if each[0].level < part.level), (part, title)]
        places = [place for place, (heading, _) in enumerate(above) if _REQUIREMENT.match(heading.text)]
        deltas = [found[1].upper() for heading, _ in above if (found := _DELTA.fullmatch(heading.text))]
        names = [name for _, name in (above[places[0] :] if places else above[-1:])]
        is_name = bool(places) or not (part.level == 1 or _DELTA.fullmatch(part.text))
        requirement = names[0] if places else ""
        sections.append(_Section("".join(deltas[-1:]), requirement, " — ".join(names) if is_name else ""))
    return sections


def _criteria_of(section: _Section) -> Iterator[str]:
    texts = [_text(part) for part in section.parts]
    plain = (_prose(text) for part, text in zip(section.parts, texts, strict=True) if not _is_block(part))
    demands = any(map(_DEMAND.search, plain))
    marks = [_REQUIREMENT_MARK.sub(r"\1", text) for text in texts]
    is_whole = section.name == section.requirement
    if section.delta == "REMOVED" and section.requirement and (is_whole or demands):
        yield ": ".join(filter(None, (f'Removed requirement "{section.name}"', " ".join(texts))))
    elif section.delta == "REMOVED" and not section.requirement:
        yield from (f"Removed requirement: {text}" for text in marks)
    elif section.delta == "RENAMED" and not section.requirement and texts:
        yield f"Renamed requirement: {', '.join(marks)}"
    elif demands:
        yield ": ".join(filter(None, (section.name, _as_one(section.parts, texts))))


def _as_one(parts: Sequence[Block | Item], texts: Sequence[str]) -> str:
    """The texts behind each other; code and tables stay on lines of their own."""
    whole = texts[0]
    for index, text in enumerate(texts[1:], 1):
        if _is_block(parts[index]) or _is_block(parts[index - 1]):
            between = "\n"
        elif isinstance(parts[index], Item) and isinstance(parts[index - 1], Item):
            between = ", " if _STEP.match(text) else "; "
        else:
            between = " "
        whole += between + text
    return whole


def _prose(text: str) -> str:
    return "".join(content for code, content in inline_parts(text) if not code)


def _is_block(part: Block | Item) -> bool:
    return isinstance(part, Block) and (part.code or part.lines[0].startswith("|"))


def _text(part: Block | Item) -> str:
    if isinstance(part, Item):
        words = [part.text, *(line for block in part.blocks if not block.code for line in block.lines)]
        text = without_leading_bold(" ".join(filter(None, words)))
        for child in part.children:
            text += f"{' ' if text.endswith(':') else '; '}{_text(child)}"
        return "\n".join([text, *(line for block in part.blocks if block.code for line in block.lines)])
    lines = part.lines if part.code else [without_leading_bold(line) for line in part.lines]
    if part.code:
        return "\n".join(lines)
    between = ("\n" if line[:1] == "|" else ", " if _STEP.match(line) else " " for line in lines[1:])
    return lines[0] + "".join(gap + line for gap, line in zip(between, lines[1:], strict=True))


# Titles and files


def read_proposal(text: str) -> tuple[str, str]:
    """The title of a proposal.md without a `Proposal:` prefix, or empty; and all the rest, as it was written."""
    rows = text.split("\n")
    for part in read_document(text).flow:
        if isinstance(part, Heading) and part.level == 1:
            return clean_title(part.text), "\n".join([*rows[: part.row], *rows[part.row + 1 :]]).strip()
    return "", text.strip()


def clean_title(title: str) -> str:
    """A heading as a title: `Proposal: X` and `Tasks: X` give X; a file's mere kind gives nothing."""
    title = _TITLE_PREFIX.sub("", title, count=1) if _TITLE_PREFIX.match(title) else title
    return "" if _GENERIC_TITLE.fullmatch(title.strip()) else title.strip()


def readable_title(title: str, task_id: str) -> str:
    """The title; or where it is empty or merely the id, the id's words without date and phase."""
    is_id = task_id.casefold().endswith(title.casefold()) and ("-" in title or "_" in title)
    if title and not is_id and title.casefold() != task_id.casefold():
        return title
    words = re.sub(r"[-_]+", " ", _DATE_AND_PHASE.sub("", task_id, count=1)).strip() or task_id
    return words[0].upper() + words[1:]


def phase_of(task_id: str) -> int | None:
    """The number in `phase3_name`, `phase-3-name` or `2026-01-31-phase3_name`; None without one."""
    match = _DATE_AND_PHASE.match(task_id)
    return int(match[1]) if match and match[1] else None


def named_files(texts: Sequence[str], is_file: Callable[[str], bool]) -> tuple[str, ...]:
    """The project's files that inline code in the texts names, in order, without repeats, at most 20. `:140` behind a
    name is a line number.
    """
    codes = (code for text in texts for row in text.split("\n") for code in codes_in(row))
    names = dict.fromkeys(_LINE_SUFFIX.sub("", code).removeprefix("./") for code in codes)
    found = (name for name in names if name and not name.startswith(("/", "~")) and ".." not in name and is_file(name))
    return tuple(name for name, _ in zip(found, range(MAX_FILES), strict=False))
