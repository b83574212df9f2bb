"""Work that waits for a person: what no model could be asked about, or what the configuration leaves to people."""

from dataclasses import dataclass, replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.attempt import judged, on_top_of
from rulebook_ralph.run.opening import Opened
from rulebook_ralph.run.start import Prepared
from rulebook_ralph.run.summaries import NEEDS_APPROVAL
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.results import AgentResult, ParsedIteration, Verdict
from rulebook_ralph.verify.case import Judgement
from rulebook_ralph.verify.workspace import Cancelled


@dataclass(frozen=True, slots=True)
class Approved:
    """What came of one approval: the commit that landed, or why it did not."""

    task_id: str
    commit: str | None
    reason: str = ""


def waiting(prd: Prd) -> tuple[Task, ...]:
    """The tasks whose work waits for approval."""
    return tuple(task for task in prd.tasks if is_waiting(task))


def is_waiting(task: Task) -> bool:
    return task.status == "blocked" and (task.blocked_reason or "").startswith(NEEDS_APPROVAL)


def require_waiting(prd: Prd, task_id: str) -> Task:
    """The task of that id; raises RalphError where nothing of it waits for approval."""
    known = {task.id: task for task in prd.tasks}
    if task_id not in known or not is_waiting(known[task_id]):
        ids = ", ".join(task.id for task in waiting(prd)) or "none"
        raise RalphError(f"no work at '{task_id}' waits for approval; waiting: {ids}")
    return known[task_id]


def approve(prepared: Prepared, task_id: str) -> Approved:
    """Judge the kept work again on today's branch, what was open being answered by a person, and land it. Raises
    RalphError, and Cancelled: the work waits as before then.
    """
    journal, opening, verifiers = prepared.journal, prepared.opening, prepared.verifiers
    task = require_waiting(journal.prd, task_id)
    last = journal.last(task)
    if last is None or last.tree is None:
        raise RalphError(f"the work at {task_id} is not there any more; run it again: ralph task unblock {task_id}")
    number, at = journal.take_number(), journal.now()
    record = Iteration(
        iteration_number=number,
        phase="executing",
        task_id=task.id,
        stage=last.stage,
        attempt=last.attempt,
        agent=last.agent,
        timestamp=at,
        started_at=at,
        base_commit=last.base_commit,
        tree=last.tree,
        tasks_attempted=(task.id,),
    )
    worker = prepared.workers.take(task, number, prepared.report)
    journal.open(record, last.stage)
    assignment = opening.assignment(last, number=number, approved=True)
    outcome = judged(
        assignment,
        last.tree,
        worker,
        verifiers,
        result=_result(last),
        parsed=last.parsed or ParsedIteration(),
        snapshot=last.snapshot or "",
    )
    settled, interrupted = None, False
    while settled is None:
        tip = prepared.branch.tip()
        if outcome.lands and tip != outcome.assignment.base:
            outcome = on_top_of(tip, tip, outcome, worker, verifiers)
        if outcome.verdict.stop_reason == "interrupted":
            interrupted, outcome = True, replace(outcome, judgement=_waiting_still(last, outcome.verdict))
        settled = prepared.settling.settle(Opened(record, outcome.assignment, worker), outcome)
    prepared.workers.give_back(worker)
    if interrupted:
        raise Cancelled
    if settled.decision.trigger == "complete":
        return Approved(task_id, settled.record.commit)
    opening.spent.pop(task_id, None)
    return Approved(task_id, None, outcome.verdict.reason)


def reject(prepared: Prepared, task_id: str, reason: str) -> None:
    """Refuse the kept work: the task is pending again, and its next attempt is told why."""
    journal = prepared.journal
    task = require_waiting(journal.prd, task_id)
    said = f"A person looked at your work and refused it{f': {reason}' if reason else '.'}"
    journal.reopen({task.id: said})


def _waiting_still(last: Iteration, interrupted: Verdict) -> Judgement:
    """The judgement by which the work waits, as before the approval was interrupted."""
    return Judgement(
        verdict=last.verdict or interrupted,
        checks=last.checks,
        changed_checks=last.changed_checks,
        evidence=last.evidence,
        review=last.review,
    )


def _result(last: Iteration) -> AgentResult:
    """The agent's own end, as the record has it: nobody is paid again."""
    return AgentResult(
        agent=last.agent,
        status=last.agent_status or "finished",
        final_text=last.parsed.summary if last.parsed else "",
        tool_results=last.tool_results,
        session_id=last.session_id,
    )
