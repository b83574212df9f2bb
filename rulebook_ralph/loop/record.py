"""The record of an iteration through its phases: executing, judged, settled. Pure functions on values."""

import hashlib

from msgspec.structs import replace

from rulebook_ralph.core.evidence import CheckResult, Iteration
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.policy import Settlement
from rulebook_ralph.loop.brief import Brief
from rulebook_ralph.loop.iteration import Outcome
from rulebook_ralph.workspace.snapshot import Opening

MAX_FILES = 1000
_MAX_TEXT = 20_000


def opened(
    task: Task,
    text: Brief,
    *,
    number: int,
    stage: Stage,
    attempt: int,
    agent: str,
    at: str,
    opening: Opening,
    red_on_base: frozenset[str],
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
        tasks_attempted=(task.id,),
        red_on_base=tuple(sorted(red_on_base)),
        prompt=text.moving,
        prompt_digest="sha256:" + hashlib.sha256(text.stable.encode("utf-8", "replace")).hexdigest(),
    )


def judged(record: Iteration, outcome: Outcome, *, red_on_base: frozenset[str], at: str) -> Iteration:
    """The record with everything the attempt gave and the verdict. From here its end is decided."""
    result = outcome.result
    return replace(
        record,
        phase="judged",
        timestamp=at,
        ended_at=at,
        verdict=replace(outcome.verdict, feedback=""),
        stop_reason=outcome.verdict.stop_reason,
        feedback=outcome.verdict.feedback[:_MAX_TEXT],
        quality_metrics=_quality(outcome.checks),
        checks=outcome.checks,
        red_on_base=tuple(sorted(red_on_base)),
        files_changed=tuple(change.path for change in outcome.changes)[:MAX_FILES],
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
        output=result.output,
    )


def settled(record: Iteration, settlement: Settlement) -> Iteration:
    """The last form of the record."""
    completes = settlement.trigger == "complete"
    return replace(
        record,
        phase="settled",
        completion_status=settlement.completion_status,
        feedback=settlement.feedback[:_MAX_TEXT],
        tasks_completed=(record.task_id,) if completes else (),
        commit=record.commit if completes else None,
        failed_count=int(settlement.completion_status in ("failed", "blocked")),
    )


def _quality(checks: tuple[CheckResult, ...]) -> dict[str, bool]:
    """Per kind of gate whether all that ran passed."""
    kinds = sorted({check.kind for check in checks})
    return {kind: all(check.passed for check in checks if check.kind == kind) for kind in kinds}
