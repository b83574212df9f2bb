"""What an agent claims, read from its result. Claims never complete anything; they are shown, stored and contradicted.

The prompt asks for a fenced `ralph-report` block (schemas/report.schema.json); without one, prose is read as well as it
can be. Nothing here raises, whatever the text.
"""

import re
from typing import Any, Literal

import msgspec

from rulebook_ralph.tasks.results import AgentResult, ParsedIteration, ToolResult
from rulebook_ralph.tasks.text import clipped, printable

MAX_ITEMS = 50
MAX_ITEM_CHARS = 2000

_FENCE = re.compile(r"[ \t]*```+[ \t]*(ralph-report)?\s*")
_PROMISE = re.compile(r"<promise>([^<>]{1,200})</promise>", re.IGNORECASE)
_MARKDOWN = " \t*_`>\"'#"
"""What may stand around a promise that is the last line: bold, code, a quotation, a heading."""
_BLOCKED_LINE = re.compile(r"^[ \t]*<ralph>\s*BLOCKED:([^<]{0,2000})</ralph>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s+|\*\*)?(learnings?|lessons learned|patterns discovered|errors?)\b[^\n]{0,40}$", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(.+)$")

_COMMIT = re.compile(
    r"""\bgit\b.{0,200}?\bcommit\b.{0,200}?\s(?:-a?m|--message)[ =](?:'([^']+)'|"([^"]+)"|([^\s'"]+))""", re.DOTALL
)
_KINDS = {"tests": "tests?", "lint": "lint(?:er|ing)?", "typecheck": "type(?:.?check(?:s|ing)?)?"}
_PASSED = r"\b{} (?:now |all |is |are )*(?:pass(?:es|ed|ing)?|green|clean)\b|\bno {} errors\b"
_FAILED = r"\b{} (?:still )?fail(?:s|ed|ing)?\b|\b[1-9]\d* failed\b"


def parse(result: AgentResult) -> ParsedIteration:
    """Everything the agent says about its work, from its final message and its tool results."""
    text = result.final_text
    blocks, prose = _split(text)
    report = _report(blocks[-1]) if blocks else {}
    promises, astray = _promises(prose)
    blocked = _text(report.get("blocked")) or _blocked(prose)
    quality, changed = _object(report.get("quality")), _object(report.get("changedChecks"))
    return ParsedIteration(
        status=_status(report, promises=promises, blocked=bool(blocked)),
        promises=promises,
        stray_promise=astray,
        blocked_reason=blocked or None,
        summary=_text(report.get("summary")) or _first_paragraph(prose),
        learnings=_texts(report.get("learnings")) or _listed(prose, ("learn", "lesson", "pattern")),
        errors=_texts(report.get("errors")) or _listed(prose, ("error",)),
        quality_claims={name: quality[name] for name in _KINDS if isinstance(quality.get(name), bool)}
        or _claims(prose),
        commit_messages=_commit_messages(report, result.tool_results),
        verification_steps=_texts(report.get("verificationSteps")),
        changed_checks={path: _text(reason) for path, reason in list(changed.items())[:MAX_ITEMS] if path},
        context_loss=result.status in ("truncated", "killed") or not text.strip(),
    )


def _claims(prose: str) -> dict[str, bool]:
    """The kinds of check that prose says pass; of none where it says of any that it failed."""
    found = {name for name, word in _KINDS.items() if re.search(_PASSED.format(word, word), prose, re.IGNORECASE)}
    failed = any(re.search(_FAILED.format(word), prose, re.IGNORECASE) for word in _KINDS.values())
    return {} if failed else dict.fromkeys(sorted(found), True)


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
        return _object(msgspec.json.decode(block.encode("utf-8", "replace")))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}


def _promises(prose: str) -> tuple[tuple[str, ...], str]:
    """The promises that stand alone on a line, or on the last line within Markdown; and the last line that has one in
    another way, which does not count.
    """
    made: list[str] = []
    astray = ""
    lines = prose.rstrip().splitlines()
    for number, line in enumerate(lines, start=1):
        if (found := _PROMISE.search(line)) is None:
            continue
        around = line[: found.start()], line[found.end() :]
        if not any(text.strip(_MARKDOWN if number == len(lines) else None) for text in around):
            made.append(" ".join(found[1].split()))
        else:
            astray = line
    return tuple(made[:MAX_ITEMS]), "" if made else clipped(astray)


def _blocked(prose: str) -> str:
    found = _BLOCKED_LINE.findall(prose)
    return (" ".join(printable(found[-1]).split()) or "no reason given") if found else ""


def _status(
    report: dict[str, Any], *, promises: tuple[str, ...], blocked: bool
) -> Literal["completed", "failed", "partial"]:
    match "failed" if blocked else report.get("status"):
        case ("completed" | "failed" | "partial") as status:
            return status
        case _:
            return "completed" if promises else "partial"


def _commit_messages(report: dict[str, Any], tools: tuple[ToolResult, ...]) -> tuple[str, ...]:
    found = (_COMMIT.search(tool.command[:MAX_ITEM_CHARS]) for tool in tools)
    messages = [report.get("commitMessage"), *("".join(each.groups("")) for each in found if each)]
    return _texts(messages)


def _listed(prose: str, titles: tuple[str, ...]) -> tuple[str, ...]:
    """Bullets under a heading of one of those titles."""
    items: list[str] = []
    inside = False
    for line in prose.splitlines():
        if heading := _HEADING.match(line):
            inside = heading[1].lower().startswith(titles)
        elif inside and (bullet := _BULLET.match(line)):
            items.append(_text(bullet[1]))
        elif line and not line.isspace():
            inside = inside and line.startswith((" ", "\t"))
    return tuple(item for item in items if item)[:MAX_ITEMS]


def _first_paragraph(prose: str) -> str:
    for paragraph in re.split(r"\n\s*\n", prose.strip()[: 4 * MAX_ITEM_CHARS]):
        text = " ".join(line.strip() for line in paragraph.splitlines() if not _PROMISE.search(line))
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


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
