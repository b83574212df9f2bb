"""Which kind of failure an error of claude's is: by its structured fields, then by the error's own text. Pure.

Text is looked at only where claude itself reports an error; never tool output, never what the model wrote.
"""

import re
from datetime import datetime
from typing import Any

from rulebook_ralph.agents.error_words import kind_of_status
from rulebook_ralph.agents.limit_times import iso_time, stated_reset
from rulebook_ralph.agents.stream import items, table, text
from rulebook_ralph.agents.transcript import fault
from rulebook_ralph.core.evidence import AgentFault, ErrorKind

_BY_SUBTYPE: dict[str, ErrorKind] = {"error_max_turns": "max-turns", "error_max_budget_usd": "max-budget"}

_BY_CAUSE: dict[str, ErrorKind] = {
    "usage_limit_reached": "usage-limit",
    "connection_failed": "network",
    "stream_idle_timeout": "network",
    "no_response": "network",
    "invalid_credential_header": "authentication",
    "message_over_context_limit": "context-too-long",
}
"""claude's typed `api_error`, which knows more than the code: a lost connection has the code `server_error`."""

_BY_CODE: dict[str, ErrorKind] = {
    "billing_error": "billing",
    "authentication_failed": "authentication",
    "authentication_error": "authentication",
    "oauth_org_not_allowed": "authentication",
    "permission_error": "authentication",
    "request_too_large": "context-too-long",
    "rate_limit": "rate-limit",
    "rate_limit_error": "rate-limit",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "server_error": "overloaded",
    "api_error": "overloaded",
    "timeout_error": "network",
}

_LOG_IN = "; set a valid ANTHROPIC_API_KEY, or log in: start claude and type /login"

_USAGE_LIMIT = re.compile(
    r"hit your (?:[\w-]+ ){0,3}limit|usage limit reached|(?:session|weekly|5-hour|opus|sonnet) limit reached",
    re.IGNORECASE,
)

_BY_TEXT: tuple[tuple[re.Pattern[str], ErrorKind], ...] = (
    (_USAGE_LIMIT, "usage-limit"),
    (re.compile(r"credit balance|billing|payment required", re.IGNORECASE), "billing"),
    (re.compile(r"prompt is too long|context (?:window|length)|request too large", re.IGNORECASE), "context-too-long"),
    (
        re.compile(r"/login|api key|not logged in|authenticat|oauth token|\b401\b", re.IGNORECASE),
        "authentication",
    ),
    (re.compile(r"overloaded", re.IGNORECASE), "overloaded"),
    (
        re.compile(
            r"connection|unable to connect|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|network|socket|timed out"
            r"|JSON Parse error",
            re.IGNORECASE,
        ),
        "network",
    ),
)


def result_fault(event: dict[str, Any], *, code: str, limit: "RejectedLimit | None", now: datetime) -> AgentFault:
    """Why a terminal event is an error. `code` is that of the last message claude made up for an error.

    `now` is aware, in claude's local time zone.
    """
    message = text(event.get("result")) or "; ".join(filter(None, map(text, items(event.get("errors")))))
    kind = _kind(event, message, code)
    if kind == "rate-limit" and limit:
        kind = "usage-limit"
    resets_at = limit.resets_at if limit and kind == "usage-limit" else None
    if kind in ("usage-limit", "rate-limit"):
        resets_at = resets_at or stated_reset(message, now)
    message = message or f"claude ended with {text(event.get('subtype')) or 'an error'}"
    if kind == "authentication":
        message += _LOG_IN
    return fault(kind, message, resets_at=resets_at)


def retry_fault(event: dict[str, Any]) -> AgentFault:
    """What claude is trying again because of, from its `api_retry` event."""
    code, status = text(event.get("error")), event.get("error_status")
    kind = kind_of_status(status) or _BY_CODE.get(code) or "network"
    answer = f"HTTP {status}" if isinstance(status, int) else "no answer"
    told = f"claude was still retrying: {answer}" + (f" ({code})" if code and code != "unknown" else "")
    return fault(kind, told + (_LOG_IN if kind == "authentication" else ""))


class RejectedLimit:
    """A usage limit that claude was refused for, and when it ends (ISO time in UTC), where stated."""

    def __init__(self, resets_at: str | None) -> None:
        self.resets_at = resets_at


def rejected_limit(event: dict[str, Any]) -> RejectedLimit | None:
    """The limit a `rate_limit_event` tells of, if the request was refused for it and nothing else paid for it."""
    info = table(event.get("rate_limit_info"))
    if info.get("status") != "rejected" or info.get("isUsingOverage") is True:
        return None
    return RejectedLimit(iso_time(info.get("resetsAt")))


def _kind(event: dict[str, Any], message: str, code: str) -> ErrorKind:
    by_subtype = _BY_SUBTYPE.get(text(event.get("subtype")))
    if by_subtype:
        return by_subtype
    plain = message.replace("\u2019", "'")
    by_field = _BY_CAUSE.get(text(event.get("api_error"))) or _BY_CODE.get(code)
    by_field = by_field or kind_of_status(event.get("api_error_status"))
    by_field = by_field or _BY_CODE.get(text(event.get("api_error_type")))
    if by_field == "rate-limit" and _USAGE_LIMIT.search(plain):
        return "usage-limit"
    if by_field:
        return by_field
    return next((kind for pattern, kind in _BY_TEXT if pattern.search(plain)), "unknown")
