"""While tests are red since before the work, no other gate proves it; fewer that fail do."""

import pytest

from rulebook_ralph.core.criteria import Criteria, External, StringMatch
from rulebook_ralph.core.evidence import CheckResult, Verdict, Verified
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.evidence import Gates
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.rules.criteria import StageCriteria
from rulebook_ralph.loop.rules.gates import GatesPass
from tests.integrity_case import evidence

STEPS = (
    VerificationStep(name="tests", kind="test", command="pytest"),
    VerificationStep(name="lint", kind="lint", command="ruff check"),
)
EXTERNAL = External(command="make check")
LINT = CheckResult(step="lint", kind="lint", command="ruff check", passed=True)


def gate(output: str, *, passed: bool = False, required: bool = True, step: str = "tests") -> CheckResult:
    return CheckResult(step=step, kind="test", command="pytest", passed=passed, required=required, output=output)


def judged(
    *gates: CheckResult,
    base: str = "5 failed, 3 passed in 0.1s",
    verified: Verified | None = None,
    verification: External | None = None,
) -> Verdict:
    """What is said first, after tests that were red on the base with that output."""
    on_base = Base(frozenset(("tests",))).after([gate(base)])
    given = evidence(
        steps=STEPS,
        excused=on_base.red,
        tests_on_base=on_base.tests,
        failing_on_base=on_base.failing,
        criteria=Criteria(promise="DONE", verification=verification or StringMatch()),
        run_gates=lambda: Gates(gates),
        run_criteria=lambda: verified or Verified(passed=True),
    )
    verdict = GatesPass().run(given)
    return verdict if verdict.action != "skip" else StageCriteria().run(given)


def test_another_gate_proves_nothing_of_what_red_tests_would() -> None:
    verdict = judged(gate("5 failed, 3 passed in 0.1s"), LINT)
    assert verdict.action == "continue"
    assert "tests are as red as before the work ('tests')" in verdict.reason
    assert "fewer than 5 tests fail" in verdict.feedback
    assert "`required: false`" in verdict.feedback


@pytest.mark.parametrize(
    ("now", "completes"),
    [
        ("4 failed, 4 passed in 0.1s", True),
        ("4 failed, 5 passed in 0.1s", True),
        ("4 failed, 3 passed in 0.1s", False),
        ("4 failed, 3 passed, 1 skipped in 0.1s", False),
        ("5 failed, 30 passed in 0.1s", False),
        ("6 failed, 3 passed in 0.1s", False),
        ("Segmentation fault", False),
        ("8 passed in 0.1s\nFAIL Required test coverage of 90% not reached", True),
    ],
)
def test_fewer_that_fail_prove_it_where_none_is_missing(now: str, completes: bool) -> None:
    assert (judged(gate(now), LINT).action == "skip") is completes
    assert (judged(gate(now)).action == "skip") is completes


def test_where_nothing_tells_of_the_base_there_is_nothing_to_be_better_than() -> None:
    verdict = judged(gate("4 failed, 4 passed in 0.1s"), LINT, base="make: *** [test] Error 1")
    assert verdict.action == "continue"
    assert "fewer than" not in verdict.feedback


def test_tests_that_could_not_even_be_collected() -> None:
    broken = "1 error in 0.1s"
    assert judged(gate("3 failed, 2 passed in 0.1s"), LINT, base=broken).action == "skip"
    assert judged(gate("3 failed in 0.1s"), LINT, base=broken).action == "continue"
    assert judged(gate("1 error in 0.1s"), LINT, base=broken).action == "continue"


def test_what_proves_it_all_the_same() -> None:
    red = gate("5 failed, 3 passed in 0.1s")
    assert judged(red, gate("1 passed in 0.1s", passed=True, step="more")).action == "skip"
    assert judged(red, LINT, verified=Verified(passed=True, proven=True), verification=EXTERNAL).action == "skip"
    assert judged(red, LINT, verification=EXTERNAL).action == "continue", "its model or command was never asked"
    assert judged(gate("5 failed in 0.1s", required=False), LINT).action == "skip"
    assert judged(gate("8 passed in 0.1s", passed=True), LINT).action == "skip"


def test_all_red_says_what_will_do() -> None:
    assert "fewer than 5 tests fail" in judged(gate("5 failed, 3 passed in 0.1s")).feedback


def test_what_a_task_mended_the_next_one_does_not_mend_again() -> None:
    base = (
        Base(frozenset(("tests",))).after([gate("5 failed in 0.1s")]).after([gate("4 failed, 1 passed in 0.1s"), LINT])
    )
    assert (base.tests, base.failing) == ({"tests": 5}, {"tests": 4})
