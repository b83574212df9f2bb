"""Gates: the project's own commands, run by Ralph in a shell, in order, to the first required failure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Event

from rulebook_ralph import supervisor
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.core.streams import HeadTail

SHELL = "/bin/sh"
_HEAD = 16 * 1024
_TAIL = 48 * 1024


class Cancelled(Exception):  # noqa: N818 - an order, not an error
    """The run was told to end while a gate ran: the gate said nothing."""


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
) -> tuple[CheckResult, ...]:
    """The results of the steps that were run, in order. After a required failure the rest is left out, unless that step
    is `excused`, or `to_the_end`. `clean` takes secrets out of output. Raises Cancelled.
    """
    results: list[CheckResult] = []
    for step in steps:
        started(step)
        result = run_step(step, root=root, environment=environment, clean=clean, cancelled=cancelled)
        results.append(result)
        ended(result)
        if step.required and not result.passed and step.name not in excused and not to_the_end:
            break
    return tuple(results)


def run_step(
    step: VerificationStep,
    *,
    root: Path,
    environment: Mapping[str, str],
    clean: Callable[[str], str],
    cancelled: Event,
) -> CheckResult:
    """One gate. A missing folder, a command that cannot start or a timeout is a failed check with a reason."""
    output = HeadTail(head=_HEAD, tail=_TAIL)
    ended = supervisor.run(
        supervisor.Command(
            argv=(SHELL, "-c", step.command),
            cwd=root / step.working_dir,
            environment={**environment, **step.env},
            merge_stderr=True,
        ),
        limits=supervisor.Limits(wall_time=step.timeout),
        on_output=output.feed,
        cancelled=cancelled,
    )
    if ended.killed_by == "interrupted":
        raise Cancelled
    return CheckResult(
        step=step.name,
        kind=step.kind,
        command=step.command,
        passed=ended.exit_code == 0 and ended.killed_by is None,
        required=step.required,
        exit_code=ended.exit_code if ended.killed_by is None else None,
        reason=_reason(ended, step),
        output=clean(output.text()),
        duration_ms=ended.duration_ms,
    )


def _reason(ended: supervisor.Ended, step: VerificationStep) -> str:
    if ended.failure is not None:
        return f"could not start: {ended.failure.message}"
    if ended.killed_by is not None:
        return f"did not end within {step.timeout:g} s"
    if ended.exit_code == 0:
        return ""
    if ended.exit_code is not None and ended.exit_code < 0:
        return f"ended by signal {-ended.exit_code}"
    return f"exit code {ended.exit_code}"
