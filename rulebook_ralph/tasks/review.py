"""What a review of a change says: its decision, the issues, who looked. Values and pure functions on them."""

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Literal

from msgspec.structs import replace

from rulebook_ralph.tasks.model import Value
from rulebook_ralph.tasks.text import counted

Tier = Literal["quick", "deep", "final"]
"""quick: each attempt. deep: before a task completes. final: a whole branch, for a person."""
Severity = Literal["high", "medium", "low"]
IssueType = Literal[
    "security",
    "race_condition",
    "memory_leak",
    "error_handling",
    "logic_bug",
    "accessibility",
    "architecture",
    "other",
]
ReviewDecision = Literal["SHIP", "REVISE", "UNDECIDED"]
GivenUp = Literal["blocked", "error", "max-wall-time", "paused", "rate-limited"]
"""For what a task (`blocked`) or a run ends whose reviewer cannot be asked."""

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")


class ReviewIssue(Value, frozen=True, kw_only=True):
    """One fault. `lines` are the first and the last one, 0 for what is said of the file itself; `agent_prompt` tells an
    agent how to mend it.
    """

    file: str
    lines: tuple[int, int]
    type: IssueType
    severity: Severity
    description: str
    suggestion: str
    agent_prompt: str

    @property
    def place(self) -> str:
        """`src/a.py:3-7`."""
        first, last = self.lines
        return f"{self.file}:{first}-{last}" if first < last else f"{self.file}:{first}" if first else self.file


class Seen(Value, frozen=True, kw_only=True):
    """What a reviewer said of one file."""

    decision: ReviewDecision
    issues: tuple[ReviewIssue, ...] = ()


Memory = MutableMapping[str, Seen]
"""What was said of a file, by a digest of all that it was said by: reviewer, task, checks, and what was shown of it."""


class IssueCounts(Value, frozen=True, kw_only=True):
    """How many issues there are, and how many of each severity."""

    total: int
    high: int
    medium: int
    low: int

    def __str__(self) -> str:
        named = [f"{getattr(self, severity)} {severity}" for severity in SEVERITIES if getattr(self, severity)]
        return ", ".join(named) or "no issues"


class ReviewLook(Value, frozen=True, kw_only=True):
    """One reviewer's look at the change. `questions` is how often it was asked: about what it had seen before it is not
    asked again. `unasked`: it could not be asked at all, which is nobody's doing; `stop_reason` is what that ends the
    task or the run for, None where only a person waits for it.
    """

    tier: Tier
    reviewer: str
    decision: ReviewDecision
    reason: str = ""
    questions: int = 0
    unasked: bool = False
    stop_reason: GivenUp | None = None
    duration_ms: int = 0


class Review(Value, frozen=True, kw_only=True):
    """All that reviewers said of one tree. `not_reviewed` names what none of them was shown."""

    decision: ReviewDecision
    issues: tuple[ReviewIssue, ...]
    summary: IssueCounts
    looks: tuple[ReviewLook, ...]
    not_reviewed: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why nothing was decided, or empty."""
        return next((look.reason for look in self.looks if look.decision == "UNDECIDED"), "")

    @property
    def unasked(self) -> bool:
        """Whether a reviewer could not be asked."""
        return any(look.unasked for look in self.looks)

    @property
    def stop_reason(self) -> GivenUp | None:
        """For what the task or the run ends, as a reviewer cannot be asked."""
        return next((look.stop_reason for look in self.looks if look.stop_reason), None)

    def __str__(self) -> str:
        return f"{self.decision} ({self.reason or self.summary})"


def joined(decisions: Sequence[ReviewDecision]) -> ReviewDecision:
    """REVISE where one says so; SHIP only where all do, and there is one."""
    if "REVISE" in decisions:
        return "REVISE"
    return "SHIP" if decisions and all(decision == "SHIP" for decision in decisions) else "UNDECIDED"


def reviewed(issues: Iterable[ReviewIssue], looks: Sequence[ReviewLook], not_reviewed: Iterable[str] = ()) -> Review:
    """The looks as one review: it ships where all of them do; the worst issues come first, each once."""
    ordered = sorted(dict.fromkeys(issues), key=lambda issue: SEVERITIES.index(issue.severity))
    found = [issue.severity for issue in ordered]
    return Review(
        decision=joined([look.decision for look in looks]),
        issues=tuple(ordered),
        summary=IssueCounts(total=len(found), **{severity: found.count(severity) for severity in SEVERITIES}),
        looks=tuple(looks),
        not_reviewed=tuple(dict.fromkeys(not_reviewed)),
    )


NOTHING_TO_REVIEW = replace(reviewed((), ()), decision="SHIP")


def together(reviews: Sequence[Review]) -> Review | None:
    """What several reviews of the same tree say; None where there is none."""
    if not reviews:
        return None
    return reviewed(
        [issue for review in reviews for issue in review.issues],
        [look for review in reviews for look in review.looks],
        [name for review in reviews for name in review.not_reviewed],
    )


def feedback(review: Review) -> str:
    """What the next attempt is told of a review that does not ship."""
    who = " and ".join(dict.fromkeys(f"{look.reviewer} ({look.tier})" for look in review.looks))
    issues = [_told(number, issue) for number, issue in enumerate(review.issues, start=1)]
    told = f"The change was reviewed by {who}: {counted(len(issues), 'issue')} to be mended before it can ship."
    return "\n\n".join([told, *issues])


def _told(number: int, issue: ReviewIssue) -> str:
    lines = [f"{number}. {issue.place} ({issue.severity}, {issue.type}): {issue.description}"]
    if issue.suggestion:
        lines.append(f"Suggested: {issue.suggestion}")
    if issue.agent_prompt and issue.agent_prompt != issue.description:
        lines.append(f"To do: {issue.agent_prompt}")
    return "\n".join(lines)
