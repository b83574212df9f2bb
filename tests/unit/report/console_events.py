"""What a made-up run tells the console, from its plan to its end."""

import io
from datetime import UTC, datetime, timedelta

from rulebook_ralph.report.console import Console
from rulebook_ralph.report.events import (
    AgentActivity,
    Event,
    GateEnded,
    GateStarted,
    IterationOpened,
    IterationSettled,
    RunPlanned,
    WithinIteration,
)
from rulebook_ralph.report.screen import Scene, frame
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


def live(*happened: Event, width: int = 79, height: int = 23, seconds: float = 5) -> list[str]:
    """The live lines after that."""
    scene = Scene()
    for event in happened:
        scene.apply(event, NOON)
    return [row.plain for row in frame(scene, NOON + timedelta(seconds=seconds), width=width, height=height)]


def plain(*happened: Event, quiet: bool = False) -> list[str]:
    """What a log has of it, without the clock time."""
    out = io.StringIO()
    with Console(out, io.StringIO(), environment={}, now=lambda: NOON, quiet=quiet) as console:
        for event in happened:
            console.report(event)
    lines = out.getvalue().splitlines()
    assert all(line.startswith("12:00:00 ") for line in lines)
    return [line[9:] for line in lines]
