"""What a made-up run tells the console, from its plan to its end."""

from datetime import UTC, datetime

from rulebook_ralph.report.events import (
    AgentActivity,
    GateEnded,
    GateStarted,
    IterationOpened,
    IterationSettled,
    RunPlanned,
    WithinIteration,
)
from rulebook_ralph.tasks.results import CheckResult, Usage

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
PLAN = RunPlanned("sundial", "ralph/sundial", "demo", 9, 12, 3, 20, 3600, None, workers=3)
GATE_STARTED = GateStarted("tests", "make test")
GATE_PASSED = GateEnded(CheckResult(step="tests", command="make test", passed=True, exit_code=0, duration_ms=1234))


def opened(number: int, task: str | None = None, title: str = "A title") -> IterationOpened:
    return IterationOpened(number, number, 20, task or f"t{number}", title, "coder", 2, 5, 3, 12, "claude")


def settled(number: int, task: str | None = None) -> IterationSettled:
    return IterationSettled(
        number, task or f"t{number}", "completed", "", "0123456789ab", 1, 2300, Usage(), 0.1, 0.1, 9, 4, 12
    )


def said(number: int, text: str) -> WithinIteration:
    return WithinIteration(number, AgentActivity("text", text))


def used(number: int, tool: str, detail: str = "") -> WithinIteration:
    return WithinIteration(number, AgentActivity("tool", tool, detail))
