"""The verification `string_match`: the stage's promise, alone on its line in the final message."""

from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.core.evidence import CheckResult


def check(subject: Subject, *, step: str) -> CheckResult:
    """Whether the promise was given, however its white space is set."""
    wanted = _folded(subject.promise)
    given = [_folded(promise) for promise in subject.promises]
    reason = ""
    if wanted not in given:
        reason = f"another promise than {wanted} was given: {given[-1]}" if given else f"{wanted} was not promised"
    return CheckResult(step=step, method="string_match", command="", passed=not reason, reason=reason)


def feedback(subject: Subject, result: CheckResult) -> str:
    """What the agent must know to mend a failed check."""
    return (
        f"The check '{result.step}' failed: {result.reason}. If the task is truly done, end your final message with "
        f"the promise tag around {_folded(subject.promise)}, alone on its own line; if not, go on."
    )


def _folded(text: str) -> str:
    return " ".join(text.split())
