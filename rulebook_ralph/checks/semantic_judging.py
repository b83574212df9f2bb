"""A question to the model that judges, asked again once where the answer is of no use; and what an answer is worth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rulebook_ralph import resources
from rulebook_ralph.checks.data_block import Token, data
from rulebook_ralph.checks.model_answer import UnusableAnswerError, asked_twice
from rulebook_ralph.checks.quarantine import addresses_a_judge
from rulebook_ralph.checks.semantic_answer import Ruling, read_answer
from rulebook_ralph.checks.semantic_material import Material
from rulebook_ralph.checks.semantic_prompt import Sheet, instructions, make_sheet, spoiled
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.checks.shown_files import Section
from rulebook_ralph.checks.subject import Ask, ModelError, Question, Subject
from rulebook_ralph.core.evidence import Finding
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.core.question import ModelRefusedError

_ADDRESSED = "and the work addresses its judge"
"""Work that talks to its judge must gain nothing by confusing it, or by keeping it from an answer."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one answer says of one criterion, after its evidence was looked up."""

    verdict: Literal["met", "not_met", "unclear"]
    finding: Finding


class NoJudgementError(Exception):
    """The question came to nothing. `distrusted`: what came, or did not, may be the data's doing, which fails the work;
    else the model could not be asked.
    """

    def __init__(self, problem: str, *, distrusted: bool) -> None:
        super().__init__(problem)
        self.problem = problem
        self.distrusted = distrusted


class _RefusedError(Exception):
    """The answer cannot be used, or says yes to a control: why, as the model can be told."""


class _UnfoundedError(_RefusedError):
    """Quoted lines do not stand where they were said to, which an honest answer may have wrong, too."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks about parts of the work. `model` empty leaves the choice to whoever answers."""

    ask: Ask
    model: str
    subject: Subject
    criteria: tuple[str, ...]
    material: Material
    token: Token

    def part(self, sections: Sequence[Section], number: int, parts: int) -> tuple[Opinion, ...]:
        """What the model says of each criterion. Raises NoJudgementError and Cancelled."""
        try:
            return asked_twice(lambda refused: self._asked(sections, number, parts, refused), _RefusedError)
        except _RefusedError as error:
            raise NoJudgementError(str(error), distrusted=True) from error

    def _asked(
        self, sections: Sequence[Section], number: int, parts: int, refused: _RefusedError | None
    ) -> tuple[Opinion, ...]:
        """The opinions; of a second answer also those without evidence that could be found, which count for nothing."""
        subject = self.subject
        if subject.cancelled.is_set():
            raise Cancelled
        sheet = make_sheet(self.criteria, self.token, unlike=data(sections, self.material.said, ""))
        problem = str(refused or "")
        told = instructions(
            sheet,
            title=subject.title,
            description=subject.description,
            stage=subject.stage,
            part=number,
            parts=parts,
            problem="it did not fit the schema" if addresses_a_judge(problem) else problem,
        )
        shown = data(sections, self.material.said, sheet.nonce)
        try:
            answer = self.ask(Question(subject.clean(told), shown, resources.schema("judgement"), self.model))
            rulings = read_answer(answer, nonce=sheet.nonce, ids=tuple(sheet.statements))
        except ModelError as error:
            raise self._no_judgement(error, refused) from error
        except UnusableAnswerError as error:  # a judge led to no answer, or to a planted one, must not excuse the work
            raise _RefusedError(error.told) from error
        if why := spoiled(sheet, rulings):
            raise _RefusedError(why)
        opinions = tuple(_opinion(sheet.statements[name], rulings[name], sections) for name in sheet.criteria)
        unfounded = _unfounded(sheet, rulings, opinions)
        if unfounded and refused is None:
            raise _UnfoundedError(f"{unfounded} of the quoted lines do not stand at the place that was named")
        return opinions

    def _no_judgement(self, error: ModelError, refused: _RefusedError | None) -> NoJudgementError:
        """What it means that the model gave no answer, or none after the one that was refused. Raises Cancelled."""
        if self.subject.cancelled.is_set():
            raise Cancelled from error
        why = clipped(str(error)) or "it gave no answer"
        distrusted = "" if refused is None or isinstance(refused, _UnfoundedError) else str(refused)
        if not distrusted and self.material.withheld:
            distrusted = f"{why}, {_ADDRESSED}"
        declined = isinstance(error, ModelRefusedError)  # else an attempt could talk its judge out of judging
        return NoJudgementError(distrusted or why, distrusted=bool(distrusted) or declined)


def _opinion(criterion: str, ruling: Ruling, sections: Sequence[Section]) -> Opinion:
    reason = clipped(ruling.reason)
    if ruling.verdict != "met":
        reason = reason or ("it is not met" if ruling.verdict == "not_met" else "the work does not show it")
        return Opinion(ruling.verdict, Finding(criterion=criterion, met=False, reason=reason))
    for place in ruling.evidence:
        for section in sections:
            if section.is_called(place.file) and section.shows(place.line, place.quote):
                found = Finding(criterion=criterion, met=True, reason=reason, file=section.path, line=place.line)
                return Opinion("met", found)
    return Opinion(
        "unclear",
        Finding(criterion=criterion, met=False, reason="the judge could point to no line of the work that shows it"),
    )


def _unfounded(sheet: Sheet, rulings: Mapping[str, Ruling], opinions: Sequence[Opinion]) -> int:
    claimed = (rulings[name].verdict for name in sheet.criteria)
    return sum(
        verdict == "met" and opinion.verdict != "met" for verdict, opinion in zip(claimed, opinions, strict=True)
    )
