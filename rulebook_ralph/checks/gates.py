"""Gates: the project's own commands, run by Ralph in a shell, in order to the first required failure or all at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from msgspec.structs import replace

from rulebook_ralph.checks import external
from rulebook_ralph.checks.shell import SHELL, Cancelled, ResultCache, Surroundings
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep

__all__ = ["SHELL", "Cancelled", "run_step", "run_steps"]

_Started = Callable[[VerificationStep], None]


def run_steps(
    steps: Sequence[VerificationStep],
    *,
    root: Path,
    environment: Mapping[str, str],
    clean: Callable[[str], str],
    cancelled: Event,
    started: _Started,
    ended: Callable[[CheckResult], None],
    excused: Collection[str] = (),
    skipped: Mapping[str, str] | None = None,
    to_the_end: bool = False,
    parallel: bool = False,
    tree: str = "",
    cache: ResultCache | None = None,
) -> tuple[CheckResult, ...]:
    """The results of the steps, in their order. After a required failure the rest is left out, unless that step is
    `excused`, or `to_the_end`, or `parallel`: then all run at once, each to its end.

    `skipped` are the names of steps not to run, each with the reason. `clean` takes secrets out of output. `started`
    and `ended` are called in the caller's thread, in the order of the steps. What commands do to `tree`, the object id
    of what stands at `root`, is remembered in `cache`. Raises Cancelled, when all that was started has ended.
    """
    around = Surroundings(root, environment, clean, cancelled, tree, cache)
    run = _all_at_once if parallel else _one_by_one
    results: list[CheckResult] = []
    for step, result in run(steps, around, skipped or {}, started):
        results.append(result)
        ended(result)
        if result.failed and step.required and step.name not in excused and not (to_the_end or parallel):
            break
    return tuple(results)


def _one_by_one(
    steps: Sequence[VerificationStep], around: Surroundings, skipped: Mapping[str, str], started: _Started
) -> Iterator[tuple[VerificationStep, CheckResult]]:
    for step in steps:
        if step.name in skipped:
            yield step, _not_run(step, skipped[step.name])
        else:
            started(step)
            yield step, run_step(step, around)


def _all_at_once(
    steps: Sequence[VerificationStep], around: Surroundings, skipped: Mapping[str, str], started: _Started
) -> Iterator[tuple[VerificationStep, CheckResult]]:
    to_run = [step for step in steps if step.name not in skipped]
    for step in to_run:
        started(step)
    with ThreadPoolExecutor(max(1, len(to_run)), thread_name_prefix="gate") as threads:
        running = {step.name: threads.submit(run_step, step, around) for step in to_run}
        for step in steps:
            future = running.get(step.name)
            yield step, future.result() if future is not None else _not_run(step, skipped[step.name])


def run_step(step: VerificationStep, around: Surroundings) -> CheckResult:
    """One gate, tried again as often as it may be. A missing folder, a command that cannot start or a timeout is a
    failed check with a reason. Output and exit code are the last try's, the duration is that of all. Raises Cancelled.
    """
    command = External(command=step.command, timeout=step.timeout, working_dir=step.working_dir)
    if step.env:
        around = around.with_environment({**around.environment, **step.env})
    result = first = external.check(command, around, step=step.name)
    tries, duration = 1, first.duration_ms
    while not result.passed and tries <= step.retries:
        result = external.check(command, around, step=step.name, again=True)
        tries += 1
        duration += result.duration_ms
    return replace(
        result,
        method="gate",
        kind=step.kind,
        required=step.required,
        flaky=result.passed and tries > 1,
        attempts=tries,
        reason=_why(first, result, tries),
        duration_ms=duration,
    )


def _why(first: CheckResult, last: CheckResult, tries: int) -> str:
    if tries == 1:
        return last.reason
    if last.passed:
        return f"failed at first ({first.reason}), passed at try {tries}"
    return f"{last.reason} (the last of {tries} tries)"


def _not_run(step: VerificationStep, why: str) -> CheckResult:
    return CheckResult(
        step=step.name,
        kind=step.kind,
        command=step.command,
        passed=False,
        required=step.required,
        skipped=True,
        reason=why,
    )
