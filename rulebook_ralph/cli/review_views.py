"""A review as lines for a terminal, as Markdown for a comment, and as SARIF 2.1.0. Pure."""

from collections.abc import Iterator
from urllib.parse import quote

from rulebook_ralph.report.markdown import inline
from rulebook_ralph.tasks.model import Json
from rulebook_ralph.tasks.review import Review, ReviewIssue
from rulebook_ralph.tasks.text import counted, printable

_LEVELS = {"high": "error", "medium": "warning", "low": "note"}
_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LONGEST = 4_000
"""Characters of one text of a comment."""


def lines(review: Review) -> Iterator[str]:
    """For a terminal, the worst first."""
    for issue in review.issues:
        yield f"{issue.severity:<6} {printable(issue.place)} ({issue.type})"
        yield f"       {printable(issue.description)}"
        if issue.suggestion:
            yield f"       suggested: {printable(issue.suggestion)}"
    for name in review.not_reviewed:
        yield f"not reviewed: {printable(name)}"
    yield str(review)


def markdown(review: Review) -> str:
    """For a comment on a pull request: what others wrote makes no markup, and calls nobody."""
    told = [f"## Review: {review.decision}", ""]
    told += [
        f"{look.tier} review by {_plain(look.reviewer)}: {_plain(look.reason or look.decision)}  "
        for look in review.looks
    ]
    told += [f"{counted(review.summary.total, 'issue')}: {review.summary}" if review.issues else "No issues.", ""]
    for issue in review.issues:
        told += [f"### {issue.severity}: {_plain(issue.place)}", "", f"{issue.type}: {_plain(issue.description)}", ""]
        told += [f"Suggested: {_plain(issue.suggestion)}", ""] if issue.suggestion else []
    if review.not_reviewed:
        told += ["Not reviewed:", "", *(f"- {_plain(name)}" for name in review.not_reviewed), ""]
    return "\n".join(told).rstrip() + "\n"


def sarif(review: Review, *, version: str) -> Json:
    """For code scanning. A review that came to no decision did not execute successfully."""
    undecided = review.decision == "UNDECIDED"
    failure = {"level": "error", "message": {"text": review.reason or "no decision"}}
    missed = [{"level": "warning", "message": {"text": f"not reviewed: {name}"}} for name in review.not_reviewed]
    types = sorted({issue.type for issue in review.issues})
    return {
        "$schema": _SARIF,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Ralph review",
                        "version": version,
                        "rules": [{"id": each, "shortDescription": {"text": each.replace("_", " ")}} for each in types],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not undecided,
                        "toolExecutionNotifications": [failure, *missed] if undecided else missed,
                    }
                ],
                "results": [_result(issue, types.index(issue.type)) for issue in review.issues],
                "properties": {"decision": review.decision},
            }
        ],
    }


def _result(issue: ReviewIssue, rule: int) -> Json:
    first, last = issue.lines
    place: Json = {"artifactLocation": {"uri": quote(issue.file, errors="surrogateescape")}}
    if first:
        place["region"] = {"startLine": first, "endLine": last}
    suggested = f"\n\nSuggested: {issue.suggestion}" if issue.suggestion else ""
    return {
        "ruleId": issue.type,
        "ruleIndex": rule,
        "level": _LEVELS[issue.severity],
        "message": {"text": f"{issue.description}{suggested}"},
        "locations": [{"physicalLocation": place}],
        "properties": {"agentPrompt": issue.agent_prompt},
    }


def _plain(text: str) -> str:
    return inline(text, _LONGEST)
