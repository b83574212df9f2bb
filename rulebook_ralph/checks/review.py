"""A review of a change: a reviewer is asked about all of it, part by part, and nothing ships by default.

What was seen before and is the same is not asked about again.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event

from rulebook_ralph import resources
from rulebook_ralph.checks.data_block import Token, data, fresh_words
from rulebook_ralph.checks.model_answer import UnusableAnswerError, asked_twice
from rulebook_ralph.checks.quarantine import addresses_a_judge
from rulebook_ralph.checks.review_answer import read_review
from rulebook_ralph.checks.review_material import Material, digest, gather, pieces, quieted
from rulebook_ralph.checks.review_prompt import checks_of, instructions
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.checks.shown_files import Clean, Section, divided
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.core.question import Ask, GivenUpError, ModelError, ModelRefusedError, Question
from rulebook_ralph.core.redaction import cleaned
from rulebook_ralph.core.review import (
    GivenUp,
    Look,
    Memory,
    Review,
    ReviewDecision,
    ReviewIssue,
    Seen,
    Tier,
    joined,
    reviewed,
)
from rulebook_ralph.core.token_estimate import tokens

MOST_QUESTIONS = 20
"""So many full ones for one look; a change that fills more is too large to be reviewed."""
_SMALLEST = 1_000


@dataclass(frozen=True, slots=True)
class Reviewer:
    """Who looks, and for what. `key` tells it from others in what is remembered; `ask` is None where there is no model
    (`missing` says why).
    """

    tier: Tier
    name: str
    key: str
    checks: tuple[str, ...]
    ask: Ask | None
    missing: str = ""


class _NoReviewError(Exception):
    """A question came to nothing. `unasked`: it could not be asked, and `stop_reason` is what that ends."""

    def __init__(self, problem: str, *, unasked: bool, stop_reason: GivenUp | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.unasked = unasked
        self.stop_reason = stop_reason


@dataclass(frozen=True, slots=True)
class Desk:
    """What a review needs besides: `budget` is a question's data in tokens, `token` makes random words."""

    clean: Clean
    cancelled: Event
    token: Token
    budget: int
    memory: Memory


def review(change: ReviewedChange, reviewer: Reviewer, desk: Desk) -> Review:
    """What the reviewer says of the change. Raises Cancelled."""
    started = time.monotonic()
    material = gather(change, clean=desk.clean, budget=desk.budget)
    looking = _Looking(change, reviewer, desk, material)
    missed = _NoReviewError("", unasked=False)
    try:
        looking.look()
    except _NoReviewError as no_review:
        missed = no_review
    reason = desk.clean(missed.problem)
    issues = (*material.issues, *looking.issues)
    look = Look(
        tier=reviewer.tier,
        reviewer=reviewer.name,
        decision="REVISE" if material.issues else looking.decision(undecided=bool(reason)),
        reason=reason,
        questions=looking.questions,
        unasked=missed.unasked,
        stop_reason=missed.stop_reason,
        duration_ms=round((time.monotonic() - started) * 1000),
    )
    return cleaned(reviewed(issues, [look], material.not_reviewed), desk.clean)


class _Looking:
    """One look at the material: what is known of its files, and what comes to be."""

    def __init__(self, change: ReviewedChange, reviewer: Reviewer, desk: Desk, material: Material) -> None:
        self._change = change
        self._reviewer = reviewer
        self._desk = desk
        self._material = material
        self._checks = checks_of(reviewer.tier, reviewer.checks)
        by = f"{reviewer.key}\n{instructions(change, self._checks, '')}"
        self._keys = {
            section.path: hashlib.sha256(f"{by}\n{digest(section)}".encode("utf-8", "surrogatepass")).hexdigest()
            for section in material.sections
        }
        self._seen: dict[str, list[Seen]] = {}
        self.questions = 0

    @property
    def issues(self) -> Iterator[ReviewIssue]:
        return (issue for seen in self._seen.values() for each in seen for issue in each.issues)

    def decision(self, *, undecided: bool) -> ReviewDecision:
        found: list[ReviewDecision] = [each.decision for seen in self._seen.values() for each in seen]
        return joined([*found, "UNDECIDED"] if undecided else found)

    def look(self) -> None:
        """Ask about every file that is not known. Raises _NoReviewError, Cancelled."""
        known = {path: self._desk.memory[key] for path, key in self._keys.items() if key in self._desk.memory}
        if len(known) < len(self._keys):  # what mends one file may stand in another
            known = {path: seen for path, seen in known.items() if seen.decision == "SHIP"}
        self._seen = {path: [seen] for path, seen in known.items()}
        left = [section for section in self._material.sections if section.path not in known]
        size, most = sum(section.tokens for section in left), MOST_QUESTIONS * self._desk.budget
        if size > most:
            problem = f"the change is too large to be reviewed: {size:,} tokens, of at most {most:,}"
            raise _NoReviewError(f"{problem}; split it, or raise review.promptTokens", unasked=False)
        left = [self._quieted(section) for section in left]
        budget = max(_SMALLEST, self._desk.budget - tokens("\n".join(self._material.claims)))
        parts = divided([piece for section in left for piece in pieces(section, budget)], budget)
        for number, part in enumerate(parts, start=1):
            decision, issues = self._part(part, number, len(parts))
            for path in dict.fromkeys(section.path for section in part):
                own = tuple(issue for issue in issues if issue.file == path)
                self._seen.setdefault(path, []).append(Seen(decision=decision if own else "SHIP", issues=own))
        for section in left:
            self._remember(section.path)

    def _quieted(self, section: Section) -> Section:
        shown, issues = quieted(section)
        if issues:
            self._seen[section.path] = [Seen(decision="REVISE", issues=issues)]
        return shown

    def _remember(self, path: str) -> None:
        seen = self._seen[path]
        issues = tuple(issue for each in seen for issue in each.issues)
        self._desk.memory[self._keys[path]] = Seen(decision=joined([each.decision for each in seen]), issues=issues)

    def _part(
        self, sections: Sequence[Section], number: int, parts: int
    ) -> tuple[ReviewDecision, tuple[ReviewIssue, ...]]:
        try:
            return asked_twice(lambda refused: self._asked(sections, number, parts, refused), UnusableAnswerError)
        except UnusableAnswerError as error:
            raise _NoReviewError(error.told, unasked=False) from error

    def _asked(
        self, sections: Sequence[Section], number: int, parts: int, refused: UnusableAnswerError | None
    ) -> tuple[ReviewDecision, tuple[ReviewIssue, ...]]:
        ask = self._reviewer.ask
        if ask is None:
            raise _NoReviewError(self._reviewer.missing or "no model is configured", unasked=True)
        if self._desk.cancelled.is_set():
            raise Cancelled
        problem = refused.told if refused else ""
        claims = self._material.claims or ("nothing more",)
        nonce = next(fresh_words(self._desk.token, data(sections, claims, "")))
        told = instructions(
            self._change,
            self._checks,
            nonce,
            part=number,
            parts=parts,
            problem="it did not fit the schema" if addresses_a_judge(problem) else problem,
        )
        self.questions += 1
        try:
            answer = ask(Question(self._desk.clean(told), data(sections, claims, nonce), answer_schema()))
        except ModelError as error:
            raise self._no_review(error, asked_before=refused is not None) from error
        return read_review(answer, nonce=nonce, sections=sections)

    def _no_review(self, error: ModelError, *, asked_before: bool) -> _NoReviewError:
        """What it means that the model gave no answer. Raises Cancelled."""
        if self._desk.cancelled.is_set():
            raise Cancelled from error
        why = clipped(str(error)) or "it gave no answer"
        if isinstance(error, GivenUpError):
            return _NoReviewError(why, unasked=True, stop_reason=error.stop_reason)
        return _NoReviewError(why, unasked=not (asked_before or isinstance(error, ModelRefusedError)))


def answer_schema() -> dict[str, object]:
    """The schema that a reviewer's answer must fit, by itself."""
    definitions = resources.schema("review")["$defs"]
    answer = definitions.pop("answer")
    return {**answer, "$defs": {name: definitions[name] for name in ("issue", "summary")}}
