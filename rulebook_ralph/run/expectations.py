"""How a stage's verification is told to the agent, one line for each thing that must hold."""

from collections.abc import Iterator, Sequence

from rulebook_ralph.config.settings import StopCriteria, VerificationStep
from rulebook_ralph.tasks.criteria import (
    Criteria,
    External,
    MultiStage,
    Semantic,
    Verification,
    with_acceptance_criteria,
)
from rulebook_ralph.tasks.criteria_reading import part_verification
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.text import some

_REQUIRED = (
    ("require_passing_tests", "A gate of the kind test must have run and passed."),
    ("require_lint", "A gate of the kind lint must have run and passed."),
    ("require_type_check", "A gate of the kind typecheck must have run and passed."),
    ("require_no_errors", "The last run of each command that you use must have succeeded."),
)


def gate(step: VerificationStep) -> str:
    """A gate: its command, where it runs, and when it is left out."""
    notes = [
        "" if step.working_dir == "." else f"in {step.working_dir}",
        "" if step.required else "a warning only",
        f"for changes of {some(step.when)}" if step.when else "",
    ]
    told = ", ".join(filter(None, notes))
    return f"{step.name}: `{step.command}`{f' ({told})' if told else ''}"


def required(stop: StopCriteria) -> list[str]:
    """What the stop criteria ask for besides the promise. A pattern is not spelled out: an agent that repeats its
    prompt has not matched it.
    """
    told = [text for name, text in _REQUIRED if getattr(stop, name)]
    if stop.success_regex:
        how = "stands for the promise below" if stop.require_promise else "must be in your final message"
        told.append(f"A text that the project's own pattern matches (stopCriteria.successRegex) {how}.")
    return told


def told(criteria: Criteria, task: Task) -> list[str]:
    """What the stage's criteria verify."""
    return list(_lines(criteria.verification, task))


def reviewed(looked_for: Sequence[str]) -> list[str]:
    """That somebody reviews the work, and for what; nothing where nobody does."""
    names = list(dict.fromkeys(" ".join(each.replace("_", " ").split()) for each in looked_for))
    told = f"Last, a reviewer sees the task and the diff, looks for {some(names, 20)}, and must find nothing to mend."
    return [told] if names else []


def _lines(verification: Verification, task: Task) -> Iterator[str]:
    if isinstance(verification, External):
        yield f"Ralph runs `{verification.command}`; it must {_expected(verification)}."
    elif isinstance(verification, Semantic):
        if verification.negative_patterns:
            texts = ", ".join(verification.negative_patterns)
            yield f"Nothing that you add, nor your final message, may contain: {texts}."
        wanted = list(_criteria(verification, task))
        if wanted:
            yield "A model judges on the diff, with a file and line for each, whether all of these hold: " + "; ".join(
                wanted
            )
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            for line in _lines(part_verification(part), task):
                yield f"{part.name}: {line}{'' if part.required else ' (a warning only)'}"


def _criteria(verification: Semantic, task: Task) -> Iterator[str]:
    for text in verification.check_for:
        asked = with_acceptance_criteria(text, task.acceptance_criteria, without="the task is done as described")
        spelled_out_above = asked != (text,) and asked == task.acceptance_criteria
        yield "the acceptance criteria above" if spelled_out_above else "; ".join(asked)


def _expected(external: External) -> str:
    parts = [f"end with exit code {external.success_exit_code}"]
    if external.output_contains:
        parts.append(f"print {external.output_contains!r}")
    if external.output_not_contains:
        parts.append(f"not print {external.output_not_contains!r}")
    return " and ".join(parts)
