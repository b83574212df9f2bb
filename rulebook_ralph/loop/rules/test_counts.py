"""A gate that runs fewer tests than it did on the base proves less than it did."""

from rulebook_ralph.checks.integrity.counts import tests_run
from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.rules.integrity import inspection_of


class TestCounts:
    """No gate that ran tests on the base runs fewer now, unless tests that were rightly removed explain it."""

    __test__ = False  # for pytest: the name says otherwise
    name, priority = "test-counts", 52

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.integrity.enabled and bool(evidence.tests_on_base) and bool(evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        fewer = [
            (result.step, count, before)
            for result in evidence.run_gates().results
            if (before := evidence.tests_on_base.get(result.step)) is not None
            and (result.kind == "test" and result.passed)
            and (count := tests_run(result.output)) is not None
            and count < before
        ]
        if not fewer:
            return SKIP
        explained = inspection_of(evidence).explained_losses()
        held = [] if explained is None else [seen for seen in fewer if seen[2] - seen[1] > explained]
        if not held:
            return SKIP
        seen = "; ".join(f"the gate '{step}' ran {count} tests, {before} on the base" for step, count, before in held)
        return Verdict(
            action="continue",
            reason=f"fewer tests ran than on the base: {seen}",
            feedback=f"Fewer tests ran than before you began: {seen}. Find out which tests are no longer found or run "
            "(removed cases, renamed files, moved folders, skips) and bring them back. Where the task means them to "
            "go, a person can name their file in the task, or in integrity.allow of .rulebook-ralph/config.yaml.",
        )
