"""What an attempt comes to: the judged record with what follows from it, the branch, the task list, the log."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace as replaced

from rulebook_ralph.config import requirements
from rulebook_ralph.run import policy, summaries
from rulebook_ralph.run.attempt import Outcome
from rulebook_ralph.run.parts import Parts
from rulebook_ralph.run.policy import AttemptContext
from rulebook_ralph.run.retry import Response
from rulebook_ralph.tasks.history import Decision, Iteration
from rulebook_ralph.tasks.model import CompletionSummary, Task
from rulebook_ralph.tasks.results import AgentResult, CheckResult, ParsedIteration, Verdict, feedback_excerpt
from rulebook_ralph.tasks.text import printable_block
from rulebook_ralph.verify.redaction import cleaned

MOST_FILES = 1000
_LONGEST_FEEDBACK = 20_000


@dataclass(frozen=True, slots=True)
class Settled:
    """A settled iteration: its record, what followed, and what the run does about an agent that failed.

    `is_free`: it took none of the run's iterations.
    """

    record: Iteration
    decision: Decision
    response: Response | None = None

    @property
    def is_free(self) -> bool:
        return self.response is not None or (self.decision.trigger == "retry" and not self.decision.counts)

    @property
    def cause(self) -> str:
        """What blocked the task, in the words that tasks blocked by the same thing share."""
        if self.decision.trigger != "block" or self.decision.stop_reason == "blocked":
            return ""
        hook = self.record.verdict.hook if self.record.verdict else ""
        return f"{self.decision.stop_reason} {hook} {self.record.failure}"


def settle(parts: Parts, record: Iteration, outcome: Outcome) -> Settled | None:
    """Write the verdict down, then carry it out. None where the branch moved at this very moment: the work is to
    be judged on top of that first.
    """
    judged = _judged(parts, record, outcome)
    response = parts.retry.look_at(judged, outcome.assignment.executor)
    if response is not None and response.remedy == "give-up-task":  # a person has to look at it
        given_up = Verdict(action="stop", hook="agent", reason=response.reason, stop_reason="blocked", counts=False)
        judged = _judged(parts, record, outcome.said(given_up))
    decision = _decided(parts, judged)
    judged = replaced(judged, decision=decision)
    parts.journal.judged(judged)
    if decision.trigger == "complete" and judged.commit is not None:
        landed = parts.branch.land(judged.commit, judged.base_commit, reason=f"ralph: complete {judged.task_id}")
        if landed is None:  # what it took is counted when it is settled
            with parts.ledger.paying(judged.iteration_number):
                parts.ledger.spend(judged.judge_usage, judged.judge_cost_usd)
            return None
        judged = replaced(judged, commit=landed)
    if outcome.verdict.action == "complete" and judged.evidence is not None:
        parts.checks_base = judged.evidence.checks_base
    parts.spent[judged.task_id] = parts.spent.get(judged.task_id, 0.0) + judged.duration_ms / 1000
    return Settled(_written(parts, judged, decision), decision, response)


def resettle(parts: Parts, record: Iteration) -> Iteration:
    """Carry out what a dead run had judged, skipping what is done."""
    decision, repository = record.decision or _decided(parts, record), parts.project.repository
    if decision.trigger == "complete" and record.commit is not None:
        told = f"branch {parts.branch.name} moved while the work was judged; it is kept and judged again"
        landed = None
        if repository.commit_of(record.commit) is not None:
            landed = parts.branch.land(record.commit, record.base_commit, reason=f"ralph: complete {record.task_id}")
        elif record.snapshot is not None:  # the power was cut before it was on the disk
            told = "the commit of the work was lost before it was on the branch; the work is judged again"
            record = replaced(record, tree=repository.tree_of(record.snapshot))
        record = replaced(record, commit=landed)
        if landed is None:
            decision = Decision(trigger="retry", completion_status="failed", feedback=told, counts=False)
    return _written(parts, record, decision)


def settle_interrupted(parts: Parts, record: Iteration) -> Iteration:
    """Settle the record of an attempt that was cut short."""
    record = _following(parts, record)
    decision = _decided(parts, record)
    parts.journal.judged(replaced(record, decision=decision))
    return _written(parts, record, decision)


def with_result(record: Iteration, result: AgentResult, parsed: ParsedIteration) -> Iteration:
    """The record with what the agent's end tells."""
    return replaced(
        record,
        parsed=parsed,
        tool_results=result.tool_results,
        usage=result.usage,
        cost_usd=result.cost_usd,
        duration_ms=result.duration_ms,
        agent_status=result.status,
        fault=result.fault,
        session_id=result.session_id,
        output=result.output,
    )


def _written(parts: Parts, record: Iteration, decision: Decision) -> Iteration:
    reason = "" if decision.trigger == "complete" else summaries.reason_of(record, decision)
    settled = parts.journal.settle(record, decision, reason=reason)
    with suppress(OSError):  # the attempt's ref has it, without secrets
        parts.project.output_file(record.iteration_number).unlink(missing_ok=True)
    return settled


def _judged(parts: Parts, record: Iteration, outcome: Outcome) -> Iteration:
    """The record with everything the attempt gave. What goes from it into prompts, the log and commits holds no
    secret, and nothing that a terminal obeys.
    """
    judgement, case = outcome.judgement, outcome.case
    usage, cost_usd = parts.ledger.take(case.iteration)
    at = parts.clock.iso()

    def told(text: str) -> str:
        return printable_block(parts.redactor.clean(text), tab="\t")

    judged = replaced(
        with_result(record, outcome.result, case.parsed),
        phase="judged",
        timestamp=at,
        ended_at=at,
        base_commit=case.base,
        verdict=cleaned(replaced(judgement.verdict, feedback=""), told),
        stop_reason=judgement.verdict.stop_reason,
        feedback=told(_with_findings(record, outcome))[:_LONGEST_FEEDBACK],
        quality_metrics=_quality(judgement.checks),
        checks=cleaned(judgement.checks, told),
        changed_checks=cleaned(judgement.changed_checks, told),
        evidence=cleaned(judgement.evidence, told),
        review=cleaned(judgement.review, told),
        log=cleaned(judgement.log, told),
        files_changed=tuple(told(change.path) for change in outcome.changes[:MOST_FILES]),
        context_loss=case.parsed.context_loss,
        judge_usage=usage,
        judge_cost_usd=cost_usd,
        snapshot=outcome.snapshot,
        tree=case.tree,
        commit=outcome.commit,
        completion_summary=_summary(outcome, told),
    )
    return _following(parts, judged)


def _following(parts: Parts, judged: Iteration) -> Iteration:
    """The record as one that follows the task's last; not where the task was begun anew."""
    task = _task(parts, judged)
    last = parts.journal.last(task) if task.settled_iteration is not None else None
    goes_on = last is not None and (task.attempts or last.completion_status not in ("blocked", "completed"))
    return policy.following(judged, last if goes_on else None)


def _decided(parts: Parts, judged: Iteration) -> Decision:
    config, task = parts.config, _task(parts, judged)
    stages = requirements.stages_of(config, task)
    if judged.verdict is None:
        raise ValueError(f"iteration {judged.iteration_number} was judged without a verdict")
    standing = AttemptContext(
        verdict=judged.verdict,
        feedback=judged.feedback,
        rollback=requirements.rollback_for(config, task),
        stage=judged.stage,
        stages=stages,
        attempt=judged.attempt,
        allowed={stage: requirements.max_attempts(config, task, stage) for stage in {*stages, judged.stage}},
        used=task.attempts,
        time_left=parts.time_left(task) - judged.duration_ms / 1000,
        repeats=judged.repeats,
        restarted=judged.restarted,
        has_work=bool(judged.files_changed),
        over_budget=requirements.over_budget(config, task, judged),
        retry_after=judged.fault.resets_at if judged.fault and judged.fault.kind == "usage-limit" else None,
    )
    return policy.settle(standing)


def _task(parts: Parts, judged: Iteration) -> Task:
    """The task, also where a person removed it meanwhile."""
    prd, task_id = parts.journal.prd, judged.task_id
    return prd.task(task_id) if prd.has(task_id) else Task(id=task_id, title=task_id)


def _with_findings(record: Iteration, outcome: Outcome) -> str:
    """The verdict's feedback; a later stage's own words go with it, as they are what it found."""
    feedback, said = outcome.verdict.feedback, outcome.result.final_text.strip()
    if record.stage == "coder" or outcome.verdict.action == "stop" or not said:
        return feedback
    found = f"What the {record.stage} said:\n{feedback_excerpt(said)}"
    return f"{feedback}\n\n{found}" if feedback else found


def _quality(checks: tuple[CheckResult, ...]) -> dict[str, bool]:
    """Per kind of gate whether all that ran passed."""
    gates = [check for check in checks if check.method == "gate" and not check.skipped]
    kinds = sorted({check.kind for check in gates})
    return {kind: all(check.passed for check in gates if check.kind == kind) for kind in kinds}


def _summary(outcome: Outcome, told: Callable[[str], str]) -> CompletionSummary | None:
    """What a completed task brought about: the words are the agent's, the files git's."""
    if outcome.verdict.action != "complete" or not outcome.case.last_stage:
        return None
    created = [told(change.path) for change in outcome.changes if change.status == "A"]
    modified = [told(change.path) for change in outcome.changes if change.status not in ("A", "D")]
    return CompletionSummary(
        summary=told(outcome.case.parsed.summary),
        files_created=tuple(created[:MOST_FILES]),
        files_modified=tuple(modified[:MOST_FILES]),
        verification_steps=tuple(outcome.case.parsed.verification_steps),
    )
