"""What runs of gates on two codes with two sets of checks tell. Pure functions on values.

A gate is compared by the names of its tests where its runner tells them, else by numbers, else by its exit code.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.config.settings import StepKind, VerificationStep
from rulebook_ralph.tasks.patterns import Globs
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import counted, some
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.gates import result_of

Runs = Mapping[str, GateRun]
"""What gates said of one tree, by the name of the gate."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What one gate says otherwise: the tests by name where they are known, and in words."""

    step: str
    why: str
    tests: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.step}: {some(self.tests)} {self.why}" if self.tests else f"{self.step}: {self.why}"


def by_step(runs: Sequence[GateRun]) -> Runs:
    return {run.step: run for run in runs}


def red_beyond(base: GateRun, new: GateRun) -> Difference | None:
    """What is red of a required gate that was not red on the base; None where nothing is, or the gate is optional."""
    result = new.result
    if not result.required or result.skipped:
        return None
    is_test = result.kind == "test"
    failing = new.tests.failing if is_test else frozenset()
    excused = _excused(base, failing)
    if failing - excused:
        return Difference(new.step, "failed", tuple(sorted(failing - excused)))
    if result.passed:
        told, before = new.tests.failed or 0, base.tests.failed or 0
        if is_test and not failing and told > before:  # without their names
            return Difference(new.step, f"ended with success, but tells of {counted(told, 'failed test')}")
        return None
    if not base.result.failed:
        return Difference(new.step, result.reason or "failed")
    return None if failing else _redder(base, new)


def _redder(base: GateRun, new: GateRun) -> Difference | None:
    """Of a gate that is red on both, without names now: by number, else by exit code."""
    before, now = base.tests.failed, new.tests.failed
    if before is not None and now is not None:
        return Difference(new.step, f"{counted(now, 'test')} failed, {before} on the base") if now > before else None
    if before is not None:
        return Difference(new.step, f"no longer tells of its tests ({new.result.reason})")
    if base.result.exit_code != new.result.exit_code:
        return Difference(new.step, f"{new.result.reason}; on the base: {base.result.reason}")
    return None


def _excused(base: GateRun, failing: frozenset[str]) -> frozenset[str]:
    """Those of failing tests that were red on the base by name, or could not be run there with their file."""
    known = base.tests.names or {}
    not_run = [name.removeprefix("unittest.loader._FailedTest.") for name in base.tests.not_run]
    return frozenset(
        name
        for name in failing
        if name in base.tests.failing or (name not in known and any(_lies_in(name, place) for place in not_run))
    )


def _lies_in(name: str, place: str) -> bool:
    """Whether a test is one of a file, module or package that could not be run; node names no files."""
    if place.startswith("./") and place not in name and "/" not in name.partition(" ")[0]:
        return True
    return name.startswith(tuple(f"{place}{mark}" for mark in ("::", ".", " > ", " \u203a ")))


def excuses(base: GateRun, new: GateRun) -> bool:
    """Whether a red of the base decides something: what is red now is allowed for it."""
    return base.result.failed and (new.result.failed or bool(new.tests.failing & base.tests.failing))


def lost(base: GateRun, new: GateRun) -> Difference | None:
    """The tests that passed on the base and are not run any more: by name where all are named, else by number."""
    if _named_alike(base, new):
        ran = {name for name, told in (new.tests.names or {}).items() if told != "skipped"}
        gone = tuple(sorted(base.tests.passing - ran))
        return Difference(new.step, "passed on the base, and not run any more", gone) if gone else None
    before, now = base.tests.ran, new.tests.ran
    if not before:
        return None
    if now is None:
        return Difference(new.step, f"{counted(before, 'test')} ran on the base, and now nothing tells of any")
    return Difference(new.step, f"{counted(now, 'test')} ran, {before} on the base") if now < before else None


def not_held(base: GateRun, mixed: GateRun) -> Difference | None:
    """What passed on the base and does not pass with the new code and the same checks."""
    failing = mixed.tests.failing - base.tests.failing
    if _named_alike(base, mixed):
        failing = base.tests.passing - mixed.tests.passing
    elif base.tests.complete and failing & base.tests.passing:
        failing &= base.tests.passing
    if failing:
        return Difference(mixed.step, "passed on the base", tuple(sorted(failing)))
    if mixed.result.failed and not base.result.failed:
        return Difference(mixed.step, mixed.result.reason or "failed")
    before, now = base.tests.passed, mixed.tests.passed
    if before and (now is None or now < before) and not base.tests.complete:
        return Difference(mixed.step, f"{now or 0} of {counted(before, 'test')} passed")
    return _redder(base, mixed) if base.result.failed and mixed.result.failed and not base.tests.names else None


def turned(there: GateRun, new: GateRun) -> tuple[str, ...]:
    """The tests that ran and failed on the base's code with the new checks, and pass with the new code.

    What only found a name missing, or could not be run, tells nothing but that a name is new.
    """
    failed = {name for name, told in (there.tests.names or {}).items() if told == "failed"} - there.tests.unnamed
    if failed:
        return tuple(sorted(name for name in failed if _passes(name, there, new)))
    if there.tests.names or new.tests.names:
        return ()
    before, now = there.tests, new.tests
    if before.failed and before.ran and now.ran is not None and now.ran >= before.ran:
        mended = before.failed - (now.failed or 0)
        if mended > 0:
            return (f"{new.step}: {counted(mended, 'test')}",)
    return ()


def _named_alike(base: GateRun, other: GateRun) -> bool:
    """Whether every test that passes is named in both, or would be if it ran."""
    return base.tests.complete and (other.tests.complete or not (base.tests.varies or other.tests.varies))


def only_new_names(there: GateRun, new: GateRun) -> tuple[str, ...]:
    """The tests that pass now and only found on the base that a name is missing."""
    found = there.tests.unnamed | there.tests.not_run
    return tuple(sorted(name for name in found if name not in new.tests.failing))


def _passes(name: str, there: GateRun, new: GateRun) -> bool:
    told = (new.tests.names or {}).get(name)
    if told is not None or _named_alike(there, new) or new.tests.complete:
        return told == "passed"
    all_failures_named = new.result.passed or new.tests.failed == len(new.tests.failing)
    return all_failures_named and (new.tests.ran or 0) >= (there.tests.ran or 0)  # the rest of what ran passed


def differences(
    ones: Runs, others: Runs, compare: Callable[[GateRun, GateRun], Difference | None]
) -> tuple[Difference, ...]:
    """What the comparison finds, gate by gate, of those that both know."""
    found = (compare(one, others[step]) for step, one in ones.items() if step in others)
    return tuple(difference for difference in found if difference is not None)


# Which gates need not run


def skipped(
    steps: Sequence[VerificationStep], changed: Collection[str], *, asked: Collection[StepKind] = ()
) -> Mapping[str, CheckResult]:
    """The gates to skip by name, each with what is recorded of it.

    `changed` are all paths that differ from the task's base, those that were deleted or moved away too; `asked` the
    kinds that stop criteria ask for.
    """
    found = {step.name: step for step in steps if step.when and step.kind not in asked}
    for step in tuple(found.values()):
        globs = Globs(["**", *step.when] if step.when[0].startswith("!") else step.when)
        if any(map(globs.match, changed)):
            del found[step.name]
    required = {step.name for step in steps if step.required}
    if required and found.keys() >= required:  # nothing would prove the work
        found = {name: step for name, step in found.items() if name not in required}
    return {
        name: result_of(step, passed=False, skipped=True, reason=f"no changed file matches {some(step.when, 3)}")
        for name, step in found.items()
    }
