"""Evidence of an attempt by hand, for tests of the rules that judge it."""

from dataclasses import dataclass, field
from typing import Any

from rulebook_ralph.core.criteria import Criteria, StringMatch
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, Verified
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Integrity, StopCriteria, VerificationStep
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.workspace.snapshot import Change

PROMISE = "IMPLEMENTATION_COMPLETE"
CHANGED = (Change("src/a.py", "M", is_gitlink=False),)
STEP = VerificationStep(name="tests", kind="test", command="make test")
GREEN = CheckResult(step="tests", kind="test", command="make test", passed=True, exit_code=0)
RED = CheckResult(
    step="tests", kind="test", command="make test", passed=False, exit_code=1, reason="exit code 1", output="1 failed"
)
LINT_GREEN = CheckResult(step="lint", kind="lint", command="make lint", passed=True, exit_code=0)
LINT_RED = CheckResult(step="lint", kind="lint", command="make lint", passed=False, exit_code=2, reason="exit code 2")


def criteria(promise: str = PROMISE) -> Criteria:
    """The criteria of a stage that asks for the promise alone."""
    return Criteria(promise=promise, description="", verification=StringMatch())


@dataclass
class Attempt:
    """An attempt at which nothing is wrong but what is said; `asked` are the checks that were asked for, in order."""

    gates: Gates = field(default_factory=lambda: Gates((GREEN,)))
    refused: str | None = None
    verified: Verified = field(default_factory=lambda: Verified(passed=True, proven=True))
    asked: list[str] = field(default_factory=list)

    def evidence(self, **values: Any) -> Evidence:
        defaults: dict[str, Any] = {
            "task": Task(id="one", title="Do one"),
            "stage": "coder",
            "attempt": 1,
            "last_stage": True,
            "criteria": criteria(),
            "stop_criteria": StopCriteria(),
            "result": AgentResult(agent="test", status="finished", final_text="done"),
            "parsed": ParsedIteration(status="completed", promises=(PROMISE,)),
            "changes": CHANGED,
            "steps": (STEP,),
            "excused": frozenset(),
            "tests_on_base": {},
            "failing_on_base": {},
            "protect": (),
            "integrity": Integrity(),
            "trust_agent": False,
            "run_limited": False,
            "has_secret": lambda text: "s3cret" in text,
            "told": tuple,
            "diff": tuple,
            "versions": lambda _: {},
            "folders": lambda _: frozenset(),
            "run_gates": self._run_gates,
            "run_criteria": self._run_criteria,
            "try_commit": self._try_commit,
        }
        return Evidence(**(defaults | values))

    def _run_gates(self) -> Gates:
        self.asked.append("gates")
        return self.gates

    def _run_criteria(self) -> Verified:
        self.asked.append("criteria")
        return self.verified

    def _try_commit(self) -> str | None:
        self.asked.append("commit")
        return self.refused
