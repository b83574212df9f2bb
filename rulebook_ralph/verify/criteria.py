"""Verifies what completes a stage, by the methods it names: string_match, external, semantic, multi_stage."""

import time
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile

from msgspec.structs import replace

from rulebook_ralph.agents.question import ModelError
from rulebook_ralph.git.diff import FileDiff
from rulebook_ralph.report import events
from rulebook_ralph.tasks.criteria import (
    External,
    MultiStage,
    Part,
    Semantic,
    StringMatch,
    Verification,
    with_acceptance_criteria,
)
from rulebook_ralph.tasks.results import (
    AskedItem,
    CheckResult,
    Finding,
    Verdict,
    Verified,
    feedback_excerpt,
    telling_line,
)
from rulebook_ralph.tasks.text import clipped, cut, printable
from rulebook_ralph.verify.case import Case, Examination, StageCriteria, again
from rulebook_ralph.verify.execution import quoted
from rulebook_ralph.verify.questions import OpenItem, ask_about
from rulebook_ralph.verify.redaction import cleaned
from rulebook_ralph.verify.rules import awaiting_approval, promise_given

MOST_AT_ONCE = 8
"""Checks mostly wait: for a server, a disk, a test that sleeps. So there may be more of them than processors."""
_MOST_SHOWN = 10
_LONGEST_DESCRIPTION = 1000


def criteria_hold(case: Case, examination: Examination) -> Verdict | None:
    """The criteria that the stage started with hold, and those of earlier stages.

    Where no model judged a semantic one the promise is taken instead, but nothing completes by that alone: a gate, a
    command or evidence must have passed.
    """
    verified = verify(case, examination)
    examination.checks.extend(verified.results)
    examination.log.extend(verified.warnings)
    for warning in verified.warnings:
        examination.verifiers.say_once(f"{case.task.id}: {warning}")
    if not verified.passed:
        feedback = f"What completes this stage does not hold yet.\n\n{verified.feedback}"
        return again("criteria", f"not met: {verified.reason}", feedback)
    unjudged = next((result for result in verified.results if result.method == "semantic" and result.skipped), None)
    if unjudged is not None and _rests_on_a_promise(case, examination):
        return awaiting_approval("criteria", "no test or command turned from red to green", unjudged.reason)
    if unjudged is None or verified.proven or any(gate.passed for gate in examination.gate_results() if gate.required):
        return None
    return again(
        "criteria",
        "nothing but the agent's word says that it is done",
        "No model judged the criteria, which is not your doing, and neither a gate nor a command passed that "
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
    return _together(found, [each for each in found if not each.passed])


def verify_one(named: StageCriteria, case: Case, examination: Examination) -> Verified:
    """What one stage's criteria say. Its checks are known by `named.stage`, parts by their path (`qa/all_tests`)."""
    found = _Verifier(named, case, examination).check(named.criteria.verification, named.stage)
    if isinstance(named.criteria.verification, StringMatch):
        return replace(found, results=())  # the promise is a rule of its own
    passed = (result for result in found.results if result.passed)
    return replace(found, proven=any(each.method == "external" or each.findings for each in passed))


def _together(found: Sequence[Verified], failed: Sequence[Verified]) -> Verified:
    return Verified(
        passed=not failed,
        reason="; ".join(each.reason for each in failed),
        feedback="\n\n".join(each.feedback for each in failed),
        results=tuple(result for each in found for result in each.results),
        warnings=tuple(warning for each in found for warning in each.warnings),
        proven=any(each.proven for each in found),
    )


def _leaf(result: CheckResult, feedback: str) -> Verified:
    if result.passed:
        return Verified(passed=True, results=(result,))
    said = telling_line(result.output) if result.exit_code is not None and result.reason.startswith("exit code") else ""
    reason = f"{result.step}: {said or result.reason or 'failed'}"
    return Verified(passed=False, reason=reason, feedback=feedback, results=(result,))


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Every method, on one stage's criteria."""

    named: StageCriteria
    case: Case
    examination: Examination

    def check(self, verification: Verification, step: str) -> Verified:
        match verification:
            case StringMatch():
                return self._string_match(step)
            case External():
                gates, case = self.examination.verifiers.gates, self.case
                result = gates.command(case.tree, verification, step=step)
                return _leaf(result, external_feedback(verification, result))
            case Semantic():
                return self._semantic(verification, step)
            case MultiStage():
                return self._multi_stage(verification, step)

    def _string_match(self, step: str) -> Verified:
        """The stage's promise. That of an earlier stage was given then; where no agent worked nobody could give it."""
        needed = self.named.stage == self.case.stage
        refused = promise_given(self.case, self.examination) if needed else None
        reason, feedback = (refused.reason, refused.feedback) if refused else ("", "")
        result = CheckResult(step=step, method="string_match", command="", passed=refused is None, reason=reason)
        return _leaf(result, feedback)

    def _semantic(self, semantic: Semantic, step: str) -> Verified:
        """What a model says; where none judged, which is not the work's fault, the promise is taken instead."""
        verifiers, started = self.examination.verifiers, time.monotonic()
        verifiers.report(events.GateStarted(step, ""))
        result = self._judged(semantic, CheckResult(step=step, method="semantic", command="", passed=False))
        duration = round((time.monotonic() - started) * 1000)
        result = cleaned(replace(result, required=not result.skipped, duration_ms=duration), verifiers.redactor.clean)
        verifiers.report(events.GateEnded(result))
        if not result.skipped or self.case.result is None:  # where no agent worked there is no promise to fall back on
            told = f"\n{feedback_excerpt(result.output)}" if result.output.strip() else ""
            return _leaf(result, f"The check '{step}' failed: {result.reason}{told}")
        instead = self._string_match(step)
        warning = f"{result.reason}; the promise was taken instead"
        return replace(instead, results=(result, *instead.results), warnings=(warning,))

    def _judged(self, semantic: Semantic, result: CheckResult) -> CheckResult:
        """What unwanted texts and the model say of the work; `skipped` where no model judged it."""
        case, verifiers, task = self.case, self.examination.verifiers, self.case.task
        final_message = case.result.final_text if case.result else ""
        if found := list(unwanted(semantic.negative_patterns, self.examination.diff(), final_message)):
            more = ["… and more"] if len(found) > _MOST_SHOWN else []
            return replace(result, reason=f"found {found[0]}", output="\n".join([*found[:_MOST_SHOWN], *more]))
        if not semantic.check_for:
            return replace(result, passed=True)
        description = self.named.criteria.description or task.description
        wanted = criteria_of(semantic, task.acceptance_criteria, title=task.title, description=description)
        if not wanted:
            return replace(result, reason="nothing to check for: the task has no acceptance criteria and no text")
        if verifiers.ask is None:
            return replace(result, skipped=True, reason=verifiers.why_no_model)
        items = [OpenItem("criterion", criterion) for criterion in wanted]
        try:
            answers = ask_about(case, self.examination, items, verifiers.ask, model=semantic.model)
        except ModelError as error:
            return replace(result, skipped=True, reason=clipped(str(error)) or "the judging model gave no answer")
        findings = tuple(map(_finding, wanted, answers))
        unmet = [finding.criterion for finding in findings if not finding.met]
        more_unmet = f", and {len(unmet) - 1} more" if len(unmet) > 1 else ""
        return replace(
            result,
            passed=not unmet,
            reason=f"not met: {clipped(unmet[0])}{more_unmet}" if unmet else "",
            output="\n".join(map(_told, findings)),
            findings=findings,
        )

    def _multi_stage(self, multi: MultiStage, step: str) -> Verified:
        """Several verifications in order; each is known as `step/name`.

        Only external ones run at the same time, and only with `parallel`. A part that names another in `needs` runs if
        that one passed, else it has failed. After a required failure with `require_all` no further part is started.
        """
        done: dict[str, Verified] = {}
        failed: list[Verified] = []

        def run(part: Part) -> Verified:
            missing = next((name for name in part.needs if name in done and not done[name].passed), "")
            path = f"{step}/{part.name}"
            found = _not_run(part, path, missing) if missing else self.check(part.verification, path)
            return found if part.required else _optional(found)

        waiting = multi.stages
        while waiting and not (multi.require_all and failed):
            parts = (_at_once(waiting[:MOST_AT_ONCE], done) if multi.parallel else ()) or waiting[:1]
            waiting = waiting[len(parts) :]
            with ThreadPoolExecutor(len(parts), "check") as pool:
                found = list(pool.map(run, parts) if len(parts) > 1 else map(run, parts))
            done |= {part.name: each for part, each in zip(parts, found, strict=True)}
            failed += [each for part, each in zip(parts, found, strict=True) if part.required and not each.passed]
        ran = list(done.values())
        whole = _together(ran, failed)
        if whole.passed and not any(each.passed for each in ran):
            whole = _together(ran, ran)
            whole = replace(whole, reason=f"{step}: none of its parts passed: {whole.reason}")
        result = CheckResult(step=step, method="multi_stage", command="", passed=whole.passed, reason=whole.reason)
        return replace(whole, results=(*whole.results, result))


def _at_once(waiting: tuple[Part, ...], done: Collection[str]) -> tuple[Part, ...]:
    """The next parts that may run at the same time."""
    return tuple(takewhile(lambda part: part.method == "external" and set(part.needs) <= set(done), waiting))


def _not_run(part: Part, path: str, missing: str) -> Verified:
    reason = f"not run: it needs '{missing}', which did not pass"
    command = str(part.config.get("command", "")) if part.method == "external" else ""
    result = CheckResult(step=path, method=part.method, command=command, passed=False, reason=reason)
    return _leaf(result, f"The check '{path}' was {reason}.")


def _optional(found: Verified) -> Verified:
    warnings = found.warnings if found.passed else (*found.warnings, f"failed, but is optional: {found.reason}")
    return replace(found, results=tuple(replace(each, required=False) for each in found.results), warnings=warnings)


def external_feedback(external: External, result: CheckResult) -> str:
    """What the agent must know to mend a failed command: what was run, what was expected, what came."""
    expected = f"exit code {external.success_exit_code}"
    if external.output_contains:
        expected += f", output that contains {quoted(external.output_contains)}"
    if external.output_not_contains:
        expected += f", output without {quoted(external.output_not_contains)}"
    lines = [f"The check '{result.step}' failed.", f"Command: {external.command}"]
    if external.working_dir != ".":
        lines.append(f"Folder: {external.working_dir}")
    lines += [f"Expected: {expected}", f"Result: {result.reason}"]
    if result.output.strip():
        lines.append(f"Output:\n{feedback_excerpt(result.output)}")
    return "\n".join(lines)


# What a model is to judge


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


def _finding(criterion: str, answer: AskedItem) -> Finding:
    met, reason = answer.answer == "yes", clipped(answer.reason)
    if not met:
        return Finding(criterion=criterion, met=False, reason=reason or "it is not met")
    return Finding(criterion=criterion, met=True, reason=reason, file=answer.file, line=answer.line)


def _told(finding: Finding) -> str:
    place = f" ({clipped(finding.file)}{f':{finding.line}' if finding.line else ''})" if finding.met else ""
    return f"{'met' if finding.met else 'NOT met'}: {clipped(finding.criterion)}{place}: {finding.reason}"


def unwanted(patterns: Sequence[str], diff: Sequence[FileDiff], final_message: str) -> Iterator[str]:
    """Each line that was added, and each line of the final message, that holds one of the patterns, as one line that
    names the place. Upper and lower case are the same, and invisible characters hide nothing.
    """
    wanted = [(pattern, _folded(pattern)) for pattern in patterns]
    lines = [(f"{printable(file.path)}:{line.number}", line.text) for file in diff for line in file.added]
    for place, text in (*lines, *(("the final message", text) for text in final_message.splitlines())):
        folded = _folded(text)
        yield from (f"'{clipped(pattern)}' in {place}: {clipped(text)}" for pattern, it in wanted if it in folded)


def _folded(text: str) -> str:
    visible = (char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return " ".join("".join(visible).casefold().split())
