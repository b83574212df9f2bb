"""Work from an isolated checkout on its way to the branch: merged with what landed meanwhile, and judged there."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.events import Notice
from rulebook_ralph.core.evidence import MERGE, CheckResult, Verdict
from rulebook_ralph.loop.candidate import Candidate
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.loop.departure import Anchor
from rulebook_ralph.loop.examination import Examination
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.iteration import INTERRUPTED, Assignment, Outcome, Tools
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.pipeline import CompletionHook, judge
from rulebook_ralph.loop.rules.commit import CommitHooks
from rulebook_ralph.loop.rules.criteria import StageCriteria
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.integrity import Integrity
from rulebook_ralph.loop.rules.test_counts import TestCounts
from rulebook_ralph.loop.worker import Worker
from rulebook_ralph.workspace.rebasing import Rebased, rebased

_NOT_MERGED = "could not be merged"
_RED_AFTER_MERGING = "does not hold together with what landed meanwhile"


def brought_onto(
    tip: str,
    assignment: Assignment,
    outcome: Outcome,
    *,
    worker: Worker,
    base: Base,
    tools_of: Callable[[Assignment], Tools],
) -> tuple[Assignment, Outcome]:
    """A completed iteration on top of `tip`, the branch's last commit, of which the gates say `base`: its commit there
    where it merges and still holds, else a verdict that charges no attempt. Raises GitError, RalphError.
    """
    merged = rebased(worker.workspace.repository, outcome.work, base=assignment.opening.commit, onto=tip)
    if merged.conflicts:
        return assignment, _conflicting(outcome, merged)
    worker.report(Notice("info", "merged with what landed meanwhile: judged again"))
    try:
        opening = worker.open(Kept(assignment.task.id, merged.tree, tip))
    except UnusableError as error:
        return assignment, _not_set_up(outcome, error.result)
    except Cancelled:
        return assignment, replace(outcome, verdict=INTERRUPTED, commit=None)
    there = replace(
        assignment, opening=opening, excused=base.red, tests_on_base=base.tests, failing_on_base=base.failing
    )
    return there, _judged_there(there, outcome, tools_of(there), merged.tree)


def merging_failed(outcome: Outcome) -> bool:
    """Whether all that sent an iteration back was what landed meanwhile."""
    return outcome.verdict.hook == MERGE


def _judged_there(assignment: Assignment, outcome: Outcome, tools: Tools, tree: str) -> Outcome:
    """The outcome with what gates, rules and commands of criteria say of the merged tree, and its commit. No model is
    asked again but by criteria that are verified together with commands.
    """

    base = Anchor(tools.workspace, assignment.opening, assignment.number)

    def put_back() -> None:
        gone_to = base.note()
        tools.guarded.restore()
        base.bring_back(gone_to, candidate.tree)

    changes = tools.workspace.changes(assignment.opening.tree, tree)
    candidate = Candidate(assignment, tools, tree, put_back=put_back)
    examination = Examination(assignment, tools, candidate, outcome.result, outcome.parsed, put_back=put_back)
    said = outcome.summary
    candidate.words = examination.words if said is None or examination.keeps_words else lambda: said.summary
    candidate.objection = lambda: examination.objection(review=False)
    rules: list[CompletionHook] = [Integrity(), GatesPass(), TestCounts(), CommitHooks()]
    criteria = (assignment.criteria, *(each.criteria for each in assignment.further))
    if any(each.may_run_commands for each in criteria):
        rules.append(StageCriteria())
    try:
        judgement = judge(examination.evidence(changes, told=lambda: ()), rules, report=tools.report)
    except Cancelled:
        return replace(outcome, verdict=INTERRUPTED, commit=None)
    completes = judgement.verdict.action == "complete"
    if not completes:
        candidate.untick()
    return replace(
        outcome,
        verdict=outcome.verdict if completes else _sent_back(judgement.verdict),
        changes=tools.workspace.changes(assignment.opening.tree, candidate.standing),
        tree=candidate.standing,
        work=candidate.tree,
        checks=(*judgement.gates.results, *(check for check in outcome.checks if check.method != "gate")),
        commit=candidate.made if completes else None,
        log=(*outcome.log, *judgement.log),
    )


def _conflicting(outcome: Outcome, merged: Rebased) -> Outcome:
    names = some(list(merged.conflicts), 10)
    return _begun_anew(outcome, f"{_NOT_MERGED}: {names}", f"it cannot be merged with them: {names}", merged.told)


def _not_set_up(outcome: Outcome, failed: CheckResult) -> Outcome:
    reason = f"{_RED_AFTER_MERGING}: {failed.step} ({failed.reason})"
    fact = f"the workspace cannot be set up with both: {failed.step} failed ({failed.reason})"
    return _begun_anew(outcome, reason, fact, (failed.output,))


def _begun_anew(outcome: Outcome, reason: str, fact: str, told: Sequence[str]) -> Outcome:
    """Sent back to the branch as it is now, where nothing of the work can stand."""
    feedback = (
        f"Your work held where you did it, but other tasks landed on the branch meanwhile, and {fact}. You start again "
        f"from the branch as it is now, where your work is not. It is kept in commit {outcome.snapshot}: read it with "
        f"`git show {outcome.snapshot}`, and do the same again on what is there now. Leave what the others did as it "
        "is.\n\n" + "\n".join(told)
    )
    verdict = Verdict(action="continue", hook=MERGE, reason=reason, feedback=feedback, counts=False, starts_anew=True)
    return replace(outcome, verdict=verdict, commit=None)


def _sent_back(verdict: Verdict) -> Verdict:
    feedback = (
        "Your work held where you did it, but it does not together with what other tasks landed on the branch "
        "meanwhile. Both stand in the tree now. Make them work together, and leave what the others did.\n\n"
        f"{verdict.feedback}"
    )
    reason = f"{_RED_AFTER_MERGING}: {verdict.reason}"
    return Verdict(action="continue", hook=MERGE, reason=reason, feedback=feedback, counts=False)
