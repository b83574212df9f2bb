"""The rule at 60: the stage's criteria hold, and something more than the agent's word stands behind them."""

import pytest

from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verdict, Verified
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Integrity, StopCriteria, VerificationStep
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.loop.rules.criteria import StageCriteria

STEP = VerificationStep(name="tests", command="make test")


def _gate(*, passed: bool, required: bool = True) -> CheckResult:
    return CheckResult(step="tests", command="make test", passed=passed, required=required)


def _verdict(verified: Verified, *gates: CheckResult, trust_agent: bool = False) -> Verdict:
    def run_gates() -> Gates:
        assert gates, "no gates are configured, so none may be asked for"
        return Gates(gates)

    evidence = Evidence(
        task=Task(id="one", title="Do one"),
        stage="coder",
        attempt=1,
        last_stage=True,
        criteria=Criteria(promise="DONE"),
        stop_criteria=StopCriteria(),
        result=AgentResult(agent="test", status="finished"),
        parsed=ParsedIteration(),
        changes=(),
        steps=(STEP,) if gates else (),
        excused=frozenset(),
        tests_on_base={},
        failing_on_base={},
        protect=(),
        integrity=Integrity(),
        trust_agent=trust_agent,
        run_limited=False,
        has_secret=lambda _: False,
        told=tuple,
        diff=tuple,
        versions=lambda _: {},
        folders=lambda _: frozenset(),
        run_gates=run_gates,
        run_criteria=lambda: verified,
        try_commit=lambda: None,
    )
    rule = StageCriteria()
    assert (rule.name, rule.priority, rule.should_run(evidence)) == ("criteria", 60, True)
    return rule.run(evidence)


PROVEN = Verified(passed=True, proven=True)
PROMISED = Verified(passed=True, warnings=("coder: the model that judges failed (no key)",))


def test_criteria_that_fail_give_another_attempt_with_what_must_be_mended() -> None:
    failed = Verified(passed=False, reason="coder (exit code 1)", feedback="Command: make check", proven=True)
    verdict = _verdict(failed, _gate(passed=True), trust_agent=True)
    assert (verdict.action, verdict.reason) == ("continue", "the criteria are not met: coder (exit code 1)")
    assert "Command: make check" in verdict.feedback


def test_proven_criteria_need_no_gate() -> None:
    assert _verdict(PROVEN).action == "skip"
    assert _verdict(PROVEN, _gate(passed=False)).action == "skip"


@pytest.mark.parametrize(
    ("gates", "action"),
    [
        ((), "continue"),
        ((_gate(passed=True),), "skip"),
        ((_gate(passed=False),), "continue"),
        ((_gate(passed=True, required=False),), "continue"),
        ((_gate(passed=False), _gate(passed=True)), "skip"),
    ],
    ids=["no gate", "green", "red and excused", "only an optional one", "one of two"],
)
def test_the_promise_alone_counts_only_beside_a_required_gate_that_passed(
    gates: tuple[CheckResult, ...], action: str
) -> None:
    verdict = _verdict(PROMISED, *gates)
    assert verdict.action == action
    if action == "continue":
        assert "nothing but the agent's word" in verdict.reason
        assert "no key" in verdict.feedback


def test_a_person_may_trust_the_agent() -> None:
    assert _verdict(PROMISED, trust_agent=True).action == "skip"
