"""Errors of a model's provider as an agent passes them on: a JSON body, a code, an HTTP status, or words. Pure.

Only for what an agent itself reports as its error; never for tool output, never for what a model wrote.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rulebook_ralph.agents.error_words import kind_of, kind_of_status
from rulebook_ralph.agents.limit_times import iso_after, iso_time, seconds_of, stated_reset
from rulebook_ralph.agents.stream import decode_event, items, table, text
from rulebook_ralph.agents.transcript import fault
from rulebook_ralph.core.evidence import AgentFault, ErrorKind

_BY_CODE: dict[str, ErrorKind] = {
    "insufficient_quota": "billing",
    "billing_hard_limit_reached": "billing",
    "usage_not_included": "billing",
    "usage_limit_reached": "usage-limit",
    "invalid_api_key": "authentication",
    "authentication_error": "authentication",
    "unauthenticated": "authentication",
    "permission_denied": "authentication",
    "context_length_exceeded": "context-too-long",
    "rate_limit_exceeded": "rate-limit",
    "rate_limit_error": "rate-limit",
    "resource_exhausted": "rate-limit",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "overloaded_error": "overloaded",
    "unavailable": "overloaded",
    "server_error": "overloaded",
    "internal": "overloaded",
}
_STATUS = re.compile(r"(?:\bstatus:? |\bHTTP )(\d{3})\b|^(\d{3})\b", re.IGNORECASE)
_BY_WORDS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (re.compile(r"high demand|at capacity", re.IGNORECASE), "overloaded"),
    (
        re.compile(
            r"stream (?:ended|disconnected|closed)|^terminated\b|other side closed|error sending request"
            r"|without a finish reason|waiting for network|incomplete json|JSON Parse error",
            re.IGNORECASE,
        ),
        "network",
    ),
    (re.compile(r"ran out of room in the model's context", re.IGNORECASE), "context-too-long"),
    (re.compile(r"access token could not be refreshed|no auth type|auth method", re.IGNORECASE), "authentication"),
)
_MORE_TELLING: frozenset[ErrorKind] = frozenset({"usage-limit", "billing"})
_PASSING: frozenset[ErrorKind] = frozenset({"usage-limit", "rate-limit", "overloaded"})


@dataclass(frozen=True, slots=True)
class ApiError:
    """What is known of a provider's error; `resets_at` is an ISO time in UTC, where stated."""

    kind: ErrorKind
    message: str
    resets_at: str | None = None

    def fault(self, *, log_in: str, prefix: str = "") -> AgentFault:
        """`log_in` says what to do for one whom the provider does not know."""
        advice = f"; {log_in}" if self.kind == "authentication" else ""
        return fault(self.kind, f"{prefix}{self.message}{advice}", resets_at=self.resets_at)


def api_error(said: str, now: datetime, *, status: object = None, code: str = "") -> ApiError:
    """What the words of an error tell, with the JSON body that may stand in them. Fields outrank words.

    `now` is aware, in the agent's local time zone.
    """
    body = _body(said)
    message = text(body.get("message")) or said.strip()
    plain = message.replace("\u2019", "'")
    kind = _kind(plain, _codes(body, code), _status(plain, body, status))
    if kind == "rate-limit" and _of_a_day(body):
        kind = "usage-limit"
    resets_at = (_stated(body, now) or stated_reset(plain, now)) if kind in _PASSING else None
    return ApiError(kind, message, resets_at)


def _kind(plain: str, codes: list[str], status: object) -> ErrorKind:
    by_code = next((_BY_CODE[code] for code in codes if code in _BY_CODE), None)
    by_field = by_code or kind_of_status(status)
    by_words = next((kind for pattern, kind in _BY_WORDS if pattern.search(plain)), None) or kind_of(plain)
    if by_field == "rate-limit" and by_words in _MORE_TELLING:
        return by_words
    return by_field or by_words


def _body(said: str) -> dict[str, Any]:
    """The provider's error in those words: the object below `error`, or the whole object; empty where there is none."""
    start, end = said.find("{"), said.rfind("}")
    if start < 0 or end < start:
        return {}
    whole = decode_event(said[start : end + 1].encode("utf-8", "replace")) or {}
    return table(whole.get("error")) or whole


def _codes(body: dict[str, Any], code: str) -> list[str]:
    return [one.lower() for one in (code, *(text(body.get(key)) for key in ("code", "type", "status"))) if one]


def _status(plain: str, body: dict[str, Any], status: object) -> object:
    if isinstance(status, int):
        return status
    if isinstance(body.get("code"), int):
        return body["code"]
    found = _STATUS.search(plain)
    return int(found[1] or found[2]) if found else None


def _of_a_day(body: dict[str, Any]) -> bool:
    """Google tells in its details which quota it was."""
    violations = [one for detail in map(table, items(body.get("details"))) for one in items(detail.get("violations"))]
    return any("PerDay" in text(table(one).get("quotaId")) for one in violations)


def _stated(body: dict[str, Any], now: datetime) -> str | None:
    delays = (text(table(detail).get("retryDelay")) for detail in items(body.get("details")))
    seconds = next((seconds_of(delay) for delay in delays if delay), None)
    return iso_time(body.get("resets_at")) or iso_after(body.get("resets_in_seconds"), now) or iso_after(seconds, now)
