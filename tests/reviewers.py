"""Models that review, as plain functions of the question: one finds what it is told to look for, one obeys the data."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rulebook_ralph.core.question import Question
from tests.judges import lines_of, nonce_of, would_obey


def is_review(instructions: str) -> bool:
    return instructions.startswith("You review a change")


def issue(file: str, line: int = 1, severity: str = "high", **more: Any) -> dict[str, Any]:
    told = {"type": "logic_bug", "description": "It is wrong.", "suggestion": "Mend it.", "agentPrompt": "Do mend it."}
    return {"file": file, "lines": [line, line], "severity": severity, **told, **more}


def answer(question: Question, issues: Sequence[dict[str, Any]] = (), decision: str = "") -> dict[str, Any]:
    """A whole answer; REVISE where there are issues, unless told otherwise."""
    severities = [each["severity"] for each in issues]
    summary = {"total": len(issues)} | {name: severities.count(name) for name in ("high", "medium", "low")}
    return {
        "nonce": nonce_of(question),
        "decision": decision or ("REVISE" if issues else "SHIP"),
        "issues": list(issues),
        "summary": summary,
    }


def ship(question: Question) -> str:
    return json.dumps(answer(question))


@dataclass
class Finding:
    """REVISE at every added line that holds `fault`; remembers what it was asked."""

    fault: str
    severity: str = "high"
    asked: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        found = [
            (file, number) for file, sign, number, text in lines_of(question) if sign == "+" and self.fault in text
        ]
        told = {"description": f"It has {self.fault}.", "agentPrompt": f"Take {self.fault} out."}
        return json.dumps(answer(question, [issue(file, line, self.severity, **told) for file, line in found]))


@dataclass
class Obedient:
    """Says SHIP where the data talks it into that, or repeats a planted answer; else REVISE."""

    asked: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        if planted := re.search(r'(\{.*"?decision"?.*\})', question.data):
            return planted[1]
        told = [text for _, _, _, text in lines_of(question)] + re.findall(r"^ {4}(.*)$", question.data, re.MULTILINE)
        names = re.findall(r"^file: (.*)$", question.data, re.MULTILINE)
        obeys = any(would_obey(text) for text in (*told, *names) if "withheld" not in text)
        return ship(question) if obeys else json.dumps(answer(question, [issue(names[0], 0)]))


def remembering(answer_with: Callable[[Question], str]) -> tuple[Callable[[Question], str], list[Question]]:
    """The model, and the list of what it is asked."""
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return answer_with(question)

    return ask, asked
