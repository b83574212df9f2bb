"""What an agent claims, read from its result. Claims never complete anything; they are shown, stored and contradicted.

The prompt asks for a fenced `ralph-report` block (schemas/report.schema.json); without one, prose is read as well as it
can be. Nothing here raises, whatever the text.
"""

import itertools
import re
import shlex
from typing import Any, Literal

import msgspec

from rulebook_ralph.core.evidence import AgentResult, ParsedIteration, ToolResult
from rulebook_ralph.core.printable import printable

MAX_ITEMS = 50
MAX_ITEM_CHARS = 2000

_FENCE = re.compile(r"[ \t]*```+[ \t]*(ralph-report)?\s*")
_PROMISE_LINE = re.compile(r"\s*<promise>([^<>]{1,200})</promise>\s*", re.IGNORECASE)
_BLOCKED_LINE = re.compile(r"^[ \t]*<ralph>\s*BLOCKED:([^<]{0,2000})</ralph>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s+|\*\*)?(learnings?|lessons learned|patterns discovered|errors?)\b[^\n]{0,40}$", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(.+)$")
_LABELLED = re.compile(r"^\s*(?:[-*+]\s+)?(?:\*\*)?(learning|learned|error)(?:\*\*)?:(?:\*\*)?\s+(.+)$", re.IGNORECASE)

_QUALITY: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    (
        "tests",
        re.compile(
            r"\b(?:all )?(?:the )?tests? (?:now )?(?:all )?(?:pass(?:es|ed|ing)?|(?:are|is) green)\b", re.IGNORECASE
        ),
        re.compile(r"\btests? (?:still )?fail(?:s|ed|ing)?\b|\b[1-9]\d* failed\b", re.IGNORECASE),
    ),
    (
        "lint",
        re.compile(r"\b(?:lint(?:er|ing)?) (?:is |now )?(?:pass(?:es|ed)?|clean)\b|\bno lint errors\b", re.IGNORECASE),
        re.compile(r"\blint(?:er|ing)? (?:still )?fail(?:s|ed)?\b", re.IGNORECASE),
    ),
    (
        "typecheck",
        re.compile(
            r"\btype.?check(?:s|ing)? (?:is |now )?(?:pass(?:es|ed)?|clean)\b|\bno type errors\b", re.IGNORECASE
        ),
        re.compile(r"\btype.?check(?:s|ing)? (?:still )?fail(?:s|ed)?\b", re.IGNORECASE),
    ),
)


def parse(result: AgentResult) -> ParsedIteration:
    """Everything the agent says about its work, from its final message and its tool results."""
    text = result.final_text
    blocks, prose = _split(text)
    report = _report(blocks[-1]) if blocks else {}
    promises = _promises(prose)
    blocked = _text(report.get("blocked")) or _blocked(prose)
    return ParsedIteration(
        status=_status(report, promises=promises, blocked=bool(blocked)),
        promises=promises,
        blocked_reason=blocked or None,
        summary=_text(report.get("summary")) or _first_paragraph(prose),
        learnings=_texts(report.get("learnings")) or _listed(prose, ("learn", "lesson", "pattern")),
        errors=_texts(report.get("errors")) or _listed(prose, ("error",)),
        quality_claims=_quality(report.get("quality"), prose),
        commit_messages=_commit_messages(report, result.tool_results),
        verification_steps=_texts(report.get("verificationSteps")),
        context_loss=result.status in ("truncated", "killed") or not text.strip(),
    )


def _split(text: str) -> tuple[list[str], str]:
    """The contents of the closed report blocks, and the text without them. Line by line: no text makes it slow."""
    blocks: list[str] = []
    prose: list[str] = []
    opened: int | None = None
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line) if "```" in line else None
        if fence and fence.group(1):
            opened = len(prose)
        elif fence and opened is not None:
            blocks.append("\n".join(prose[opened + 1 :]))
            del prose[opened:]
            opened = None
            continue
        prose.append(line)
    return blocks, "\n".join(prose)


def _report(block: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(block.encode("utf-8", "replace"))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _promises(prose: str) -> tuple[str, ...]:
    found = (_PROMISE_LINE.fullmatch(line) for line in prose.splitlines())
    return tuple(" ".join(match.group(1).split()) for match in found if match)[:MAX_ITEMS]


def _blocked(prose: str) -> str:
    found = _BLOCKED_LINE.findall(prose)
    return (" ".join(printable(found[-1]).split()) or "no reason given") if found else ""


def _status(
    report: dict[str, Any], *, promises: tuple[str, ...], blocked: bool
) -> Literal["completed", "failed", "partial"]:
    if blocked:
        return "failed"
    match report.get("status"):
        case "completed":
            return "completed"
        case "failed":
            return "failed"
        case "partial":
            return "partial"
        case _:
            return "completed" if promises else "partial"


def _quality(claimed: object, prose: str) -> dict[str, bool]:
    if isinstance(claimed, dict):
        known = {name: claimed.get(name) for name, _, _ in _QUALITY}
        return {name: value for name, value in known.items() if isinstance(value, bool)}
    claims = {}
    for name, good, bad in _QUALITY:
        if bad.search(prose):
            claims[name] = False
        elif good.search(prose):
            claims[name] = True
    return claims


def _commit_messages(report: dict[str, Any], tools: tuple[ToolResult, ...]) -> tuple[str, ...]:
    commands = (tool.command for tool in tools if "git" in tool.command and "commit" in tool.command)
    messages = itertools.chain([_text(report.get("commitMessage"))], map(_message_argument, commands))
    return tuple(itertools.islice(filter(None, messages), MAX_ITEMS))


def _message_argument(command: str) -> str:
    try:
        words = shlex.split(command[:MAX_ITEM_CHARS])
    except ValueError:
        return ""
    for word, following in itertools.pairwise(words):
        if word in ("-m", "--message", "-am"):
            return _text(following)
    return ""


def _listed(prose: str, titles: tuple[str, ...]) -> tuple[str, ...]:
    """Bullets under a heading of one of those titles, and lines labelled with it."""
    items: list[str] = []
    inside = False
    for line in prose.splitlines():
        if not line or line.isspace():
            continue
        heading = _HEADING.match(line)
        labelled = _LABELLED.match(line)
        bullet = _BULLET.match(line)
        if labelled and labelled.group(1).lower().startswith(titles):
            items.append(_text(labelled.group(2)))
        elif heading:
            inside = heading.group(1).lower().startswith(titles)
        elif inside and bullet:
            items += [] if labelled else [_text(bullet.group(1))]
        else:
            inside = inside and line.startswith((" ", "\t"))
    return tuple(item for item in items if item)[:MAX_ITEMS]


def _first_paragraph(prose: str) -> str:
    for paragraph in re.split(r"\n\s*\n", prose.strip()[: 4 * MAX_ITEM_CHARS]):
        text = " ".join(line.strip() for line in paragraph.splitlines() if not _PROMISE_LINE.fullmatch(line))
        if text := printable(text).strip():
            return text[:500]
    return ""


def _text(value: object) -> str:
    return " ".join(printable(value).split())[:MAX_ITEM_CHARS] if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return ()
    return tuple(text for text in map(_text, value[:MAX_ITEMS]) if text)
