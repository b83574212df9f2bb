"""Runs the gates on a tree: in a clean checkout where one is configured, else where the tree stands anyway."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from rulebook_ralph.checks import gates
from rulebook_ralph.checks.shell import ResultCache, Surroundings
from rulebook_ralph.core import events
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.checkout import Checkout, Standing, UnusableError
from rulebook_ralph.loop.project import Project
from rulebook_ralph.workspace.snapshot import Opening

NEEDS_MORE = "name under workspace.link or workspace.copy what git does not hold, or have workspace.setup make it"
"""What to do about gates that are green in the user's tree alone."""


@dataclass(frozen=True, slots=True)
class GateRunner:
    """What running gates needs. `clean` takes secrets out of output."""

    project: Project
    clean: Callable[[str], str]
    cancelled: Event
    report: Callable[[events.Event], None]
    checkout: Checkout | None

    @classmethod
    def of(
        cls,
        project: Project,
        clean: Callable[[str], str],
        cancelled: Event,
        report: Callable[[events.Event], None],
        *,
        checked_out: Project | None = None,
    ) -> "GateRunner":
        """The one that the project's configuration asks for. `checked_out` is the project of the user's tree, which
        gives a clean checkout what git does not hold, where `project` is not in it.
        """
        is_clean = project.config.verification.clean
        checkout = Checkout(checked_out or project, clean, cancelled, report) if is_clean else None
        return cls(project, clean, cancelled, report, checkout)

    @property
    def steps(self) -> tuple[VerificationStep, ...]:
        """The gates that are switched on."""
        return self.project.config.verification.gates

    def run(
        self,
        opening: Opening,
        *,
        excused: frozenset[str] = frozenset(),
        skipped: Mapping[str, str] | None = None,
        on_base: bool = False,
        to_the_end: bool = False,
        tree: str = "",
        cache: ResultCache | None = None,
    ) -> tuple[CheckResult, ...]:
        """Run the gates, all at once or in order to the first that fails and is not excused; on the base all of them.

        They judge `tree`, that of the opening unless it is given; with its object id `cache` has and remembers what
        commands did to it. Raises Cancelled, RalphError.
        """
        parallel, is_first = self.project.config.verification.parallel, True

        def started(step: VerificationStep) -> None:
            nonlocal is_first
            if self.checkout is not None and not (parallel or is_first):
                self.checkout.between(opening)
            is_first = False
            self.report(events.GateStarted(step.name, step.command, on_base))

        if not self.steps:
            return ()
        try:
            standing = self.stand(opening, tree or opening.tree)
            return gates.run_steps(
                self.steps,
                root=standing.root,
                environment=standing.environment,
                clean=self.clean,
                cancelled=self.cancelled,
                started=started,
                ended=lambda result: self.report(events.GateEnded(result, on_base)),
                excused=excused,
                skipped=skipped,
                to_the_end=on_base or to_the_end,
                parallel=parallel,
                tree=tree,
                cache=cache,
            )
        except UnusableError as error:
            self.report(events.GateEnded(error.result, on_base))
            return (error.result,)
        finally:
            if (on_base or to_the_end) and self.checkout is not None:
                self.checkout.forget_command()

    def green_in_the_tree(self, results: Sequence[CheckResult]) -> list[str]:
        """Of gates that are red in the checkout, those that pass in the user's tree, where they are run once.

        Raises Cancelled.
        """
        if self.checkout is None:
            return []
        red = {result.step for result in results if result.failed}
        around = Surroundings(self.project.root, self.project.environment_given, self.clean, self.cancelled)
        return [step.name for step in self.steps if step.name in red and gates.run_step(step, around).passed]

    def stand(self, opening: Opening, tree: str) -> Standing:
        """Have the tree stand where commands are to judge it. Raises UnusableError, Cancelled, RalphError."""
        if self.checkout is None:
            return Standing(self.project.root, self.project.environment_given)
        return self.checkout.stand(tree, opening.commit)

    def close(self) -> None:
        """Remove what they ran in."""
        if self.checkout is not None:
            self.checkout.close()
