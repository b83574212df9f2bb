"""The record of one iteration: `history/iteration-N.json` (schemas/iteration.schema.json). Values only."""

from typing import Literal

import msgspec

from rulebook_ralph.tasks.model import CompletionSummary, Json, Stage, Value
from rulebook_ralph.tasks.results import (
    AgentFault,
    AgentStatus,
    ChangedCheck,
    CheckResult,
    Evidence,
    ParsedIteration,
    StopReason,
    ToolResult,
    Usage,
    Verdict,
)
from rulebook_ralph.tasks.review import Review

CompletionStatus = Literal["completed", "failed", "blocked", "interrupted", "limited", "cancelled"]
Phase = Literal["executing", "judged", "settled"]


class Decision(Value, frozen=True, kw_only=True):
    """What settling a judged iteration brings about (run/policy.py), decided once: time, sums and settings may
    be others when a crash is mended.
    """

    trigger: Literal["retry", "advance", "send_back", "complete", "block", "interrupt"]
    completion_status: CompletionStatus
    feedback: str = ""
    rollback: bool = False
    counts: bool = True
    blocked_reason: str | None = None
    run_stop_reason: StopReason | None = None
    run_stop_text: str = ""
    stop_reason: StopReason | None = None
    next_stage: Stage | None = None
    restarted: bool = False
    retry_after: str | None = None


class Iteration(Value, frozen=True, kw_only=True):
    """All of one pass: `history/iteration-N.json`, the commit point of the redo log (docs/design.md, The journal)."""

    iteration_number: int
    phase: Phase
    task_id: str
    stage: Stage
    attempt: int
    agent: str
    timestamp: str
    started_at: str
    ended_at: str | None = None
    base_commit: str
    completion_status: CompletionStatus | None = None
    verdict: Verdict | None = None
    decision: Decision | None = None
    stop_reason: StopReason | None = None
    feedback: str = ""
    tasks_attempted: tuple[str, ...] = ()
    tasks_completed: tuple[str, ...] = ()
    failed_count: int = 0
    quality_metrics: dict[str, bool] = {}
    checks: tuple[CheckResult, ...] = ()
    changed_checks: tuple[ChangedCheck, ...] = ()
    evidence: Evidence | None = None
    review: Review | None = None
    log: tuple[str, ...] = ()
    failure: str = ""
    repeats: int = 0
    restarted: bool = False
    rolled_back: bool = False
    files_changed: tuple[str, ...] = ()
    parsed: ParsedIteration | None = None
    context_loss: bool = False
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    judge_usage: Usage = Usage()
    judge_cost_usd: float | None = None
    duration_ms: int = 0
    agent_status: AgentStatus | None = None
    fault: AgentFault | None = None
    session_id: str = ""
    snapshot: str | None = None
    tree: str | None = None
    commit: str | None = None
    completion_summary: CompletionSummary | None = None
    prompt: str = ""
    prompt_digest: str = ""
    output: str = ""
    extra: Json = msgspec.field(default_factory=dict, name="$extra")
    """Keys Ralph does not know, kept as they were; never written under this name."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of all tasks that were worked on: `task_id` and those that were handed out with it."""
        return self.tasks_attempted or (self.task_id,)

    @property
    def names(self) -> str:
        """The same for people."""
        return ", ".join(self.tasks)

    @property
    def spent_usd(self) -> float:
        """What the agent and the model that judged its work cost together, as far as it is known."""
        return (self.cost_usd or 0.0) + (self.judge_cost_usd or 0.0)

    @property
    def told_usd(self) -> float | None:
        """The same; None where neither told it."""
        return None if self.cost_usd is None and self.judge_cost_usd is None else self.spent_usd

    @property
    def spent_tokens(self) -> int:
        """The tokens of both."""
        return self.usage.total + self.judge_usage.total
