"""Which gates an attempt need not run, because none of the files it changed concerns them. Pure.

`when` saves time and never evidence: what is skipped has not passed. So a gate of a kind that a stop criterion asks for
is always run, and so is at least one required gate of those that may be held against the attempt.
"""

from collections.abc import Collection, Mapping, Sequence

from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.core.settings import StepKind, VerificationStep

_MOST_NAMED = 3


def skipped(
    steps: Sequence[VerificationStep],
    changed: Collection[str],
    *,
    asked: Collection[StepKind] = (),
    excused: Collection[str] = (),
) -> Mapping[str, str]:
    """The names of the steps to skip, each with the reason.

    `changed` are all paths that differ from the task's base, those that were deleted or moved away too; `asked` the
    kinds that stop criteria ask for; `excused` the steps that were red on the base: they prove nothing.
    """
    found = {step.name: step for step in steps if step.when and step.kind not in asked and not _concerns(step, changed)}
    proving = [step.name for step in steps if step.required and step.name not in excused]
    if found.keys() >= set(proving):  # nothing would prove the work
        found = {name: step for name, step in found.items() if name not in proving}
    return {name: _reason(step) for name, step in found.items()}


def _concerns(step: VerificationStep, changed: Collection[str]) -> bool:
    globs = Globs(["**", *step.when] if step.when[0].startswith("!") else step.when)
    return any(map(globs.match, changed))


def _reason(step: VerificationStep) -> str:
    more = ", …" if len(step.when) > _MOST_NAMED else ""
    return f"no changed file matches {', '.join(step.when[:_MOST_NAMED])}{more}"
