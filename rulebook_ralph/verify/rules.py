"""Rules of the judge that look at what is there, and run nothing: how the agent ended, what it said, what it changed.

Each gives the verdict with which the judge ends there, or None where it has nothing against the attempt.
"""

from collections.abc import Iterable, Iterator, Sequence

from rulebook_ralph.config.settings import StepKind, StopCriteria, VerificationStep
from rulebook_ralph.tasks.model import VERIFY
from rulebook_ralph.tasks.patterns import Globs, Search, search
from rulebook_ralph.tasks.results import (
    AgentResult,
    CheckResult,
    ErrorKind,
    StopReason,
    ToolResult,
    Verdict,
    feedback_excerpt,
)
from rulebook_ralph.tasks.text import capital, clipped
from rulebook_ralph.verify.case import Case, Examination, again
from rulebook_ralph.verify.redaction import secrets_in

CANNOT_HEAL: frozenset[ErrorKind] = frozenset({"authentication", "billing", "not-installed"})
"""Faults of an agent that no waiting heals."""
COUNTED: frozenset[ErrorKind] = frozenset({"max-turns", "max-budget"})
"""Faults that say something of the task: limits that somebody set for the work."""

DENIAL = "VERIFICATION_FAIL"
"""What an agent says alone on a line where a task is to verify something and it does not hold."""

_MOST_TOLD = 10
_CHANGED = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed"}


def agent_ended(case: Case, _: Examination) -> Verdict | None:
    """The agent itself failed, was ended, was cut off or hit a limit: whatever it printed, nothing is completed."""
    result = case.result
    if result is None or result.status == "finished":
        return None
    if (ends := _end_of_run(result, by_run=case.run_limited)) is not None:
        reason, stop_reason = ends
        return Verdict(action="stop", hook="agent", reason=reason, stop_reason=stop_reason, counts=False)
    fault, killed_by = result.fault, result.killed_by
    if killed_by == "stopped":
        return again("agent", "a person stopped the attempt", "A person stopped the attempt while you worked.")
    if killed_by is not None:
        what = "took longer than the limit" if killed_by == "wall-time" else "gave no output for too long"
        reason = f"the agent {result.killed_for or what} and was ended by Ralph"
        return again("agent", reason, f"{capital(reason)}. Work in smaller steps.")
    reason = "the agent's output ended without its end event: it was cut off"
    if result.status != "truncated":
        reason = f"the agent failed: {fault.message if fault else f'it ended with exit code {result.exit_code}'}"
    return again("agent", reason, capital(reason), counts=fault is None or fault.kind in COUNTED)


def _end_of_run(result: AgentResult, *, by_run: bool) -> tuple[str, StopReason] | None:
    """Why the run ends with this attempt, where it does."""
    fault = result.fault
    if result.killed_by == "interrupted":
        return "interrupted", "interrupted"
    if fault is not None and fault.kind in CANNOT_HEAL:
        return f"the agent cannot work ({fault.kind}): {fault.message}", "error"
    if fault is not None and fault.kind == "usage-limit":
        until = f", until {fault.resets_at}" if fault.resets_at else ""
        return f"the agent's usage limit is reached{until}: {fault.message}", "rate-limited"
    if result.killed_by == "wall-time" and by_run:
        return "the run's time limit ended the agent", "max-wall-time"
    return None


def nothing_changed(case: Case, _: Examination) -> Verdict:
    """What an attempt is told that was to change files, and changed none."""
    said = case.result.final_text if case.result else ""
    claims = case.parsed.status == "completed"
    empty = "" if said.strip() else " and the final message was empty"
    return again(
        "work",
        f"the agent {'said it was done, but ' if claims else ''}changed nothing{empty}",
        f"{'You said it was done, but no' if claims else 'No'} file differs from the base commit{empty}. "
        "Do the work in the files of the repository. (Files that git ignores and .rulebook-ralph/ do not count.)",
    )


def protected_unchanged(_: Case, examination: Examination) -> Verdict | None:
    """No file is changed that a person declared to be out of bounds."""
    globs, found = Globs(examination.verifiers.config.protect), list[str]()
    for file in examination.diff():
        if file.old_path not in (None, file.path) and globs.match(file.old_path):
            found.append(f"{file.old_path} is protected, and was renamed to {file.path}")
        elif globs.match(file.path):
            found.append(f"{file.path} is protected, and was {_CHANGED[file.kind]}")
    why = "No task may change these files (`protect` in .rulebook-ralph/config.yaml). Put them back as they were"
    return _refused("protect", found, why)


def no_secrets(case: Case, examination: Examination) -> Verdict | None:
    """No secret was added. A task's `mayChange` allows what looks like one in a file, but none of this environment."""
    allowed = Globs(case.task.may_change)
    every = secrets_in(examination.diff(), examination.verifiers.redactor)
    found = [each for each in every if each.own or not allowed.match(each.path)]
    why = (
        "Secrets must not get into the repository. Take these out (read them from the environment); an example should "
        "be plainly none, and a person can name the file in the task's `mayChange`"
    )
    return _refused("secrets", found, why)


def _refused(hook: str, found: Sequence[object], why: str) -> Verdict | None:
    listed = "\n".join(f"- {each}" for each in found)
    return again(hook, f"{found[0]}{_and_more(len(found) - 1)}", f"{why}:\n{listed}") if found else None


def says_blocked(case: Case, examination: Examination) -> Verdict | None:
    """The agent says that it cannot go on without a person: by the marker, or as `stopCriteria.blockedRegex` finds."""
    said = case.parsed.blocked_reason
    if said is None and case.stop_criteria.blocked_regex and case.result is not None:
        searched = search(case.stop_criteria.blocked_regex, case.result.final_text)
        if searched.problem:
            examination.log.append(f"stopCriteria.blockedRegex {searched.problem}")
        said = None if searched.found is None else clipped(searched.found) or "no reason given"
    if said is None:
        return None
    reason = f"the agent is blocked: {said}"
    return Verdict(action="stop", hook="blocked", reason=reason, stop_reason="blocked", feedback=reason)


def awaiting_approval(hook: str, open_still: str, why: str) -> Verdict:
    """The work is kept until a person agrees to it, as nobody could judge what is open."""
    return Verdict(
        action="stop",
        hook=hook,
        reason=f"needs approval: {open_still}",
        feedback=f"The work is kept and waits for a person's approval ({why}).",
        stop_reason="blocked",
        counts=False,
        awaits_approval=True,
    )


def promise_given(case: Case, _: Examination) -> Verdict | None:
    """The stage's promise, alone on its line in the final message, or the pattern that stands for it; and no denial."""
    if case.result is None:
        return None
    if denied := _denial(case, case.result.final_text):
        return again(
            "promise",
            f"the agent said {denied}",
            f"The last attempt ended with {DENIAL}: what was to be verified does not hold. See its report for what is "
            "missing, mend it, and verify it again.",
        )
    return None if is_promised(case) else _not_promised(case)


def is_promised(case: Case) -> bool:
    """Whether the promise was given, its pattern found, or none is asked for."""
    asked = case.stop_criteria
    if not asked.require_promise and not asked.success_regex:
        return True
    return (asked.require_promise and _token(case) in case.parsed.promises) or _alias(case).found is not None


def _token(case: Case) -> str:
    return " ".join(case.criteria[0].criteria.promise.split())


def _alias(case: Case) -> Search:
    pattern = case.stop_criteria.success_regex
    return search(pattern, case.result.final_text) if pattern and case.result is not None else Search()


def _denial(case: Case, final_text: str) -> str:
    """The denial as a plain line of the final message of a task that verifies, or empty."""
    if VERIFY not in case.task.markers and case.implements:
        return ""
    lines = (line.strip("`* \t") for line in final_text.splitlines())
    return next((clipped(line) for line in lines if line == DENIAL or line.startswith(f"{DENIAL}:")), "")


def _not_promised(case: Case) -> Verdict:
    wanted, given, searched = _token(case), case.parsed.promises, _alias(case)
    advice = (
        f"If the task is truly done, end your final message with the promise tag around {wanted}, alone on its own "
        "line; if not, go on."
    )
    if not case.stop_criteria.require_promise:
        reason = "the final message does not match stopCriteria.successRegex"
        advice = "If the task is truly done, end your final message with the text that this project asks for."
    elif given:
        reason = f"another promise than {wanted} was given: {clipped(given[-1])}"
    elif case.parsed.stray_promise:
        reason = f"the promise was not given alone on its line: {case.parsed.stray_promise}"
    else:
        reason = f"the promise {wanted} was not given"
    if searched.problem:
        reason = f"{reason} (stopCriteria.successRegex {searched.problem})"
    return again("promise", reason, f"{capital(reason)}. {advice}")


def stop_criteria_met(case: Case, examination: Examination) -> Verdict | None:
    """What `stopCriteria` asks for besides the promise: gates of a kind that passed, tools that ended without errors.

    What is required and was not run is not satisfied.
    """
    missing = list(_missing_gates(case.stop_criteria, examination.gate_results()))
    tools = case.result.tool_results if case.result and case.stop_criteria.require_no_errors else ()
    failed = failed_tools(tools)
    if failed:
        missing.append(f"the last run of {_named(failed[0])} failed{_and_more(len(failed) - 1)}")
    told = [*(f"{capital(each)}." for each in missing), *map(_told, failed[:_MOST_TOLD])]
    return again("stop-criteria", "; ".join(missing), "\n\n".join(told)) if missing else None


def required_kinds(criteria: StopCriteria) -> dict[StepKind, str]:
    """The kinds of gate that must have run and passed, each with the setting that asks for it."""
    asked: tuple[tuple[bool, StepKind, str], ...] = (
        (criteria.require_passing_tests, "test", "requirePassingTests"),
        (criteria.require_lint, "lint", "requireLint"),
        (criteria.require_type_check, "typecheck", "requireTypeCheck"),
    )
    return {kind: f"stopCriteria.{name}" for required, kind, name in asked if required}


def unsatisfiable(criteria: StopCriteria, steps: Iterable[VerificationStep]) -> tuple[str, ...]:
    """What no attempt can satisfy, as no gate of that kind is configured: one line each, for before the start."""
    kinds = {step.kind for step in steps}
    return tuple(
        f"{setting} asks for a gate of the kind {kind}, and verification.steps has none"
        for kind, setting in required_kinds(criteria).items()
        if kind not in kinds
    )


def failed_tools(results: Iterable[ToolResult]) -> tuple[ToolResult, ...]:
    """The last run of each distinct command, of those that failed. A run of which nothing is known says nothing."""
    last: dict[tuple[str, str], ToolResult] = {}
    for result in results:
        if result.success is not None:
            last[result.name, " ".join(result.command.split())] = result
    return tuple(result for result in last.values() if result.success is False)


def _missing_gates(criteria: StopCriteria, results: Sequence[CheckResult]) -> Iterator[str]:
    for kind, setting in required_kinds(criteria).items():
        of_kind = [result for result in results if result.kind == kind]
        if all(result.skipped for result in of_kind):
            yield f"{setting}: no gate of the kind {kind} was run"
        if red := [result.step for result in of_kind if result.failed]:
            yield f"{setting}: {', '.join(red)} did not pass"


def _named(tool: ToolResult) -> str:
    return f"{tool.name} ({clipped(tool.command)})" if tool.command.strip() else tool.name


def _told(tool: ToolResult) -> str:
    output = feedback_excerpt(tool.output, head=5, tail=15)
    told = f"The last run of {_named(tool)} failed (stopCriteria.requireNoErrors)."
    return f"{told} Output:\n{output}" if output.strip() else told


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count > 0 else ""
