"""Which kind of failure an error tells of: by a typed code, an HTTP status, a JSON body, or its words.

Only for what an agent itself reports as its error; never for tool output, never for what a model wrote.
"""

import re
from datetime import datetime
from typing import Any

from rulebook_ralph.agents.fields import decode_event, items, table, text
from rulebook_ralph.agents.limit_times import iso_after, iso_time, seconds_of, stated_reset
from rulebook_ralph.tasks.results import AgentFault, ErrorKind

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

_PATTERNS: tuple[tuple[ErrorKind, str], ...] = (
    ("overloaded", r"high demand|at capacity"),
    (
        "network",
        (
            r"stream (?:ended|disconnected|closed)|^terminated\b|other side closed|error sending request"
            r"|without a finish reason|waiting for network|incomplete json|JSON Parse error"
        ),
    ),
    ("context-too-long", r"ran out of room in the model's context"),
    ("authentication", r"access token could not be refreshed|no auth type|auth method|free tier has been discontinued"),
    (
        "billing",
        (
            r"credit balance|(?:insufficient|out of|not enough|no) (?:[\w-]+ )?(?:credits?|funds|balance)"
            r"|insufficient_quota|current quota|\bbilling|payment required|\b402\b"
        ),
    ),
    (
        "usage-limit",
        (
            r"usage limit|hit your (?:[\w-]+ ){0,3}limit|(?:daily|weekly|monthly|session|requests?) (?:limit|quota)"
            r"|(?:5-hour|opus|sonnet) limit reached"
            r"|quota (?:is |has been )?(?:exceeded|exhausted|reached)|exceeded your (?:[\w-]+ ){0,3}(?:quota|allowance)"
        ),
    ),
    (
        "context-too-long",
        (
            r"prompt is too long|context[ _-]?(?:window|length|limit)|maximum context|too many tokens|hit a token limit"
            r"|request too large|ContextWindowExceeded"
        ),
    ),
    (
        "authentication",
        (
            r"authenticat|unauthori[sz]ed|not (?:logged|signed) in|log ?in (?:first|again|required|to)|/login\b"
            r"|api[ _-]?key|oauth token|invalid token|token (?:has )?expired|bad credentials|\b40[13]\b"
        ),
    ),
    ("rate-limit", r"rate[ _-]?limit|too many requests|\b429\b"),
    ("overloaded", r"overloaded|InternalServerError|service ?unavailable|bad gateway|\b5(?:0[0234]|29)\b"),
    (
        "network",
        (
            r"connection|unable to connect|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|network|socket|timed out"
            r"|getaddrinfo"
        ),
    ),
)
_BY_WORDS = tuple((re.compile(pattern, re.IGNORECASE), kind) for kind, pattern in _PATTERNS)
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
