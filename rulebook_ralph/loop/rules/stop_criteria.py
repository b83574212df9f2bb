"""What `stopCriteria` asks of an attempt besides its promise: gates of a kind that passed, tools without errors.

What is required and was not run is not satisfied.
"""

from collections.abc import Iterator, Sequence

from rulebook_ralph.core import settings
from rulebook_ralph.core.evidence import SKIP, CheckResult, ToolResult, Verdict, feedback_excerpt
from rulebook_ralph.core.printable import capital, clipped
from rulebook_ralph.loop.evidence import Evidence

_MOST_TOLD = 10


class StopCriteria:
    """The stop criteria that Ralph's own runs, or the agent's tools, answer."""

    name, priority = "stop-criteria", 53

    def should_run(self, evidence: Evidence) -> bool:
        return bool(required_kinds(evidence.stop_criteria)) or evidence.stop_criteria.require_no_errors

    def run(self, evidence: Evidence) -> Verdict:
        missing = list(_missing_gates(evidence))
        failed = failed_tools(evidence.result.tool_results) if evidence.stop_criteria.require_no_errors else ()
        if failed:
            missing.append(f"the last run of {_named(failed[0])} failed" + _and_more(len(failed) - 1))
        if not missing:
            return SKIP
        return Verdict(
            action="continue",
            reason="; ".join(missing),
            feedback="\n\n".join([*(f"{capital(each)}." for each in missing), *map(_told, failed[:_MOST_TOLD])]),
        )


def required_kinds(criteria: settings.StopCriteria) -> dict[settings.StepKind, str]:
    """The kinds of gate that must have run and passed, each with the setting that asks for it."""
    asked: tuple[tuple[bool, settings.StepKind, str], ...] = (
        (criteria.require_passing_tests, "test", "requirePassingTests"),
        (criteria.require_lint, "lint", "requireLint"),
        (criteria.require_type_check, "typecheck", "requireTypeCheck"),
    )
    return {kind: f"stopCriteria.{name}" for required, kind, name in asked if required}


def unsatisfiable(criteria: settings.StopCriteria, steps: Sequence[settings.VerificationStep]) -> tuple[str, ...]:
    """What no attempt can satisfy, as no gate of that kind is configured: one line each, for before the start."""
    kinds = {step.kind for step in steps}
    return tuple(
        f"{setting} asks for a gate of the kind {kind}, and verification.steps has none"
        for kind, setting in required_kinds(criteria).items()
        if kind not in kinds
    )


def failed_tools(results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """The last run of each distinct command, of those that failed. A run of which nothing is known says nothing."""
    last: dict[tuple[str, str], ToolResult] = {}
    for result in results:
        if result.success is not None:
            last[result.name, " ".join(result.command.split())] = result
    return tuple(result for result in last.values() if result.success is False)


def _missing_gates(evidence: Evidence) -> Iterator[str]:
    required = required_kinds(evidence.stop_criteria)
    results = evidence.run_gates().results if required and evidence.steps else ()
    for kind, setting in required.items():
        yield from _of_kind([result for result in results if result.kind == kind], kind, setting)


def _of_kind(results: Sequence[CheckResult], kind: str, setting: str) -> Iterator[str]:
    if all(result.skipped for result in results):
        yield f"{setting}: no gate of the kind {kind} was run"
    if red := [result.step for result in results if result.failed]:
        yield f"{setting}: {', '.join(red)} did not pass"


def _named(tool: ToolResult) -> str:
    return f"{tool.name} ({clipped(tool.command)})" if tool.command.strip() else tool.name


def _and_more(count: int) -> str:
    return f", and of {count} more" if count > 0 else ""


def _told(tool: ToolResult) -> str:
    output = feedback_excerpt(tool.output, head=5, tail=15)
    told = f"The last run of {_named(tool)} failed (stopCriteria.requireNoErrors)."
    return f"{told} Output:\n{output}" if output.strip() else told
