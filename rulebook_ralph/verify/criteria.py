"""Verifies what completes a stage, by the methods it names: string_match, external, semantic, multi_stage."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.criteria import External, MultiStage, Part, Semantic, StringMatch, Verification
from rulebook_ralph.tasks.criteria_reading import part_verification
from rulebook_ralph.tasks.results import CheckResult, Finding, Verdict, Verified, feedback_excerpt
from rulebook_ralph.verify.rules import is_promised

if TYPE_CHECKING:
    from rulebook_ralph.verify.case import Case, NamedCriteria
    from rulebook_ralph.verify.judge import Examination

MOST_AT_ONCE = 8
"""Checks mostly wait: for a server, a disk, a test that sleeps. So there may be more of them than processors."""
_LONGEST_TEXT = 200


def criteria_hold(case: Case, examination: Examination) -> Verdict | None:
    """The criteria that the stage started with hold, and those of earlier stages.

    Where no model judged a semantic one the promise is taken instead, but nothing completes by that alone: a gate, a
    command or evidence must have passed.
    """
    verified = verify(case, examination)
    examination.checks.extend(verified.results)
    examination.log.extend(verified.warnings)
    for warning in verified.warnings:
        examination.verifiers.report(Notice("warning", warning))
    if not verified.passed:
        return Verdict(
            action="continue",
            hook="criteria",
            reason=f"the criteria are not met: {verified.reason}",
            feedback=f"What completes this stage does not hold yet.\n\n{verified.feedback}",
        )
    unjudged = next((result for result in verified.results if result.method == "semantic" and result.skipped), None)
    if unjudged is not None and not verified.proven and _rests_on_a_promise(case, examination):
        return Verdict(
            action="stop",
            hook="criteria",
            reason=f"needs approval: {unjudged.reason}, and no test or command turned from red to green",
            feedback="The work is kept and waits for a person's approval.",
            stop_reason="blocked",
            counts=False,
            awaits_approval=True,
        )
    if unjudged is None or verified.proven or any(gate.passed for gate in examination.gate_results() if gate.required):
        return None
    return Verdict(
        action="continue",
        hook="criteria",
        reason=f"nothing but the agent's word says that it is done: {unjudged.reason}",
        feedback="No model judged the criteria, which is not your doing, and neither a gate nor a command passed that "
        "would show that the work is done. Go over it against the acceptance criteria once more, and say so again.",
        counts=False,
    )


def _rests_on_a_promise(case: Case, examination: Examination) -> bool:
    """Whether only the criteria that no model judged would show that there is anything new."""
    evidence = examination.evidence
    if case.approved or evidence is None or examination.verifiers.config.integrity.unproven == "allow":
        return False
    return case.implements and not evidence.turned and not evidence.judged_by


def verify(case: Case, examination: Examination) -> Verified:
    """What all criteria of the case say of its tree; those of earlier stages where its own hold. Raises Cancelled."""
    own, *earlier = case.criteria
    found = [verify_one(own, case, examination)]
    if found[0].passed:
        found += [verify_one(each, case, examination) for each in earlier]
    failed = [each for each in found if not each.passed]
    return Verified(
        passed=not failed,
        reason=", ".join(each.reason for each in failed),
        feedback="\n\n".join(each.feedback for each in failed),
        results=tuple(result for each in found for result in each.results),
        warnings=tuple(warning for each in found for warning in each.warnings),
        proven=any(each.proven for each in found),
    )


def verify_one(named: NamedCriteria, case: Case, examination: Examination) -> Verified:
    """What one stage's criteria say. Its checks are known by `named.name`, parts by their path (`qa/all_tests`)."""
    verification = named.criteria.verification
    checked = _Verifier(named, case, examination).check(verification, named.name)
    return Verified(
        passed=checked.passed,
        reason=checked.reason,
        feedback="\n\n".join(checked.feedback),
        results=() if isinstance(verification, StringMatch) else checked.results,  # the promise is a rule of its own
        warnings=checked.warnings,
        proven=any(map(_is_proof, checked.results)),
    )


def _is_proof(result: CheckResult) -> bool:
    """Whether it rests on more than the promise: a command, or a model's judgement, which alone has findings."""
    return result.passed and (result.method == "external" or (result.method == "semantic" and bool(result.findings)))


@dataclass(frozen=True, slots=True)
class _Checked:
    """What a verification said. `reason` names each required check that failed and why; empty where it passed.

    `results` are those of every check that was run for it, in the order of the configuration.
    """

    passed: bool
    results: tuple[CheckResult, ...]
    reason: str = ""
    feedback: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def _leaf(result: CheckResult, feedback: str) -> _Checked:
    if result.passed:
        return _Checked(True, (result,))
    return _Checked(False, (result,), f"{result.step} ({result.reason or 'failed'})", (feedback,))


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Every method, on one stage's criteria."""

    named: NamedCriteria
    case: Case
    examination: Examination

    def check(self, verification: Verification, step: str) -> _Checked:
        match verification:
            case StringMatch():
                return self._string_match(step)
            case External():
                result = self.examination.verifiers.gates.command(
                    self.case.tree, verification, step=step, commit=self.case.base
                )
                return _leaf(result, external_feedback(verification, result))
            case Semantic():
                return self._semantic(verification, step)
            case MultiStage():
                return _MultiStage(self, verification, step).check()

    def _string_match(self, step: str) -> _Checked:
        """The stage's promise. That of an earlier stage was given then; where no agent worked nobody could give it."""
        wanted = " ".join(self.named.criteria.promise.split())
        given = self.case.parsed.promises
        needless = self.named.stage != self.case.stage or self.case.result is None
        passed = needless or wanted in given or is_promised(self.case)
        reason = ""
        if not passed:
            reason = f"another promise than {wanted} was given: {given[-1]}" if given else f"{wanted} was not promised"
        result = CheckResult(step=step, method="string_match", command="", passed=passed, reason=reason)
        feedback = (
            f"The check '{step}' failed: {reason}. If the task is truly done, end your final message with the promise "
            f"tag around {wanted}, alone on its own line; if not, go on."
        )
        return _leaf(result, feedback)

    def _semantic(self, semantic: Semantic, step: str) -> _Checked:
        from rulebook_ralph.verify import semantic as by_model  # noqa: PLC0415 - only where a model is to judge

        result = by_model.check(semantic, self.named, self.case, self.examination, step=step)
        if not result.skipped:
            return _leaf(result, _semantic_feedback(result))
        if self.case.result is None:  # no agent worked, so there is no promise to fall back on
            return _leaf(result, _semantic_feedback(result))
        instead = self._string_match(step)
        warning = f"{step}: {result.reason}; the promise was taken instead"
        return _Checked(instead.passed, (result, *instead.results), instead.reason, instead.feedback, (warning,))


def external_feedback(external: External, result: CheckResult) -> str:
    """What the agent must know to mend a failed command: what was run, what was expected, what came."""
    lines = [f"The check '{result.step}' failed.", f"Command: {external.command}"]
    if external.working_dir != ".":
        lines.append(f"Folder: {external.working_dir}")
    lines.append(f"Expected: {', '.join(_expected(external))}")
    lines.append(f"Result: {result.reason}")
    if result.output.strip():
        lines.append(f"Output:\n{feedback_excerpt(result.output)}")
    return "\n".join(lines)


def _expected(external: External) -> Iterator[str]:
    yield f"exit code {external.success_exit_code}"
    if external.output_contains:
        yield f"output that contains {_quoted(external.output_contains)}"
    if external.output_not_contains:
        yield f"output without {_quoted(external.output_not_contains)}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")


def _semantic_feedback(result: CheckResult) -> str:
    """The reason, and the whole of what was said of each criterion; from the findings where there is no text of it."""
    told = result.output.strip() or "\n".join(_unmet(finding) for finding in result.findings if not finding.met)
    return f"The check '{result.step}' failed: {result.reason}" + (f"\n{feedback_excerpt(told)}" if told else "")


def _unmet(finding: Finding) -> str:
    return f"- Not met: {finding.criterion}{f'. {finding.reason}' if finding.reason else ''}"


class _MultiStage:
    """Several verifications in order; each is known as `step/name`.

    Only external ones run at the same time, and only with `parallel`. A part that names another in `needs` runs if that
    one passed, else it has failed. After a required failure with `require_all` no further part is started.
    """

    def __init__(self, verifier: _Verifier, multi: MultiStage, step: str) -> None:
        self._verifier = verifier
        self._multi = multi
        self._step = step
        self._done: dict[str, _Checked] = {}

    def check(self) -> _Checked:
        """Raises Cancelled, when nothing runs any more."""
        waiting = self._multi.stages
        while waiting and not self._is_over():
            parts = self._next(waiting)
            waiting = waiting[len(parts) :]
            with ThreadPoolExecutor(len(parts), "check") as pool:
                done = list(pool.map(self._run, parts) if len(parts) > 1 else map(self._run, parts))
            self._done |= {part.name: checked for part, checked in zip(parts, done, strict=True)}
        return self._combined()

    def _next(self, waiting: tuple[Part, ...]) -> tuple[Part, ...]:
        """The next part, or those that may run at the same time."""

        def may_run(part: Part) -> bool:
            return part.method == "external" and all(name in self._done for name in part.needs)

        together = tuple(takewhile(may_run, waiting[:MOST_AT_ONCE])) if self._multi.parallel else ()
        return together or waiting[:1]

    def _run(self, part: Part) -> _Checked:
        return self._not_run(part) or self._verifier.check(part_verification(part), f"{self._step}/{part.name}")

    def _is_over(self) -> bool:
        return self._multi.require_all and any(part.required and self._failed(part.name) for part in self._multi.stages)

    def _failed(self, name: str) -> bool:
        return name in self._done and not self._done[name].passed

    def _not_run(self, part: Part) -> _Checked | None:
        """What is said of a part that cannot run, as one that it needs failed; None of any other."""
        path = f"{self._step}/{part.name}"
        missing = next((name for name in part.needs if self._failed(name)), None)
        if missing is None:
            return None
        reason = f"not run: it needs '{missing}', which did not pass"
        command = str(part.config.get("command", "")) if part.method == "external" else ""
        result = CheckResult(step=path, method=part.method, command=command, passed=False, reason=reason)
        return _Checked(False, (result,), f"{path} ({reason})", (f"The check '{path}' was {reason}.",))

    def _combined(self) -> _Checked:
        results: list[CheckResult] = []
        failed: list[_Checked] = []
        warnings: list[str] = []
        ran = [(part, self._done[part.name]) for part in self._multi.stages if part.name in self._done]
        for part, checked in ran:
            warnings += checked.warnings
            results += checked.results if part.required else (replace(each, required=False) for each in checked.results)
            if not checked.passed and part.required:
                failed.append(checked)
            elif not checked.passed:
                warnings.append(f"failed, but is optional: {checked.reason}")
        reason = ", ".join(checked.reason for checked in failed)
        if not failed and not any(checked.passed for checked in self._done.values()):
            failed = list(self._done.values())
            reason = f"{self._step} (not one of its parts passed: {', '.join(checked.reason for checked in failed)})"
        whole = CheckResult(step=self._step, method="multi_stage", command="", passed=not failed, reason=reason)
        feedback = tuple(text for checked in failed for text in checked.feedback)
        return _Checked(not failed, (*results, whole), reason, feedback, tuple(warnings))
