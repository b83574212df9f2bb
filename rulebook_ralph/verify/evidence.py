"""Evidence: two codes, two sets of checks. What an attempt changed is run with its own checks and with the base's.

The gates on the new tree must be no redder than on the base. New code must hold with the base's checks; and something
must have turned from red to green with the new ones. What no run can decide is asked, item by item, in one question.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Literal

from rulebook_ralph.config.settings import VerificationStep
from rulebook_ralph.git.trees import Change, changes
from rulebook_ralph.tasks.criteria import ACCEPTANCE_CRITERIA, External, Semantic
from rulebook_ralph.tasks.criteria_reading import required_commands
from rulebook_ralph.tasks.patterns import Globs
from rulebook_ralph.tasks.results import ChangedCheck, CheckResult
from rulebook_ralph.verify import decision
from rulebook_ralph.verify.canary import Canary, canaries
from rulebook_ralph.verify.case import Case, Verifiers
from rulebook_ralph.verify.check_files import (
    TESTS,
    CheckFiles,
    GateText,
    changed_checks,
    check_files,
    decides_itself,
    programs_of,
    with_checks,
)
from rulebook_ralph.verify.decision import Difference, Runs, by_step, skipped
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.questions import OpenItem
from rulebook_ralph.verify.rules import required_kinds

_SOURCE = Globs(("*.md", "*.rst", "*.txt", "docs/"))
"""No source, for tests that live in it."""
_MOST_TESTS_READ = 500
_CHANGES: Mapping[str, Literal["added", "modified", "deleted"]] = {"A": "added", "M": "modified", "D": "deleted"}


class Table:
    """The gates on both codes with both sets of checks, for one attempt; each is run when it is asked for."""

    def __init__(self, case: Case, verifiers: Verifiers) -> None:
        self.case = case
        self._verifiers = verifiers
        self._repository = verifiers.repository
        self._gates = verifiers.gates
        self._may_change = Globs(case.task.may_change)
        self.new: Runs = {}
        """What the gates said of the new tree, as far as they were run."""
        self.turned: tuple[str, ...] = ()
        self.broken: tuple[str, ...] = ()
        self._there: Runs = {}
        self._about = {case.tree: ""}
        """What a tree is that was put together for the table."""

    # What is judged by what

    @cached_property
    def steps(self) -> tuple[VerificationStep, ...]:
        """The gates that this attempt needs."""
        return tuple(step for step in self._gates.steps if step.name not in self.skipped)

    @cached_property
    def skipped(self) -> Mapping[str, CheckResult]:
        """The gates that no changed file concerns."""
        if not any(step.when for step in self._gates.steps):
            return {}
        changed = [change.path for change in self.changes]
        return skipped(self._gates.steps, changed, asked=required_kinds(self.case.stop_criteria))

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        return changes(self._repository, self.case.base, self.case.tree)

    @cached_property
    def files(self) -> CheckFiles:
        config = self._verifiers.config
        texts = [
            GateText(step.name, step.command, step.working_dir, step.kind == "test", tuple(step.env.values()))
            for step in self._gates.steps
        ]
        texts += [
            GateText(name, each.command, each.working_dir, product=self._products(each)) for name, each in self.commands
        ]
        texts += [GateText(hook.name, hook.command, is_test=False) for hook in config.hooks]
        reads = [partial(self._read, commit) for commit in dict.fromkeys((self.case.base, self.case.checks_base))]
        return check_files(texts, *reads, more=config.checks)

    @cached_property
    def commands(self) -> tuple[tuple[str, External], ...]:
        """The commands that the criteria need, each with its name."""
        return tuple(
            found
            for named in self.case.criteria
            for found in required_commands(named.criteria.verification, named.stage)
        )

    @cached_property
    def canaries(self) -> Mapping[str, Canary]:
        return canaries(self._verifiers, self.case.base, self._gates.steps, self.files)

    @cached_property
    def tests(self) -> tuple[VerificationStep, ...]:
        """The gates that are evidence."""
        test_steps = [step for step in self.steps if step.kind == "test"]
        return tuple(step for step in test_steps if not self.canaries[step.name].hollow) if test_steps else ()

    @cached_property
    def changed(self) -> tuple[Change, ...]:
        """The check files that the attempt changed and the task does not name as its own to change."""
        found = changed_checks(self._repository, self.case.base, self.case.tree, self.files)
        return tuple(change for change in found if not self._may_change.match(change.path))

    @property
    def changed_checks(self) -> tuple[ChangedCheck, ...]:
        """The same for the record, with the agent's reasons."""
        reasons = self.case.parsed.changed_checks
        return tuple(
            ChangedCheck(path=each.path, change=_CHANGES[each.status], reason=reasons.get(each.path, ""))
            for each in self.changed
        )

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """What the task asks for."""
        task = self.case.task
        return task.acceptance_criteria or (task.description.strip() or task.title,)

    # The trees

    @cached_property
    def base_code_new_checks(self) -> str:
        return self._mixed(self.case.base, self.case.tree, "the base's code, new checks")

    @cached_property
    def new_code_base_checks(self) -> str:
        return self._mixed(self.case.tree, self.case.base, "new code, the base's checks", free=self._may_change.match)

    def _mixed(self, code: str, checks: str, about: str, *, free: Callable[[str], bool] = lambda _: False) -> str:
        tree = with_checks(self._repository, code, checks, self.files, free=free)
        self._about.setdefault(tree, about)
        return tree

    # The gates themselves

    def red(self) -> tuple[tuple[GateRun, Difference], ...]:
        """The gates on the new tree that are redder than on the base, to the first of them; a test gate is run once
        more, alone, before its red counts.
        """
        tree, base = self.case.tree, self.base
        while True:
            until = lambda run: decision.red_beyond(base[run.step], run) is not None  # noqa: E731
            runs = self._gates.run(tree, self.steps, until=until)
            self.new = by_step(runs)
            found = [(run, self._beyond(run)) for run in runs]
            red = tuple((run, difference) for run, difference in found if difference is not None)
            steps = [self._step(run.step) for run, _ in red if run.result.kind == "test"]
            doubted = [step for step in steps if not self._gates.is_confirmed(tree, step)]
            if not doubted:
                return red
            for step in doubted:
                self._again(tree, step.name)

    @cached_property
    def base(self) -> Runs:
        """The baseline."""
        return by_step(self._gates.run(self.case.base, self.steps, on_base=True))

    def _beyond(self, run: GateRun) -> Difference | None:
        """What is redder than on the base. A red of the base that excuses something is run once more before it does."""
        base = self.base[run.step]
        difference = decision.red_beyond(base, run)
        if difference is None and run.result.kind == "test" and decision.excuses(base, run):
            steady = self._gates.again(self.case.base, self._step(run.step))
            self.base = {**self.base, run.step: steady}
            difference = decision.red_beyond(steady, run)
        return difference

    def run_beside(self) -> None:
        """Have the runs of the table made beside each other, where that may be."""
        trees = (self.case.tree, self.new_code_base_checks, self.base_code_new_checks)
        self._gates.beside({tree: self._about[tree] for tree in trees}, self.tests)

    # What is open

    def open_items(self, *, proof: bool) -> tuple[OpenItem, ...]:
        """What the runs leave open; with `proof` also that nothing turned from red to green, where nothing did."""
        found = (self._lost, self._not_held, self._other_configuration, self._source, self._unasked)
        items = [item for find in (*found, self._criteria_changed) for item in find()]
        if proof and not self._proven() and not self._judged_by_criteria():
            items += self._unproven()
        return tuple(items)

    def _lost(self) -> Iterator[OpenItem]:
        """Tests of the base that are not run any more; not those of files that the task may change."""
        for difference in decision.differences(self.base_tests, self.new, decision.lost):
            tests = tuple(test for test in difference.tests if not self._may_change.match(test.partition("::")[0]))
            if tests or not difference.tests:
                what = f"{difference.step}: tests that passed are not run any more: {difference.why}"
                yield self._changed_item(what, "is that right?", tests)

    def _not_held(self) -> Iterator[OpenItem]:
        """The new code with the base's checks, and with older ones of whose change nobody was asked."""
        base, earlier = self.case.base, self.case.checks_base
        if not self._gates.same(self.new_code_base_checks, self.case.tree):
            yield from self._broken(self.new_code_base_checks, self.base_tests, "as they were")
        if earlier != base:
            about = "code, checks from before this run's tasks"
            mixed = self._mixed(self.case.tree, earlier, f"new {about}", free=self._may_change.match)
            reference = self._runs(self._mixed(base, earlier, f"the base's {about}"))
            yield from self._broken(mixed, reference, "as they were before an earlier task of this run")

    def _broken(self, mixed: str, reference: Runs, whose: str) -> Iterator[OpenItem]:
        """What held in the reference, and does not with the new code."""
        for difference in decision.differences(reference, self._runs(mixed), decision.not_held):
            steady = self._again(mixed, difference.step)
            held = decision.not_held(reference[difference.step], steady)
            if held is not None:
                self.broken = tuple(dict.fromkeys((*self.broken, *(held.tests or (str(held),)))))
                what = f"{held.step} fails with the checks {whose}{'' if held.tests else f': {held.why}'}"
                yield self._changed_item(what, "does the task ask for that?", held.tests, steady.result.output)

    def _other_configuration(self) -> Iterator[OpenItem]:
        """What required gates that are no tests and hooks read: no run with the base's version says anything of it."""
        others = [step.name for step in self._gates.steps if step.kind != "test" and step.required]
        others += [hook.name for hook in self._verifiers.config.hooks]
        for change in self.changed:
            if gates := self.files.other_gates(change.path, others):
                what = f"{change.path}, by which {' and '.join(gates)} judge, was changed"
                yield OpenItem("changed", what, "does it still ask as much?", (), (change.path,))

    def _source(self) -> Iterator[OpenItem]:
        """Existing source that was changed where tests live in it."""
        if not any(self.canaries[step.name].in_source for step in self.tests):
            return
        paths = tuple(
            change.path
            for change in self.changes
            if change.status != "A" and not self.files.is_check(change.path) and not _SOURCE.match(change.path)
        )
        if paths:
            what = "source files in which tests live were changed"
            yield OpenItem("changed", what, "do they still expect as much?", (), paths)

    def _unasked(self) -> Iterator[OpenItem]:
        """Checks that an earlier task of this run brought, which nobody was asked about, and which lose lines now."""
        if self.case.checks_base == self.case.base:
            return
        earlier = changed_checks(self._repository, self.case.checks_base, self.case.base, self.files)
        known, trees = {change.path for change in earlier}, (self.case.base, self.case.tree)
        again = tuple(change.path for change in self.changed if change.status != "A" and change.path in known)
        lines = {path: [set((self._read(tree, path) or "").splitlines()) for tree in trees] for path in again}
        paths = tuple(path for path, (before, after) in lines.items() if not before <= after)
        if paths:
            what = "checks that came or changed with an earlier task are changed again"
            yield OpenItem("changed", what, "do they ask as much?", (), paths)

    def _criteria_changed(self) -> Iterator[OpenItem]:
        """Commands of criteria that pass, but not with the check files that were there."""
        if not any(change.status != "A" for change in self.changed):
            return
        for name, external in self.commands:
            passes = self._command(self.case.tree, name, external).passed
            if passes and not (before := self._command(self.new_code_base_checks, name, external)).passed:
                what = f"{external.command}: this passes, but not with the check files as they were"
                yield self._changed_item(what, "is that right?", output=before.output)

    # Proof

    def _proven(self) -> bool:
        """Whether a test, or a command of the criteria, turned from red to green."""
        tree = self.base_code_new_checks
        self._there = self.base_tests if self._gates.same(tree, self.case.base) else self._runs(tree)
        for step in (step.name for step in self.tests if step.name in self.new):
            if decision.turned(self._there[step], self.new[step]):
                self.turned += decision.turned(self._again(tree, step), self.new[step])
        self.turned = self.turned or tuple(
            f"{name}: {external.command}"
            for name, external in self.commands
            if self._command(self.case.tree, name, external).passed
            and not self._command(tree, name, external).passed
            and self._command(self.new_code_base_checks, name, external).passed
        )
        return bool(self.turned)

    def _unproven(self) -> Iterator[OpenItem]:
        both = [step.name for step in self.tests if step.name in self.new]
        names = tuple(name for step in both for name in decision.only_new_names(self._there[step], self.new[step]))
        hint = ": new tests only show that a name is there now" if names else ""
        for criterion in self.wanted:
            what = f"no test or command turned from red to green{hint}"
            yield OpenItem("unproven", what, f"does this hold: {criterion}", names)

    def _judged_by_criteria(self) -> bool:
        """Whether a model judges the acceptance criteria anyway, as the criteria of the stage."""
        return any(
            isinstance(named.criteria.verification, Semantic)
            and any(ACCEPTANCE_CRITERIA in text for text in named.criteria.verification.check_for)
            and self._verifiers.ask is not None
            for named in self.case.criteria
        )

    # Means

    @property
    def base_tests(self) -> Runs:
        return {step.name: self.base[step.name] for step in self.tests}

    def _products(self, external: External) -> frozenset[str]:
        """The programs that a criterion's command runs and that are what is judged, not what judges: where the command
        looks at their output itself, those that tests run or import, and those that are yet to be made.
        """
        if not decides_itself(external):
            return frozenset()
        return frozenset(
            path
            for path in programs_of(external.command, external.working_dir)
            if self._read(self.case.base, path) is None or self._is_tested(PurePosixPath(path))
        )

    def _is_tested(self, program: PurePosixPath) -> bool:
        """Whether a test of the base imports that module, or names its file."""
        named = re.compile(rf"\b(?:import|from|require)\b.*\b{re.escape(program.stem)}\b|\b{re.escape(program.name)}\b")
        tests = Globs(TESTS)
        paths = (path for path in self._repository.entries(self.case.base) if tests.match(path))
        return any(named.search(self._read(self.case.base, path) or "") for path in islice(paths, _MOST_TESTS_READ))

    def _command(self, tree: str, name: str, external: External) -> CheckResult:
        return self._gates.command(tree, external, step=name, about=self._about[tree])

    def _runs(self, tree: str) -> Runs:
        return by_step(self._gates.run(tree, self.tests, about=self._about[tree]))

    def _again(self, tree: str, step: str) -> GateRun:
        return self._gates.again(tree, self._step(step), about=self._about[tree])

    def _step(self, name: str) -> VerificationStep:
        return next(step for step in self.steps if step.name == name)

    def _changed_item(self, what: str, ask: str, tests: tuple[str, ...] = (), output: str = "") -> OpenItem:
        return OpenItem("changed", what, ask, tests, tuple(change.path for change in self.changed), output)

    def _read(self, commit: str, path: str) -> str | None:
        content = self._repository.file_of(commit, path)
        return None if content is None else content.decode("utf-8", "replace")
