"""Runs the project's gates and the commands of criteria on trees, in clones of Ralph's own, and remembers the results.

What was found of a tree holds for it: nothing is run twice on equal trees, but for a red that decides something.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from threading import Event as Flag
from typing import Self

from msgspec.structs import replace

from rulebook_ralph.config.settings import Config, VerificationStep
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.clone import Clones
from rulebook_ralph.report import events
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.verify.execution import Execution, execute
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.test_counts import NO_TESTS, Outcome, TestRun
from rulebook_ralph.verify.test_names import asking_for_names
from rulebook_ralph.verify.workspace import Cancelled, ClonePreparer, GateClones, Place, Stand

__all__ = ["Cancelled", "GateRun", "GateRunner"]

_MOST_FAILING = 50


@dataclass(frozen=True, slots=True)
class GateRun:
    """What a gate said of a tree, and what its output told of tests."""

    result: CheckResult
    tests: TestRun = NO_TESTS

    @property
    def step(self) -> str:
        return self.result.step

    def best_of(self, other: "GateRun") -> "GateRun":
        """Of two runs on one tree: a test that passed in either of them is flaky, and is not what decides."""
        better = self if self.result.passed else other
        names = _best(self, other)
        failing = tuple(sorted(name for name, told in names.items() if told in ("failed", "error")))
        fewer = min((each.tests for each in (self, other)), key=lambda tests: tests.failed or 0)
        tests = TestRun(
            names or None,
            fewer.ran,
            len(failing) if names else fewer.failed,
            self.tests.complete and other.tests.complete,
            self.tests.varies or other.tests.varies,
            self.tests.unnamed & other.tests.unnamed,
        )
        flaky = self.result.passed != other.result.passed or self.result.flaky
        attempts = self.result.attempts + other.result.attempts
        return GateRun(replace(better.result, flaky=flaky, attempts=attempts, failing=failing[:_MOST_FAILING]), tests)


def _best(one: GateRun, other: GateRun) -> dict[str, Outcome]:
    """The names of two runs, each with the better outcome. What a run does not name passed there, where it names only
    failures; else it stays as the other says.
    """
    order: tuple[Outcome, ...] = ("passed", "skipped", "failed", "error")
    names: dict[str, Outcome] = {}
    for run, beside in ((one, other), (other, one)):
        passed = not beside.tests.complete and (beside.result.passed or bool(beside.tests.ran))
        for name, told in (run.tests.names or {}).items():
            there = (beside.tests.names or {}).get(name, "passed" if passed else told)
            names[name] = min(told, there, key=order.index)
    return names


class GateRunner:
    """For one run, and any number of threads. `environment` is that of gates, before a clone's and a step's own."""

    def __init__(
        self,
        clones: Clones,
        workspace: ClonePreparer,
        config: Config,
        *,
        environment: Mapping[str, str],
        redactor: Redactor,
        cancelled: Flag,
        report: Callable[[events.Event], None],
    ) -> None:
        self.steps = config.verification.gates
        self.parallel = config.verification.parallel
        self._clones = GateClones(clones, workspace, several=self.parallel)
        self._repository = clones.repository
        self.environment = dict(environment)
        self._clean = redactor.clean
        self._cancelled = cancelled
        self.report = report
        self._commands: dict[tuple[str, External], Execution] = {}
        self._known: dict[tuple[str, str], GateRun] = {}
        self._keys: dict[str, str] = {}
        self._commits: dict[str, str] = {}
        self._confirmed: set[tuple[str, str]] = set()

    # Gates

    def run(
        self,
        tree: str,
        steps: Sequence[VerificationStep] | None = None,
        *,
        commit: str = "",
        on_base: bool = False,
        about: str = "",
        until: Callable[[GateRun], bool] | None = None,
    ) -> tuple[GateRun, ...]:
        """What the gates say of a tree, or of a commit's; HEAD is `commit` while they run. In order, up to one of which
        `until` says so; all at once where the configuration says `parallel`. `about` names a tree that is neither the
        new code with its checks nor the base as it is. Raises Cancelled, GitError, RalphError.
        """
        wanted = self.steps if steps is None else tuple(steps)
        key = self._key(tree, commit)
        runs: list[GateRun] = []
        with _Session(self, tree, key, on_base=on_base, about=about) as session:
            if self.parallel:
                unknown = [step for step in wanted if (key, _named(step)) not in self._known]
                if len(unknown) > 1:
                    session.run(*unknown)
            for step in wanted:
                runs.append(self._known.get((key, _named(step))) or session.run(step)[0])
                if until is not None and until(runs[-1]):
                    break
        return tuple(runs)

    def beside(self, trees: Mapping[str, str], steps: Sequence[VerificationStep], *, commit: str) -> None:
        """Run those gates on several trees (each with what it is about) beside each other, where processors are idle
        and gates may run at once; else do nothing: whoever needs a result has it run then. Raises as `run`.
        """
        distinct = {self._key(tree, commit): tree for tree in reversed(list(trees))}.values()
        room = self._clones.idle()
        if not self.parallel or room < 2 or len(distinct) < 2:  # noqa: PLR2004 - two beside each other
            return
        with ThreadPoolExecutor(min(room, len(distinct)), "gates") as pool:
            for future in [pool.submit(self.run, tree, steps, commit=commit, about=trees[tree]) for tree in distinct]:
                future.result()

    def again(self, tree: str, step: VerificationStep, *, commit: str = "", about: str = "") -> GateRun:
        """The gate run once more, alone, before a red of it decides: the best of both runs is known from then on."""
        key = self._key(tree, commit)
        (known,) = self.run(tree, [step], commit=commit, about=about)
        if (key, step.name) not in self._confirmed:
            self._confirmed.add((key, step.name))
            with _Session(self, tree, key, alone=True, about=f"{about}, once more".lstrip(", ")) as session:
                self._known[key, _named(step)] = known = known.best_of(*session.run(step))
        return known

    def command(self, tree: str, external: External, *, step: str, commit: str = "") -> CheckResult:
        """What a criterion's command says of a tree. Raises Cancelled, GitError."""
        key = self._key(tree, commit), external
        if key not in self._commands:
            try:
                with self.stand(tree) as stand:
                    self._commands[key] = self.execute(external, stand.place, self.environment)
            except RalphError as error:
                self._commands[key] = Execution((f"not run: {error}",))
        execution = self._commands[key]
        return CheckResult(
            step=step,
            method="external",
            command=external.command,
            passed=not execution.problems,
            exit_code=execution.exit_code,
            reason="; ".join(execution.problems),
            output=execution.output,
            duration_ms=execution.duration_ms,
        )

    def known_of(self, commit: str) -> tuple[GateRun, ...]:
        """What is known of a commit, for a process that goes on later."""
        key = self._key(commit, "")
        return tuple(known for step in self.steps if (known := self._known.get((key, _named(step)))) is not None)

    def recall(self, commit: str, runs: Sequence[GateRun]) -> None:
        """Know of a commit what another process had found."""
        steps = {step.name: step for step in self.steps}
        self._known |= {(self._key(commit, ""), _named(steps[run.step])): run for run in runs if run.step in steps}

    def is_confirmed(self, tree: str, step: VerificationStep) -> bool:
        """Whether the gate was run twice on the tree."""
        return (self._key(tree, ""), step.name) in self._confirmed

    def same(self, tree: str, other: str) -> bool:
        """Whether gates can see no difference between two trees."""
        return self._key(tree, "") == self._key(other, "")

    def known_as(self, tree: str, other: str) -> None:
        """What was found of a tree holds for another one, which differs in nothing that gates look at."""
        self._keys[other] = self._key(tree, "")

    def environment_in(self, place: Place) -> Mapping[str, str]:
        """The environment of gates in a clone."""
        return {**place.environment(self.environment), "PYTHONDONTWRITEBYTECODE": "1"}

    # What a base says

    def red_on(self, commit: str) -> tuple[CheckResult, ...]:
        """The gates that are red on a commit, with their output; they are run where that is not known."""
        runs = self.run(commit, on_base=True)
        return tuple(run.result for run in runs if run.result.failed)

    def red_required(self, commit: str) -> tuple[str, ...]:
        """The required gates that are red on a commit, each with what is red of it: `tests: 3 failing`."""
        runs = {run.step: run for run in self.run(commit, on_base=True)}
        return tuple(red_words(run) for run in runs.values() if run.result.failed and run.result.required)

    # Steps

    def stand(self, tree: str, *, commit: str = "", alone: bool = False) -> AbstractContextManager[Stand]:
        """A clone in which the tree stands, HEAD at the commit; also for what else is run on it."""
        if commit:
            self._commits.setdefault(tree, commit)
        return self._clones.at(tree, self._commit(tree), alone=alone)

    def remember(self, key: str, step: VerificationStep, run: GateRun) -> None:
        self._known[key, _named(step)] = run

    def builds_before(self, step: VerificationStep) -> tuple[VerificationStep, ...]:
        """The gates before that one that build something it may need."""
        earlier = self.steps[: self.steps.index(step)] if step in self.steps else ()
        return tuple(each for each in earlier if each.kind == "build")

    def run_step(self, step: VerificationStep, place: Place) -> GateRun:
        """One gate, tried again as often as it may be. Output and exit code are the last try's."""
        external, environment = external_of(step), {**self.environment, **step.env}
        first = execution = self.execute(external, place, environment)
        tries, duration = 1, first.duration_ms
        while execution.problems and tries <= step.retries:
            execution = self.execute(external, place, environment)
            tries += 1
            duration += execution.duration_ms
        problems = execution.problems
        result = CheckResult(
            step=step.name,
            kind=step.kind,
            command=step.command,
            passed=not problems,
            required=step.required,
            exit_code=execution.exit_code,
            reason=_why("; ".join(first.problems), "; ".join(problems), tries),
            output=execution.output,
            duration_ms=duration,
            failing=tuple(sorted(execution.tests.failing)[:_MOST_FAILING]),
            flaky=not problems and tries > 1,
            attempts=tries,
        )
        return GateRun(result, execution.tests)

    def execute(self, external: External, place: Place, environment: Mapping[str, str]) -> Execution:
        around = {**place.environment(environment), **asking_for_names(external.command, environment)}
        around["PYTHONDONTWRITEBYTECODE"] = "1"  # a stale file of the same second and size would hide a change
        return execute(external, place, around, clean=self._clean, cancelled=self._cancelled)

    def _key(self, tree: str, commit: str) -> str:
        """Names what gates look at: all of the tree but Ralph's state, which is not there in their clones."""
        if commit:
            self._commits.setdefault(tree, commit)
        if tree not in self._keys:
            listing = self._repository.run("ls-tree", "-z", "--full-tree", tree).split(b"\0")
            state = f"\t{STATE_FOLDER}".encode()
            self._keys[tree] = b"\0".join(line for line in listing if not line.endswith(state)).hex()
        return self._keys[tree]

    def _commit(self, tree: str) -> str:
        """The commit that is HEAD where the tree stands: the base of an attempt, else the user's own."""
        if tree not in self._commits:
            self._commits[tree] = self._repository.commit_of(tree) or self._repository.head()
        return self._commits[tree]


def red_words(run: GateRun) -> str:
    """What is red of a gate, in a few words: `tests: 3 failing`."""
    if run.tests.failed:
        return f"{run.step}: {run.tests.failed} failing"
    return f"{run.step}: {run.result.reason or 'failed'}"


class _Session:
    """The gates that are run on one tree, one after another in one clone: what one builds, the next one finds."""

    def __init__(
        self,
        runner: GateRunner,
        tree: str,
        key: str,
        *,
        on_base: bool = False,
        alone: bool = False,
        about: str = "",
    ) -> None:
        self._runner = runner
        self._tree = tree
        self._key = key
        self._on_base = on_base
        self._alone = alone
        self._about = about
        self._stack = ExitStack()
        self._stand: Stand | None = None
        self._ran: list[VerificationStep] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *steps: VerificationStep) -> tuple[GateRun, ...]:
        """Run a gate, and what builds for it where that was not run in this clone; or several at the same time."""
        runner = self._runner
        for step in steps:
            runner.report(events.GateStarted(step.name, step.command, self._on_base, self._about))
        try:
            place = self._placed()
            for build in runner.builds_before(steps[0]) if len(steps) == 1 else ():
                if build not in self._ran:
                    runner.execute(external_of(build), place, {**runner.environment, **build.env})
                    self._ran.append(build)
            with ThreadPoolExecutor(len(steps), "gate") as pool:
                found = tuple(pool.map(lambda step: runner.run_step(step, place), steps))
            self._ran += steps
        except RalphError as error:
            if self._on_base:
                raise
            found = tuple(GateRun(_not_set_up(step, str(error))) for step in steps)
        for step, run in zip(steps, found, strict=True):
            runner.remember(self._key, step, run)
            runner.report(events.GateEnded(run.result, self._on_base, self._about))
        return found

    def _placed(self) -> Place:
        if self._stand is None:
            self._stand = self._stack.enter_context(self._runner.stand(self._tree, alone=self._alone))
        else:
            self._stand.renew()
        return self._stand.place


def external_of(step: VerificationStep) -> External:
    return External(command=step.command, timeout=step.timeout, working_dir=step.working_dir)


def _named(step: VerificationStep) -> str:
    """All of a gate that its result depends on."""
    return repr((step.command, step.timeout, step.retries, step.working_dir, sorted(step.env.items()), step.kind))


def _why(first: str, last: str, tries: int) -> str:
    if tries == 1:
        return last
    return f"{last} (the last of {tries} tries)" if last else f"failed at first ({first}), passed at try {tries}"


def _not_set_up(step: VerificationStep, problem: str) -> CheckResult:
    first, _, output = problem.partition("\n")
    return CheckResult(
        step=step.name,
        kind=step.kind,
        command=step.command,
        passed=False,
        required=step.required,
        reason=f"not run: {first}",
        output=output,
    )
