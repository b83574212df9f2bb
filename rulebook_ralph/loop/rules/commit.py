"""The repository's own commit hooks and signing, on the candidate commit."""

from rulebook_ralph.core.evidence import SKIP, Verdict, feedback_excerpt
from rulebook_ralph.loop.evidence import Evidence

_LONGEST_REASON = 300


class CommitHooks:
    """The repository's own commit hooks and signing, on the candidate commit."""

    name, priority = "commit", 80

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.last_stage  # only then there is a commit

    def run(self, evidence: Evidence) -> Verdict:
        problem = evidence.try_commit()
        if problem is None:
            return SKIP
        first = problem.strip().partition("\n")[0][:_LONGEST_REASON] or "no reason was given"
        return Verdict(
            action="continue",
            reason=f"the commit was refused: {first}",
            feedback=f"The repository's own hooks refused the commit:\n{feedback_excerpt(problem)}",
        )
