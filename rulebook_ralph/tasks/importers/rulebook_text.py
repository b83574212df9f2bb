"""The texts of a rulebook task: `tasks.md` and the `spec.md` files as acceptance criteria, titles, files they name."""

import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rulebook_ralph.tasks.importers.markdown import (
    LONGEST_CONTEXT,
    Block,
    Heading,
    Item,
    MarkdownFile,
    TextLine,
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
    """An item's own text and its plain details, on one line but for fenced code."""
    start = without_leading_bold(item.text)
    if drop_number:
        start = without_leading_bold(_NUMBER.sub("", start, count=1))
    rows: list[str] = []
    for code, group in groupby([TextLine(start), *item.lines[1:]], key=lambda line: line.code):
        texts = [line.text for line in group]
        rows.append(textwrap.dedent("\n".join(texts)) if code else " ".join(filter(None, texts)))
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
    delta: str
    requirement: str
    scenario: str
    name: str
    parts: list[Block | Item]


def read_spec(text: str) -> tuple[list[list[str]], tuple[int, str] | None]:
    """The criteria of a spec.md, those of one requirement together; and trouble as in markdown.MarkdownFile.

    A demand is a whole paragraph or list item that says SHALL or MUST, with the list, table or code it announces; it
    bears the name of its requirement unless its words say that already. A scenario with a demand is one criterion, and
    so is a removed requirement.
    """
    document = read_document(text)
    found: dict[str, list[str]] = {}
    for section in _sections(document):
        for criterion in dict.fromkeys(_criteria_of(section)):
            found.setdefault(section.requirement or criterion, []).append(criterion)
    return list(found.values()), document.trouble


def _sections(document: MarkdownFile) -> list[_Section]:
    sections = [_Section("", "", "", "", [])]
    path: list[tuple[int, str, str]] = []
    for part in document.flow:
        if isinstance(part, Heading):
            path = [*(entry for entry in path if entry[0] < part.level), (part.level, *_role(part.level, part.text))]
            roles = {role: name for _, role, name in path}
            delta, requirement, scenario, name = (
                roles.get(role, "") for role in ("delta", "requirement", "scenario", "name")
            )
            sections.append(_Section(delta, requirement, scenario, name, []))
        else:
            sections[-1].parts.append(part)
    return sections


def _role(level: int, title: str) -> tuple[str, str]:
    if delta := _DELTA.fullmatch(title):
        return "delta", delta[1].upper()
    for role in ("requirement", "scenario"):
        if title.casefold().startswith(role + ":"):
            return role, shortened(title[len(role) + 1 :].strip())
    return ("title" if level == 1 else "name"), shortened(title)


def _criteria_of(section: _Section) -> Iterator[str]:
    texts = [_text(part) for part in section.parts]
    removed = section.delta == "REMOVED"
    demands = [_demands(part) for part in section.parts]
    if section.scenario:
        if any(demands):
            of = f'Removed requirement "{section.requirement}"' if removed else section.requirement
            yield f"{' — '.join(filter(None, (of, section.scenario)))}: {', '.join(texts)}"
    elif removed and section.requirement:
        yield ": ".join(filter(None, (f'Removed requirement "{section.requirement}"', " ".join(texts))))
    elif removed:
        yield from (f"Removed requirement: {_without_mark(text)}" for text in texts)
    elif section.delta == "RENAMED" and not section.requirement and texts:
        yield f"Renamed requirement: {', '.join(map(_without_mark, texts))}"
    else:
        yield from _with_announced(section, texts, demands)


def _without_mark(text: str) -> str:
    return _REQUIREMENT_MARK.sub(r"\1", text)


def _with_announced(section: _Section, texts: Sequence[str], demands: Sequence[bool]) -> Iterator[str]:
    name = section.requirement or section.name
    words = [word for word in re.findall(r"\w+", name.casefold()) if len(word) > 3]  # noqa: PLR2004 - not "the", "of"
    index = 0
    while index < len(texts):
        text = texts[index]
        index += 1
        if not demands[index - 1]:
            continue
        announces, items = text.endswith(":"), 0
        for part, more in zip(section.parts[index:], texts[index:], strict=True):
            if not (_is_block(part) or (announces and isinstance(part, Item))):
                break
            between = "\n" if _is_block(part) else "; " if items else " "
            text, items, index = f"{text}{between}{more}", items + 1, index + 1
        said = all(word in text.casefold() for word in words) if words else not name
        yield text if said else f"{name}: {text}"


def _is_block(part: Block | Item) -> bool:
    """Whether it is code or a table, which stay on lines of their own."""
    return isinstance(part, Block) and (part.code or part.lines[0].text.startswith("|"))


def _demands(part: Block | Item) -> bool:
    plain = "".join(content for code, content in inline_parts(_text(part)) if not code)
    return not _is_block(part) and _DEMAND.search(plain) is not None


def _text(part: Block | Item) -> str:
    if isinstance(part, Block):
        if _is_block(part):
            return "\n".join(line.text for line in part.lines)
        lines = [without_leading_bold(line.text) for line in part.lines]
        between = ("\n" if line[:1] == "|" else ", " if _STEP.match(line) else " " for line in lines[1:])
        return lines[0] + "".join(gap + line for gap, line in zip(between, lines[1:], strict=True))
    text = without_leading_bold(" ".join(line.text for line in part.lines if not line.code and line.text))
    for child in part.children:
        text += f"{' ' if text.endswith(':') else '; '}{_text(child)}"
    code = "\n".join(line.text for line in part.lines if line.code)
    return f"{text}\n{code}" if code else text


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
