"""Verifies the criteria of a stage, by whichever method they name."""

from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from rulebook_ralph.checks import external, multi_stage, string_match
from rulebook_ralph.checks.multi_stage import Checked
from rulebook_ralph.checks.shell import ResultCache, Surroundings
from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.core.criteria import Criteria, External, MultiStage, Part, Semantic, StringMatch, Verification
from rulebook_ralph.core.criteria_reading import part_verification
from rulebook_ralph.core.evidence import CheckResult, Finding, Verified, feedback_excerpt

__all__ = ["ResultCache", "verify"]


class SemanticAnswer(Protocol):
    """What a semantic check said, and why the model could not be had, if it could not."""

    @property
    def result(self) -> CheckResult: ...

    @property
    def model_failed(self) -> str: ...


class SemanticCheck(Protocol):
    def __call__(self, semantic: Semantic, subject: Subject, *, step: str) -> SemanticAnswer: ...


def verify(
    criteria: Criteria,
    subject: Subject,
    *,
    cache: ResultCache,
    semantic_check: SemanticCheck | None = None,
    name: str = "",
) -> Verified:
    """Run the stage's verification; its checks are known by `name`, else by the stage, and parts of it by their path
    (`qa/all_tests`).

    `cache` is that of the iteration. Where the model of a semantic check fails, the promise is taken instead, with a
    warning. Raises checks.gates.Cancelled.
    """
    verification = criteria.verification
    verifier = _Verifier(subject, cache, semantic_check)
    try:
        checked = verifier.check(verification, name or str(subject.stage))
    finally:
        if isinstance(verification, External | Semantic):
            subject.put_back()
    return Verified(
        passed=checked.passed,
        reason=checked.reason,
        feedback="\n\n".join(checked.feedback),
        results=() if isinstance(verification, StringMatch) else checked.results,  # the promise is a rule of its own
        warnings=checked.warnings,
        proven=any(map(_is_proof, checked.results)),
    )


def together(own: Verified, others: Sequence[Verified]) -> Verified:
    """One answer for a stage and for what else must hold for the same tree: of stages before it, of other tasks."""
    failed = [each for each in (own, *others) if not each.passed]
    return Verified(
        passed=not failed,
        reason=", ".join(each.reason for each in failed),
        feedback="\n\n".join(each.feedback for each in failed),
        results=tuple(result for each in (own, *others) for result in each.results),
        warnings=tuple(warning for each in (own, *others) for warning in each.warnings),
        proven=any(each.proven for each in (own, *others)),
    )


def _is_proof(result: CheckResult) -> bool:
    """Whether it rests on more than the promise. Only a model's judgement has findings: the mere absence of unwanted
    texts proves nothing.
    """
    return result.passed and (result.method == "external" or (result.method == "semantic" and bool(result.findings)))


class _Verifier:
    """Every method, on one attempt."""

    def __init__(self, subject: Subject, cache: ResultCache, semantic_check: SemanticCheck | None) -> None:
        self._subject = subject
        self._semantic_check = semantic_check
        self._around = Surroundings(
            root=subject.root,
            environment=subject.environment,
            clean=subject.clean,
            cancelled=subject.cancelled,
            tree=subject.tree(),
            cache=cache,
        )

    def check(self, verification: Verification, step: str) -> Checked:
        match verification:
            case StringMatch():
                return self._string_match(step)
            case External():
                result = external.check(verification, self._around, step=step)
                return _leaf(result, external.feedback(verification, result))
            case Semantic():
                return self._semantic(verification, step)
            case MultiStage():
                return multi_stage.check(verification, step=step, run=self._part, put_back=self._subject.put_back)

    def _part(self, part: Part, step: str) -> Checked:
        return self.check(part_verification(part), step)

    def _string_match(self, step: str) -> Checked:
        result = string_match.check(self._subject, step=step)
        return _leaf(result, string_match.feedback(self._subject, result))

    def _semantic(self, semantic: Semantic, step: str) -> Checked:
        check = self._semantic_check
        if check is None:
            from rulebook_ralph.checks import semantic as built_in  # noqa: PLC0415 - only where a model is to judge

            check = built_in.check
        answer = check(semantic, self._subject, step=step)
        if not answer.model_failed:
            return _leaf(answer.result, _semantic_feedback(answer.result))
        reason = f"the model that judges failed ({answer.model_failed}); the promise was taken instead"
        unjudged = replace(answer.result, passed=False, required=False, reason=reason)
        instead = self._string_match(step)
        return Checked(
            instead.passed, (unjudged, *instead.results), instead.reason, instead.feedback, (f"{step}: {reason}",)
        )


def _leaf(result: CheckResult, feedback: str) -> Checked:
    if result.passed:
        return Checked(True, (result,))
    return Checked(False, (result,), f"{result.step} ({result.reason or 'failed'})", (feedback,))


def _semantic_feedback(result: CheckResult) -> str:
    """The reason, and the whole of what was said of each criterion; from the findings where there is no text of it."""
    told = result.output.strip() or "\n".join(_unmet(finding) for finding in result.findings if not finding.met)
    return f"The check '{result.step}' failed: {result.reason}" + (f"\n{feedback_excerpt(told)}" if told else "")


def _unmet(finding: Finding) -> str:
    place = f" ({finding.file}{f':{finding.line}' if finding.line else ''})" if finding.file else ""
    return f"- Not met: {finding.criterion}{f'. {finding.reason}' if finding.reason else ''}{place}"
