"""The semantic verification: texts that must not be there, then a model that judges criteria on the work itself.

What the agent wrote is data. A criterion holds only where the model says so, points to a line that is there, and does
not say so of the controls as well; nothing passes by default.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from rulebook_ralph.checks.data_block import Token
from rulebook_ralph.checks.semantic_judging import Judge, NoJudgementError, Opinion
from rulebook_ralph.checks.semantic_material import BUDGET, Material, gather
from rulebook_ralph.checks.semantic_patterns import unwanted
from rulebook_ralph.checks.shown_files import divided
from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.core.criteria import Semantic, with_acceptance_criteria
from rulebook_ralph.core.evidence import CheckResult, Finding
from rulebook_ralph.core.printable import clipped, cut
from rulebook_ralph.core.token_estimate import tokens

MOST_PARTS = 8
"""Questions for one verification, at `BUDGET` tokens each; work that needs more is too large to be judged."""

_MOST_SHOWN = 10
_LONGEST_DESCRIPTION = 1000


@dataclass(frozen=True, slots=True)
class SemanticResult:
    """`model_failed` says why the model could not be asked at all, which is nobody's doing; else empty."""

    result: CheckResult
    model_failed: str = ""


@dataclass(frozen=True, slots=True)
class _Outcome:
    passed: bool = False
    reason: str = ""
    output: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    model_failed: str = ""


def check(
    semantic: Semantic, subject: Subject, *, step: str, token: Token = secrets.token_hex, budget: int = BUDGET
) -> SemanticResult:
    """Verify the work. `token` makes random words; `budget` is the data of one question in tokens. Raises Cancelled."""
    started = time.monotonic()
    outcome = _outcome(semantic, subject, token, budget)
    result = CheckResult(
        step=step,
        method="semantic",
        command="",
        passed=outcome.passed,
        reason=subject.clean(outcome.reason),
        output=subject.clean("\n".join(outcome.output)),
        findings=outcome.findings,
        duration_ms=round((time.monotonic() - started) * 1000),
    )
    return SemanticResult(result, subject.clean(outcome.model_failed))


def criteria_of(
    semantic: Semantic, acceptance_criteria: Sequence[str], *, title: str = "", description: str = ""
) -> tuple[str, ...]:
    """What is to be checked for, each once. The title and description of the task stand for acceptance criteria where
    it has none.
    """
    described = ". ".join(said.strip().rstrip(".") for said in (title, description) if said.strip())
    instead = cut(f"The work does what the task describes: {described}", _LONGEST_DESCRIPTION) if described else ""
    wanted = (
        given
        for one in semantic.check_for
        for given in with_acceptance_criteria(one, acceptance_criteria, without=instead)
    )
    return tuple(dict.fromkeys(text.strip() for text in wanted if text.strip()))


def _outcome(semantic: Semantic, subject: Subject, token: Token, budget: int) -> _Outcome:
    diff = subject.diff()
    found = list(islice(unwanted(semantic.negative_patterns, diff, subject.final_message), _MOST_SHOWN + 1))
    if found:
        more = ["… and more"] if len(found) > _MOST_SHOWN else []
        return _Outcome(reason=f"found {found[0]}", output=(*found[:_MOST_SHOWN], *more))
    if not semantic.check_for:
        return _Outcome(passed=True)
    criteria = criteria_of(semantic, subject.acceptance_criteria, title=subject.title, description=subject.description)
    if not criteria:
        return _Outcome(reason="there is nothing to check for: the task has no acceptance criteria and no text")
    if subject.ask is None:
        why = subject.no_model or "no model is configured"
        return _Outcome(reason=f"no model could be asked: {why}", model_failed=why)
    material = gather(
        diff,
        subject.relevant_files(),
        final_message=subject.final_message,
        commit_messages=subject.commit_messages,
        clean=subject.clean,
    )
    if not material.sections:
        return _Outcome(reason="there is nothing to judge: no file was changed and the task names none")
    judge = Judge(subject.ask, semantic.model, subject, criteria, material, token)
    return _judged(judge, budget)


def _judged(judge: Judge, budget: int) -> _Outcome:
    material = judge.material
    parts = divided(material.sections, budget - tokens("\n".join(material.claims)))
    if len(parts) > MOST_PARTS:
        reason = f"the work is too large to be judged: {len(parts)} questions, of at most {MOST_PARTS}; split the task"
        return _Outcome(reason=reason, output=_notes(material))
    opinions: list[Opinion] = []
    failure: NoJudgementError | None = None
    for number, part in enumerate(parts, start=1):
        try:
            opinions += judge.part(part, number, len(parts))
        except NoJudgementError as no_judgement:
            failure = no_judgement
            break
    return _together(judge.criteria, opinions, failure, _notes(material))


def _together(
    criteria: Sequence[str], opinions: Sequence[Opinion], failure: NoJudgementError | None, notes: tuple[str, ...]
) -> _Outcome:
    """A criterion that one part breaks is broken, whatever became of the questions on others."""
    if failure and failure.distrusted:
        return _Outcome(reason=f"the judge is not to be believed: {failure.problem}", output=notes)
    if failure and all(opinion.verdict != "not_met" for opinion in opinions):
        reason = f"the model could not be asked: {failure.problem}"
        return _Outcome(reason=reason, output=notes, model_failed=failure.problem)
    findings = tuple(_finding(criterion, opinions) for criterion in criteria)
    output = (*map(_told, findings), *notes)
    open_ones = [finding.criterion for finding in findings if not finding.met]
    if open_ones:
        more = f" (and {len(open_ones) - 1} more)" if len(open_ones) > 1 else ""
        return _Outcome(reason=f"not met: {clipped(open_ones[0])}{more}", output=output, findings=findings)
    return _Outcome(passed=True, output=output, findings=findings)


def _finding(criterion: str, opinions: Sequence[Opinion]) -> Finding:
    """Met where some part shows it and none breaks it."""
    own = {opinion.verdict: opinion.finding for opinion in reversed(opinions) if opinion.finding.criterion == criterion}
    return own.get("not_met") or own.get("met") or own["unclear"]


def _told(finding: Finding) -> str:
    place = f" ({clipped(finding.file)}:{finding.line})" if finding.met else ""
    return f"{'met' if finding.met else 'NOT met'}: {clipped(finding.criterion)}{place}: {finding.reason}"


def _notes(material: Material) -> tuple[str, ...]:
    """What the judge did not get to see, for the agent and for people."""
    withheld = material.withheld
    told = [f"not shown to the judge: {note}" for note in material.notes[:_MOST_SHOWN]]
    if withheld:
        places = ", ".join(withheld[:_MOST_SHOWN]) + (" …" if len(withheld) > _MOST_SHOWN else "")
        lines = "1 line reads" if len(withheld) == 1 else f"{len(withheld)} lines read"
        told.append(f"withheld from the judge: {lines} as if addressed to it, and cannot be evidence: {places}")
    return tuple(told)
