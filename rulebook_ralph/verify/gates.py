"""Runs the project's gates and the commands of criteria on trees, in clones of Ralph's own, and remembers the results.

What was found of a tree holds for it: nothing is run twice on equal trees, but for a red that decides something.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from dataclasses import dataclass, field
from threading import Event as Flag
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.config.settings import Config, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report import events
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.verify.execution import MOST_FAILING, GateRun, execute
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.test_counts import TestRun
from rulebook_ralph.verify.test_names import asking_for_names
from rulebook_ralph.verify.workspace import GateClones, Place

_MISSING = re.compile(r"not found|No such file|No module named|Cannot find (?:module|package)|ENOENT")
_LACKING = "gate {}: if it passes in your tree, Ralph's clone lacks something; see `workspace` in config.yaml"
RED_BEFORE = "red on the base too"


class GateRunner:
    """For one run, and any number of threads. `environment` is that of gates, before a clone's and a step's own."""

    def __init__(
        self,
        clones: GateClones,
        config: Config,
        *,
        environment: Mapping[str, str],
        redactor: Redactor,
        cancelled: Flag,
        report: Callable[[events.Event], None],
    ) -> None:
        self.steps = config.verification.gates
        self.parallel = config.verification.parallel
        self._clones = clones
        self._repository = clones.repository
        self.environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}  # a stale file would hide a change
        self._clean = redactor.clean_cut
        self._cancelled = cancelled
        self.report = report
        self._commands: dict[tuple[str, External], GateRun] = {}
        self._known: dict[tuple[str, str], GateRun] = {}
        self._keys: dict[str, str] = {}
        self.head = ""
        self._confirmed: set[tuple[str, str]] = set()
        self._red_on_base: set[str] = set()

    def reporting(self, report: Callable[[events.Event], None]) -> "GateRunner":
        """The same one, which knows and remembers the same, for an attempt of which others are told by `report`."""
        other = copy(self)
        other.report = report
        return other

    def on(self, base: str) -> "GateRunner":
        """The same one for work on that commit, which is HEAD while gates run."""
        other = copy(self)
        other.head = base
        return other

    # Gates

    def run(
        self,
        tree: str,
        steps: Sequence[VerificationStep] | None = None,
        *,
        on_base: bool = False,
        about: str = "",
        until: Callable[[GateRun], bool] | None = None,
    ) -> tuple[GateRun, ...]:
        """What the gates say of a tree, or of a commit's. In order, up to one of which `until` says so; all at once
        where the configuration says `parallel`. `about` names a tree that is neither the new code with its checks
        nor the base as it is. Raises Cancelled, GitError, RalphError.
        """
        wanted = self.steps if steps is None else tuple(steps)
        key = self._key(tree)
        runs: list[GateRun] = []
        with ExitStack() as stack:
            session = _Session(tree, key, stack, on_base, about)
            unknown = [step for step in wanted if (key, step.name) not in self._known]
            if self.parallel and len(unknown) > 1:
                self._run(session, *unknown)
            for step in wanted:
                runs.append(self._known.get((key, step.name)) or self._run(session, step)[0])
                if until is not None and until(runs[-1]):
                    break
        return tuple(runs)

    def beside(self, trees: Mapping[str, str], steps: Sequence[VerificationStep]) -> None:
        """Run those gates on several trees (each with what it is about) beside each other, where processors are idle
        and gates may run at once; else do nothing: whoever needs a result has it run then. Raises as `run`.
        """
        distinct = {self._key(tree): tree for tree in reversed(list(trees))}.values()
        room = self._clones.idle(several=self.parallel)
        if not self.parallel or room < 2 or len(distinct) < 2:  # noqa: PLR2004 - two beside each other
            return
        with ThreadPoolExecutor(min(room, len(distinct)), "gates") as pool:
            for future in [pool.submit(self.run, tree, steps, about=trees[tree]) for tree in distinct]:
                future.result()

    def again(self, tree: str, step: VerificationStep, *, about: str = "") -> GateRun:
        """The gate run once more, alone, before a red of it decides: the best of both runs is known from then on."""
        key = self._key(tree)
        (known,) = self.run(tree, [step], about=about)
        if (key, step.name) not in self._confirmed:
            self._confirmed.add((key, step.name))
            with ExitStack() as stack:
                session = _Session(tree, key, stack, about=f"{about}, once more".lstrip(", "), alone=True)
                self._known[key, step.name] = known = known.best_of(*self._run(session, step))
        return known

    def command(self, tree: str, external: External, *, step: str, about: str = "") -> CheckResult:
        """What a criterion's command says of a tree. Raises Cancelled, GitError."""
        key = self._key(tree), external
        known = key in self._commands
        if not known:
            self.report(events.GateStarted(step, external.command, about=about))
            try:
                with self.stand(tree) as place:
                    self._commands[key] = self._execute(external, place, self.environment)
            except RalphError as error:
                failed = CheckResult(
                    step=step, method="external", command=external.command, passed=False, reason=f"not run: {error}"
                )
                self._commands[key] = GateRun(failed)
        result = replace(self._commands[key].result, step=step)
        if not known:
            self.report(events.GateEnded(result, about=about))
        return result

    def tests_of(self, tree: str, external: External) -> TestRun:
        """What a criterion's command told of tests on a tree that it was run on."""
        return self._commands[self._key(tree), external].tests

    def known_of(self, commit: str) -> tuple[GateRun, ...]:
        """What is known of a commit, for a process that goes on later."""
        key = self._key(commit)
        return tuple(self._known[key, step.name] for step in self.steps if (key, step.name) in self._known)

    def recall(self, commit: str, runs: Sequence[GateRun]) -> None:
        """Know of a commit what another process had found."""
        self._known |= {(self._key(commit), run.step): run for run in runs}

    def is_confirmed(self, tree: str, step: VerificationStep) -> bool:
        """Whether the gate was run twice on the tree."""
        return (self._key(tree), step.name) in self._confirmed

    def same(self, tree: str, other: str) -> bool:
        """Whether gates can see no difference between two trees."""
        return self._key(tree) == self._key(other)

    def known_as(self, tree: str, other: str) -> None:
        """What was found of a tree holds for another one, which differs in nothing that gates look at."""
        self._keys[other] = self._key(tree)

    # What a base says

    def red_on(self, commit: str) -> tuple[CheckResult, ...]:
        """The gates that are red on a commit, with their output; they are run where that is not known."""
        runs = self.run(commit, on_base=True)
        return tuple(run.result for run in runs if run.result.failed)

    def red_required(self, commit: str) -> tuple[str, ...]:
        """The required gates that are red on a commit, each with what is red of it: `tests: 3 failing`."""
        runs = self.run(commit, on_base=True)
        return tuple(red_words(run) for run in runs if run.result.failed and run.result.required)

    # Steps

    def stand(self, tree: str, *, alone: bool = False) -> AbstractContextManager[Place]:
        """A clone in which the tree stands, HEAD at its base, else at the user's own."""
        head = self.head or self._repository.commit_of(tree) or self._repository.head()
        return self._clones.at(tree, head, several=self.parallel, alone=alone)

    def _run(self, session: "_Session", *steps: VerificationStep) -> tuple[GateRun, ...]:
        """Run a gate, and what builds for it where that was not run in this clone; or several at the same time."""
        for step in steps:
            self.report(events.GateStarted(step.name, step.command, session.on_base, session.about))
        try:
            if session.place is None:
                session.place = session.stack.enter_context(self.stand(session.tree, alone=session.alone))
            else:
                session.place.renew()
            place = session.place
            earlier = self.steps[: self.steps.index(steps[0])] if len(steps) == 1 and steps[0] in self.steps else ()
            for build in (each for each in earlier if each.kind == "build" and each not in session.ran):
                self._execute(external_of(build), place, {**self.environment, **build.env})
                session.ran.append(build)
            with ThreadPoolExecutor(len(steps), "gate") as pool:
                found = tuple(pool.map(lambda step: self._run_step(step, place), steps))
            session.ran += steps
        except RalphError as error:
            if session.on_base:
                raise
            first, _, output = str(error).partition("\n")
            reason = f"not run: {first}"
            found = tuple(GateRun(result_of(step, passed=False, reason=reason, output=output)) for step in steps)
        for step, run in zip(steps, found, strict=True):
            self._known[session.key, step.name] = run
            result = run.result
            if session.on_base and not session.about:
                if step.name not in self._red_on_base and _lacks_something(run):
                    self.report(events.Notice("warning", _LACKING.format(step.name)))
                (self._red_on_base.add if result.failed else self._red_on_base.discard)(step.name)
            elif result.failed and not session.about and step.name in self._red_on_base:
                result = replace(result, reason=f"{result.reason}; {RED_BEFORE}")
            self.report(events.GateEnded(result, session.on_base, session.about))
        return found

    def _run_step(self, step: VerificationStep, place: Place) -> GateRun:
        """One gate, tried again as often as it may be. Output and exit code are the last try's."""
        external, environment = external_of(step), {**self.environment, **step.env}
        tries = [self._execute(external, place, environment)]
        while tries[-1].result.failed and len(tries) <= step.retries:
            tries.append(self._execute(external, place, environment))
        first, last, tests = tries[0].result, tries[-1].result, tries[-1].tests
        reason = last.reason
        if len(tries) > 1:
            reason = f"{reason} (the last of {len(tries)} tries)" if reason else ""
            reason = reason or f"failed at first ({first.reason}), passed at try {len(tries)}"
        result = result_of(
            step,
            passed=last.passed,
            exit_code=last.exit_code,
            reason=reason,
            output=last.output,
            duration_ms=sum(each.result.duration_ms for each in tries),
            failing=tuple(sorted(tests.failing)[:MOST_FAILING]),
            flaky=last.passed and len(tries) > 1,
            attempts=len(tries),
        )
        return GateRun(result, tests)

    def _execute(self, external: External, place: Place, environment: Mapping[str, str]) -> GateRun:
        around = {**place.environment(environment), **asking_for_names(external.command, environment)}
        return execute(external, place, around, clean=self._clean, cancelled=self._cancelled)

    def _key(self, tree: str) -> str:
        """Names what gates look at: all of the tree but Ralph's state, which is not there in their clones."""
        if tree not in self._keys:
            entries = self._repository.objects.tree(self._repository.tree_of(tree))
            self._keys[tree] = repr(
                sorted((name, each.mode, each.oid) for name, each in entries.items() if name != STATE_FOLDER)
            )
        return self._keys[tree]


def _lacks_something(run: GateRun) -> bool:
    """Whether a red gate hung, or could not find what it needs."""
    result = run.result
    return result.failed and not run.tests.passed and (result.exit_code is None or bool(_MISSING.search(result.output)))


def red_words(run: GateRun) -> str:
    """What is red of a gate, in a few words: `tests: 3 failing`."""
    if run.tests.failed:
        return f"{run.step}: {run.tests.failed} failing"
    return f"{run.step}: {run.result.reason or 'failed'}"


@dataclass(slots=True)
class _Session:
    """The gates that are run on one tree, one after another in one clone: what one builds, the next one finds."""

    tree: str
    key: str
    stack: ExitStack
    on_base: bool = False
    about: str = ""
    alone: bool = False
    place: Place | None = None
    ran: list[VerificationStep] = field(default_factory=list)


def external_of(step: VerificationStep) -> External:
    return External(command=step.command, timeout=step.timeout, working_dir=step.working_dir)


def result_of(step: VerificationStep, **values: Any) -> CheckResult:
    return CheckResult(step=step.name, kind=step.kind, command=step.command, required=step.required, **values)
