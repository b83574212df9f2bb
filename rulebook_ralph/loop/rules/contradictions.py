"""What the agent says against its own claim, and claims that the gates deny."""

import re
from collections.abc import Iterator, Sequence

from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.loop.evidence import Evidence, is_held

_CLAIMS = {"tests": "test", "lint": "lint", "typecheck": "typecheck"}

_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_QUOTED = re.compile(r"`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|«[^»\n]+»")
_SENTENCE_END = re.compile(
    r"(?<=[.!?;])\s+|\n\s*(?:\n|[-*+#|\u2022]|\d+[.)])\s*|\s[-\u2013\u2014]\s|"
    r"\b(?:but|however|though|except)\b"
)
_NO = re.compile(
    r"\b(?:no|not|never|nothing|none|nobody|neither|nor|without|zero|cannot|avoid\w*|instead of|rather than|free of|"
    r"\w+n['\u2019]t)\b",
    re.IGNORECASE,
)
_NONE_AFTER = re.compile(
    r"^\w*(?:\s+\w+){0,2}\s*(?:[:=]\s*(?:none|no\b|n/?a|nothing|0\b|-)|"
    r"(?:is|are|was|were|will be)\s+(?:not|no longer|never|"
    r"un)|(?:is|are)n['\u2019]t)",
    re.IGNORECASE,
)
_ANEW = re.compile(
    r":\s|:$|,\s*(?:and|so|it|this|that|they|you|i|we|please|which|one|two|some|\d+)\b|"
    r"\b(?:and|so)(?:\s+(?:it|this|that|still|then|also))*$",
    re.IGNORECASE,
)
_OVER = re.compile(
    r"\b(?:previous\w*|earlier|initially|originally|at first|(?:first|last|prior) (?:attempt|try|run)|"
    r"before (?:this|my|the)|"
    r"used to|until|now (?:pass|work|succeed|complete|fixed|green)\w*|"
    r"(?:is|are|was|were|been|got) (?:now )?(?:fixed|resolved|solved))\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|when|whenever|unless|in case|should it)\b", re.IGNORECASE)
_ABOUT = re.compile(
    r"\b(?:document|describ|remov|eliminat|replac|automat|list|delet|drop|handle[sd]?|cover|fix|repair|resolv|report|mark|rais|"
    r"return|print|show|log|warn|message|detect|reject|say|saying|explain|test for|tests for)\w*\b[^,]*$",
    re.IGNORECASE,
)
_NEAR = 10
"""Words before a match that are looked at."""


class Contradictions:
    """A claim of completion beside words that deny it."""

    name, priority = "contradictions", 42

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.integrity.enabled and evidence.integrity.contradictions and _claims(evidence))

    def run(self, evidence: Evidence) -> Verdict:
        said = f"{evidence.result.final_text}\n\n{evidence.parsed.summary}"  # of a report's block the summary
        told = next(denials(said, evidence.integrity.contradictions, evidence.task), None)
        if told is None:
            return SKIP
        quote = clipped(told)
        return Verdict(
            action="continue",
            reason=f"the agent claimed completion, and also said: {quote}",
            feedback=f"You claimed that the task is complete, but your final message says: “{quote}” Finish what that "
            "names and claim completion then. If only a person can do it, end as blocked and say what is needed; if it "
            "is no part of the task, leave it out of the message.",
        )


def _claims(evidence: Evidence) -> bool:
    return bool(evidence.parsed.promises) or evidence.parsed.status == "completed"


def denials(message: str, patterns: Sequence[str], task: Task) -> Iterator[str]:
    """The sentences of a message that hold one of the patterns and mean it.

    Upper and lower case and white space make no difference. Code, quotations, negations ("no manual steps"), what is
    over ("failed at first"), conditions and the task's own words do not count.
    """
    own = _folded("\n".join((task.title, task.description, task.outcome, task.notes, *task.acceptance_criteria)))
    wanted = [folded for pattern in patterns if (folded := _folded(pattern)) and folded not in own]
    if not wanted or not any(pattern in _folded(message) for pattern in wanted):
        return
    for sentence in _SENTENCE_END.split(_prose(message)):
        text = " ".join((sentence or "").split())
        folded = text.casefold()
        for pattern in wanted:
            if pattern in folded and _is_meant(text, folded.index(pattern), len(pattern)):
                yield text
                break


def _is_meant(text: str, start: int, length: int) -> bool:
    before = " ".join(text[:start].split()[-_NEAR:])
    clause = _ANEW.split(before)[-1] if _ANEW.search(before) else before
    denied = _NO.search(clause) or _NONE_AFTER.search(text[start + length :]) or _ABOUT.search(clause)
    return not (denied or _OVER.search(text) or _CONDITION.search(clause))


def _prose(message: str) -> str:
    """A message without blocks of code, quotations and quoted lines."""
    parts = _FENCE.split(message)
    kept = [part for at, part in enumerate(parts) if at % 2 == 0 or at == len(parts) - 1]  # the last may be left open
    lines = (line for part in kept for line in part.split("\n") if not line.lstrip().startswith(">"))
    return _QUOTED.sub("…", "\n".join(lines))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def contradicted_claims(evidence: Evidence) -> list[str]:
    """Claims of the agent that a gate, run by Ralph, denies. Runs the gates where they were not."""
    kinds = {_CLAIMS[name] for name, claimed in evidence.parsed.quality_claims.items() if claimed}
    if not kinds:
        return []
    denied = [
        result.step
        for result in evidence.run_gates().results
        if result.kind in kinds and is_held(result, evidence.excused)
    ]
    return [f"You claimed that these pass; they failed when Ralph ran them: {', '.join(denied)}."] if denied else []
