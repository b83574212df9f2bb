"""The rules of spec completion-hooks that values alone can show, each by its number in tests/README.md."""

import ast
import dataclasses
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from rulebook_ralph.agents.claude import ClaudeReader
from rulebook_ralph.agents.limit_times import local_clock
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config, Defaults, Hook, Limits, StopCriteria
from rulebook_ralph.run import policy
from rulebook_ralph.run.policy import AttemptContext, RunTally
from rulebook_ralph.tasks.history import Decision
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentFault, AgentResult, CheckResult, StopReason, ToolResult, Verdict
from rulebook_ralph.verify import criteria, hooks, judge, rules
from tests.unit.verify_models.support import PROMISE, Toy, attempt, project

VERIFY = Path(judge.__file__).parent
GREEN = CheckResult(step="tests", kind="test", command="make test", passed=True, exit_code=0)
LINT_GREEN = CheckResult(step="lint", kind="lint", command="make lint", passed=True, exit_code=0)
TYPES_GREEN = CheckResult(step="types", kind="typecheck", command="mypy", passed=True, exit_code=0)
FILES = {"app.py": "x = 3\n"}
AGAIN = Verdict(action="continue", reason="not yet", feedback="mend it")


@cache
def toy() -> Toy:
    os.environ.setdefault("GIT_AUTHOR_NAME", "Test")
    return project(Path(mkdtemp(prefix="ralph-rules-")))


def mine(name: str, priority: int, command: str = "true", **settings: Any) -> Hook:
    """A hook that leaves a mark when it is asked, then does what the command does."""
    return Hook(name=name, priority=priority, command=f"echo {name} >> {toy().root}/asked; {command}", **settings)


def answers(action: str, **more: str) -> str:
    return f"echo '{json.dumps({'action': action, **more})}'"


def asked(*own: Hook) -> tuple[Verdict | None, list[str], list[str]]:
    """The verdict of these hooks, which were run, and the log."""
    marks = toy().root / "asked"
    marks.unlink(missing_ok=True)
    case, examination = attempt(toy(), FILES, hooks=hooks.user_hooks(own))
    verdict = hooks.hooks_before_gates(case, examination) or hooks.hooks_after_gates(case, examination)
    ran = marks.read_text().split() if marks.exists() else []
    marks.unlink(missing_ok=True)
    return verdict, ran, examination.log


def wanting(results: Sequence[CheckResult], tools: Sequence[ToolResult] = (), **stop_criteria: Any) -> Verdict | None:
    """What the stop criteria say after those gates and commands."""
    result = AgentResult(agent="test", status="finished", final_text="done", tool_results=tuple(tools))
    values: dict[str, Any] = {"stop_criteria": StopCriteria(**stop_criteria), "result": result, "gates": results}
    return rules.stop_criteria_met(*attempt(toy(), FILES, **values))


def settled(verdict: Verdict, *, attempt: int = 1, allowed: int = 3, time_left: float = 60) -> Decision:
    standing = AttemptContext(
        verdict, verdict.feedback, "coder", ("coder",), attempt, {"coder": allowed}, {}, time_left
    )
    return policy.settle(standing)


def tool(command: str, success: bool | None) -> ToolResult:
    return ToolResult(name="Bash", command=command, success=success)


# Key Principles


def test_ch4_completion_is_declared_by_the_agent_green_gates_are_not_enough() -> None:
    verdict = rules.promise_given(*attempt(toy(), FILES, said="All is green.", gates=(GREEN,)))
    assert verdict is not None
    assert (verdict.action, verdict.hook) == ("continue", "promise")
    assert rules.promise_given(*attempt(toy(), FILES, said=PROMISE)) is None


# Architecture


def test_ch9_stop_hooks_come_before_ralphs_criteria_and_the_commit_is_last() -> None:
    names = [rule.__name__ for rule in judge.RULES]
    order = ("agent_ended", "no_secrets", "says_blocked", "hooks_before_gates", "gates_hold", "hooks_after_gates")
    later = ("evidence_holds", "promise_given", "criteria_hold", "reviewers_agree")
    places = [names.index(name) for name in (*order, *later)]
    assert places == sorted(places)
    assert names[-1].startswith("commit")
    assert Hook(name="mine", command="true").priority <= hooks.GATES_PRIORITY


def test_ch10_a_review_is_paid_for_only_when_all_before_it_allows_the_end() -> None:
    """The first rule that objects decides, and no later one is asked."""
    names = [rule.__name__ for rule in judge.RULES]
    assert names.index("reviewers_agree") > max(names.index(name) for name in ("gates_hold", "criteria_hold"))


# RalphLoopConfig


def test_ch11_with_one_attempt_it_is_a_single_pass_that_is_judged_all_the_same() -> None:
    one = Task(id="one", title="Do one")
    allowed = requirements.max_attempts(Config(defaults=Defaults(max_iterations=1)), one, "coder")
    assert settled(AGAIN, allowed=allowed).trigger == "block"
    assert settled(Verdict(action="complete"), allowed=allowed).trigger == "complete"


def test_ch12_iterations_are_limited_by_default() -> None:
    assert requirements.max_attempts(Config(), Task(id="one", title=""), "coder") == 15
    assert policy.limit_reached(Limits(), RunTally(iterations=6), max_iterations=6) is not None


def test_ch13_a_task_may_take_an_hour_by_default() -> None:
    assert Limits().max_wall_time == 3600


# Stop Criteria


@pytest.mark.parametrize(("results", "holds"), [((GREEN,), False), ((GREEN, TYPES_GREEN), True)])
def test_ch16_require_type_check(results: tuple[CheckResult, ...], holds: bool) -> None:
    assert (wanting(results, require_type_check=True) is None) == holds
    assert wanting(results) is None
    assert StopCriteria().require_type_check is False


# Stop Reasons


def test_ch20_complete() -> None:
    decision = settled(Verdict(action="complete"))
    assert (decision.trigger, decision.stop_reason) == ("complete", "complete")


def test_ch21_blocked() -> None:
    verdict = rules.says_blocked(*attempt(toy(), FILES, said="<ralph>BLOCKED: no key</ralph>"))
    assert verdict is not None
    decision = settled(verdict)
    assert (decision.trigger, decision.stop_reason) == ("block", "blocked")
    assert decision.blocked_reason == "the agent is blocked: no key"


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
    result = AgentResult(agent="test", status="failed", fault=AgentFault(kind=kind, message="no"))
    verdict = rules.agent_ended(*attempt(toy(), FILES, result=result))
    assert verdict is not None
    decision = settled(verdict)
    assert (verdict.action, decision.run_stop_reason, decision.counts) == ("stop", "error", False)


def test_ch25_there_is_no_unknown_end() -> None:
    reasons = set(get_args(StopReason))
    assert {"complete", "blocked", "max-iterations", "max-wall-time", "error"} <= reasons
    assert "unknown" not in reasons
    assert settled(Verdict(action="stop", reason="who knows")).run_stop_reason == "error"


# Completion Hook Types


def test_ch26_a_hook_is_given_task_text_tool_results_iteration_and_time() -> None:
    runs = (tool("make", False),)
    result = AgentResult(agent="t", status="finished", final_text="All done", tool_results=runs, duration_ms=1200)
    case, examination = attempt(toy(), FILES, result=result, iteration=7)
    given = hooks.hook_input(dataclasses.replace(case, attempt=2), examination, root=Path("/p"), gates=None)
    assert (given["taskId"], given["finalMessage"]) == ("one", "All done")
    assert given["toolResults"] == [{"name": "Bash", "command": "make", "success": False, "output": ""}]
    assert (given["attempt"], given["iterationNumber"], given["durationMs"]) == (2, 7, 1200)


def test_ch30_a_hook_has_a_name_a_priority_and_a_command() -> None:
    assert {"name", "priority", "command", "required", "timeout", "env"} == set(Hook.__struct_fields__)
    hook = Hook(name="mine", command="true")
    assert (hook.priority, hook.required) == (30, False)


def test_ch31_a_tool_result_has_name_command_success_and_output() -> None:
    assert ToolResult.__struct_fields__ == ("name", "command", "success", "output")
    assert msgspec.json.decode(msgspec.json.encode(tool("make", None))) == {"name": "Bash", "command": "make"}


# Completion Hook Pipeline


def test_ch33_a_hook_that_comes_after_the_gates_is_not_run_where_these_fail() -> None:
    names = [rule.__name__ for rule in judge.RULES]
    assert names.index("hooks_before_gates") < names.index("gates_hold") < names.index("hooks_after_gates")
    late = hooks.user_hooks([mine("late", hooks.GATES_PRIORITY + 1)])
    assert hooks.hooks_before_gates(*attempt(toy(), FILES, hooks=late)) is None
    assert not (toy().root / "asked").exists()


def test_ch34_the_first_that_continues_wins_and_no_later_one_is_asked() -> None:
    verdict, ran, _ = asked(
        mine("skips", 1), mine("again", 2, "exit 2"), mine("late", 3, answers("stop", reason="paused"))
    )
    assert verdict is not None
    assert (verdict.hook, verdict.action, ran) == ("again", "continue", ["skips", "again"])


def test_ch35_the_first_that_stops_wins_and_no_later_one_is_asked() -> None:
    verdict, ran, _ = asked(
        mine("skips", 1), mine("enough", 2, answers("stop", reason="blocked")), mine("late", 3, "exit 2")
    )
    assert verdict is not None
    assert (verdict.hook, verdict.action, ran) == ("enough", "stop", ["skips", "enough"])


def test_ch36_one_that_skips_leaves_it_to_the_next() -> None:
    verdict, ran, _ = asked(mine("skips", 1, answers("skip")), mine("again", 2, "exit 2"))
    assert verdict is not None
    assert (verdict.hook, ran) == ("again", ["skips", "again"])


def test_ch37_when_all_have_skipped_nothing_is_in_the_way() -> None:
    verdict, ran, _ = asked(mine("a", 1), mine("b", 2))
    assert (verdict, ran) == (None, ["a", "b"])


# Ralph Loop as Completion Hook


def test_ch39_limits_are_looked_at_after_judging_so_the_last_iteration_counts() -> None:
    assert settled(Verdict(action="complete"), attempt=3, allowed=3, time_left=-1).trigger == "complete"
    assert settled(AGAIN, attempt=3, allowed=3).trigger == "block"
    assert settled(AGAIN, attempt=1, time_left=-1).trigger == "block"


def test_ch40_criteria_that_are_not_met_give_another_attempt() -> None:
    unmet = [
        rules.promise_given(*attempt(toy(), FILES, said="done")),
        rules.nothing_changed(*attempt(toy(), {})),
        wanting((), require_lint=True),
        criteria.criteria_hold(*attempt(toy(), FILES, said="done")),
    ]
    for verdict in unmet:
        assert verdict is not None
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
    verdict = wanting(gates, (tool("make", missing != "tool"),), **STRICT)
    assert (verdict.hook if verdict else "") == ("stop-criteria" if missing else "")


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


def test_ch54_the_judge_takes_any_hook_and_knows_none_by_name() -> None:
    verdict, _, _ = asked(mine("mine", 57, "exit 2"))
    assert verdict is not None
    assert verdict.hook == "mine"
    tree = ast.parse((VERIFY / "judge.py").read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert not {"promise", "gates", "criteria", "review"} & texts


def test_ch55_a_rule_evaluates_and_never_runs_the_loop() -> None:
    """Rules cannot start an agent at a task: they know nothing of what drives them."""
    for file in sorted(VERIFY.glob("*.py")):
        nodes = ast.walk(ast.parse(file.read_text("utf-8")))
        imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        assert not {name for name in imported if name.startswith("rulebook_ralph.run")}, file


def test_ch56_prose_about_tools_is_no_tool_result() -> None:
    text = "Bash (make test): failed. Error: exit code 1\n" + f"{PROMISE}"
    assert stream({"type": "result", "subtype": "success", "is_error": False, "result": text}) == ()
    assert wanting((), (), require_no_errors=True) is None
