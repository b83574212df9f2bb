"""The verification `external`: a command whose exit code and output decide."""

from rulebook_ralph.checks.shell import Execution, Surroundings, execute
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.evidence import CheckResult, feedback_excerpt

_LONGEST_TEXT = 200


def check(external: External, around: Surroundings, *, step: str, again: bool = False) -> CheckResult:
    """Run the command; what keeps it from running or ending is a failed check with a reason. Raises Cancelled.

    With `again` it is run whatever is known of it.
    """
    execution = execute(external, around, again=again)
    reason = "; ".join(_differences(external, execution))
    return CheckResult(
        step=step,
        method="external",
        command=external.command,
        passed=not reason,
        exit_code=execution.exit_code,
        reason=reason,
        output=execution.output,
        duration_ms=execution.duration_ms,
    )


def feedback(external: External, result: CheckResult) -> str:
    """What the agent must know to mend a failed check: the command, what was expected, what came."""
    lines = [f"The check '{result.step}' failed.", f"Command: {external.command}"]
    if external.working_dir != ".":
        lines.append(f"Folder: {external.working_dir}")
    lines.append(f"Expected: {', '.join(_expected(external))}")
    lines.append(f"Result: {result.reason}")
    if result.output.strip():
        lines.append(f"Output:\n{feedback_excerpt(result.output)}")
    return "\n".join(lines)


def _expected(external: External) -> list[str]:
    expected = [f"exit code {external.success_exit_code}"]
    if external.output_contains:
        expected.append(f"output that contains {_quoted(external.output_contains)}")
    if external.output_not_contains:
        expected.append(f"output without {_quoted(external.output_not_contains)}")
    return expected


def _differences(external: External, execution: Execution) -> list[str]:
    """What was not as expected; empty if the check passes."""
    if execution.problem:
        return [execution.problem]
    found = [_exit_difference(execution.exit_code, external.success_exit_code)]
    if external.output_contains and not execution.holds(external.output_contains):
        found.append(f"the output does not contain {_quoted(external.output_contains)}")
    if external.output_not_contains and execution.holds(external.output_not_contains):
        found.append(f"the output contains {_quoted(external.output_not_contains)}")
    return [difference for difference in found if difference]


def _exit_difference(exit_code: int | None, expected: int) -> str:
    if exit_code == expected:
        return ""
    instead = f", expected {expected}" if expected else ""
    if exit_code is not None and exit_code < 0:
        return f"ended by signal {-exit_code}{instead}"
    return f"exit code {exit_code}{instead}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")
