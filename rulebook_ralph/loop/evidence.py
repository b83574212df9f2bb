"""What the pipeline judges by: everything known of an attempt, and the checks it may run."""

from collections.abc import Callable
from dataclasses import dataclass

from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verdict
from rulebook_ralph.core.model import Stage, Task
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.workspace.snapshot import Change


@dataclass(frozen=True, slots=True)
class Gates:
    """What the gates said of the tree. `changed` are the paths that the gates themselves went on changing."""

    results: tuple[CheckResult, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """An attempt before the judge. `changes` are against the base of the task, not the attempt's start.

    `excused` are steps that were red on the base and have not been green since; `told` are facts that the agent must
    hear whatever the verdict is (what was put back). `run_limited`: the agent's time limit was the run's.
    `run_gates` and `try_commit` do their work at most once.
    """

    task: Task
    stage: Stage
    promise: str
    result: AgentResult
    parsed: ParsedIteration
    changes: tuple[Change, ...]
    steps: tuple[VerificationStep, ...]
    excused: frozenset[str]
    trust_agent: bool
    run_limited: bool
    told: Callable[[], tuple[str, ...]]
    run_gates: Callable[[], Gates]
    try_commit: Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict and the gates that were run for it."""

    verdict: Verdict
    gates: Gates


def is_held(result: CheckResult, excused: frozenset[str]) -> bool:
    """Whether a gate's failure counts against the attempt."""
    return result.required and not result.passed and result.step not in excused
