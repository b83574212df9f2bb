"""What the stage's own criteria say, and that something more than the agent's word says it."""

from rulebook_ralph.core.evidence import SKIP, Verdict, Verified
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.rules.proof import proving, red_tests, still_red


class StageCriteria:
    """The criteria that the stage started with hold, and a check that Ralph ran stands behind them."""

    name, priority = "criteria", 60

    def should_run(self, evidence: Evidence) -> bool:  # noqa: ARG002 - a rule that always holds
        return True

    def run(self, evidence: Evidence) -> Verdict:
        verified = evidence.run_criteria()
        if not verified.passed:
            return Verdict(
                action="continue",
                reason=f"the criteria are not met: {verified.reason}",
                feedback=f"What completes this stage does not hold yet.\n\n{verified.feedback}",
            )
        if verified.proven or evidence.trust_agent:
            return SKIP
        results = evidence.run_gates().results if evidence.steps else ()
        if proving(evidence, results):
            return SKIP
        if red := red_tests(evidence, results):
            return still_red(evidence, red)
        return _nothing_proven(verified)


def _nothing_proven(verified: Verified) -> Verdict:
    why = "".join(f"\n- {warning}" for warning in verified.warnings)
    return Verdict(
        action="continue",
        reason="nothing but the agent's word says that it is done",
        feedback="Nothing that Ralph ran itself shows that the work is done: no gate passed, no command of the "
        f"criteria did, and no model judged them.{why}\nGo over the work against the acceptance criteria once more.",
    )
