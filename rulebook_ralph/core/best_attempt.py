"""Which attempt at a task came furthest: for a person who goes on where the loop gave up. Pure."""

from rulebook_ralph.core.criteria import STAGES
from rulebook_ralph.core.evidence import Iteration

_ON_THE_WAY = (
    "agent",
    "integrity",
    "blocked",
    "contradictions",
    "work",
    "gates",
    "test-counts",
    "earlier-tests",
    "stop-criteria",
    "promise",
    "criteria",
    "review",
    "commit",
)
"""The rules in the order in which they are asked; a hook of the user's own comes before the gates."""


def better(attempt: Iteration, best: Iteration | None) -> Iteration | None:
    """The one of the two that came further, of equals the later one; None where neither made anything."""
    if not attempt.snapshot or not attempt.files_changed:
        return best
    return attempt if best is None or _distance(attempt) >= _distance(best) else best


def _distance(attempt: Iteration) -> tuple[int, ...]:
    """The rule that refused it, then how little that rule had to say."""
    hook = attempt.verdict.hook if attempt.verdict else "agent"
    rule = _ON_THE_WAY.index(hook) if hook in _ON_THE_WAY else _ON_THE_WAY.index("gates")
    looks, high, total = 0, 0, 0
    if attempt.review:
        looks, high, total = len(attempt.review.looks), attempt.review.summary.high, attempt.review.summary.total
    failed = sum(check.failed and check.required for check in attempt.checks)
    return STAGES.index(attempt.stage), rule, looks, -high, -total, -failed
