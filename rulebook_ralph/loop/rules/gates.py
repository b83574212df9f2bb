"""The project's own gates, run by Ralph on the tree that would be committed."""

from collections.abc import Sequence

from rulebook_ralph.core.evidence import SKIP, CheckResult, Verdict, feedback_excerpt
from rulebook_ralph.loop.evidence import Evidence, Gates, is_held
from rulebook_ralph.loop.rules.proof import fewer_will_do, proving, red_tests, still_red


class GatesPass:
    """The project's own gates, run by Ralph on the tree that would be committed."""

    name, priority = "gates", 50

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.steps)

    def run(self, evidence: Evidence) -> Verdict:
        gates = evidence.run_gates()
        held = [result for result in gates.results if is_held(result, evidence.excused)]
        if held:
            return _gates_failed(held)
        if gates.changed:
            names = ", ".join(gates.changed[:20])
            return Verdict(
                action="continue",
                reason=f"the gates change the tree each time they run: {names}",
                feedback=f"Running the gates twice changed files both times: {names}. Make the result stable, or "
                "have git ignore what is generated.",
            )
        proven_elsewhere = (
            evidence.trust_agent or evidence.criteria.method != "string_match"
        )  # rules/criteria.py sees to it
        if proven_elsewhere or proving(evidence, gates.results):
            return SKIP
        red = red_tests(evidence, gates.results)
        some_passed = any(result.passed and result.required for result in gates.results)
        return still_red(evidence, red) if some_passed else _nothing_passed(gates, fewer_will_do(evidence, red))


def _gates_failed(held: Sequence[CheckResult]) -> Verdict:
    names = ", ".join(f"{result.step} ({result.reason or 'failed'})" for result in held)
    parts = [
        f"The gate '{result.step}' failed.\nCommand: {result.command}\nResult: {result.reason}\nOutput:\n"
        f"{feedback_excerpt(result.output)}"
        for result in held
    ]
    return Verdict(action="continue", reason=f"gate failed: {names}", feedback="\n\n".join(parts))


def _nothing_passed(gates: Gates, advice: str) -> Verdict:
    names = ", ".join(result.step for result in gates.results)
    return Verdict(
        action="continue",
        reason=f"no gate passed, so there is no evidence: {names}",
        feedback=f"Every gate is red ({names}), as it was before you began, so nothing proves the work. "
        f"Bring at least one of them to pass.{advice}",
    )
