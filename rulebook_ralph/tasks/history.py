"""`history/iteration-N.json` (schemas/iteration.schema.json): a file for each pass, the journal's commit point."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, json_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import ITERATION_NUMBER, CompletionSummary, Json, Stage, Value
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


# Its files

ITERATION_KEYS = json_file.keys_of(Iteration)

_NAME = re.compile(rf"iteration-({ITERATION_NUMBER})\.json")
_SETTLED = re.compile(rb'"phase": ?"settled"')
_HEAD_BYTES = 512
_OBJECT_ID = re.compile(r"[0-9a-f]{7,64}")


def name_of(number: int) -> str:
    """The file's name within the state folder."""
    return f"history/iteration-{number}.json"


def numbers(folder: StateFolder) -> list[int]:
    """The numbers of all iteration files, ascending."""
    try:
        found = map(_NAME.fullmatch, os.listdir(folder.history))  # noqa: PTH208 - there may be thousands
        return sorted(int(match.group(1)) for match in found if match)
    except (FileNotFoundError, NotADirectoryError):
        return []


def read(folder: StateFolder, number: int) -> Iteration:
    """One iteration. Raises RalphError where it is missing or malformed."""
    path = folder.iteration(number)
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        was = "was pruned" if number < max(numbers(folder)[-1:], default=0) else "is not there"
        raise RalphError(f"iteration {number} {was}; 'ralph history' lists those there are") from None
    except OSError as error:
        raise RalphError(f"cannot read {path}: {error.strerror}") from error
    return decode(data, name=str(path))


def decode(data: bytes, *, name: str) -> Iteration:
    """The iteration in a file's bytes; keys it does not know are kept. Raises RalphError with file, line and what is
    wrong.
    """
    raw = json_file.decode(data, name)
    iteration = json_file.convert(json_file.with_extra(raw, ITERATION_KEYS), Iteration, data, name)
    if fault := next(json_file.nesting_faults(iteration.extra, ()), None):
        raise json_file.refusal(name, data, fault)
    return iteration


def encode(iteration: Iteration) -> bytes:
    """The bytes of an iteration file."""
    whole = json_file.merged_members(iteration, ITERATION_KEYS) if iteration.extra else iteration
    return json_file.encode(whole)


def unsettled(folder: StateFolder) -> Iterator[Iteration]:
    """Every iteration that a dead run left before its phase `settled`, oldest first. Raises RalphError."""
    for number in unsettled_numbers(folder):
        if (record := read(folder, number)).phase != "settled":
            _require_object_ids(record, str(folder.iteration(number)))
            yield record


def unsettled_numbers(folder: StateFolder) -> list[int]:
    """The numbers of the files that do not say `settled` where that stands, readable or not; ascending. Looks at the
    beginning of each file only: there may be thousands.
    """
    return [number for number in numbers(folder) if not _says_settled(folder.iteration(number))]


def _says_settled(path: Path) -> bool:
    try:
        return _SETTLED.search(disk.read_file(path, largest=_HEAD_BYTES, only_start=True)) is not None
    except OSError:
        return False


def _require_object_ids(record: Iteration, path: str) -> None:
    """Raises RalphError where what is to be finished names no objects of git: these words become arguments of git's."""
    for name in ("base_commit", "tree", "commit", "snapshot"):
        if (value := getattr(record, name)) and not _OBJECT_ID.fullmatch(value):
            told = f"$.{name.replace('_c', 'C')} is no object id of git"
            raise RalphError(f"{path}: {told}; restore the file from git, or remove it")
