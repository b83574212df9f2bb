"""The record of an iteration through its phases: executing, judged, settled. Pure functions on values."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from rulebook_ralph.core.evidence import CheckResult, Iteration, Usage, Verdict, feedback_excerpt
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.policy import Settlement
from rulebook_ralph.core.printable import printable_text
from rulebook_ralph.core.redaction import cleaned
from rulebook_ralph.loop.brief import Brief
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.iteration import Outcome
from rulebook_ralph.workspace.snapshot import Opening

MAX_FILES = 1000
_MAX_TEXT = 20_000


def opened(
    task: Task,
    text: Brief,
    *,
    others: Sequence[Task],
    number: int,
    stage: Stage,
    attempt: int,
    agent: str,
    at: str,
    opening: Opening,
    base: Base,
    isolated: bool,
    clean: Callable[[str], str],
) -> Iteration:
    """The record before the agent starts: what it is given, and what its work is measured against."""
    return Iteration(
        iteration_number=number,
        phase="executing",
        task_id=task.id,
        stage=stage,
        attempt=attempt,
        agent=agent,
        timestamp=at,
        started_at=at,
        base_commit=opening.commit,
        isolated=isolated,
        tasks_attempted=(task.id, *(each.id for each in others)),
        red_on_base=tuple(sorted(base.red)),
        tests_on_base=dict(base.tests),
        failing_on_base=dict(base.failing),
        written_on_base=tuple(sorted(base.written)),
        prompt=clean(text.moving),
        prompt_digest="sha256:" + hashlib.sha256(text.stable.encode("utf-8", "replace")).hexdigest(),
    )


def judged(record: Iteration, outcome: Outcome, *, base: Base, at: str, clean: Callable[[str], str]) -> Iteration:
    """The record with everything the attempt gave and the verdict; `clean` takes secrets out of names of files.

    From here its end is decided. What goes from it into prompts, the log and commits holds nothing a terminal obeys.
    """
    result = outcome.result

    def told(text: str) -> str:
        return printable_text(clean(text))

    return replace(
        record,
        phase="judged",
        timestamp=at,
        ended_at=at,
        verdict=cleaned(replace(outcome.verdict, feedback=""), told),
        stop_reason=outcome.verdict.stop_reason,
        feedback=told(_with_findings(record, outcome))[:_MAX_TEXT],
        quality_metrics=_quality(outcome.checks),
        checks=cleaned(outcome.checks, told),
        review=cleaned(outcome.review, told),
        log=cleaned((*outcome.log, *_of_gates(outcome.checks)), told),
        red_on_base=tuple(sorted(base.red)),
        tests_on_base=dict(base.tests),
        failing_on_base=dict(base.failing),
        written_on_base=tuple(sorted(base.written)),
        files_changed=tuple(clean(change.path) for change in outcome.changes[:MAX_FILES]),
        parsed=outcome.parsed,
        context_loss=outcome.parsed.context_loss,
        tool_results=result.tool_results,
        usage=result.usage,
        cost_usd=result.cost_usd,
        duration_ms=result.duration_ms,
        agent_status=result.status,
        fault=result.fault,
        session_id=result.session_id,
        snapshot=outcome.snapshot,
        tree=outcome.tree,
        commit=outcome.commit,
        completion_summary=cleaned(outcome.summary, told),
        output=result.output,
    )


def with_judging(judged: Iteration, usage: Usage, cost_usd: float | None) -> Iteration:
    """The record with what the model took that judged the work: it counts in every sum and budget."""
    return replace(judged, judge_usage=usage, judge_cost_usd=cost_usd)


def given_up(judged: Iteration, reason: str) -> Iteration:
    """The record of an attempt whose agent failed too often at the task: a person has to look at it."""
    verdict = Verdict(action="stop", hook="agent", reason=reason, stop_reason="blocked", counts=False)
    return replace(judged, verdict=verdict, stop_reason="blocked")


def settled(record: Iteration, settlement: Settlement) -> Iteration:
    """The last form of the record."""
    completes = settlement.trigger == "complete"
    return replace(
        record,
        phase="settled",
        completion_status=settlement.completion_status,
        stop_reason=settlement.stop_reason or record.stop_reason,
        feedback=settlement.feedback[:_MAX_TEXT],
        restarted=settlement.restarted,
        rolled_back=settlement.rollback,
        tasks_completed=record.tasks if completes else (),
        commit=record.commit if completes else None,
        failed_count=len(record.tasks) if settlement.completion_status in ("failed", "blocked") else 0,
    )


def _with_findings(record: Iteration, outcome: Outcome) -> str:
    """The verdict's feedback; a later stage's own words go with it, as they are what it found."""
    feedback, said = outcome.verdict.feedback, outcome.result.final_text.strip()
    if record.stage == "coder" or outcome.verdict.action == "stop" or not said:
        return feedback
    found = f"What the {record.stage} said:\n{feedback_excerpt(said)}"
    return f"{feedback}\n\n{found}" if feedback else found


def _of_gates(checks: tuple[CheckResult, ...]) -> Iterator[str]:
    """What a person should know of the gates although it decided nothing."""
    for check in checks:
        if check.method == "gate" and check.flaky:
            yield f"the gate {check.step} is flaky: {check.reason}"
        elif check.method == "gate" and check.failed and not check.required:
            yield f"the gate {check.step} failed and is not required: {check.reason}"


def _quality(checks: tuple[CheckResult, ...]) -> dict[str, bool]:
    """Per kind of gate whether all that ran passed."""
    gates = [check for check in checks if check.method == "gate" and not check.skipped]
    kinds = sorted({check.kind for check in gates})
    return {kind: all(check.passed for check in gates if check.kind == kind) for kind in kinds}
