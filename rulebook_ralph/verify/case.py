"""One attempt before the judge, and what the judge verifies it with."""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import msgspec

from rulebook_ralph.agents.question import Ask
from rulebook_ralph.config.settings import Config, Hook, StopCriteria
from rulebook_ralph.git.diff import FileDiff, read_diff
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.report import events
from rulebook_ralph.tasks.criteria import Criteria
from rulebook_ralph.tasks.model import Stage, Task
from rulebook_ralph.tasks.results import (
    AgentResult,
    AskedItem,
    ChangedCheck,
    CheckResult,
    Evidence,
    ParsedIteration,
    Verdict,
)
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.verify.gates import GateRunner
from rulebook_ralph.verify.redaction import Redactor

if TYPE_CHECKING:
    from rulebook_ralph.verify.evidence import Table
    from rulebook_ralph.verify.review import Reviewers


@dataclass(frozen=True, slots=True)
class StageCriteria:
    """Criteria that must hold: the stage's own, then those of earlier stages. Their checks have the stage's name."""

    stage: Stage
    criteria: Criteria


_NOTHING = ParsedIteration()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One attempt, as values. Trees and commits are object ids.

    `base` is the commit the task is measured against in every stage. `checks_base` is the commit whose check files are
    "the base's checks": `base`, or an older one while a change of them was not asked about. `tree` is what would land.
    `result` is None where no agent worked (`ralph verify`); `approved` marks `ralph approve`, where a person already
    said yes.
    """

    project: str
    task: Task
    stage: Stage
    attempt: int
    iteration: int
    last_stage: bool
    implements: bool
    criteria: tuple[StageCriteria, ...]
    stop_criteria: StopCriteria
    base: str
    checks_base: str
    tree: str
    result: AgentResult | None = None
    parsed: ParsedIteration = _NOTHING
    run_limited: bool = False
    approved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifiers:
    """What rules verify with, made once a run. `ask` is the judging model, None where there is none (`no_model` says
    why). `scratch` is a folder in the cache. `commit_message` makes the message that commit hooks see. `answers` are
    those that were given with yes, so that the same is not asked again of a merged tree; `said` is what was told once.
    """

    repository: Repository
    config: Config
    gates: GateRunner
    ask: Ask | None
    no_model: str
    reviewers: "Reviewers | None"
    hooks: tuple[Hook, ...]
    redactor: Redactor
    scratch: Path
    cancelled: Event
    report: Callable[[events.Event], None]
    commit_message: Callable[[Case], str] = lambda case: f"{case.task.title}\n\nRalph-Task: {case.task.id}\n"
    answers: MutableMapping[tuple[int, str, str], AskedItem] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def on(self, base: str) -> "Verifiers":
        """The same for work on that commit."""
        return replace(self, gates=self.gates.on(base))

    @property
    def why_no_model(self) -> str:
        return f"no judging model: {self.no_model}" if self.no_model else "no judging model is configured"

    def say_once(self, why: str) -> None:
        """Tell the person why nobody judged, once a run."""
        if why not in self.said:
            self.said.add(why)
            self.report(events.Notice("warning", why))


@dataclass
class Examination:
    """What is seen of one attempt on the way to its verdict. `red_before`: gates that are red and count for nothing."""

    case: Case
    verifiers: Verifiers
    table: "Table"
    checks: list[CheckResult] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    changed_checks: tuple[ChangedCheck, ...] = ()
    evidence: Evidence | None = None
    review: Review | None = None
    gates_were_run: bool = False
    already_done: bool = False
    red_before: set[str] = field(default_factory=set)

    def diff(self) -> tuple[FileDiff, ...]:
        """What differs from the task's base, line by line."""
        return self._diff

    @cached_property
    def _diff(self) -> tuple[FileDiff, ...]:
        return read_diff(self.verifiers.repository, self.case.base, self.case.tree)

    def gate_results(self) -> tuple[CheckResult, ...]:
        """What the gates said of the new tree, as far as they were run, and those that were skipped."""
        if not self.gates_were_run and not self.table.new:
            return ()
        found = {run.step: run.result for run in self.table.new.values()} | dict(self.table.skipped)
        for name in self.red_before & found.keys():
            reason = f"{found[name].reason}; red before, not counted"
            found[name] = msgspec.structs.replace(found[name], reason=reason)
        return tuple(found[step.name] for step in self.verifiers.gates.steps if step.name in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict and all that was seen on the way to it. `already_done`: nothing was changed and the criteria hold."""

    verdict: Verdict
    checks: tuple[CheckResult, ...] = ()
    changed_checks: tuple[ChangedCheck, ...] = ()
    evidence: Evidence | None = None
    review: Review | None = None
    log: tuple[str, ...] = ()
    already_done: bool = False


def again(hook: str, reason: str, feedback: str, *, counts: bool = True) -> Verdict:
    """Another attempt is needed."""
    return Verdict(action="continue", hook=hook, reason=reason, feedback=feedback, counts=counts)
