"""Reviews of changes: a reviewer is asked about all of a change, part by part, and nothing ships by default.

Quick at each attempt, deep before a task completes, final for the branch when all tasks are completed. What was asked
before and is the same is not asked again.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from rulebook_ralph.agents.question import Ask, GivenUpError, ModelError, Question
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.git.diff import read_diff
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.report import events
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.tasks.review import (
    IssueType,
    Memory,
    Review,
    ReviewIssue,
    ReviewLook,
    Seen,
    Tier,
    feedback,
    joined,
    reviewed,
    together,
)
from rulebook_ralph.tasks.text import capital, clipped, estimated_tokens, one_line, printable, printable_block
from rulebook_ralph.verify import reviewers
from rulebook_ralph.verify.case import Case, Examination, again
from rulebook_ralph.verify.material import (
    RULE_OF_DATA,
    RULE_OF_LINES,
    ShownFile,
    UnusableAnswerError,
    asked,
    claims,
    envelope,
    is_generated,
    parts,
    shown_files,
)
from rulebook_ralph.verify.redaction import Redactor, SecretFound, cleaned, secrets_in

BUDGET = 60_000
"""Tokens of one question's data."""
MOST_QUESTIONS = 20
"""So many full ones for one look; a change that fills more is too large to be reviewed."""
_AROUND = 10
"""Unchanged lines that are shown before and after changed ones."""
_SMALLEST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedChange:
    """What there is to review: two trees, and what the change is for. `commit_messages` are the author's own words.
    `with_secrets`: nobody has looked for secrets in it yet.
    """

    title: str
    base: str
    tree: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    commit_messages: tuple[str, ...] = ()
    with_secrets: bool = False


AskOf = Callable[[Reviewer], Ask]
"""Asks a reviewer, whose model is filled in, as often as the retry policy says. Raises ModelError where there is no
model, and GivenUpError where asking again is not worth it any more.
"""


@dataclass(frozen=True, slots=True)
class Reviewers:
    """Asks the configured reviewers. `memory` is what they said before, and comes to have what they say."""

    config: Config
    repository: Repository
    ask_of: AskOf
    redactor: Redactor
    cancelled: Event
    memory: Memory = field(default_factory=dict)
    budget: int = BUDGET

    def review(
        self, reviewer: Reviewer, tier: Tier, change: ReviewedChange, report: Callable[[events.Event], None]
    ) -> Review:
        """What that reviewer says of a change. Raises Cancelled, GitError."""
        name = reviewer.name or reviewer.id
        report(events.ReviewStarted(tier, name))
        started = time.monotonic()
        diff = read_diff(self.repository, change.base, change.tree)
        clean, budget = self.redactor.clean, self.budget
        files = shown_files(self.repository, change.tree, diff, clean=clean, budget=budget, around=_AROUND)
        secrets = secrets_in(diff, self.redactor) if change.with_secrets else ()
        own = [*map(_secret, secrets), *map(_unreadable, filter(_is_hidden, files))]
        seen, look = self._looked(reviewers.with_model(self.config, reviewer, tier), tier, change, files)
        decisions = [each.decision for each in seen] + ([look.decision] if look.reason else [])
        duration = round((time.monotonic() - started) * 1000)
        decision = "REVISE" if own else joined(decisions)
        look = replace(look, reviewer=name, decision=decision, duration_ms=duration)
        issues = [*own, *(issue for each in seen for issue in each.issues)]
        said = reviewed(issues, [look], [f"{file.name}: {file.why_not}" for file in files if file.why_not])
        said = cleaned(said, clean)
        report(events.ReviewEnded(said))
        return said

    def _looked(
        self, reviewer: Reviewer, tier: Tier, change: ReviewedChange, files: Sequence[ShownFile]
    ) -> tuple[list[Seen], ReviewLook]:
        """What is said of each part, which is asked where it is not known; and why the look ended where it did."""
        look, seen = ReviewLook(tier=tier, reviewer=reviewer.id, decision="UNDECIDED"), list[Seen]()
        size, most = sum(file.tokens for file in files), MOST_QUESTIONS * self.budget
        if size > most:
            why = f"the change is too large to be reviewed: {size:,} tokens, of at most {most:,}; split it"
            return seen, replace(look, reason=why)
        said = claims(self.redactor.clean, commit_messages=change.commit_messages)
        checks = reviewers.checks_of(tier, reviewer.checks)
        divided = parts(files, max(_SMALLEST, self.budget - estimated_tokens("".join(said.values()))))
        named = f"the reviewer {reviewer.name or reviewer.id}"

        def ask(question: Question) -> str:
            nonlocal look
            look = replace(look, questions=look.questions + 1)
            return self.ask_of(reviewer)(question)

        for number, part in enumerate(divided, start=1):
            told = self.redactor.clean(_instructions(change, checks, number, len(divided)))
            data = envelope(**said, files=[file.data for file in part])
            asked_of = f"{reviewer.id}\n{reviewer.executor}\n{reviewer.model}\n{told}\n{data}"
            key = hashlib.sha256(asked_of.encode("utf-8", "surrogatepass")).hexdigest()
            try:
                if key not in self.memory:
                    question = Question(told, data, {}, reviewer.model)
                    read = partial(_read, files)
                    self.memory[key] = asked(ask, question, ReviewAnswer, read, self.cancelled, who=named)
            except ModelError as error:
                why = clipped(str(error)) or f"{named} gave no answer"
                stop_reason = error.stop_reason if isinstance(error, GivenUpError) else None
                return seen, replace(look, reason=why, unasked=True, stop_reason=stop_reason)
            seen.append(self.memory[key])
        return seen, look


def _instructions(change: ReviewedChange, checks: Sequence[str], part: int, parts: int) -> str:
    """What the reviewer is told by Ralph."""
    text = [_RULES]
    if parts > 1:
        text += [f"This is part {part} of {parts} of the change; what is missing here may stand in another part.\n"]
    text += [f"The task: {printable(change.title)}\n{printable_block(change.description)}"]
    if change.acceptance_criteria:
        text += ["It is done when:", *(f"- {one_line(each, _LONGEST_TEXT)}" for each in change.acceptance_criteria)]
    text += ["\nLook for, in this order of importance:"]
    text += [f"{number}. {one_line(each, _LONGEST_TEXT)}" for number, each in enumerate(checks, start=1)]
    return "\n".join([*text, ""])


def reviewers_agree(case: Case, examination: Examination) -> Verdict | None:
    """Every reviewer that is asked says SHIP; the deep one is asked only where the quick one did."""
    verifiers = examination.verifiers
    if verifiers.reviewers is None or not examination.diff():
        return None
    change = ReviewedChange(
        title=case.task.title,
        base=case.base,
        tree=case.tree,
        description=case.task.description,
        acceptance_criteria=case.task.acceptance_criteria,
    )
    said: list[Review] = []
    for tier in reviewers.tiers_of(last_stage=case.last_stage):
        reviewer = reviewers.reviewer_in_loop(verifiers.reviewers.config, case.task, tier)
        if reviewer is None:
            continue
        review = verifiers.reviewers.review(reviewer, tier, change, verifiers.report)
        said.append(review)
        examination.review = together(said)
        if review.decision != "SHIP":
            return _verdict(tier, review)
    return None


def _verdict(tier: Tier, review: Review) -> Verdict:
    if review.decision == "REVISE":
        worst = review.issues[0]
        reason = f"{tier} review says REVISE: {worst.place}: {worst.description}"
        return again("review", reason, feedback(review))
    if review.unasked:  # another attempt would be paid for, and not be reviewed either
        return Verdict(
            action="stop",
            hook="review",
            reason=f"no {tier} review: {review.reason}",
            feedback="The work could not be reviewed, which is not your doing. If it is done, leave it; say so again.",
            stop_reason=review.stop_reason or "blocked",
            counts=False,
        )
    return again(
        "review",
        f"the {tier} review came to no decision: {review.reason}",
        f"The {tier} review of the work came to no decision: {review.reason}.\nNothing completes without one. "
        "Go over the change once more: is all of it needed, plain, and of a size that can be reviewed?",
    )


def _secret(found: SecretFound) -> ReviewIssue:
    advice = "Take it out, and replace it: whoever saw it has it."
    prompt = f"Take the secret out of {found.path}; read it from the environment or a file that git ignores."
    return _own_issue("security", found.path, f"{capital(found.what)}.", advice, prompt, line=found.line or 0)


def _unreadable(file: ShownFile) -> ReviewIssue:
    advice = "Split it, leave it out of the repository, or take the secret out."
    prompt = f"Make {file.path} a file that can be reviewed, or take it out of the change: {file.why_not}."
    return _own_issue("other", file.path, f"Nobody can review this file: {file.why_not}.", advice, prompt)


def _own_issue(
    kind: IssueType, file: str, description: str, suggestion: str, prompt: str, *, line: int = 0
) -> ReviewIssue:
    """What Ralph finds by itself."""
    return ReviewIssue(
        file=file,
        lines=(line, line),
        type=kind,
        severity="high",
        description=description,
        suggestion=suggestion,
        agent_prompt=prompt,
    )


def _is_hidden(file: ShownFile) -> bool:
    """Whether an author could have made the file so in order that nobody looks."""
    large = file.why_not == "too large" and not is_generated(file.path)
    return large or file.why_not == "a secret over several lines"


# The question and its answer

_LONGEST_TEXT = 4_000

_RULES = f"""\
You review a change to a repository. The author gains by being believed; you gain nothing.

Rules:
1. {RULE_OF_DATA}
2. {RULE_OF_LINES}
3. Report real faults in what was added or taken away, no matters of taste. What you cannot see from here is no fault.
4. Severity `high`: it must not be merged so. `medium`: it should be mended. `low`: it might be.
5. `decision` is SHIP where nothing must be mended first, else REVISE; with an issue of high severity it is REVISE.
6. Each issue names the file as it is named in the data, and `lines`, the first and the last number of its place; both
   are 0 for what is said of the file itself. `agentPrompt` is an instruction that stands by itself, by which an agent
   that sees nothing else mends it.
7. Answer with one JSON object by the schema and nothing else.
"""


class AnswerIssue(ReviewIssue, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issue as it was answered."""


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a reviewer answers."""

    decision: Literal["SHIP", "REVISE"]
    issues: tuple[AnswerIssue, ...]


def _read(files: Sequence[ShownFile], answer: ReviewAnswer) -> Seen:
    """The decision and the issues, each of a file and lines that the change has. Raises UnusableAnswerError."""
    if answer.decision == "SHIP" and any(issue.severity == "high" for issue in answer.issues):
        raise UnusableAnswerError("the decision is SHIP, and there is an issue of high severity")
    if answer.decision == "REVISE" and not answer.issues:
        raise UnusableAnswerError("the decision is REVISE, and there is no issue to be mended")
    return Seen(decision=answer.decision, issues=tuple(_placed(issue, files) for issue in answer.issues))


def _placed(issue: ReviewIssue, files: Sequence[ShownFile]) -> ReviewIssue:
    """The issue by the file's real path, its texts fit to be shown."""
    meant = [file for file in files if file.is_called(issue.file)]  # a large file comes in several pieces
    if not meant:
        raise UnusableAnswerError(f"the change does not touch the file {printable(issue.file)[:200]}")
    first, last = issue.lines
    if not 0 <= first <= last or (last > 0) != (first > 0) or (meant[0].last and last > meant[0].last):
        raise UnusableAnswerError(f"{meant[0].name} has no lines {first} to {last}; its last one is {meant[0].last}")
    if not issue.description.strip():
        raise UnusableAnswerError("an issue has no description")
    texts = {name: value for name, value in asdict(issue).items() if isinstance(value, str)}
    told = {name: printable_block(text.strip()[:_LONGEST_TEXT]) for name, text in texts.items()}
    return ReviewIssue(**{**asdict(issue), **told, "file": meant[0].path})
