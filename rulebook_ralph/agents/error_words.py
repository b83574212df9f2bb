"""Which kind of failure the words of an agent's own error tell of. Pure.

Only for what an agent itself reports as its error; never for tool output, never for what a model wrote.
"""

import re

from rulebook_ralph.core.evidence import ErrorKind

_PATTERNS: tuple[tuple[str, ErrorKind], ...] = (
    (
        (
            r"credit balance|(?:insufficient|out of|not enough|no) (?:[\w-]+ )?(?:credits?|funds|balance)"
            r"|insufficient_quota|current quota|\bbilling|payment required|\b402\b"
        ),
        "billing",
    ),
    (
        (
            r"usage limit|hit your (?:[\w-]+ ){0,3}limit|(?:daily|weekly|monthly|session|requests?) (?:limit|quota)"
            r"|quota (?:is |has been )?(?:exceeded|exhausted|reached)|exceeded your (?:[\w-]+ ){0,3}(?:quota|allowance)"
        ),
        "usage-limit",
    ),
    (
        (
            r"prompt is too long|context[ _-]?(?:window|length|limit)|maximum context|too many tokens|hit a token limit"
            r"|ContextWindowExceeded"
        ),
        "context-too-long",
    ),
    (
        (
            r"authenticat|unauthori[sz]ed|not (?:logged|signed) in|log ?in (?:first|again|required|to)|/login\b"
            r"|api[ _-]?key|oauth token|invalid token|token (?:has )?expired|bad credentials|\b40[13]\b"
        ),
        "authentication",
    ),
    (r"rate[ _-]?limit|too many requests|\b429\b", "rate-limit"),
    (r"overloaded|InternalServerError|service ?unavailable|bad gateway|\b5(?:0[0234]|29)\b", "overloaded"),
    (
        (
            r"connection|unable to connect|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|fetch failed|network|socket|timed out"
            r"|getaddrinfo"
        ),
        "network",
    ),
)
_BY_WORDS = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _PATTERNS)

_BY_STATUS: dict[int, ErrorKind] = {
    401: "authentication",
    402: "billing",
    403: "authentication",
    413: "context-too-long",
    429: "rate-limit",
}
_SERVER_ERRORS = range(500, 600)


def kind_of(message: str) -> ErrorKind:
    """The kind that the message tells of, the most telling first; `unknown` where it says nothing."""
    plain = message.replace("\u2019", "'")
    return next((kind for pattern, kind in _BY_WORDS if pattern.search(plain)), "unknown")


def kind_of_status(status: object) -> ErrorKind | None:
    """The kind of an HTTP status; None for one that is no error, and for anything that is no status."""
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    return "overloaded" if status in _SERVER_ERRORS else _BY_STATUS.get(status)
