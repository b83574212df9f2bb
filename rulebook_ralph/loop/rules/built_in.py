"""The rules that always hold, in no order: each says its own priority."""

from rulebook_ralph.loop.pipeline import CompletionHook
from rulebook_ralph.loop.rules.after_gates import IntegrityAfterGates
from rulebook_ralph.loop.rules.attempt import AgentEnd, Blocked, WorkDone
from rulebook_ralph.loop.rules.commit import CommitHooks
from rulebook_ralph.loop.rules.contradictions import Contradictions
from rulebook_ralph.loop.rules.criteria import StageCriteria
from rulebook_ralph.loop.rules.earlier_tests import EarlierTestsOfCriteria, EarlierTestsOfGates
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.integrity import Integrity
from rulebook_ralph.loop.rules.promise import Promise
from rulebook_ralph.loop.rules.review import Reviewed
from rulebook_ralph.loop.rules.stop_criteria import StopCriteria
from rulebook_ralph.loop.rules.test_counts import TestCounts


def built_in_hooks() -> tuple[CompletionHook, ...]:
    """The rules that always hold."""
    return (
        AgentEnd(),
        Integrity(),
        IntegrityAfterGates(),
        Blocked(),
        Contradictions(),
        WorkDone(),
        GatesPass(),
        TestCounts(),
        EarlierTestsOfGates(),
        StopCriteria(),
        Promise(),
        StageCriteria(),
        EarlierTestsOfCriteria(),
        Reviewed(),
        CommitHooks(),
    )
