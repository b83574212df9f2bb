"""Tests that were red before the work turn green by the program, not by what was done to the tests."""

from collections.abc import Sequence

from rulebook_ralph.checks.integrity.earlier_tests import EarlierTests
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import SKIP, CheckResult, Verdict, feedback_excerpt
from rulebook_ralph.core.printable import capital
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.rules.integrity import inspection_of
from rulebook_ralph.loop.rules.proof import is_better


class EarlierTestsOfGates:
    """Where a red test gate got better and its tests were changed, it must have got better by the old ones too.

    They are run once more, in the clean checkout; without one this cannot be told.
    """

    name, priority = "earlier-tests", 53

    def should_run(self, evidence: Evidence) -> bool:
        return _is_judged(evidence) and bool(evidence.steps and evidence.excused and evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        better = [result.step for result in evidence.run_gates().results if _got_better(evidence, result)]
        earlier = inspection_of(evidence).earlier_tests() if better else None
        if earlier is None or not earlier.restored:
            return SKIP
        results = evidence.run_gates_with(earlier)
        if results is None:
            return SKIP
        shown = {result.step for result in results if _got_better(evidence, result)}
        if not (wrong := [step for step in better if step not in shown]):
            return SKIP
        names = ", ".join(f"'{step}'" for step in wrong)
        red = [result for result in results if result.step in wrong]
        return _refused(f"{names} is as red as it was", red, earlier)


class EarlierTestsOfCriteria:
    """The same for the commands of criteria: one that tests of the base kept red does not hold by what was done to
    these. It is run on the base, and once more with them as they were; in the clean checkout alone, too.
    """

    name, priority = "earlier-tests", 62

    def should_run(self, evidence: Evidence) -> bool:
        return _is_judged(evidence) and bool(evidence.judging and evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        if not any(result.method == "external" and result.passed for result in evidence.run_criteria().results):
            return SKIP
        earlier = inspection_of(evidence).earlier_tests()
        results = evidence.run_criteria_with(earlier) if earlier.restored else None
        red = [result for result in results or () if result.failed]
        told = ", ".join(f"'{result.step}' does not hold ({result.reason})" for result in red)
        return _refused(told, red, earlier) if red else SKIP


def _is_judged(evidence: Evidence) -> bool:
    return evidence.integrity.enabled and not evidence.trust_agent


def _refused(how: str, red: Sequence[CheckResult], earlier: EarlierTests) -> Verdict:
    reason = f"with the tests as they were before the work, {how}"
    output = feedback_excerpt(red[0].output) if red else ""
    return Verdict(
        action="continue",
        reason=reason,
        feedback=f"{capital(reason)}: what turned them green is in {some(list(earlier.restored))}. Change the "
        "program until they pass as they stood. Where the task means these tests to change, end as blocked and "
        "say so: a person can name their files in the task, or in integrity.allow of .rulebook-ralph/config.yaml."
        f"\nOutput with the earlier tests:\n{output}",
    )


def _got_better(evidence: Evidence, result: CheckResult) -> bool:
    was_red = result.kind == "test" and result.required and result.step in evidence.excused
    return was_red and (result.passed or is_better(evidence, result))
