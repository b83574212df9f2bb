"""A gate that runs fewer tests than it did on the base proves less than it did."""

from collections.abc import Sequence

from rulebook_ralph.checks.integrity.counts import tells_of_failures, tests_run
from rulebook_ralph.checks.integrity.objection import listed
from rulebook_ralph.core.evidence import SKIP, CheckResult, Verdict, feedback_excerpt
from rulebook_ralph.core.printable import capital
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.rules.integrity import inspection_of


class TestCounts:
    """No gate that ran tests on the base runs fewer now, unless tests that were rightly removed explain it; nor does
    one pass that tells of tests that failed, or no longer tells of any: the program under test may have ended it. Where
    it never told of any, or was red, code that was added to end a process with success speaks against it.
    """

    __test__ = False  # for pytest: the name says otherwise
    name, priority = "test-counts", 52

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.integrity.enabled and bool(evidence.steps or evidence.tests_on_base) and bool(evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        passed = [result for result in evidence.run_gates().results if result.passed and result.kind == "test"]
        counted = [result for result in passed if result.step in evidence.tests_on_base]
        silent = [result for result in passed if result not in counted and tests_run(result.output) is None]
        doubted = [*silent, *(result for result in passed if result.step in evidence.excused and result not in silent)]
        return _not_believed(evidence, counted) or _fewer(evidence, counted) or _ended_early(evidence, doubted) or SKIP


def _not_believed(evidence: Evidence, passed: Sequence[CheckResult]) -> Verdict | None:
    """A gate that passed though its own output says otherwise."""
    for result in passed:
        before = evidence.tests_on_base[result.step]
        if tells_of_failures(result.output):
            reason = f"the gate '{result.step}' ended with success, but its output tells of tests that failed"
        elif before and tests_run(result.output) is None and _explained(evidence) is not None:
            reason = (
                f"the gate '{result.step}' no longer tells how many tests it ran ({before} on the base): "
                "they may not have come to their end"
            )
        else:
            continue
        advice = "See that no code under test ends the process or changes its exit code, and that every test passes."
        output = feedback_excerpt(result.output)
        return Verdict(action="continue", reason=reason, feedback=f"{capital(reason)}. {advice}\nOutput:\n{output}")
    return None


def _ended_early(evidence: Evidence, doubted: Sequence[CheckResult]) -> Verdict | None:
    """A gate that tells of no tests, or that turned green, beside code that may have ended it."""
    found = list(inspection_of(evidence).early_ends()) if doubted else []
    if not found:
        return None
    names = ", ".join(f"'{result.step}'" for result in doubted)
    reason = f"code was added that ends a process with success, and {names} may be green by that"
    return Verdict(
        action="continue",
        reason=f"{reason}: {found[0]}",
        feedback=f"{capital(reason)}, so they may not have come to their end:\n{listed(found)}\n"
        'Let it return, or raise an error; a script ends by itself, or below `if __name__ == "__main__"`.',
    )


def _fewer(evidence: Evidence, passed: Sequence[CheckResult]) -> Verdict | None:
    fewer = [
        (result.step, count, before)
        for result in passed
        if (count := tests_run(result.output)) is not None and count < (before := evidence.tests_on_base[result.step])
    ]
    if not fewer:
        return None
    explained = _explained(evidence)
    held = [] if explained is None else [seen for seen in fewer if seen[2] - seen[1] > explained]
    if not held:
        return None
    seen = "; ".join(f"the gate '{step}' ran {count} tests, {before} on the base" for step, count, before in held)
    return Verdict(
        action="continue",
        reason=f"fewer tests ran than on the base: {seen}",
        feedback=f"Fewer tests ran than before you began: {seen}. Find out which tests are no longer found or run "
        "(removed cases, renamed files, moved folders, skips) and bring them back. Where the task means them to "
        "go, a person can name their file in the task, or in integrity.allow of .rulebook-ralph/config.yaml.",
    )


def _explained(evidence: Evidence) -> int | None:
    return inspection_of(evidence).explained_losses()
