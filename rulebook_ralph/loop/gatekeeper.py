"""Runs what a run verifies with: the configured gates, and the repository's own commit hooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from rulebook_ralph.checks import commit_hooks, gates, step_selection
from rulebook_ralph.checks.integrity.counts import tells_of_failures, tests_run
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.core import events
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.rules.stop_criteria import required_kinds
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.snapshot import Opening, Workspace

if TYPE_CHECKING:
    from rulebook_ralph.loop.iteration import Assignment


@dataclass(frozen=True, slots=True)
class Base:
    """What the gates say of a base: those that are red, and how many tests a step ran, where its output tells."""

    red: frozenset[str] = frozenset()
    tests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    """Everything a gate or hook needs to be run, for one run."""

    project: Project
    workspace: Workspace
    hooks_folder: Path
    redactor: Redactor
    cancelled: Event
    report: Callable[[events.Event], None]

    @property
    def steps(self) -> tuple[VerificationStep, ...]:
        """The gates that are switched on."""
        verification = self.project.config.verification
        return verification.steps if verification.enabled else ()

    def run_gates(
        self,
        *,
        excused: frozenset[str] = frozenset(),
        skipped: Mapping[str, str] | None = None,
        on_base: bool = False,
        tree: str = "",
        cache: ResultCache | None = None,
    ) -> tuple[CheckResult, ...]:
        """Run the gates, all at once or in order to the first that fails and is not excused; on the base all of them.

        With the object id of the tree that stands there, `cache` has and remembers what commands did to it.
        """
        return gates.run_steps(
            self.steps,
            root=self.project.root,
            environment=self.project.environment,
            clean=self.redactor.clean,
            cancelled=self.cancelled,
            started=lambda step: self.report(events.GateStarted(step.name, step.command, on_base)),
            ended=lambda result: self.report(events.GateEnded(result, on_base)),
            excused=excused,
            skipped=skipped,
            to_the_end=on_base,
            parallel=self.project.config.verification.parallel,
            tree=tree,
            cache=cache,
        )

    def run_for(self, assignment: "Assignment", tree: str, cache: ResultCache) -> tuple[CheckResult, ...]:
        """Run the gates on the tree of an attempt, save those that no file concerns which it changed since its base."""
        skipped: Mapping[str, str] = {}
        if any(step.when for step in self.steps):
            changes = self.workspace.changes(assignment.opening.tree, tree)
            asked = required_kinds(assignment.stop_criteria)
            changed = [change.path for change in changes]
            skipped = step_selection.skipped(self.steps, changed, asked=asked, excused=assignment.excused)
        return self.run_gates(excused=assignment.excused, skipped=skipped, tree=tree, cache=cache)

    def commit_hooks(self) -> Callable[[str], str | None] | None:
        """What runs the repository's commit hooks on a message and says why they refuse; None where it has none."""
        return self._run_commit_hooks if commit_hooks.there_are(self.hooks_folder) else None

    def run_on_base(self, base: Opening, guarded: guard.Guard, *, strict: bool) -> Base:
        """Run the gates before any agent works; tells which are red, and raises RalphError for them when `strict`."""
        try:
            results = self.run_gates(on_base=True)
        except gates.Cancelled:
            return Base()
        finally:
            guarded.restore()
            self.workspace.restore(base, self.workspace.capture(base))
        red = [result for result in results if not result.passed]
        names = ", ".join(f"{result.step} ({result.reason})" for result in red)
        if red and strict:
            raise RalphError(f"red on the base: {names}; mend it first, or run without --strict")
        if red and len(red) == len(results):
            self._warn(f"every gate is red on the base: {names}; a task completes once one of them passes")
        elif red:
            self._warn(f"red on the base, not held against a task until it was green once: {names}")
        return Base(frozenset(result.step for result in red), tests_of(results))

    def _run_commit_hooks(self, message: str) -> str | None:
        repository = self.project.repository
        return commit_hooks.run_hooks(
            message,
            root=self.project.root,
            hooks=self.hooks_folder,
            index=self.workspace.index,
            scratch=repository.private,
            environment=repository.git.environment,
            clean=self.redactor.clean,
            cancelled=self.cancelled,
        )

    def _warn(self, text: str) -> None:
        self.report(events.Notice("warning", text))


def tests_of(results: Sequence[CheckResult]) -> dict[str, int]:
    """How many tests each step ran, of those whose output tells and does not deny that the step passed."""
    told = (result for result in results if result.kind == "test")
    counts = {
        result.step: tests_run(result.output)
        for result in told
        if not (result.passed and tells_of_failures(result.output))
    }
    return {step: count for step, count in counts.items() if count is not None}
