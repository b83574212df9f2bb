"""Runs what a run verifies with: the configured gates, and the repository's own commit hooks."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rulebook_ralph.checks import commit_hooks, gates, step_selection
from rulebook_ralph.checks.integrity.counts import tells_of_failures, tests_failed, tests_run
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.core import events
from rulebook_ralph.core.configured_commands import SETUP
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.notify_urls import without_addresses
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.checkout import PLACE, Standing, UnusableError
from rulebook_ralph.loop.gate_runner import NEEDS_MORE, GateRunner
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.rules.stop_criteria import required_kinds
from rulebook_ralph.workspace import guard
from rulebook_ralph.workspace.snapshot import Opening, Workspace

if TYPE_CHECKING:
    from rulebook_ralph.loop.iteration import Assignment


@dataclass(frozen=True, slots=True)
class Base:
    """What the gates say of a base: those that are red, and how many tests a step ran and how many of them failed,
    where its output tells.
    """

    red: frozenset[str] = frozenset()
    tests: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, int] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    """Tests that they wrote to, in a clean checkout."""

    def after(self, results: Sequence[CheckResult]) -> "Base":
        """The base of the next task: what the gates counted on this one's commit."""
        tests, failing = {**self.tests, **tests_of(results)}, {**self.failing, **failing_of(results)}
        return replace(self, tests=tests, failing=failing)


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    """Everything a gate or hook needs to be run, for one run."""

    project: Project
    workspace: Workspace
    hooks_folder: Path
    runner: GateRunner

    @property
    def steps(self) -> tuple[VerificationStep, ...]:
        """The gates that are switched on."""
        return self.runner.steps

    def stand(self, opening: Opening, tree: str) -> Standing:
        """Have the tree stand where commands are to judge it. Raises UnusableError, Cancelled, RalphError."""
        return self.runner.stand(opening, tree)

    def tree_after(self, opening: Opening, tree: str) -> str:
        """The tree that gates made of `tree`; it stands in the user's tree then. Raises UnusableError."""
        checkout = self.runner.checkout
        if checkout is None:
            return self.workspace.recapture(opening, tree)
        return checkout.bring_over(self.workspace, opening, tree)

    def make_ready(self, opening: Opening) -> None:
        """Before an agent could change what a checkout is given: have one."""
        checkout = self.runner.checkout
        if checkout is not None and not checkout.is_made:
            with suppress(UnusableError, gates.Cancelled):  # the gates will say so
                self.stand(opening, opening.tree)

    def copied_files(self) -> tuple[Path, ...]:
        """Files of the user's tree that a checkout has copies of."""
        checkout = self.runner.checkout
        return checkout.copied_files if checkout is not None else ()

    def judges_as(self, other: "Gatekeeper") -> bool:
        """Whether its gates say the same of a tree."""
        mine, others = self.project.config, other.project.config
        same_place = (mine.verification.clean, mine.workspace) == (others.verification.clean, others.workspace)
        return self.steps == other.steps and same_place

    def close(self) -> None:
        """Remove what the gates ran in."""
        self.runner.close()

    def run_for(self, assignment: "Assignment", tree: str, cache: ResultCache) -> tuple[CheckResult, ...]:
        """Run the gates on the tree of an attempt, save those that no file concerns which it changed since its base."""
        skipped: Mapping[str, str] = {}
        if any(step.when for step in self.steps):
            changes = self.workspace.changes(assignment.opening.tree, tree)
            asked = required_kinds(assignment.stop_criteria)
            changed = [change.path for change in changes]
            skipped = step_selection.skipped(self.steps, changed, asked=asked, excused=assignment.excused)
        return self.runner.run(assignment.opening, excused=assignment.excused, skipped=skipped, tree=tree, cache=cache)

    def commit_hooks(self) -> Callable[[str], str | None] | None:
        """What runs the repository's commit hooks on a message and says why they refuse; None where it has none."""
        return self._run_commit_hooks if commit_hooks.there_are(self.hooks_folder) else None

    def run_on_base(self, base: Opening, guarded: guard.Guard, *, strict: bool) -> Base:
        """Run the gates before any agent works; tells which are red, and raises RalphError for them when `strict`."""
        try:
            results = self.runner.run(base, on_base=True)
            if green := self.runner.green_in_the_tree(results):
                self._warn(f"red in the clean checkout, but green in your tree: {some(green)}; {NEEDS_MORE}")
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
        excused = frozenset(result.step for result in red) - {SETUP, PLACE}
        checkout = self.runner.checkout
        written = checkout.written_on_base if checkout is not None else frozenset[str]()
        return Base(excused, tests_of(results), failing_of(results), written)

    def remember(self, base: Base) -> None:
        """Take over what an earlier run found out about the base."""
        if self.runner.checkout is not None:
            self.runner.checkout.written_on_base |= base.written

    def _run_commit_hooks(self, message: str) -> str | None:
        repository = self.project.repository
        return commit_hooks.run_hooks(
            message,
            root=self.project.root,
            hooks=self.hooks_folder,
            index=self.workspace.index,
            scratch=repository.scratch,
            environment=without_addresses(repository.git.environment, self.project.config.notify.urls),
            clean=self.runner.clean,
            cancelled=self.runner.cancelled,
        )

    def _warn(self, text: str) -> None:
        self.runner.report(events.Notice("warning", text))


def tests_of(results: Sequence[CheckResult]) -> dict[str, int]:
    """How many tests each step ran, of those whose output tells and does not deny that the step passed."""
    told = (result for result in results if result.kind == "test")
    counts = {
        result.step: tests_run(result.output)
        for result in told
        if not (result.passed and tells_of_failures(result.output))
    }
    return {step: count for step, count in counts.items() if count is not None}


def failing_of(results: Sequence[CheckResult]) -> dict[str, int]:
    """How many tests of each red test step failed, of those whose output tells."""
    counts = {result.step: tests_failed(result.output) for result in results if result.kind == "test" and result.failed}
    return {step: count for step, count in counts.items() if count is not None}
