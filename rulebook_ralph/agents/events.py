"""What stands in agents' JSON events: text, tokens, money, and errors, which a typed code, an HTTP status, a JSON body
or words tell the kind of. Events are untrusted, possibly broken, of any shape: nothing here raises for what they say.
"""

import json
import re
from datetime import datetime
from typing import Any

from rulebook_ralph.agents.limit_times import iso_after, iso_time, seconds_of, stated_reset
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, Usage
from rulebook_ralph.tasks.text import cut, printable

MAX_DENIALS = 50
_LARGEST = 2**53
_MOST_DOLLARS = 1_000_000.0
_SHOWN = 200
_DETAILS = (
    *("command", "cmd", "file_path", "notebook_path", "filePath", "path", "targetFile", "pattern", "globPattern"),
    *("query", "url", "description", "prompt"),
)
ANTHROPIC_USAGE = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def decode_event(line: bytes) -> dict[str, Any] | None:
    """The JSON object on that line, or None for noise."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A string that can be written as UTF-8: what tools print may end within a surrogate pair."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else ""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(value: object) -> int:
    """A number of tokens; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else 0


def dollars(value: object) -> float | None:
    """An amount of money; None for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_DOLLARS else None


def usage_of(given: object, names: tuple[str, str, str, str] = ANTHROPIC_USAGE, *, inclusive: bool = False) -> Usage:
    """Tokens under the names for input, output, read from and written to the cache. `inclusive`: input counts both."""
    whole, output, read, written = (count(table(given).get(name)) for name in names)
    return Usage(
        input_tokens=max(0, whole - read - written) if inclusive else whole,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def added(*usages: Usage) -> Usage:
    """Tokens of several turns or models, added up."""
    return Usage(
        input_tokens=sum(one.input_tokens for one in usages),
        output_tokens=sum(one.output_tokens for one in usages),
        cache_read_tokens=sum(one.cache_read_tokens for one in usages),
        cache_write_tokens=sum(one.cache_write_tokens for one in usages),
    )


def first_line(value: str) -> str:
    """The first line that says something, made safe for a terminal and short enough for a line of it."""
    line = next((line for line in value[: 10 * _SHOWN].splitlines() if line.strip()), "")
    return cut(printable(line.strip()), _SHOWN)


def plain_text(content: object) -> str:
    """A tool's result as text: a string, or a list of blocks of which only text counts."""
    return text(content) or "\n".join(filter(None, (text(table(block).get("text")) for block in items(content))))


def detail_of(arguments: object) -> str:
    """What a tool is asked to do: the command or the file, in whatever form the agent says it."""
    given = table(arguments)
    return text(arguments) or next((value for key in _DETAILS if (value := text(given.get(key)))), "")


def denials_of(result: dict[str, Any]) -> tuple[str, ...]:
    """The tools that a terminal event says were refused, each with what it was to do: objects, or names alone."""
    named = []
    for denial in items(result.get("permission_denials"))[:MAX_DENIALS]:
        tool, detail = text(table(denial).get("tool_name")), first_line(detail_of(table(denial).get("tool_input")))
        named.append(first_line(text(denial)) or f"{first_line(tool) or 'tool'} {detail}".strip())
    return tuple(named)


# Errors: only what an agent itself reports as its error; never tool output, never what a model wrote

MAX_MESSAGE = 1000
_CODES: dict[ErrorKind, tuple[str, ...]] = {
    "billing": ("insufficient_quota", "billing_hard_limit_reached", "usage_not_included", "billing_error"),
    "usage-limit": ("usage_limit_reached",),
    "authentication": (
        *("invalid_api_key", "authentication_error", "authentication_failed", "unauthenticated", "permission_denied"),
        *("permission_error", "oauth_org_not_allowed", "invalid_credential_header"),
    ),
    "context-too-long": ("context_length_exceeded", "request_too_large", "message_over_context_limit"),
    "rate-limit": ("rate_limit_exceeded", "rate_limit_error", "rate_limit", "resource_exhausted"),
    "overloaded": (
        *("server_is_overloaded", "slow_down", "overloaded_error", "overloaded", "unavailable", "server_error"),
        *("api_error", "internal"),
    ),
    "network": ("connection_failed", "stream_idle_timeout", "no_response", "timeout_error"),
}
_BY_CODE = {code: kind for kind, codes in _CODES.items() for code in codes}

_TELLING: dict[ErrorKind, str] = {
    "overloaded": r"high demand|at capacity",
    "network": (
        r"stream (?:ended|disconnected|closed)|^terminated\b|other side closed|error sending request"
        r"|without a finish reason|waiting for network|incomplete json|JSON Parse error"
    ),
    "context-too-long": r"ran out of room in the model's context",
    "authentication": r"access token could not be refreshed|no auth type|auth method|free tier has been discontinued",
}
_WORDS: dict[ErrorKind, str] = {
    "billing": (
        r"credit balance|(?:insufficient|out of|not enough|no) (?:[\w-]+ )?(?:credits?|funds|balance)"
        r"|insufficient_quota|current quota|\bbilling|payment required|\b402\b"
    ),
    "usage-limit": (
        r"usage limit|hit your (?:[\w-]+ ){0,3}limit|(?:daily|weekly|monthly|session|requests?) (?:limit|quota)"
        r"|(?:5-hour|opus|sonnet) limit reached"
        r"|quota (?:is |has been )?(?:exceeded|exhausted|reached)|exceeded your (?:[\w-]+ ){0,3}(?:quota|allowance)"
    ),
    "context-too-long": (
        r"prompt is too long|context[ _-]?(?:window|length|limit)|maximum context|too many tokens|hit a token limit"
        r"|request too large|ContextWindowExceeded"
    ),
    "authentication": (
        r"authenticat|unauthori[sz]ed|not (?:logged|signed) in|log ?in (?:first|again|required|to)|/login\b"
        r"|api[ _-]?key|oauth token|invalid token|token (?:has )?expired|bad credentials|\b40[13]\b"
    ),
    "rate-limit": r"rate[ _-]?limit|too many requests|\b429\b",
    "overloaded": r"overloaded|InternalServerError|service ?unavailable|bad gateway|\b5(?:0[0234]|29)\b",
    "network": (
        r"connection|unable to connect|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|network|socket|timed out"
        r"|getaddrinfo"
    ),
}
_BY_WORDS = [(re.compile(words, re.IGNORECASE), kind) for each in (_TELLING, _WORDS) for kind, words in each.items()]
"""The most telling first."""

_BY_STATUS: dict[int, ErrorKind] = {
    401: "authentication",
    402: "billing",
    403: "authentication",
    413: "context-too-long",
    429: "rate-limit",
}
_SERVER_ERRORS = range(500, 600)
_STATUS = re.compile(r"(?:\bstatus:? |\bHTTP )(\d{3})\b|^(\d{3})\b", re.IGNORECASE)
_MORE_TELLING: frozenset[ErrorKind] = frozenset({"usage-limit", "billing"})
_PASSING: frozenset[ErrorKind] = frozenset({"usage-limit", "rate-limit", "overloaded"})
_READ = 20_000


def fault(kind: ErrorKind, message: str, *, resets_at: str | None = None) -> AgentFault:
    return AgentFault(kind=kind, message=message.strip()[:MAX_MESSAGE], resets_at=resets_at)


def kind_of_status(status: object) -> ErrorKind | None:
    """The kind of an HTTP status; None for one that is no error, and for anything that is no status."""
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    return "overloaded" if status in _SERVER_ERRORS else _BY_STATUS.get(status)


def api_error(said: str, now: datetime, *, status: object = None, codes: tuple[str, ...] = ()) -> AgentFault:
    """What the words of an error tell, with the JSON body that may stand in them. Fields outrank words.

    `now` is aware, in the agent's local time zone.
    """
    body = _body(said)
    message = (text(body.get("message")) or said.strip())[:_READ]
    plain = message.replace("\u2019", "'")
    all_codes = [one.lower() for one in (*codes, *(text(body.get(key)) for key in ("code", "type", "status"))) if one]
    kind = _kind(plain, all_codes, _status(plain, body, status))
    if kind == "rate-limit" and _of_a_day(body):
        kind = "usage-limit"
    resets_at = (_stated(body, now) or stated_reset(plain, now)) if kind in _PASSING else None
    return fault(kind, message, resets_at=resets_at)


def _kind(plain: str, codes: list[str], status: object) -> ErrorKind:
    by_field = next((_BY_CODE[code] for code in codes if code in _BY_CODE), None) or kind_of_status(status)
    by_words = next((kind for pattern, kind in _BY_WORDS if pattern.search(plain)), None)
    if by_field is None or (by_field == "rate-limit" and by_words in _MORE_TELLING):
        return by_words or "unknown"
    return by_field


def _body(said: str) -> dict[str, Any]:
    """The provider's error in those words: the object below `error`, or the whole object; empty where there is none."""
    whole = decode_event(said[said.find("{") : said.rfind("}") + 1].encode("utf-8", "replace")) or {}
    return table(whole.get("error")) or whole


def _status(plain: str, body: dict[str, Any], status: object) -> object:
    found = _STATUS.search(plain)
    given = (status, body.get("code"), int(found[1] or found[2]) if found else None)
    return next((each for each in given if isinstance(each, int)), None)


def _of_a_day(body: dict[str, Any]) -> bool:
    """Google tells in its details which quota it was."""
    violations = [one for detail in map(table, items(body.get("details"))) for one in items(detail.get("violations"))]
    return any("PerDay" in text(table(one).get("quotaId")) for one in violations)


def _stated(body: dict[str, Any], now: datetime) -> str | None:
    delays = (text(table(detail).get("retryDelay")) for detail in items(body.get("details")))
    seconds = next((seconds_of(delay) for delay in delays if delay), None)
    return iso_time(body.get("resets_at")) or iso_after(body.get("resets_in_seconds"), now) or iso_after(seconds, now)
