"""Gates: the project's own commands, run by Ralph in a shell, in order, to the first required failure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.checks import external
from rulebook_ralph.checks.shell import SHELL, Cancelled, ResultCache, Surroundings
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep

__all__ = ["SHELL", "Cancelled", "run_step", "run_steps"]


def run_steps(
    steps: Sequence[VerificationStep],
    *,
    root: Path,
    environment: Mapping[str, str],
    clean: Callable[[str], str],
    cancelled: Event,
    started: Callable[[VerificationStep], None],
    ended: Callable[[CheckResult], None],
    excused: Collection[str] = (),
    to_the_end: bool = False,
    tree: str = "",
    cache: ResultCache | None = None,
) -> tuple[CheckResult, ...]:
    """The results of the steps that were run, in order. After a required failure the rest is left out, unless that step
    is `excused`, or `to_the_end`. `clean` takes secrets out of output. What commands do to `tree`, the object id of
    what stands at `root`, is remembered in `cache`. Raises Cancelled.
    """
    around = Surroundings(root, environment, clean, cancelled, tree, cache)
    results: list[CheckResult] = []
    for step in steps:
        started(step)
        result = run_step(step, around)
        results.append(result)
        ended(result)
        if step.required and not result.passed and step.name not in excused and not to_the_end:
            break
    return tuple(results)


def run_step(step: VerificationStep, around: Surroundings) -> CheckResult:
    """One gate. A missing folder, a command that cannot start or a timeout is a failed check with a reason."""
    command = External(command=step.command, timeout=step.timeout, working_dir=step.working_dir)
    if step.env:
        around = around.with_environment({**around.environment, **step.env})
    result = external.check(command, around, step=step.name)
    return replace(result, method="gate", kind=step.kind, required=step.required)
