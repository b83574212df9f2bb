"""What one iteration yields, from the agent's raw result to the verdict, and the record of it in the history.

Values only; `history/iteration-N.json` is an `Iteration` (schemas/iteration.schema.json).
"""

from typing import Literal

import msgspec

from rulebook_ralph.core.model import CompletionSummary, Json, Stage, Value
from rulebook_ralph.core.review import Review

AgentStatus = Literal["finished", "failed", "truncated", "killed"]
"""finished: a terminal success event was seen. failed: a terminal error, or a non-zero exit. truncated: the output
ended without a terminal event. killed: Ralph ended it, whatever it printed afterwards."""

ErrorKind = Literal[
    "usage-limit",
    "rate-limit",
    "overloaded",
    "authentication",
    "billing",
    "not-installed",
    "permission",
    "context-too-long",
    "max-turns",
    "max-budget",
    "network",
    "crash",
    "cut-off",
    "unknown",
]

KillReason = Literal["wall-time", "idle-time", "interrupted"]


class Usage(Value, frozen=True, kw_only=True):
    """Tokens of one agent run. `input_tokens` excludes what was read from or written to the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


class ToolResult(Value, frozen=True, kw_only=True):
    """One tool the agent ran. `success` is None where the agent's stream does not tell; `output` is capped."""

    name: str
    command: str = ""
    success: bool | None = None
    output: str = ""


class AgentFault(Value, frozen=True, kw_only=True):
    """Why an agent did not finish. `message` is its own, capped; `resets_at` an ISO time in UTC where stated."""

    kind: ErrorKind
    message: str
    resets_at: str | None = None


class AgentResult(Value, frozen=True, kw_only=True):
    """What a run of an agent gave, whatever happened: an `Agent.run` never raises for what the agent did.

    `final_text` is the agent's final message only (a plain-text agent's whole stdout). `output` is the head and tail of
    the raw output, capped; the whole of it stands in the file handed to `run`. `duration_ms` is wall time. `killed_for`
    says which limit Ralph ended it at; `allowed_by` which setting would allow what was refused.
    """

    agent: str
    status: AgentStatus
    final_text: str = ""
    tool_results: tuple[ToolResult, ...] = ()
    usage: Usage = Usage()
    cost_usd: float | None = None
    session_id: str = ""
    fault: AgentFault | None = None
    exit_code: int | None = None
    killed_by: KillReason | None = None
    killed_for: str = ""
    permission_denials: tuple[str, ...] = ()
    allowed_by: str = ""
    output: str = ""
    output_bytes: int = 0
    duration_ms: int = 0


class ParsedIteration(Value, frozen=True, kw_only=True):
    """What the agent claims. Nothing here ever completes a task."""

    status: Literal["completed", "failed", "partial"] = "partial"
    promises: tuple[str, ...] = ()
    blocked_reason: str | None = None
    summary: str = ""
    learnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    quality_claims: dict[str, bool] = {}
    commit_messages: tuple[str, ...] = ()
    verification_steps: tuple[str, ...] = ()
    context_loss: bool = False


class Finding(Value, frozen=True, kw_only=True):
    """What a model says of one criterion, with the place that shows it."""

    criterion: str
    met: bool
    reason: str = ""
    file: str = ""
    line: int | None = None


class CheckResult(Value, frozen=True, kw_only=True):
    """One verification that Ralph ran itself. `exit_code` is None where the command did not end by itself.

    `output` is the telling part of stdout and stderr, capped and redacted. A part of a multi-stage verification has
    its path as its step: `qa/all_tests`. `command` is empty where none was run. `attempts` counts the tries: one that
    passed after a failed one is `flaky`. A `skipped` one was not run, so it has not passed either; `reason` says why.
    """

    step: str
    method: Literal["gate", "string_match", "external", "semantic", "multi_stage", "hook", "integrity"] = "gate"
    kind: Literal["test", "lint", "typecheck", "build", "other"] = "other"
    command: str
    passed: bool
    required: bool = True
    exit_code: int | None = None
    reason: str = ""
    output: str = ""
    duration_ms: int = 0
    findings: tuple[Finding, ...] = ()
    flaky: bool = False
    attempts: int = 1
    skipped: bool = False

    @property
    def failed(self) -> bool:
        """Whether it was run and did not pass."""
        return not self.passed and not self.skipped

    @property
    def ending(self) -> str:
        """How it ended, in a word or two."""
        if self.flaky:
            return f"passed at try {self.attempts} (flaky)"
        return "passed" if self.passed else "skipped" if self.skipped else "failed"


class Verified(Value, frozen=True, kw_only=True):
    """What a stage's criteria said: whether they hold, why not, and every check that was run for it.

    `feedback` is what the agent needs in order to mend it. `proven`: something that Ralph ran passed, not the promise
    alone. `warnings` are optional parts that failed, and what went wrong on Ralph's side.
    """

    passed: bool
    reason: str = ""
    feedback: str = ""
    results: tuple[CheckResult, ...] = ()
    warnings: tuple[str, ...] = ()
    proven: bool = False


Action = Literal["complete", "continue", "stop", "skip"]
StopReason = Literal[
    "complete",
    "blocked",
    "max-iterations",
    "max-wall-time",
    "max-cost",
    "stuck",
    "rate-limited",
    "paused",
    "cancelled",
    "interrupted",
    "error",
]


class Verdict(Value, frozen=True, kw_only=True):
    """What the pipeline decided and which hook did. `counts`: whether the attempt counts against the task's limit;
    `starts_anew`: that its work cannot be gone on from.
    """

    action: Action
    hook: str = ""
    reason: str = ""
    feedback: str = ""
    stop_reason: StopReason | None = None
    counts: bool = True
    starts_anew: bool = False


SKIP = Verdict(action="skip")
MERGE = "merge"
"""The hook that is named where work held by itself, but not on top of what landed meanwhile."""

CompletionStatus = Literal["completed", "failed", "blocked", "interrupted", "limited", "cancelled"]
Phase = Literal["executing", "judged", "settled"]


class Decision(Value, frozen=True, kw_only=True):
    """What settling a judged iteration brings about (core/policy.Settlement), decided once: time, sums and settings may
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
    """All of one pass: `history/iteration-N.json`, the commit point of the redo log (DESIGN.md)."""

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
    review: Review | None = None
    log: tuple[str, ...] = ()
    red_on_base: tuple[str, ...] = ()
    tests_on_base: dict[str, int] = {}
    failing_on_base: dict[str, int] = {}
    written_on_base: tuple[str, ...] = ()
    failure: str = ""
    repeats: int = 0
    restarted: bool = False
    isolated: bool = False
    rolled_back: bool = False
    best_attempt: int | None = None
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
    def spent_tokens(self) -> int:
        """The tokens of both."""
        return self.usage.total + self.judge_usage.total


def feedback_excerpt(text: str, *, head: int = 20, tail: int = 60, width: int = 400) -> str:
    """The first and last lines of a long text, each cut to `width` characters, saying how many lines were left out."""
    lines = [line if len(line) <= width else line[:width] + " …" for line in text.splitlines()]
    if len(lines) <= head + tail + 1:
        return "\n".join(lines)
    return "\n".join([*lines[:head], f"… {len(lines) - head - tail} lines left out …", *lines[-tail:]])
