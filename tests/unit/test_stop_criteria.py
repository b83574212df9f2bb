"""The stop criteria of a project or task: spec completion-hooks, Stop Criteria."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rulebook_ralph.agents.claude_stream import ClaudeReader
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.transcript import conclude
from rulebook_ralph.core import parser, patterns
from rulebook_ralph.core.evidence import AgentResult, CheckResult, ParsedIteration, ToolResult, Verdict
from rulebook_ralph.core.settings import StopCriteria, VerificationStep
from rulebook_ralph.loop.evidence import Evidence, Gates
from rulebook_ralph.loop.pipeline import judge
from rulebook_ralph.loop.rules.attempt import Blocked
from rulebook_ralph.loop.rules.gates import GatesPass
from rulebook_ralph.loop.rules.promise import Promise, promise_given
from rulebook_ralph.loop.rules.stop_criteria import StopCriteria as Rule
from rulebook_ralph.loop.rules.stop_criteria import failed_tools, unsatisfiable
from rulebook_ralph.supervisor import Ended
from tests.cases import each_of
from tests.evidence import GREEN, LINT_GREEN, LINT_RED, PROMISE, RED, STEP, Attempt

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
RUNAWAY = r"(a+)+$"
LONG = "x" + "a" * 150_000 + "!"
TYPES_GREEN = CheckResult(step="mypy", kind="typecheck", command="mypy", passed=True, exit_code=0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends after a tenth of a second."""
    monkeypatch.setitem(patterns.search.__kwdefaults__ or {}, "timeout", 0.1)


def judged(attempt: Attempt | None = None, **values: Any) -> Verdict:
    hooks = (Promise(), Rule(), GatesPass(), Blocked())
    return judge((attempt or Attempt()).evidence(**values), hooks).verdict


def said(text: str, **values: Any) -> dict[str, Any]:
    """Evidence of an agent whose final message is that text."""
    result = AgentResult(agent="test", status="finished", final_text=text)
    return {"result": result, "parsed": parser.parse(result), **values}


@pytest.mark.parametrize("line", ["VERIFICATION_FAIL", "**VERIFICATION_FAIL**", "`VERIFICATION_FAIL` "])
def test_what_was_said_in_place_of_the_promise_is_named(line: str) -> None:
    reason = f"the promise {PROMISE} was not given"
    assert judged(**said(f"The sum is wrong.\n\n{line}")).reason == f"{reason}; the agent said VERIFICATION_FAIL"
    assert judged(**said(f"Not {line} as such.")).reason == reason


# Gates of a kind


@pytest.mark.parametrize(
    ("setting", "results", "missing"),
    [
        ("require_passing_tests", (GREEN,), ""),
        ("require_passing_tests", (LINT_GREEN,), "requirePassingTests: no gate of the kind test was run"),
        ("require_lint", (GREEN,), "requireLint: no gate of the kind lint was run"),
        ("require_lint", (GREEN, LINT_GREEN), ""),
        ("require_type_check", (GREEN, LINT_GREEN), "requireTypeCheck: no gate of the kind typecheck was run"),
        ("require_type_check", (GREEN, TYPES_GREEN), ""),
    ],
)
def test_required_but_not_run_is_not_satisfied(setting: str, results: tuple[CheckResult, ...], missing: str) -> None:
    verdict = judged(Attempt(Gates(results)), stop_criteria=replace(StopCriteria(), **{setting: True}))
    assert verdict.action == ("continue" if missing else "complete")
    if missing:
        assert verdict.hook == "stop-criteria"
        assert missing in verdict.reason
        assert missing.partition(": ")[2] in verdict.feedback


def test_without_any_gates_nothing_that_is_required_is_satisfied() -> None:
    attempt = Attempt(Gates())
    criteria = StopCriteria(require_passing_tests=True, require_lint=True)
    verdict = judged(attempt, stop_criteria=criteria, steps=())
    assert "requirePassingTests" in verdict.reason
    assert "requireLint" in verdict.reason
    assert attempt.asked == []


def test_a_red_gate_that_is_excused_or_optional_does_not_satisfy() -> None:
    criteria = StopCriteria(require_lint=True)
    excused = judged(Attempt(Gates((GREEN, LINT_RED))), stop_criteria=criteria, excused=frozenset({"lint"}))
    assert (excused.hook, excused.reason) == ("stop-criteria", "stopCriteria.requireLint: lint did not pass")
    optional = CheckResult(step="style", kind="lint", command="style", passed=False, required=False)
    verdict = judged(Attempt(Gates((GREEN, LINT_GREEN, optional))), stop_criteria=criteria)
    assert verdict.reason == "stopCriteria.requireLint: style did not pass"
    assert judged(Attempt(Gates((GREEN, LINT_RED))), excused=frozenset({"lint"})).action == "complete"


def test_what_no_attempt_can_satisfy_is_known_before() -> None:
    criteria = StopCriteria(require_passing_tests=True, require_lint=True, require_no_errors=True)
    assert unsatisfiable(criteria, (STEP, VerificationStep(name="l", kind="lint", command="l"))) == ()
    (line,) = unsatisfiable(criteria, (STEP,))
    assert "stopCriteria.requireLint" in line
    assert len(unsatisfiable(criteria, ())) == 2


# Tools


def tool(command: str, success: bool | None, name: str = "Bash", output: str = "") -> ToolResult:
    return ToolResult(name=name, command=command, success=success, output=output)


@each_of(
    ("results", "failed"),
    [
        ((), []),
        ((tool("pytest", False), tool("pytest", True)), []),
        ((tool("pytest", True), tool("pytest", False)), ["pytest"]),
        ((tool("pytest", False), tool("ruff", True)), ["pytest"]),
        ((tool("pytest  -q", False), tool("pytest -q", True)), []),
        ((tool("pytest", False), tool("pytest", None)), ["pytest"]),
        ((tool("pytest", None),), []),
        ((tool("a.py", False, "Edit"), tool("a.py", True, "Read")), ["a.py"]),
        ((tool("a", False), tool("b", False)), ["a", "b"]),
    ],
)
def test_the_last_run_of_each_tool_command_counts(results: tuple[ToolResult, ...], failed: list[str]) -> None:
    assert [each.command for each in failed_tools(results)] == failed
    result = AgentResult(agent="test", status="finished", final_text="done", tool_results=results)
    verdict = judged(result=result, stop_criteria=StopCriteria(require_no_errors=True))
    assert (verdict.action == "complete") == (not failed)
    assert all(command in verdict.feedback for command in failed)
    assert judged(result=result).action == "complete"


def test_what_the_failed_tool_printed_is_fed_back_in_part() -> None:
    output = "\n".join(f"line {n}" for n in range(10_000))
    result = AgentResult(agent="test", status="finished", tool_results=(tool("pytest", False, output=output),))
    verdict = judged(result=result, stop_criteria=StopCriteria(require_no_errors=True))
    assert "line 9999" in verdict.feedback
    assert len(verdict.feedback) < 2000


def from_capture(version: str, scenario: str) -> tuple[AgentResult, ParsedIteration]:
    reader = ClaudeReader(lambda _: None, local_clock({}))
    reader.feed((CAPTURES / f"claude-{version}" / f"{scenario}.out").read_bytes())
    result = conclude("claude", Ended(0), reader.close())
    return result, parser.parse(result)


@pytest.mark.parametrize(("scenario", "action"), [("success", "complete"), ("badtool", "continue")])
def test_tool_results_from_a_real_stream_are_judged(scenario: str, action: str) -> None:
    result, parsed = from_capture("2.1.330", scenario)
    values: dict[str, Any] = {"result": result, "parsed": parsed}
    criteria = StopCriteria(require_no_errors=True, success_regex="<promise>DONE</promise>")
    assert result.tool_results
    assert judged(**values, stop_criteria=criteria).action == action


# The promise, and the pattern that stands for it


@each_of(
    ("text", "required", "pattern", "given"),
    [
        (f"<promise>{PROMISE}</promise>", True, "", True),
        ("ALL_TASKS_COMPLETE", True, "", False),
        ("ALL_TASKS_COMPLETE", True, "ALL_TASKS_COMPLETE", True),
        (f"<promise>{PROMISE}</promise>", True, "ALL_TASKS_COMPLETE", True),
        ("nothing", True, "ALL_TASKS_COMPLETE", False),
        ("nothing", False, "", True),
        ("nothing", False, "ALL_TASKS_COMPLETE", False),
        (f"<promise>{PROMISE}</promise>", False, "ALL_TASKS_COMPLETE", False),
        ("ALL_TASKS_COMPLETE", False, "ALL_TASKS_COMPLETE", True),
    ],
)
def test_the_promise_or_what_stands_for_it(text: str, required: bool, pattern: str, given: bool) -> None:
    criteria = StopCriteria(require_promise=required, success_regex=pattern)
    verdict = judged(**said(text, stop_criteria=criteria))
    assert (verdict.action == "complete") == given
    if not given:
        assert verdict.hook == "promise"
        assert pattern not in verdict.feedback or not pattern
        assert "<promise>" not in verdict.feedback


def test_gates_decide_alone_where_no_promise_is_asked_for() -> None:
    verdict = judged(Attempt(Gates((RED,))), **said("", stop_criteria=StopCriteria(require_promise=False)))
    assert verdict.hook == "gates"


@pytest.mark.usefixtures("impatient")
def test_a_success_pattern_that_runs_away_has_not_matched() -> None:
    verdict = judged(**said(LONG, stop_criteria=StopCriteria(success_regex=RUNAWAY)))
    assert (verdict.action, verdict.hook) == ("continue", "promise")
    assert "stopCriteria.successRegex took longer" in verdict.feedback


def test_hooks_are_told_whether_the_promise_was_given() -> None:
    def given(text: str, **criteria: Any) -> bool:
        evidence: Evidence = Attempt().evidence(**said(text, stop_criteria=StopCriteria(**criteria)))
        return promise_given(evidence)

    assert given(f"<promise>{PROMISE}</promise>")
    assert not given("ALL DONE")
    assert given("ALL DONE", success_regex="ALL DONE")


# Blocked


@pytest.mark.parametrize(
    ("text", "pattern", "reason"),
    [
        ("I need: a key\nbye", r"I need: (.+)", "the agent is blocked: a key"),
        ("STUCK", "STUCK", "the agent is blocked: STUCK"),
        ("STUCK:", "STUCK:(.*)", "the agent is blocked: no reason given"),
        ("<ralph>BLOCKED: no key</ralph>", "<ralph>BLOCKED:(.*?)</ralph>", "the agent is blocked: no key"),
        ("<ralph>BLOCKED: no key</ralph>", "", "the agent is blocked: no key"),
        ("<ralph>BLOCKED: the marker</ralph> I need: it", "(?m)^I need: (.+)", None),
    ],
)
def test_a_pattern_says_that_the_agent_is_blocked(text: str, pattern: str, reason: str | None) -> None:
    verdict = judged(**said(f"{text}\n<promise>{PROMISE}</promise>", stop_criteria=StopCriteria(blocked_regex=pattern)))
    if reason is None:
        assert verdict.action == "complete"
        return
    assert (verdict.hook, verdict.action, verdict.stop_reason) == ("blocked", "stop", "blocked")
    assert verdict.reason == reason


@pytest.mark.usefixtures("impatient")
def test_a_blocked_pattern_that_runs_away_blocks_nothing_and_is_logged() -> None:
    values = said(f"<promise>{PROMISE}</promise>\n{LONG}", stop_criteria=StopCriteria(blocked_regex=RUNAWAY))
    judgement = judge(Attempt().evidence(**values), (Blocked(),))
    assert judgement.verdict.action == "complete"
    assert "stopCriteria.blockedRegex took longer" in judgement.log[0]
