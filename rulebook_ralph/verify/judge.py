"""The judge: one list of rules, read from top to bottom. The first that objects decides; only its end completes.

Called by a run, by re-judging on a merged tree, by a Claude Code session, by `ralph verify` and `ralph approve`.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import GitError
from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.results import Verdict
from rulebook_ralph.tasks.text import clipped, cut, printable, some
from rulebook_ralph.verify.case import Case, Examination, Judgement, Verifiers
from rulebook_ralph.verify.criteria import criteria_hold
from rulebook_ralph.verify.evidence import Table
from rulebook_ralph.verify.evidence_rules import evidence_holds, gates_hold, something_changed
from rulebook_ralph.verify.hooks import commit_is_taken, hooks_after_gates, hooks_before_gates
from rulebook_ralph.verify.review import reviewers_agree
from rulebook_ralph.verify.rules import (
    agent_ended,
    no_secrets,
    promise_given,
    protected_unchanged,
    says_blocked,
    stop_criteria_met,
)
from rulebook_ralph.verify.workspace import Cancelled

LONGEST_REASON = 120
"""A reason is one line; what is told of it in full stands in the feedback and the checks."""

Rule = Callable[[Case, Examination], Verdict | None]


RULES: tuple[Rule, ...] = (
    agent_ended,
    something_changed,
    protected_unchanged,
    no_secrets,
    says_blocked,
    hooks_before_gates,
    gates_hold,
    hooks_after_gates,
    evidence_holds,
    stop_criteria_met,
    promise_given,
    criteria_hold,
    reviewers_agree,
    commit_is_taken,
)
MERGED: tuple[Rule, ...] = (gates_hold, evidence_holds, criteria_hold, commit_is_taken)
"""What is judged again of work that holds by itself, once it is brought on top of what landed meanwhile."""


def judge(case: Case, verifiers: Verifiers, *, only: Sequence[Rule] | None = None) -> Judgement:
    """The verdict on an attempt. Raises Cancelled, GitError, and RalphError for what ends the run."""
    verifiers = verifiers.on(case.base)
    examination = Examination(case, verifiers, Table(case, verifiers))
    verdict = _verdict(case, examination, RULES if only is None else only)
    verdict = replace(verdict, reason=cut(printable(verdict.reason), LONGEST_REASON))
    if verdict.action == "continue":
        told = filter(None, (verdict.feedback, *_denials(case)))
        verdict = replace(verdict, feedback="\n\n".join(told))
    return Judgement(
        verdict=verdict,
        checks=(*examination.gate_results(), *examination.checks),
        changed_checks=examination.changed_checks,
        evidence=examination.evidence,
        review=examination.review,
        log=tuple(examination.log),
        already_done=examination.already_done,
    )


def _verdict(case: Case, examination: Examination, rules: Sequence[Rule]) -> Verdict:
    for rule in rules:
        try:
            verdict = rule(case, examination)
        except (Cancelled, GitError, RalphError):
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the judge's own is no fault of the attempt
            told = (
                f"Ralph itself failed while it judged ({rule.__name__}): {type(error).__name__}: {clipped(str(error))}"
            )
            examination.log.append(told)
            examination.verifiers.report(Notice("warning", told))
            return Verdict(action="stop", hook="judge", reason=told, stop_reason="error", counts=False)
        if verdict is not None:
            return verdict
    return Verdict(action="complete", hook="judge", reason="everything that is configured holds")


def _denials(case: Case) -> Iterator[str]:
    """Tools that the agent was refused, with the setting that would allow them."""
    if case.result is None or not case.result.permission_denials:
        return
    where = case.result.allowed_by or "permissions of this agent in tools.executors of .rulebook-ralph/config.yaml"
    denied = some(case.result.permission_denials)
    yield f"You were not allowed to use: {denied}. Do without it; a person can allow it ({where})."
