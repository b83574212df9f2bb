"""The texts of a rulebook task: `tasks.md` and the `spec.md` files as acceptance criteria, and titles."""

import re
from collections.abc import Collection, Iterator, Sequence

from rulebook_ralph.tasks.importers.markdown import (
    LONGEST_HEADING,
    Heading,
    Item,
    MarkdownFile,
    criteria,
    read_document,
    without_codes,
)
from rulebook_ralph.tasks.text import cut

_FENCED = re.compile(r"^\s*(```|~~~).*?^\s*\1", re.DOTALL | re.MULTILINE)
_DEMAND = re.compile(r"\b(?:SHALL|MUST)\b")
_STEP = re.compile(r"\s*\n\s*(?:[-*+]\s+)?(?=(?:Given|When|Then|And|But|GIVEN|WHEN|THEN|AND|BUT)\b)")
_BULLET = re.compile(r"(:?)\s*\n\s*(?:[-*+]|\d+[.)])\s+")
_BOLD_START = re.compile(r"^(\s*(?:[-*+]\s+)?)(\*\*|__)([^*_\n]+)\2", re.MULTILINE)
_DELTA = re.compile(r"(ADDED|MODIFIED|REMOVED|RENAMED)\s+Requirements?", re.IGNORECASE)
_REQUIREMENT = re.compile(r"requirement:", re.IGNORECASE)
_PREFIX = re.compile(r"(?:requirement|scenario):\s*", re.IGNORECASE)
_REQUIREMENT_MARK = re.compile(r"`?#+\s*Requirement:\s*([^`\n]*)`?", re.IGNORECASE)
_TITLE_PREFIX = re.compile(
    r"(?:change\s+)?proposal\s*(?::|\s[-\u2013\u2014]\s)\s*|(?:implementation\s+)?tasks?\s*:\s*", re.IGNORECASE
)
_GENERIC_TITLE = re.compile(r"(?:change\s+)?proposal|(?:implementation\s+)?tasks?(?:\s+list)?|checklist", re.IGNORECASE)
_DATE_AND_PHASE = re.compile(r"(?:\d{4}-\d{2}-\d{2}-)?(?:phase[-_]?(\d{1,4})(?:[-_.]|$))?", re.IGNORECASE)


def read_checklist(document: MarkdownFile) -> tuple[list[str], bool]:
    """The criteria of a tasks.md, and whether it has boxes and all are ticked. Without a single box it is a plain list
    of items, all open.
    """
    items = [item for root in document.roots for item in root.whole()]
    boxes = [item.box for item in items if item.box is not None]
    for item in () if boxes else items:
        item.box = False
    return [criterion for _, criterion in criteria(document.roots)], bool(boxes) and all(boxes)


def boxes_of(document: MarkdownFile, verified: Collection[str]) -> list[Item] | None:
    """The items of a tasks.md whose boxes are ticked when those criteria are verified: theirs, and those of groups of
    which all are ticked then. None where none of the criteria is found.
    """
    meant = [item for item, criterion in criteria(document.roots) if criterion in verified]
    boxes = [item for root in document.roots for item in root.whole() if item.box is False]
    return [item for item in boxes if item in meant or (item.holds_box and item.is_done(meant))] if meant else None


def read_spec(document: MarkdownFile) -> Iterator[str]:
    """The criteria of a spec.md: all that stands below a heading is one where it says SHALL or MUST, and so is a
    removed or renamed requirement.
    """
    above: list[Heading] = []
    headings = [Heading(0, "", -1, ""), *document.headings]
    for heading, end in zip(headings, [*(each.row for each in headings[1:]), len(document.rows)], strict=True):
        above = [*(each for each in above if each.level < heading.level), heading]
        text = "\n".join(document.rows[heading.row + 1 : end]).strip()
        demands = _DEMAND.search(without_codes(_FENCED.sub("", text))) is not None
        names = [cut(_PREFIX.sub("", each.text, count=1), LONGEST_HEADING) for each in above]
        first = next((at for at, each in enumerate(above) if _REQUIREMENT.match(each.text)), None)
        deltas = [found[1].capitalize() for each in above if (found := _DELTA.fullmatch(each.text))]
        delta = deltas[-1] if deltas else ""
        if delta in ("Removed", "Renamed") and first is None and text:
            named = _REQUIREMENT_MARK.sub(r"\1", text)
            yield f"{delta} requirement: {_folded(named)}"
        elif delta == "Removed" and first is not None and (demands or first == len(above) - 1):
            yield ": ".join(filter(None, (f'Removed requirement "{" — ".join(names[first:])}"', _folded(text))))
        elif demands:
            is_name = first is not None or (heading.level > 1 and not _DELTA.fullmatch(heading.text))
            name = " — ".join(names[first:] if first is not None else names[-1:]) if is_name else ""
            yield ": ".join(filter(None, (name, _folded(text))))


def _folded(text: str) -> str:
    """The text on one line; as it stands where it has code or a table."""
    text = _BOLD_START.sub(r"\1\3", text)
    if _FENCED.search(text) or "\n|" in text:
        return text
    text = _BULLET.sub(lambda found: ": " if found[1] else "; ", _STEP.sub(", ", f"\n{text}"))
    return " ".join(text.lstrip(" ,;\n").split())


# Titles


def read_proposal(text: str) -> tuple[str, str]:
    """The title of a proposal.md, or empty; and all the rest, as it was written."""
    rows = text.split("\n")
    for heading in read_document(text).headings:
        if heading.level == 1:
            return heading.text, "\n".join([*rows[: heading.row], *rows[heading.row + 1 :]]).strip()
    return "", text.strip()


def title_of(headings: Sequence[str], task_id: str) -> str:
    """The first that is one: not merely a file's kind, as in `Proposal: X`, nor the id; else the id's words without
    date and phase.
    """
    for heading in headings:
        title = _TITLE_PREFIX.sub("", heading, count=1) if _TITLE_PREFIX.match(heading) else heading
        is_id = task_id.casefold().endswith(title.casefold()) and re.search("[-_]", title)
        if title and not is_id and title.casefold() != task_id.casefold() and not _GENERIC_TITLE.fullmatch(title):
            return title
    words = re.sub(r"[-_]+", " ", _DATE_AND_PHASE.sub("", task_id, count=1)).strip() or task_id
    return words[0].upper() + words[1:]


def phase_of(task_id: str) -> int | None:
    """The number in `phase3_name`, `phase-3-name` or `2026-01-31-phase3_name`; None without one."""
    match = _DATE_AND_PHASE.match(task_id)
    return int(match[1]) if match and match[1] else None
