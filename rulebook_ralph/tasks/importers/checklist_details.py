"""What is said below a task of a plan: `**Do**`, `**Files**`, `**Acceptance Criteria:**`, `**Verify**`, `**Commit**`
and boxes, which are criteria. Anything else is description.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from rulebook_ralph.tasks.importers.markdown import Item, codes_in, inline_parts, without_closing_comment
from rulebook_ralph.tasks.text import printable

MAX_FILES = 20

_LABEL = re.compile(r"(?:\*\*|__)([^*_]{1,40}?)(?:(?:\*\*|__)\s*:|:\s*(?:\*\*|__)\s*:?)\s*")
_ORDER = re.compile(r"(?:(?:please\s+)?(?:run|execute|command)\b:?)?\s*", re.IGNORECASE)
_NONE = re.compile(r"(?:none|n/?a|no(?: commit)?|-)\.?", re.IGNORECASE)
_PATH = re.compile(r"[^\s`,;()*]+")
_CRITERIA = ("done when", "acceptance criteria", "acceptance", "success criteria")
_PLAIN = ("do", "description")


@dataclass(slots=True)
class _Detail:
    """One labelled part. `text` is its own line, `items` what is listed below it, `code` its fenced blocks; `boxed`:
    it stands in a box.
    """

    label: str = ""
    text: str = ""
    items: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    boxed: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.text or self.items or self.code)

    def lines(self) -> list[str]:
        return [text for text in (self.text, *self.items) if text]

    def written(self) -> str:
        blocks = [f"```\n{code}\n```" for code in self.code]
        return "\n".join([*filter(None, [self.text]), *(f"- {item}" for item in self.items), *blocks])

    def whole(self) -> str:
        """All of it on one line but for its code."""
        text = without_closing_comment(f"{self.label}: {self.text}" if self.label else self.text)
        told = "; ".join(item.strip() for item in self.items)
        between = "" if not told else " " if text.endswith(":") else ": "
        return "\n".join([f"{text}{between}{told}", *(f"```\n{code}\n```" for code in self.code)])


@dataclass(frozen=True, slots=True)
class Details:
    """`command` is that of the verification, or empty."""

    description: str = ""
    files: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    command: str = ""
    commit_message: str = ""


def read_details(item: Item, title: str, *, is_check: bool) -> Details:
    """What stands below an item. Of a task that only checks (`is_check`) the title may name the command."""
    description: list[str] = []
    files: list[str] = []
    criteria: list[str] = []
    command = commit_message = ""
    for detail in _details(item):
        name = detail.label.casefold()
        if detail.boxed:
            criteria.append(detail.whole())
        elif name == "files":
            files += _paths(detail)
        elif name in _CRITERIA:
            criteria += detail.lines()
        elif name == "verify":
            command = command or command_in(detail.text, detail.items, detail.code)
            criteria += [] if _is_bare(detail) else detail.lines()
        elif name == "commit":
            commit_message = commit_message or _message(detail.text)
        else:
            named = detail.label and name not in _PLAIN
            description.append(f"{detail.label}: {detail.written()}" if named else detail.written())
    if is_check and not command:
        command = codes_in(title)[-1] if title.endswith("`") and codes_in(title) else ""
    return Details(
        description="\n".join(filter(None, description)),
        files=tuple(dict.fromkeys(files))[:MAX_FILES],
        criteria=tuple(dict.fromkeys(filter(None, criteria))),
        command=command,
        commit_message=commit_message,
    )


def is_label(text: str) -> bool:
    """Whether a text begins with a bold label, as `**Do**: …`."""
    return _LABEL.match(text) is not None


def _labelled(text: str) -> _Detail:
    label = _LABEL.match(text)
    return _Detail(printable(label[1]).strip(), text[label.end() :].strip()) if label else _Detail("", text)


def _details(item: Item) -> list[_Detail]:
    """The labelled parts, and what has no label, whether written as items or as lines below the task's own."""
    current = _Detail()
    found = [current]
    for part in item.parts:
        if isinstance(part, Item) and (part.box is not None or is_label(part.text) or not current.label):
            found.append(_of_item(part))
        elif isinstance(part, Item):
            current.items += _flat(part)
        elif part.code:
            current.code.append(textwrap.dedent(part.content))
        else:
            begins = not current.is_empty
            for line in part.lines:
                if begins or is_label(line) or not current.label:
                    current = _labelled(line)
                    found.append(current)
                else:
                    current.text = f"{current.text} {line}".strip()
                begins = False
    return found


def _of_item(item: Item) -> _Detail:
    words = [item.text, *(line for block in item.blocks if not block.code for line in block.lines)]
    detail = _labelled(" ".join(filter(None, words)))
    detail.boxed = item.box is not None
    detail.code += [textwrap.dedent(block.content) for block in item.blocks if block.code]
    for child in item.children:
        detail.items += _flat(child)
        detail.code += _of_item(child).code
    return detail


def _flat(item: Item) -> list[str]:
    """An item's words, then those of what stands below it, indented."""
    inner = _of_item(item)
    own = f"{inner.label}: {inner.text}" if inner.label else inner.text
    return [text for text in (own, *(f"  {deeper}" for deeper in inner.items)) if text.strip()]


def command_in(text: str, items: Sequence[str], fenced: Sequence[str]) -> str:
    """What is to be run: fenced code, or the code that a text begins with, or that of each item below it."""
    found = [code.strip() for code in fenced if code.strip()]
    if not found and (command := _leading_code(text)):
        found = [command]
    if not found:
        found = [spans[0] for item in items if (spans := codes_in(item))]
    return found[0] if len(found) == 1 and "\n" not in found[0] else "\n".join(["set -e", *found]) if found else ""


def _leading_code(text: str) -> str:
    """The code that a text begins with, after `Run` or the like; a word of code of which something is said is none."""
    order = _ORDER.match(text)
    place = order.end() if order else 0
    parts = inline_parts(text[place:])
    if not parts or not parts[0][0]:
        return ""
    code = parts[0][1].strip()
    return code if place > 0 or len(parts) == 1 or any(map(str.isspace, code)) else ""


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
