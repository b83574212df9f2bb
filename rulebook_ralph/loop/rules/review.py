"""Reviewers look at what gates and criteria let pass: quickly at each attempt, thoroughly before a task completes."""

from rulebook_ralph.core import reviewers
from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.review import Review, Tier, feedback
from rulebook_ralph.loop.evidence import Evidence


class Reviewed:
    """Every reviewer that is asked says SHIP; the deep one is asked only where the quick one did."""

    name, priority = "review", 70

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        for tier in reviewers.tiers_of(last_stage=evidence.last_stage):
            review = evidence.review(tier)
            if review is not None and review.decision != "SHIP":
                return _verdict(tier, review, evidence.iteration)
        return SKIP


def _verdict(tier: Tier, review: Review, iteration: int) -> Verdict:
    if review.decision == "REVISE":
        reason = f"the {tier} review says REVISE: {review.summary}"
        return Verdict(action="continue", reason=reason, feedback=feedback(review))
    if review.unasked:  # another attempt would be paid for, and not be reviewed either
        kept = f"is kept: ralph restore {iteration}" if review.stop_reason == "blocked" else "stays in the tree"
        return Verdict(
            action="stop",
            reason=f"the {tier} reviewer could not be asked: {review.reason}; the work {kept}",
            feedback="The work could not be reviewed, which is not your doing. If it is done, leave it; say so again.",
            stop_reason=review.stop_reason or "error",
            counts=False,
        )
    return Verdict(
        action="continue",
        reason=f"the {tier} review came to no decision: {review.reason}",
        feedback=f"The {tier} review of the work came to no decision: {review.reason}.\nNothing completes without one. "
        "Go over the change once more: is all of it needed, plain, and of a size that can be reviewed?",
    )
