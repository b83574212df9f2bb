"""The rules of spec completion-hooks that values alone can show, each by its number in tests/README.md."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.agents.claude_stream import ClaudeReader
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.checks.hook_command import HookFailed
from rulebook_ralph.core import parser, policy, requirements
from rulebook_ralph.core.criteria import Criteria
from rulebook_ralph.core.evidence import (
    SKIP,
    AgentFault,
    AgentResult,
    CheckResult,
    ParsedIteration,
    StopReason,
    ToolResult,
    Verdict,
)
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.policy import RunTally, Settlement, Standing
from rulebook_ralph.core.settings import Config, Hook, Limits, Ralph, StopCriteria
from rulebook_ralph.core.token_estimate import tokens
from rulebook_ralph.loop import brief
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement
from rulebook_ralph.loop.pipeline import CompletionHook, judge
from rulebook_ralph.loop.rules.built_in import built_in_hooks
from rulebook_ralph.loop.rules.hook_input import hook_input
from rulebook_ralph.state import progress
from tests.cases import each_of
from tests.evidence import CHANGED, GREEN, LINT_GREEN, PROMISE, RED, Attempt

LOOP = Path(__file__).parents[2] / "rulebook_ralph" / "loop"
TYPES_GREEN = CheckResult(step="types", kind="typecheck", command="mypy", passed=True, exit_code=0)
AGAIN = Verdict(action="continue", reason="not yet", feedback="mend it")
ENOUGH = Verdict(action="stop", reason="no more", stop_reason="blocked")


@dataclass
class Mine:
    """A hook with a given answer; `asked` are the names of those that were run, in order."""

    name: str
    priority: int
    answer: Verdict | Exception = SKIP
    runs: bool = True
    required: bool = False
    asked: list[str] = field(default_factory=list)

    def should_run(self, evidence: Evidence) -> bool:
        return self.runs

    def run(self, evidence: Evidence) -> Verdict:
        self.asked.append(self.name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asked(*hooks: Mine) -> tuple[Judgement, list[str]]:
    """The judgement of these hooks alone, and which were run."""
    ran: list[str] = []
    for hook in hooks:
        hook.asked = ran
    return judge(Attempt().evidence(), hooks), ran


def judged(attempt: Attempt | None = None, more: Sequence[CompletionHook] = (), **values: Any) -> Verdict:
    """Ralph's own rules on an attempt at which nothing is wrong but what is said."""
    return judge((attempt or Attempt()).evidence(**values), (*built_in_hooks(), *more)).verdict


def said(text: str, **result: Any) -> dict[str, Any]:
    ended = AgentResult(**{"agent": "test", "status": "finished", "final_text": text} | result)
    return {"result": ended, "parsed": parser.parse(ended)}


def wanting(**stop_criteria: Any) -> dict[str, Any]:
    return {"stop_criteria": StopCriteria(**stop_criteria)}


def settled(verdict: Verdict, *, attempt: int = 1, allowed: int = 3, time_left: float = 60) -> Settlement:
    standing = Standing("coder", ("coder",), attempt, {"coder": allowed}, {}, time_left)
    return policy.settle(verdict, standing, feedback=verdict.feedback, rollback="keep")


def tool(command: str, success: bool | None) -> ToolResult:
    return ToolResult(name="Bash", command=command, success=success)


# Key Principles


def test_ch4_completion_is_declared_by_the_agent_green_gates_are_not_enough() -> None:
    assert judged(parsed=ParsedIteration()).hook == "promise"
    assert judged().action == "complete"


# Architecture


@pytest.mark.parametrize("status", ["failed", "truncated", "killed"])
def test_ch8_hooks_are_asked_only_when_the_agent_came_to_its_end(status: Any) -> None:
    attempt, mine = Attempt(), Mine("mine", 30, AGAIN)
    values = said(f"<promise>{PROMISE}</promise>", status=status)
    assert judged(attempt, (mine,), **values).hook == "agent"
    assert (mine.asked, attempt.asked) == ([], [])


def test_ch9_stop_hooks_come_before_ralphs_criteria_and_the_commit_is_last() -> None:
    order = [(hook.priority, hook.name) for hook in sorted(built_in_hooks(), key=lambda hook: hook.priority)]
    assert dict.fromkeys(priority for priority, _ in order).keys() >= {10, 20, 40, 50, 55, 60, 80}
    places = {name: priority for priority, name in reversed(order)}
    assert [places[name] for name in ("agent", "integrity", "blocked", "gates", "promise", "criteria", "commit")] == [
        10,
        20,
        40,
        50,
        55,
        60,
        80,
    ]
    assert places["integrity"] < Hook(name="mine").priority == 30 < places["blocked"]


@pytest.mark.parametrize("green", [True, False])
def test_ch10_a_review_is_paid_for_only_when_all_before_it_allows_the_end(green: bool) -> None:
    review = Mine("my-review", 70, AGAIN)
    verdict = judged(Attempt(Gates((GREEN if green else RED,))), (review,))
    assert (verdict.hook, review.asked) == (("my-review", ["my-review"]) if green else ("gates", []))


# RalphLoopConfig


def test_ch11_switched_off_it_is_a_single_pass_that_is_judged_all_the_same() -> None:
    assert Config().ralph.enabled
    one = Task(id="one", title="Do one")
    allowed = requirements.max_attempts(Config(ralph=Ralph(enabled=False)), one, "coder")
    assert settled(judged(Attempt(Gates((RED,)))), allowed=allowed).trigger == "block"
    assert settled(judged(), allowed=allowed).trigger == "complete"


def test_ch12_iterations_are_limited_by_default() -> None:
    assert requirements.max_attempts(Config(), Task(id="one", title=""), "coder") == 15
    assert policy.limit_reached(Limits(), RunTally(iterations=6), max_iterations=6) is not None


def test_ch13_a_task_may_take_an_hour_by_default() -> None:
    assert Limits().max_wall_time == 3600


# Stop Criteria


@pytest.mark.parametrize(("results", "action"), [((), "continue"), ((RED,), "continue"), ((GREEN,), "complete")])
def test_ch14_require_passing_tests(results: tuple[CheckResult, ...], action: str) -> None:
    gates = Attempt(Gates((LINT_GREEN, *results)))
    excused = frozenset({"tests"})
    assert judged(gates, excused=excused, **wanting(require_passing_tests=True)).action == action
    assert judged(gates, excused=excused).action == ("continue" if RED in results else "complete")
    assert StopCriteria().require_passing_tests is False


@pytest.mark.parametrize(("results", "action"), [((GREEN,), "continue"), ((GREEN, LINT_GREEN), "complete")])
def test_ch15_require_lint(results: tuple[CheckResult, ...], action: str) -> None:
    assert judged(Attempt(Gates(results)), **wanting(require_lint=True)).action == action
    assert judged(Attempt(Gates(results))).action == "complete"
    assert StopCriteria().require_lint is False


@pytest.mark.parametrize(("results", "action"), [((GREEN,), "continue"), ((GREEN, TYPES_GREEN), "complete")])
def test_ch16_require_type_check(results: tuple[CheckResult, ...], action: str) -> None:
    assert judged(Attempt(Gates(results)), **wanting(require_type_check=True)).action == action
    assert judged(Attempt(Gates(results))).action == "complete"
    assert StopCriteria().require_type_check is False


@pytest.mark.parametrize(
    ("runs", "action"),
    [((tool("make", False),), "continue"), ((tool("make", False), tool("make", True)), "complete"), ((), "complete")],
)
def test_ch17_require_no_errors(runs: tuple[ToolResult, ...], action: str) -> None:
    result = AgentResult(agent="test", status="finished", final_text="done", tool_results=runs)
    assert judged(result=result, **wanting(require_no_errors=True)).action == action
    assert judged(result=result).action == "complete"
    assert StopCriteria().require_no_errors is False


def test_ch18_a_success_pattern_stands_for_the_promise() -> None:
    pattern = wanting(success_regex="<ralph>COMPLETE</ralph>")
    assert judged(**said("All is there.\n<ralph>COMPLETE</ralph>"), **pattern).action == "complete"
    assert judged(**said("All is there.\n<ralph>COMPLETE</ralph>")).hook == "promise"
    assert judged(**said("All is there."), **pattern).hook == "promise"


@pytest.mark.parametrize(
    ("text", "pattern", "reason"),
    [
        ("<ralph>BLOCKED: no key</ralph>", "", "no key"),
        ("<ralph>BLOCKED:no key</ralph>", "<ralph>BLOCKED:(.*?)</ralph>", "no key"),
        ("I give up: no key", "give up: (.*)", "no key"),
    ],
)
def test_ch19_a_blocked_marker_ends_the_task_with_its_reason(text: str, pattern: str, reason: str) -> None:
    verdict = judged(**said(text), **wanting(blocked_regex=pattern))
    assert (verdict.action, verdict.stop_reason, verdict.reason) == (
        "stop",
        "blocked",
        f"the agent is blocked: {reason}",
    )


# Stop Reasons


def test_ch20_complete() -> None:
    settlement = settled(judged())
    assert (settlement.trigger, settlement.stop_reason) == ("complete", "complete")


def test_ch21_blocked() -> None:
    settlement = settled(judged(**said("<ralph>BLOCKED: no key</ralph>")))
    assert (settlement.trigger, settlement.stop_reason) == ("block", "blocked")
    assert settlement.blocked_reason == "the agent is blocked: no key"


def test_ch22_max_iterations_of_a_task_and_of_a_run() -> None:
    assert settled(AGAIN, attempt=3, allowed=3).stop_reason == "max-iterations"
    assert settled(AGAIN, attempt=2, allowed=3).stop_reason is None
    stop = policy.limit_reached(Limits(), RunTally(iterations=2), max_iterations=2)
    assert stop is not None
    assert stop.stop_reason == "max-iterations"


def test_ch23_max_wall_time_of_a_task_and_of_a_run() -> None:
    assert settled(AGAIN, time_left=0).stop_reason == "max-wall-time"
    stop = policy.limit_reached(Limits(max_run_wall_time=60), RunTally(elapsed=61), max_iterations=9)
    assert stop is not None
    assert stop.stop_reason == "max-wall-time"


@pytest.mark.parametrize("kind", ["authentication", "billing", "not-installed"])
def test_ch24_an_error_that_cannot_heal_ends_the_run(kind: Any) -> None:
    verdict = judged(**said("", status="failed", fault=AgentFault(kind=kind, message="no")))
    settlement = settled(verdict)
    assert settlement.stop is not None
    assert (verdict.action, settlement.stop.stop_reason, settlement.counts) == ("stop", "error", False)


def test_ch25_there_is_no_unknown_end() -> None:
    reasons = set(get_args(StopReason))
    assert {"complete", "blocked", "max-iterations", "max-wall-time", "error"} <= reasons
    assert "unknown" not in reasons
    nameless = settled(Verdict(action="stop", reason="who knows"))
    assert nameless.stop is not None
    assert nameless.stop.stop_reason == "error"


# Completion Hook Types


def test_ch26_a_hook_is_given_task_text_tool_results_iteration_and_time() -> None:
    result = AgentResult(
        agent="test", status="finished", final_text="All done", tool_results=(tool("make", False),), duration_ms=1200
    )
    given = hook_input(Attempt().evidence(result=result, attempt=2, iteration=7), root=Path("/p"))
    assert (given["taskId"], given["finalMessage"]) == ("one", "All done")
    assert given["toolResults"] == [{"name": "Bash", "command": "make", "success": False, "output": ""}]
    assert (given["attempt"], given["iterationNumber"], given["durationMs"]) == (2, 7, 1200)


@pytest.mark.parametrize("action", ["complete", "continue", "stop", "skip"])
def test_ch27_a_hook_stops_continues_or_skips_and_cannot_complete(action: Any) -> None:
    judgement, ran = asked(
        Mine("first", 1, Verdict(action=action, reason="so", stop_reason="error")), Mine("last", 2, ENOUGH)
    )
    decides = action in ("stop", "continue")
    assert judgement.verdict.action == (action if decides else "stop")
    assert ran == (["first"] if decides else ["first", "last"])


def test_ch28_stop_reason_and_message_become_the_verdicts() -> None:
    judgement, _ = asked(
        Mine("mine", 1, Verdict(action="stop", reason="lunch", stop_reason="paused", feedback="later"))
    )
    verdict = judgement.verdict
    assert (verdict.hook, verdict.reason, verdict.stop_reason, verdict.feedback) == ("mine", "lunch", "paused", "later")


def test_ch29_what_a_hook_that_continues_says_is_the_feedback() -> None:
    judgement, _ = asked(Mine("mine", 1, AGAIN))
    assert settled(judgement.verdict).feedback == "mend it"


@each_of("hook", built_in_hooks())
def test_ch30_a_hook_has_name_priority_should_run_and_run(hook: CompletionHook) -> None:
    assert isinstance(hook.name, str)
    assert isinstance(hook.priority, int)
    evidence = Attempt().evidence()
    assert isinstance(hook.should_run(evidence), bool)
    assert isinstance(hook.run(evidence), Verdict)


def test_ch31_a_tool_result_has_name_command_success_and_output() -> None:
    assert ToolResult.__struct_fields__ == ("name", "command", "success", "output")
    assert msgspec.json.decode(msgspec.json.encode(tool("make", None))) == {"name": "Bash", "command": "make"}


# Completion Hook Pipeline


def test_ch32_hooks_are_asked_by_ascending_priority_however_they_are_registered() -> None:
    for priorities in ((1, 2, 3), (3, 1, 2), (2, 3, 1)):
        _, ran = asked(*(Mine(str(priority), priority) for priority in priorities))
        assert ran == ["1", "2", "3"]


def test_ch33_a_hook_that_should_not_run_is_left_out() -> None:
    judgement, ran = asked(Mine("idle", 1, ENOUGH, runs=False), Mine("next", 2))
    assert (judgement.verdict.action, ran) == ("complete", ["next"])


def test_ch34_the_first_that_continues_wins_and_no_later_one_is_asked() -> None:
    judgement, ran = asked(Mine("skips", 1), Mine("again", 2, AGAIN), Mine("late", 3, ENOUGH))
    assert (judgement.verdict.hook, judgement.verdict.action, ran) == ("again", "continue", ["skips", "again"])


def test_ch35_the_first_that_stops_wins_and_no_later_one_is_asked() -> None:
    judgement, ran = asked(Mine("skips", 1), Mine("enough", 2, ENOUGH), Mine("late", 3, AGAIN))
    assert (judgement.verdict.hook, judgement.verdict.action, ran) == ("enough", "stop", ["skips", "enough"])


def test_ch36_one_that_skips_leaves_it_to_the_next() -> None:
    judgement, ran = asked(Mine("skips", 1), Mine("again", 2, AGAIN))
    assert (judgement.verdict.hook, ran) == ("again", ["skips", "again"])


def test_ch37_when_all_have_skipped_it_is_complete() -> None:
    judgement, ran = asked(Mine("a", 1), Mine("b", 2))
    assert (judgement.verdict.hook, judgement.verdict.action, ran) == ("pipeline", "complete", ["a", "b"])


@pytest.mark.parametrize("error", [ValueError("broken"), HookFailed("did not end within 30 s")])
@pytest.mark.parametrize("required", [False, True])
def test_ch38_an_error_in_a_hook_is_logged_and_skips_unless_it_is_required(error: Exception, required: bool) -> None:
    judgement, ran = asked(Mine("mine", 1, error, required=required), Mine("next", 2))
    assert judgement.verdict.action == ("continue" if required else "complete")
    assert ran == (["mine"] if required else ["mine", "next"])
    assert len(judgement.log) == 1
    assert str(error) in judgement.log[0]
    assert Hook(name="mine").timeout == 30


# Ralph Loop as Completion Hook


def test_ch39_limits_are_looked_at_after_judging_so_the_last_iteration_counts() -> None:
    assert settled(judged(), attempt=3, allowed=3, time_left=-1).trigger == "complete"
    assert settled(judged(parsed=ParsedIteration()), attempt=3, allowed=3).trigger == "block"
    assert settled(judged(parsed=ParsedIteration()), attempt=1, time_left=-1).trigger == "block"


def test_ch40_criteria_that_are_not_met_give_another_attempt() -> None:
    for values in ({"parsed": ParsedIteration()}, {"changes": ()}, wanting(require_lint=True)):
        verdict = judged(**values)
        assert (verdict.action, settled(verdict).trigger) == ("continue", "retry")
        assert verdict.feedback


# Tool Result Capture


def stream(*events: dict[str, Any]) -> tuple[ToolResult, ...]:
    reader = ClaudeReader(lambda _: None, local_clock({}))
    for event in events:
        reader.feed(json.dumps(event).encode() + b"\n")
    return reader.close().tool_results


def use(name: str, number: int, **given: str) -> dict[str, Any]:
    block = {"type": "tool_use", "id": str(number), "name": name, "input": given}
    return {"type": "assistant", "message": {"id": "m", "content": [block]}}


def back(number: int, content: str, *, error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": str(number), "content": content, "is_error": error}
    return {"type": "user", "message": {"content": [block]}}


def test_ch43_of_a_shell_command_command_success_and_output_are_kept() -> None:
    results = stream(use("Bash", 1, command="make test"), back(1, "2 failed", error=True))
    assert results == (ToolResult(name="Bash", command="make test", success=False, output="2 failed"),)


def test_ch44_of_another_tool_what_it_worked_on_and_its_error_are_kept() -> None:
    results = stream(
        use("Edit", 1, file_path="a.py"),
        back(1, "no such file", error=True),
        use("Read", 2, file_path="b.py"),
        back(2, "text"),
    )
    assert results == (
        ToolResult(name="Edit", command="a.py", success=False, output="no such file"),
        ToolResult(name="Read", command="b.py", success=True, output="text"),
    )


# Configuration Examples


def test_ch51_by_default_the_promise_is_asked_for_and_nothing_besides() -> None:
    assert msgspec.to_builtins(StopCriteria()) == {
        "requirePromise": True,
        "requirePassingTests": False,
        "requireLint": False,
        "requireTypeCheck": False,
        "requireNoErrors": False,
        "successRegex": "",
        "blockedRegex": "",
    }


STRICT = {"require_passing_tests": True, "require_lint": True, "require_type_check": True, "require_no_errors": True}


@pytest.mark.parametrize("missing", ["tests", "lint", "types", "tool", ""])
def test_ch52_strict_wants_all_four(missing: str) -> None:
    gates = tuple(each for each in (GREEN, LINT_GREEN, TYPES_GREEN) if each.step != missing)
    result = AgentResult(
        agent="t", status="finished", final_text="done", tool_results=(tool("make", missing != "tool"),)
    )
    verdict = judged(Attempt(Gates(gates)), result=result, **wanting(**STRICT))
    assert (verdict.action, verdict.hook) == (("continue", "stop-criteria") if missing else ("complete", "pipeline"))


def test_ch53_a_task_overrides_the_projects_stop_criteria_where_it_says_so() -> None:
    config = Config(stop_criteria=StopCriteria(require_lint=True, success_regex="DONE"))
    own = Task(id="one", title="", overrides={"stopCriteria": {"requireLint": False, "requireTypeCheck": True}})
    assert requirements.stop_criteria_for(config, own) == replace(
        config.stop_criteria, require_lint=False, require_type_check=True
    )
    assert requirements.stop_criteria_for(config, Task(id="two", title="")) == config.stop_criteria
    once = Task(id="three", title="", completion={"coder": {"maxIterations": 1}})
    assert requirements.max_attempts(config, once, "coder") == 1


# Key Design Decisions


def test_ch54_the_pipeline_takes_any_hook_and_knows_none_by_name() -> None:
    mine = Mine("mine", 57, AGAIN)
    assert judged(more=(mine,)).hook == "mine"
    tree = ast.parse((LOOP / "pipeline.py").read_text("utf-8"))
    names = {hook.name for hook in built_in_hooks()} - {"integrity", "agent"}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not names & {text for text in texts if isinstance(text, str)}


def test_ch55_a_rule_evaluates_and_never_runs_the_loop() -> None:
    """Rules cannot start an agent: they know neither agents nor what drives them."""
    for file in sorted((LOOP / "rules").glob("*.py")):
        imported = {
            node.module or ""
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom)
        }
        assert not {
            name
            for name in imported
            if name.startswith(("rulebook_ralph.agents", "rulebook_ralph.state"))
            or name.rpartition(".")[2] in ("manager", "iteration", "settler", "landing")
        }, file


def test_ch56_prose_about_tools_is_no_tool_result() -> None:
    text = "Bash (make test): failed. Error: exit code 1\n" + f"<promise>{PROMISE}</promise>"
    assert stream({"type": "result", "subtype": "success", "is_error": False, "result": text}) == ()
    assert judged(**said(text), **wanting(require_no_errors=True)).action == "complete"


# Performance Considerations


def test_ch57_a_prompt_does_not_grow_with_the_iterations() -> None:
    def tokens_after(entries: int) -> int:
        text = progress.header("toy", created_at="2026-01-01T00:00:00.000Z", task_count=1)
        text += "".join(
            f"## Iteration {n} · one · coder · attempt 1 · failed\n    learned: {'x' * 400}\n## End of iteration {n}\n"
            for n in range(1, entries + 1)
        )
        one = Task(id="one", title="Do one")
        situation = brief.Situation(
            prd=Prd(version=1, project="toy", tasks=(one,)),
            task=one,
            stage="coder",
            criteria=Criteria(promise=PROMISE),
            stop_criteria=StopCriteria(),
            base="",
            changed=tuple(change.path for change in CHANGED),
            progress=text,
            commits=(),
            rules=(),
            steps=(),
            feedback="y" * 100_000,
            iteration=1,
            max_iterations=1,
            attempt=1,
            max_attempts=1,
            prompt_tokens=8_000,
        )
        return tokens(brief.render(situation).prompt)

    assert tokens_after(5) < tokens_after(2000) <= 8_000


def test_ch58_an_iteration_has_a_time_limit_of_its_own() -> None:
    assert Limits().iteration_timeout == 3600
    assert AgentLimits(wall_time=5).wall_time == 5
    verdict = judged(**said("", status="killed", killed_by="wall-time"))
    assert (verdict.action, verdict.reason) == (
        "continue",
        "the agent took longer than the limit and was ended by Ralph",
    )
