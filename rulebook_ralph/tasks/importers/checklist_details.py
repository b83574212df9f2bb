"""What is said below a task of a checklist: `**Do**`, `**Files**`, `**Done when**`, `**Verify**`, `**Commit**`, and
`_Requirements: …_`. Anything else is description.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from rulebook_ralph.tasks.importers.markdown import Item, TextLine, codes_in, inline_parts
from rulebook_ralph.tasks.text import printable

MAX_FILES = 20

_LABEL = re.compile(r"(?:\*\*|__)([^*_]{1,40}?)(?:(?:\*\*|__)\s*:|:\s*(?:\*\*|__)\s*:?)\s*")
_NOTE = re.compile(r"_([A-Za-z][A-Za-z ]{0,30}):\s*(\S.*?)_\s*")
_ORDER = re.compile(r"(?:(?:please\s+)?(?:run|execute|command)\b:?)?\s*", re.IGNORECASE)
_ABOUT_A_FILE = re.compile(r"\s*(?:is|are|exists?|has|have|contains?|should|must|shows?|file|folder)\b", re.IGNORECASE)
_NONE = re.compile(r"(?:none|n/?a|no(?: commit)?|-)\.?", re.IGNORECASE)
_PATH = re.compile(r"[^\s`,;()*]+")


@dataclass(slots=True)
class _Detail:
    """One labelled part. `text` is its own line, `items` what is listed below it, `code` its fenced blocks."""

    label: str
    text: str
    items: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [text for text in (self.text, *self.items) if text]

    def written(self) -> str:
        blocks = [f"```\n{code}\n```" for code in self.code]
        return "\n".join([*filter(None, [self.text]), *(f"- {item}" for item in self.items), *blocks])


@dataclass(frozen=True, slots=True)
class Details:
    """`command` is that of the verification, or empty; `notes` are `_Requirements: …_` and the like."""

    description: str = ""
    files: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    command: str = ""
    commit_message: str = ""
    notes: tuple[tuple[str, str], ...] = ()


def read_details(item: Item, title: str, *, is_check: bool) -> Details:
    """What stands below an item. Of a task that only checks (`is_check`) the title may name the command."""
    description: list[str] = []
    files: list[str] = []
    criteria: list[str] = []
    notes: list[tuple[str, str]] = []
    command = commit_message = ""
    for detail in _details(item):
        name = detail.label.casefold()
        if name == "files":
            files += _paths(detail)
        elif name in ("done when", "acceptance criteria", "acceptance"):
            criteria += detail.lines()
        elif name == "verify":
            command = command or _command(detail)
            criteria += [] if _is_bare(detail) else detail.lines()
        elif name == "commit":
            commit_message = commit_message or _message(detail.text)
        elif note := _NOTE.fullmatch(detail.text):
            notes.append((note[1].strip().lower(), note[2].strip()))
        else:
            named = detail.label and name != "do"
            description.append(f"{detail.label}: {detail.written()}" if named else detail.written())
    if is_check and not command:
        command = codes_in(title)[-1] if title.endswith("`") and codes_in(title) else ""
    return Details(
        description="\n".join(part for part in description if part),
        files=tuple(dict.fromkeys(files))[:MAX_FILES],
        criteria=tuple(dict.fromkeys(criteria)),
        command=command,
        commit_message=commit_message,
        notes=tuple(notes),
    )


def is_label(text: str) -> bool:
    """Whether a text begins with a bold label, as `**Do**: …`."""
    return _LABEL.match(text) is not None


def _label_and_rest(text: str) -> tuple[str, str]:
    """The label that a text begins with, empty where there is none, and the rest."""
    label = _LABEL.match(text)
    return (printable(label[1]).strip(), text[label.end() :].strip()) if label else ("", text)


def _details(item: Item) -> Iterator[_Detail]:
    """The labelled parts, and what has no label, whether written as items or as lines below the task's own."""
    current = _Detail("", "")
    for code, group in groupby(item.lines[1:], key=lambda line: line.code):
        if code:
            current.code.append(_unfenced(list(group)))
            continue
        for line in group:
            if is_label(line.text) or _NOTE.fullmatch(line.text) or not current.label:
                yield current
                current = _Detail(*_label_and_rest(line.text))
            else:
                current.text = f"{current.text} {line.text}".strip()
    yield current
    for child in item.children:
        yield _of_item(child)


def _of_item(item: Item) -> _Detail:
    detail = _Detail(*_label_and_rest(" ".join(line.text for line in item.lines if not line.code and line.text)))
    groups = groupby(item.lines, key=lambda line: line.code)
    detail.code += [_unfenced(list(group)) for code, group in groups if code]
    for child in item.children:
        inner = _of_item(child)
        own = f"{inner.label}: {inner.text}" if inner.label else inner.text
        detail.items += [text for text in (own, *(f"  {deeper}" for deeper in inner.items)) if text.strip()]
        detail.code += inner.code
    return detail


def _unfenced(lines: list[TextLine]) -> str:
    return textwrap.dedent("\n".join(line.text for line in lines[1:-1]))


def _command(detail: _Detail) -> str:
    """What is to be run: fenced code, or the code that a text begins with, or that of each item below it."""
    found = [code.strip() for code in detail.code if code.strip()]
    if not found and (command := _leading_code(detail.text)):
        found = [command]
    if not found and detail.items:
        found = [spans[0] for item in detail.items if (spans := codes_in(item))]
    return found[0] if len(found) == 1 and "\n" not in found[0] else "\n".join(["set -e", *found]) if found else ""


def _leading_code(text: str) -> str:
    """The code that a text begins with, after `Run` or the like; a lone name of a file that something is said of is
    none.
    """
    order = _ORDER.match(text)
    place = order.end() if order else 0
    parts = inline_parts(text[place:])
    if not parts or not parts[0][0]:
        return ""
    code, rest = parts[0][1].strip(), "".join(content for _, content in parts[1:])
    is_order = place > 0 or any(char.isspace() for char in code)
    return code if is_order or not _ABOUT_A_FILE.match(rest) else ""


def _is_bare(detail: _Detail) -> bool:
    """Whether nothing is said but the command itself."""
    only_code = [code for code, _ in inline_parts(detail.text)] == [True]
    return (not detail.text or only_code or (bool(detail.code) and detail.text.endswith(":"))) and not detail.items


def _message(text: str) -> str:
    """The commit's first line; what stands beside the code in it is a remark."""
    message = printable(next(iter(codes_in(text)), text)).strip()
    return "" if _NONE.fullmatch(message) else message


def _paths(detail: _Detail) -> list[str]:
    found: list[str] = []
    for part in (part for line in detail.lines() for part in line.split(",")):
        match = _PATH.search(next(iter(codes_in(part)), part))
        if match and match[0].isprintable() and ("." in match[0].strip(".") or "/" in match[0].strip("/")):
            found.append(match[0].removeprefix("./"))
    return found
