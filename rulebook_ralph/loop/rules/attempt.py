"""What an attempt must be at all before its work is judged: the agent's own end, a blocked marker, a change."""

from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.faults import CANNOT_HEAL, NOT_COUNTED
from rulebook_ralph.core.patterns import search
from rulebook_ralph.core.printable import capital, clipped
from rulebook_ralph.loop.evidence import Evidence

_LIMITED = {"usage-limit"}


class AgentEnd:
    """The agent itself failed, was killed, was cut off or hit a limit: whatever it printed, nothing is completed."""

    name, priority = "agent", 10

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.result.status != "finished"

    def run(self, evidence: Evidence) -> Verdict:
        result = evidence.result
        if result.killed_by == "interrupted":
            return Verdict(action="stop", reason="interrupted", stop_reason="interrupted", counts=False)
        fault = result.fault
        if fault is not None and fault.kind in CANNOT_HEAL:
            reason = f"the agent cannot work ({fault.kind}): {fault.message}"
            return Verdict(action="stop", reason=reason, stop_reason="error", counts=False)
        if fault is not None and fault.kind in _LIMITED:
            until = f", until {fault.resets_at}" if fault.resets_at else ""
            reason = f"the agent's usage limit is reached{until}: {fault.message}"
            return Verdict(action="stop", reason=reason, stop_reason="rate-limited", counts=False)
        if result.killed_by == "wall-time" and evidence.run_limited:
            reason = "the run's time limit ended the agent"
            return Verdict(action="stop", reason=reason, stop_reason="max-wall-time", counts=False)
        if result.killed_by is not None:
            what = "took longer than the limit" if result.killed_by == "wall-time" else "gave no output for too long"
            reason = f"the agent {result.killed_for or what} and was ended by Ralph"
            return Verdict(action="continue", reason=reason, feedback=f"{capital(reason)}. Work in smaller steps.")
        if result.status == "truncated":
            reason = "the agent's output ended without its end event: it was cut off"
        else:
            reason = fault.message if fault else f"the agent ended with exit code {result.exit_code}"
            reason = f"the agent failed: {reason}"
        counts = fault is None or fault.kind not in NOT_COUNTED
        return Verdict(action="continue", reason=reason, feedback=f"{capital(reason)}", counts=counts)


class Blocked:
    """The agent says that it cannot go on without a person: by the marker, or as `stopCriteria.blockedRegex` finds."""

    name, priority = "blocked", 40

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.parsed.blocked_reason is not None or bool(evidence.stop_criteria.blocked_regex)

    def run(self, evidence: Evidence) -> Verdict:
        said = evidence.parsed.blocked_reason
        if said is None:
            searched = search(evidence.stop_criteria.blocked_regex, evidence.result.final_text)
            if searched.problem:
                return Verdict(action="skip", reason=f"stopCriteria.blockedRegex {searched.problem}")
            if searched.found is None:
                return SKIP
            said = clipped(searched.found) or "no reason given"
        reason = f"the agent is blocked: {said}"
        return Verdict(action="stop", reason=reason, stop_reason="blocked", feedback=reason)


class WorkDone:
    """An attempt that changed nothing never completes a task that is to change files."""

    name, priority = "work", 45

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.implements and not evidence.changes

    def run(self, evidence: Evidence) -> Verdict:
        claims = evidence.parsed.status == "completed"
        empty = "" if evidence.result.final_text.strip() else " and the final message was empty"
        return Verdict(
            action="continue",
            reason=f"the agent {'said it was done, but ' if claims else ''}changed nothing{empty}",
            feedback=f"{'You said it was done, but no' if claims else 'No'} file differs from the base commit{empty}. "
            "Do the work in the files of the repository. (Ignored files, files that were untracked before, and "
            ".rulebook-ralph/ do not count.)",
        )
