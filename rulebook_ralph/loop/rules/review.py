"""Reviewers look at what gates and criteria let pass: quickly at each attempt, thoroughly before a task completes."""

from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.review import Review, Tier, feedback
from rulebook_ralph.loop.evidence import Evidence


class Reviewed:
    """Every reviewer that is asked says SHIP; the deep one is asked only where the quick one did."""

    name, priority = "review", 70

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        tiers: tuple[Tier, ...] = ("quick", "deep") if evidence.last_stage else ("quick",)
        for tier in tiers:
            review = evidence.review(tier)
            if review is not None and review.decision != "SHIP":
                return _verdict(tier, review)
        return SKIP


def _verdict(tier: Tier, review: Review) -> Verdict:
    if review.decision == "REVISE":
        reason = f"the {tier} review says REVISE: {review.summary}"
        return Verdict(action="continue", reason=reason, feedback=feedback(review))
    if review.unasked:
        return Verdict(
            action="continue",
            reason=f"the {tier} reviewer could not be asked: {review.reason}",
            feedback="The work could not be reviewed, which is not your doing. If it is done, leave it; say so again.",
            counts=False,
        )
    return Verdict(
        action="continue",
        reason=f"the {tier} review came to no decision: {review.reason}",
        feedback=f"The {tier} review of the work came to no decision: {review.reason}.\nNothing completes without one. "
        "Go over the change once more: is all of it needed, plain, and of a size that can be reviewed?",
    )
