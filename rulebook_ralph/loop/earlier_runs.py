"""What gates and criteria say of an attempt's tree with tests as its base has them. In a clean checkout alone: in the
user's tree nothing but the attempt itself is to stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rulebook_ralph.checks.integrity.counts import tells_of_failures
from rulebook_ralph.checks.integrity.earlier_tests import EarlierTests
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.criteria_reading import required_commands
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.loop.checkout import UnusableError
from rulebook_ralph.workspace.isolated_tree import tree_with

if TYPE_CHECKING:
    from rulebook_ralph.loop.iteration import Assignment, Tools

_Results = tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class EarlierRuns:
    """`put_back` undoes what was run. Its methods return None in the user's tree, and raise Cancelled."""

    assignment: Assignment
    tools: Tools
    put_back: Callable[[], object]

    def gates(self, tree: str, earlier: EarlierTests) -> _Results | None:
        """Of the gates, with those tests as far as they were red."""

        def red_tests() -> EarlierTests:
            told = (result.output for result in self.tools.run_gates(self._base) if result.failed)
            return earlier.named_in("\n".join(told))

        return self._judged(tree, red_tests, self.tools.run_gates)

    def criteria(self, tree: str, earlier: EarlierTests) -> _Results | None:
        """Of those required commands of criteria that were red on the base, where they named tests that failed; with
        these tests. New tests stay: a command may name them.
        """
        commands = self._commands()
        red: dict[str, External] = {}

        def red_tests() -> EarlierTests:
            found = [result for result in self._run(commands, self._base) if result.failed]
            told = [result for result in found if tells_of_failures(result.output)]
            red.update((result.step, commands[result.step]) for result in told if earlier.failed_in(result.output))
            return earlier.failed_in("\n".join(result.output for result in told))

        return self._judged(tree, red_tests, lambda mixed: self._run(red, mixed)) if commands else None

    @property
    def _base(self) -> str:
        return self.assignment.opening.tree

    def _judged(
        self, tree: str, red_tests: Callable[[], EarlierTests], run: Callable[[str], _Results]
    ) -> _Results | None:
        repository = self.tools.workspace.repository
        try:
            if self.tools.stand(tree).root == repository.root:
                return None
            earlier = red_tests()
            if not earlier.restored:
                return ()
            mixed = tree_with(repository, tree, self._base, earlier.restored, without=earlier.removed)
            results = run(mixed)
            self.put_back()
            self.tools.stand(mixed)
        except UnusableError as error:
            return (error.result,)
        return results

    def _commands(self) -> Mapping[str, External]:
        """By the step that each is known as."""
        further = ((each.name, each.criteria) for each in self.assignment.further)
        return {
            step: command
            for name, criteria in ((self.assignment.name, self.assignment.criteria), *further)
            for step, command in required_commands(criteria.verification, name)
        }

    def _run(self, commands: Mapping[str, External], tree: str) -> _Results:
        from rulebook_ralph.checks import external  # noqa: PLC0415 - not every attempt comes so far
        from rulebook_ralph.checks.shell import Surroundings  # noqa: PLC0415

        tools = self.tools
        place = tools.stand(tree)
        around = Surroundings(place.root, place.environment, tools.redactor.clean, tools.cancelled, tree, tools.results)
        return tuple(external.check(command, around, step=step) for step, command in commands.items())
