"""What one attempt yields, from the agent's raw result to the verdict. Values only."""

import re
from typing import Literal

from rulebook_ralph.tasks.model import Value
from rulebook_ralph.tasks.text import clipped

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

KillReason = Literal["wall-time", "idle-time", "interrupted", "stopped"]
"""stopped: a person ended this attempt, and not the run."""


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
    model: str = ""
    """The one that the agent said it uses."""
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
    stray_promise: str = ""
    """The line with a promise that does not count, as other text stands beside it; only where none counts."""
    blocked_reason: str | None = None
    summary: str = ""
    learnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    quality_claims: dict[str, bool] = {}
    commit_messages: tuple[str, ...] = ()
    verification_steps: tuple[str, ...] = ()
    changed_checks: dict[str, str] = {}
    """Check file -> why the agent changed it."""
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
    method: Literal["gate", "string_match", "external", "semantic", "multi_stage", "hook", "evidence", "integrity"] = (
        "gate"
    )
    kind: Literal["test", "lint", "typecheck", "build", "other"] = "other"
    command: str
    passed: bool
    required: bool = True
    exit_code: int | None = None
    reason: str = ""
    output: str = ""
    duration_ms: int = 0
    findings: tuple[Finding, ...] = ()
    failing: tuple[str, ...] = ()
    """Names of the tests that failed, where the runner tells them; the first 50."""
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


class ChangedCheck(Value, frozen=True, kw_only=True):
    """One check file that an attempt changed, and the agent's reason for it, from its report (`changedChecks`)."""

    path: str
    change: Literal["added", "modified", "deleted"] = "modified"
    reason: str = ""


class AskedItem(Value, frozen=True, kw_only=True):
    """One item of what the judging model was asked and its answer, with the place that shows it."""

    item: str
    answer: Literal["yes", "no"] | None = None
    reason: str = ""
    file: str = ""
    line: int | None = None


class Evidence(Value, frozen=True, kw_only=True):
    """What two codes and two sets of checks told of an attempt (docs/design.md, Evidence).

    `turned` are tests, or commands of criteria, that failed on the base and pass now; `broken` those that passed on the
    base with the base's checks and fail now. `asked` is what a model was asked about it, `judged_by` who answered
    (`model`, `person`, or empty for nobody). `checks_base` is the commit whose check files count as the base's.
    """

    turned: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    asked: tuple[AskedItem, ...] = ()
    judged_by: str = ""
    checks_base: str = ""


Action = Literal["complete", "continue", "stop"]
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
    """What the judge decided and which rule did (`hook`, the name in the files). `counts`: whether the attempt counts
    against the task's limit; `starts_anew`: that its work cannot be gone on from; `awaits_approval`: that no model
    could be asked, so that the work is kept and the task waits for `ralph approve`.
    """

    action: Action
    hook: str = ""
    reason: str = ""
    feedback: str = ""
    stop_reason: StopReason | None = None
    counts: bool = True
    starts_anew: bool = False
    awaits_approval: bool = False


MERGE = "merge"
"""The rule that is named where work held by itself, but not on top of what landed meanwhile."""


def feedback_excerpt(text: str, *, head: int = 20, tail: int = 60, width: int = 400) -> str:
    """The first and last lines of a long text, each cut to `width` characters, saying how many lines were left out."""
    lines = [line if len(line) <= width else line[:width] + " …" for line in text.splitlines()]
    if len(lines) <= head + tail + 1:
        return "\n".join(lines)
    return "\n".join([*lines[:head], f"… {len(lines) - head - tail} lines left out …", *lines[-tail:]])


_TELLS = (
    r"(?i)\b(?:error|fail(?:ed|ure|s)?|missing|not found|no such|cannot|can't|could not|unable|expected|unexpected"
    r"|undefined|unknown|invalid|denied|assert\w*|panic\w*|fatal)\b|\w(?:Error|Exception)\b"
)
_SAYS_NOTHING = r"(?i)\b(?:0|no) (?:errors?|fail\w+)|Traceback \(most recent|^[=_-]{3,}| in [\d.]+s\b|^\W*$"
_RAISED = r"E {2,}(\S.*)"
_PYTHON = r"(?:\w+\.)*\w+(?:Error|Exception)\b.*"


def telling_line(output: str) -> str:
    """The line of an output that tells best why a command failed; empty where there is none."""
    lines = [line for each in output.splitlines() if not re.search(_SAYS_NOTHING, line := each.strip())]
    raised = [found[1] for line in lines if (found := re.fullmatch(_RAISED, line))]
    python = [line for line in lines if re.fullmatch(_PYTHON, line)]
    said = [line for line in lines if re.search(_TELLS, line)]
    return clipped(next(iter([*raised[:1], *python[-1:], *said[:1], *lines[-1:]]), ""))
