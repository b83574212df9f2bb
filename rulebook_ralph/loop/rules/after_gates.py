"""What gates, checks or hooks made of the tree is inspected like the agent's own work: they run the agent's code."""

from rulebook_ralph.core.evidence import Verdict
from rulebook_ralph.loop.evidence import Evidence
from rulebook_ralph.loop.rules.integrity import Integrity


class IntegrityAfterGates:
    """Integrity once more, where the tree that would be committed is another than the agent left."""

    name, priority = Integrity.name, 75

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.moved()

    def run(self, evidence: Evidence) -> Verdict:
        return Integrity().run(evidence)
