"""Which gates prove the work, while tests are red that were so before it began."""

from collections.abc import Sequence

from rulebook_ralph.checks.integrity.counts import tests_failed, tests_run
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.evidence import CheckResult, Verdict
from rulebook_ralph.loop.evidence import Evidence


def proving(evidence: Evidence, results: Sequence[CheckResult]) -> list[CheckResult]:
    """The required gates that show that something was achieved: those that passed.

    While a required test gate is red since before the work, the others show nothing of what it would: then only test
    gates count, and a red one too, where fewer of its tests fail and none are missing.
    """
    passed = [result for result in results if result.passed and result.required]
    red = red_tests(evidence, results)
    if not red:
        return passed
    return [*(result for result in passed if result.kind == "test"), *(one for one in red if is_better(evidence, one))]


def red_tests(evidence: Evidence, results: Sequence[CheckResult]) -> list[CheckResult]:
    """Required test gates that failed, as they did on the base, and so are not held against the attempt."""
    return [
        result
        for result in results
        if result.failed and result.required and result.kind == "test" and result.step in evidence.excused
    ]


def still_red(evidence: Evidence, red: Sequence[CheckResult]) -> Verdict:
    """What to do where only gates passed that show nothing of the work."""
    names = ", ".join(f"'{result.step}'" for result in red)
    return Verdict(
        action="continue",
        reason=f"tests are as red as before the work ({names}), and no other gate shows what they would",
        feedback=f"These test gates fail as they did before you began: {names}. What passed checks something else, so "
        f"nothing shows that the work is done. Bring them to pass.{fewer_will_do(evidence, red)} Where that is no part "
        "of the task, end as blocked and say so: a person can mend these tests, give the task criteria of its own (a "
        "command, or a model that judges), or set `required: false` for the gate in .rulebook-ralph/config.yaml.",
    )


def fewer_will_do(evidence: Evidence, red: Sequence[CheckResult]) -> str:
    """How many failing tests of red gates are few enough, where that is known."""
    return "".join(
        f" Of '{result.step}' it is enough that fewer than {counted(before, 'test')} fail, with none left out."
        for result in red
        if (before := evidence.failing_on_base.get(result.step))
    )


def is_better(evidence: Evidence, result: CheckResult) -> bool:
    """Whether fewer tests of a gate fail than on the base, and as many run; or any pass where none could be run."""
    failing, before = tests_failed(result.output), evidence.failing_on_base.get(result.step)
    count, count_before = tests_run(result.output), evidence.tests_on_base.get(result.step)
    if failing is None or before is None or count is None or count_before is None or count < count_before:
        return False
    return failing < before or (count_before == 0 and count > failing)
