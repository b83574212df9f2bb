"""The stage's promise, alone on its line in the final message, or the pattern that stands for it."""

from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.patterns import Search, search
from rulebook_ralph.core.printable import capital
from rulebook_ralph.loop.evidence import Evidence


class Promise:
    """What the agent must say at the end: the token, or what `stopCriteria.successRegex` finds.

    Where `requirePromise` is off, the token is not asked for; a pattern that is set must match all the same.
    """

    name, priority = "promise", 55

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.stop_criteria.require_promise or bool(evidence.stop_criteria.success_regex)

    def run(self, evidence: Evidence) -> Verdict:
        if evidence.stop_criteria.require_promise and token_given(evidence):
            return SKIP
        searched = search_alias(evidence)
        if searched.found is not None:
            return SKIP
        return _not_promised(evidence, searched)


def promise_given(evidence: Evidence) -> bool:
    """Whether the token was given, or the pattern that stands for it found."""
    return token_given(evidence) or search_alias(evidence).found is not None


def token_given(evidence: Evidence) -> bool:
    """Whether the token stands alone on a line of the final message."""
    return _token(evidence) in evidence.parsed.promises


def search_alias(evidence: Evidence) -> Search:
    """Look for `successRegex` in the final message; nothing is found where none is set."""
    pattern = evidence.stop_criteria.success_regex
    return search(pattern, evidence.result.final_text) if pattern else Search()


def _denied(evidence: Evidence) -> str:
    """A line of the final message that is one of `integrity.contradictions` alone, as VERIFICATION_FAIL; else ""."""
    lines = (line.strip("`* \t") for line in evidence.result.final_text.splitlines())
    return next((line for line in lines if line in evidence.integrity.contradictions), "")


def _token(evidence: Evidence) -> str:
    return " ".join(evidence.promise.split())


def _not_promised(evidence: Evidence, searched: Search) -> Verdict:
    wanted = _token(evidence)
    advice = (
        f"If the task is truly done, end your final message with the promise tag around {wanted}, alone on its own "
        "line; if not, go on."
    )
    if not evidence.stop_criteria.require_promise:
        reason = "the final message does not match stopCriteria.successRegex"
        advice = (
            "If the task is truly done, end your final message with the text that this project asks for; if not, go on."
        )
    elif evidence.parsed.promises:
        reason = f"another promise than {wanted} was given: {evidence.parsed.promises[-1]}"
    else:
        denied = _denied(evidence)
        reason = f"the promise {wanted} was not given" + (f"; the agent said {denied}" if denied else "")
    if searched.problem:
        reason = f"{reason} (stopCriteria.successRegex {searched.problem})"
    return Verdict(action="continue", reason=reason, feedback=f"{capital(reason)}. {advice}")
