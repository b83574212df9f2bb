"""Work that waits for a person: what no model could be asked about, or what the configuration leaves to people."""

from dataclasses import dataclass, replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.attempt import Outcome, judged, on_top_of
from rulebook_ralph.run.opening import assignment_of, new_record
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.settling import settle
from rulebook_ralph.run.summaries import NEEDS_APPROVAL
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.results import AgentResult, ParsedIteration
from rulebook_ralph.verify.workspace import Cancelled


@dataclass(frozen=True, slots=True)
class Approved:
    """What came of one approval: the commit that landed, or why it did not."""

    commit: str | None
    reason: str = ""


def waiting(prd: Prd) -> tuple[Task, ...]:
    """The tasks whose work waits for approval."""
    return tuple(task for task in prd.tasks if _is_waiting(task))


def _is_waiting(task: Task) -> bool:
    return task.status == "blocked" and (task.blocked_reason or "").startswith(NEEDS_APPROVAL)


def require_waiting(prd: Prd, task_id: str) -> Task:
    """The task of that id; raises RalphError where nothing of it waits for approval."""
    found = {task.id: task for task in waiting(prd)}
    if task_id not in found:
        raise RalphError(f"no work at '{task_id}' waits for approval; waiting: {', '.join(found) or 'none'}")
    return found[task_id]


def approve(parts: Parts, task_id: str) -> Approved:
    """Judge the kept work again on today's branch, what was open being answered by a person, and land it. Nothing is
    written before it is judged: until then the work waits as before. Raises RalphError, Cancelled.
    """
    task = require_waiting(parts.journal.prd, task_id)
    last = parts.journal.last(task)
    if last is None or last.tree is None:
        raise RalphError(f"the work at {task_id} is not there any more; run it again: ralph task unblock {task_id}")
    record = new_record(parts, task, last.stage, last.attempt, agent=last.agent, base=last.base_commit, tree=last.tree)
    worker = parts.workers.take(task_id, record.iteration_number, parts.report)
    assignment = assignment_of(parts, record, approved=True)
    said = last.parsed or ParsedIteration()
    result = AgentResult(  # the agent's own end, as the record has it: nobody is paid again
        agent=last.agent,
        status=last.agent_status or "finished",
        final_text=said.summary,
        tool_results=last.tool_results,
        session_id=last.session_id,
    )
    case = replace(assignment.case, result=result, parsed=said)
    outcome = Outcome(assignment=assignment, case=case, result=result, snapshot=last.snapshot or "")
    outcome, settled = judged(outcome, worker, parts.verifiers), None
    while settled is None:
        tip = parts.branch.tip()
        if outcome.lands and tip != outcome.case.base:
            outcome = on_top_of(tip, tip, outcome, worker, parts.verifiers)
        if outcome.verdict.stop_reason == "interrupted":
            raise Cancelled
        settled = settle(parts, record, outcome)
    parts.workers.give_back(task_id)
    if settled.decision.trigger == "complete":
        return Approved(settled.record.commit)
    return Approved(None, outcome.verdict.reason)


def reject(parts: Parts, task_id: str, reason: str) -> None:
    """Refuse the kept work: the task is pending again, and its next attempt is told why."""
    task = require_waiting(parts.journal.prd, task_id)
    said = f"A person looked at your work and refused it{f': {reason}' if reason else '.'}"
    parts.journal.reopen({task.id: said})
