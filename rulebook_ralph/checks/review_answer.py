"""What a reviewer answered: read strictly, or refused with what is wrong (schemas/review.schema.json, `answer`).

Nothing is put right here: an answer that contradicts itself, or speaks of what is not there, is none.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict

from rulebook_ralph.checks.model_answer import UnusableAnswerError, decoded, require_nonce
from rulebook_ralph.checks.shown_files import Section
from rulebook_ralph.core.printable import printable, printable_block
from rulebook_ralph.core.review import SEVERITIES, IssueCounts, ReviewIssue, count

_LONGEST_TEXT = 4_000


class AnswerIssue(ReviewIssue, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issue as it was answered."""


class AnswerCounts(IssueCounts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The summary as it was answered."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole answer."""

    nonce: str
    decision: Literal["SHIP", "REVISE"]
    issues: tuple[AnswerIssue, ...]
    summary: AnswerCounts


def read_review(
    text: str, *, nonce: str, sections: Sequence[Section]
) -> tuple[Literal["SHIP", "REVISE"], tuple[ReviewIssue, ...]]:
    """The decision and the issues, each of a file and lines that were shown. Raises UnusableAnswerError."""
    answer = decoded(text.strip(), Answer)
    require_nonce(answer.nonce, nonce)
    _require_sums(answer)
    if answer.decision == "SHIP" and answer.summary.high:
        raise UnusableAnswerError("the decision is SHIP, and there is an issue of high severity")
    if answer.decision == "REVISE" and not answer.issues:
        raise UnusableAnswerError("the decision is REVISE, and there is no issue to be mended")
    return answer.decision, tuple(_placed(issue, sections) for issue in answer.issues)


def _require_sums(answer: Answer) -> None:
    counted = count(answer.issues)
    for name in ("total", *SEVERITIES):
        said, found = getattr(answer.summary, name), getattr(counted, name)
        if said != found:
            raise UnusableAnswerError(f"`summary.{name}` is {said}, and `issues` has {found}")


def _placed(issue: ReviewIssue, sections: Sequence[Section]) -> ReviewIssue:
    """The issue by the file's real path, its texts fit to be shown."""
    meant = [section for section in sections if section.is_called(issue.file)]  # a large file has several
    if not meant:
        raise UnusableAnswerError(f"the change does not touch the file {printable(issue.file)[:200]}")
    first, last = issue.lines
    section = meant[-1]
    end = max(line.number for each in meant for line in each.lines)
    if not 0 <= first <= last <= end or (last > 0) != (first > 0):
        raise UnusableAnswerError(f"lines {first} to {last} are not in {section.name}, which is shown to line {end}")
    if not issue.description.strip():
        raise UnusableAnswerError("an issue has no description")
    told = {name: _fit(value) for name, value in asdict(issue).items() if isinstance(value, str)}
    return ReviewIssue(**{**asdict(issue), **told, "file": section.path})


def _fit(text: str) -> str:
    return printable_block(text.strip()[:_LONGEST_TEXT])
