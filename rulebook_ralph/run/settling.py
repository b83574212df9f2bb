"""What an attempt comes to: the judged record with what follows from it, the branch, the task list, the log."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec.structs import replace as replaced

from rulebook_ralph.agents.prices import Ledger
from rulebook_ralph.clock import Clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.report.events import Event
from rulebook_ralph.run import policy, summaries
from rulebook_ralph.run.attempt import Outcome, given_up
from rulebook_ralph.run.branch import Branch, Moved
from rulebook_ralph.run.journal import Journal
from rulebook_ralph.run.opening import Opened, Opening
from rulebook_ralph.run.policy import AttemptContext
from rulebook_ralph.run.retry import Response, RetryPolicy
from rulebook_ralph.tasks.iteration import Decision, Iteration
from rulebook_ralph.tasks.model import CompletionSummary, Task
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.tasks.text import printable_text
from rulebook_ralph.verify.redaction import Redactor, cleaned

MOST_FILES = 1000
_LONGEST_FEEDBACK = 20_000


@dataclass(frozen=True, slots=True)
class Settled:
    """A settled iteration: its record, what followed, and what the run does about an agent that failed.

    `is_free`: it took none of the run's iterations. `cause` names what blocked its task, for tasks blocked alike.
    """

    record: Iteration
    decision: Decision
    response: Response | None = None
    cause: str = ""

    @property
    def is_free(self) -> bool:
        return self.response is not None or (self.decision.trigger == "retry" and not self.decision.counts)


@dataclass(slots=True)
class Settling:
    """Settles the iterations of one run, and recovers those of a dead one."""

    config: Config
    journal: Journal
    branch: Branch
    opening: Opening
    retry: RetryPolicy
    ledger: Ledger
    redactor: Redactor
    clock: Clock
    report: Callable[[Event], None]

    def settle(self, opened: Opened, outcome: Outcome) -> Settled | None:
        """Write the verdict down, then carry it out. None where the branch moved at this very moment: the work is to
        be judged on top of that first.
        """
        record = self._judged(opened.record, outcome)
        response = self.retry.look_at(record, outcome.assignment.executor)
        if response is not None and response.remedy == "give-up-task":
            record = self._judged(
                opened.record, replace(outcome, judgement=given_up(outcome.judgement, response.reason))
            )
        task_id = record.task_id
        self.opening.spent[task_id] = self.opening.spent.get(task_id, 0.0) + record.duration_ms / 1000
        decision = self._decided(record)
        record = replaced(record, decision=decision)
        self.journal.judged(record)
        if decision.trigger == "complete" and record.commit is not None:
            landed = self.branch.land(record.commit, record.base_commit, reason=f"ralph: complete {task_id}")
            if isinstance(landed, Moved):  # what it took is counted when it is settled
                self.opening.spent[task_id] -= record.duration_ms / 1000
                with self.ledger.paying(record.iteration_number):
                    self.ledger.spend(record.judge_usage, record.judge_cost_usd)
                return None
            record = replaced(record, commit=landed.commit)
        if outcome.verdict.action == "complete" and record.evidence is not None:
            self.opening.checks_base = record.evidence.checks_base
        return Settled(self._written(record, decision), decision, response, _cause(record, decision))

    def resettle(self, record: Iteration) -> Iteration:
        """Carry out what a dead run had judged, skipping what is done."""
        decision, told = record.decision or self._decided(record), ""
        commit, repository = record.commit, self.opening.project.repository
        if decision.trigger == "complete" and commit is not None:
            reason = f"ralph: complete {record.task_id}"
            if repository.commit_of(commit) is None and record.snapshot is not None:
                told = "git gc removed the commit of the work before it was on the branch; the work is judged again"
                record = replaced(record, tree=repository.tree_of(record.snapshot))
            elif isinstance(landed := self.branch.land(commit, record.base_commit, reason=reason), Moved):
                told = f"branch {self.branch.name} moved while the work was judged; it is kept and judged again"
            else:
                record = replaced(record, commit=landed.commit)
        if told:
            decision = Decision(trigger="retry", completion_status="failed", feedback=told, counts=False)
        return self._written(record, decision)

    def interrupted(self, record: Iteration) -> Iteration:
        """Settle the record of an attempt that was cut short."""
        record = self._following(record)
        decision = self._decided(record)
        self.journal.judged(replaced(record, decision=decision))
        return self._written(record, decision)

    def _written(self, record: Iteration, decision: Decision) -> Iteration:
        reason = "" if decision.trigger == "complete" else summaries.reason_of(record, decision)
        settled = self.journal.settle(record, decision, reason=reason)
        with suppress(OSError):  # the attempt's ref has it, without secrets
            self.opening.project.output_file(record.iteration_number).unlink(missing_ok=True)
        return settled

    def _judged(self, record: Iteration, outcome: Outcome) -> Iteration:
        """The record with everything the attempt gave. What goes from it into prompts, the log and commits holds no
        secret, and nothing that a terminal obeys.
        """
        result, judgement, assignment = outcome.result, outcome.judgement, outcome.assignment
        usage, cost_usd = self.ledger.take(assignment.number)
        at = self.clock.iso()

        def told(text: str) -> str:
            return printable_text(self.redactor.clean(text))

        judged = replaced(
            record,
            phase="judged",
            timestamp=at,
            ended_at=at,
            base_commit=assignment.base,
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
            parsed=outcome.parsed,
            context_loss=outcome.parsed.context_loss,
            tool_results=result.tool_results,
            usage=result.usage,
            cost_usd=result.cost_usd,
            judge_usage=usage,
            judge_cost_usd=cost_usd,
            duration_ms=result.duration_ms,
            agent_status=result.status,
            fault=result.fault,
            session_id=result.session_id,
            snapshot=outcome.snapshot,
            tree=outcome.tree,
            commit=outcome.commit,
            completion_summary=_summary(outcome, told),
            output=result.output,
        )
        return self._following(judged)

    def _following(self, judged: Iteration) -> Iteration:
        """The record as one that follows the task's last; not where the task was begun anew."""
        task = self._task(judged)
        last = self.journal.last(task) if task.settled_iteration is not None else None
        goes_on = last is not None and (task.attempts or last.completion_status not in ("blocked", "completed"))
        return policy.following(judged, last if goes_on else None)

    def _decided(self, judged: Iteration) -> Decision:
        task = self._task(judged)
        stages = requirements.stages_of(self.config, task)
        if judged.verdict is None:
            raise ValueError(f"iteration {judged.iteration_number} was judged without a verdict")
        standing = AttemptContext(
            stage=judged.stage,
            stages=stages,
            attempt=judged.attempt,
            allowed={stage: requirements.max_attempts(self.config, task, stage) for stage in {*stages, judged.stage}},
            used=task.attempts,
            time_left=self.opening.task_time_left(task),
            repeats=judged.repeats,
            restarted=judged.restarted,
            has_work=bool(judged.files_changed),
            over_budget=requirements.over_budget(self.config, task, judged),
            retry_after=judged.fault.resets_at if judged.fault and judged.fault.kind == "usage-limit" else None,
        )
        rollback = requirements.rollback_for(self.config, task)
        return policy.settle(judged.verdict, standing, feedback=judged.feedback, rollback=rollback)

    def _task(self, judged: Iteration) -> Task:
        """The task, also where a person removed it meanwhile."""
        known = {task.id: task for task in self.journal.prd.tasks}
        return known.get(judged.task_id) or Task(id=judged.task_id, title=judged.task_id)


def _cause(record: Iteration, decision: Decision) -> str:
    """What blocked a task, in the words that tasks blocked by the same thing share."""
    if decision.trigger != "block" or decision.stop_reason == "blocked":
        return ""
    return f"{decision.stop_reason} {record.verdict.hook if record.verdict else ''} {record.failure}"


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
    if outcome.verdict.action != "complete" or not outcome.assignment.last_stage:
        return None
    created = [told(change.path) for change in outcome.changes if change.status == "A"]
    modified = [told(change.path) for change in outcome.changes if change.status not in ("A", "D")]
    return CompletionSummary(
        summary=told(outcome.parsed.summary),
        files_created=tuple(created[:MOST_FILES]),
        files_modified=tuple(modified[:MOST_FILES]),
        verification_steps=tuple(outcome.parsed.verification_steps),
    )
