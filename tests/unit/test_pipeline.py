from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph.core.evidence import (
    AgentFault,
    AgentResult,
    CheckResult,
    ErrorKind,
    KillReason,
    ParsedIteration,
    StopReason,
    Verdict,
)
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement
from rulebook_ralph.loop.pipeline import SKIP, built_in_hooks, judge
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


@dataclass
class Attempt:
    """Evidence by hand; it counts how often gates and commit are asked for, and what was asked for in which order."""

    gates: Gates = field(default_factory=lambda: Gates((GREEN,)))
    refused: str | None = None
    asked: list[str] = field(default_factory=list)

    def evidence(self, **values: Any) -> Evidence:
        defaults: dict[str, Any] = {
            "task": Task(id="one", title="Do one"),
            "stage": "coder",
            "promise": PROMISE,
            "result": AgentResult(agent="test", status="finished", final_text="done"),
            "parsed": ParsedIteration(status="completed", promises=(PROMISE,)),
            "changes": CHANGED,
            "steps": (STEP,),
            "excused": frozenset(),
            "trust_agent": False,
            "told": tuple,
            "run_limited": False,
        }
        return Evidence(**(defaults | values), run_gates=self._run_gates, try_commit=self._try_commit)

    def _run_gates(self) -> Gates:
        self.asked.append("gates")
        return self.gates

    def _try_commit(self) -> str | None:
        self.asked.append("commit")
        return self.refused

    def judged(self, **values: Any) -> Judgement:
        return judge(self.evidence(**values), built_in_hooks())


def _verdict(attempt: Attempt | None = None, **values: Any) -> Verdict:
    return (attempt or Attempt()).judged(**values).verdict


# The order


@dataclass
class Hook:
    name: str
    priority: int
    answer: Verdict = SKIP
    runs: bool = True
    asked: list[str] = field(default_factory=list, compare=False)

    def should_run(self, evidence: Evidence) -> bool:
        return self.runs

    def run(self, evidence: Evidence) -> Verdict:
        self.asked.append(self.name)
        return self.answer


_verdicts = st.sampled_from(
    (
        SKIP,
        SKIP,
        Verdict(action="continue", reason="again", feedback="mend it"),
        Verdict(action="stop", reason="no more", stop_reason="blocked", counts=False),
    )
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), _verdicts, st.booleans()), max_size=8))
def test_the_lowest_priority_that_does_not_skip_wins(rules: list[tuple[int, Verdict, bool]]) -> None:
    asked: list[str] = []
    hooks = [Hook(f"h{index}", *rule, asked=asked) for index, rule in enumerate(rules)]
    verdict = judge(Attempt().evidence(), hooks).verdict
    running = [hook for hook in sorted(hooks, key=lambda hook: hook.priority) if hook.runs]
    deciding = next((hook for hook in running if hook.answer.action != "skip"), None)
    if deciding is None:
        assert (verdict.action, verdict.hook, verdict.counts) == ("complete", "pipeline", True)
        assert asked == [hook.name for hook in running]
    else:
        assert verdict == replace_hook(deciding.answer, deciding.name)
        assert asked == [hook.name for hook in running[: running.index(deciding) + 1]]


def replace_hook(verdict: Verdict, hook: str) -> Verdict:
    return Verdict(
        action=verdict.action,
        hook=hook,
        reason=verdict.reason,
        feedback=verdict.feedback,
        stop_reason=verdict.stop_reason,
        counts=verdict.counts,
    )


def test_a_hook_cannot_complete_a_task() -> None:
    forged = Hook("mine", 30, Verdict(action="complete", reason="trust me"))
    verdict = judge(Attempt().evidence(changes=()), [*built_in_hooks(), forged]).verdict
    assert (verdict.action, verdict.hook) == ("continue", "work")


def test_the_built_in_hooks_stand_in_the_order_of_the_design() -> None:
    names = [hook.name for hook in sorted(built_in_hooks(), key=lambda hook: hook.priority)]
    assert names == ["agent", "integrity", "blocked", "work", "gates", "promise", "commit"]


@settings(deadline=None)
@given(st.data())
def test_the_first_of_the_built_in_hooks_that_objects_decides(data: st.DataObject) -> None:
    """Every combination of what may be wrong, the hooks in any order."""
    wrong: dict[str, dict[str, Any]] = {
        "agent": {"result": AgentResult(agent="test", status="truncated")},
        "integrity": {"changes": (*CHANGED, Change("sub", "A", is_gitlink=True))},
        "blocked": {"parsed": ParsedIteration(blocked_reason="no key", promises=(PROMISE,))},
        "work": {"changes": ()},
        "gates": {},
        "promise": {"parsed": ParsedIteration()},
        "commit": {},
    }
    chosen = data.draw(st.sets(st.sampled_from(sorted(wrong))))
    if "integrity" in chosen:
        chosen.discard("work")
    if "blocked" in chosen:
        chosen.discard("promise")
    attempt = Attempt(Gates((RED,)) if "gates" in chosen else Gates((GREEN,)), "no\n" if "commit" in chosen else None)
    values: dict[str, Any] = {}
    for name in chosen:
        values |= wrong[name]
    verdict = judge(attempt.evidence(**values), data.draw(st.permutations(built_in_hooks()))).verdict
    assert verdict.hook == next((name for name in wrong if name in chosen), "pipeline")
    assert (verdict.action == "complete") == (not chosen)
    asked_for_gates = verdict.hook in ("gates", "promise", "commit", "pipeline")
    assert ("gates" in attempt.asked) == asked_for_gates
    assert attempt.asked.count("commit") == (verdict.hook in ("commit", "pipeline"))
    assert verdict.action == "complete" or verdict.reason


# Each hook


def test_everything_that_holds_completes() -> None:
    attempt = Attempt(Gates((GREEN, LINT_GREEN)))
    judged = attempt.judged()
    assert judged.verdict.action == "complete"
    assert judged.gates.results == (GREEN, LINT_GREEN)
    assert attempt.asked[0] == "gates"
    assert attempt.asked.count("commit") == 1


@pytest.mark.parametrize(
    ("status", "killed", "kind", "action", "stop", "counts", "says"),
    [
        ("killed", "wall-time", None, "continue", None, True, "longer"),
        ("killed", "idle-time", None, "continue", None, True, "printed nothing"),
        ("killed", "interrupted", None, "stop", "interrupted", False, "interrupted"),
        ("truncated", None, None, "continue", None, True, "cut off"),
        ("failed", None, None, "continue", None, True, "exit code 3"),
        ("failed", None, "crash", "continue", None, True, "its words"),
        ("failed", None, "max-turns", "continue", None, True, "its words"),
        ("failed", None, "network", "continue", None, True, "its words"),
        ("failed", None, "usage-limit", "stop", "rate-limited", False, "its words"),
        ("failed", None, "authentication", "stop", "error", False, "its words"),
        ("failed", None, "billing", "stop", "error", False, "its words"),
        ("failed", None, "not-installed", "stop", "error", False, "its words"),
    ],
)
def test_an_agent_that_did_not_finish_completes_nothing(
    status: Literal["killed", "truncated", "failed"],
    killed: KillReason | None,
    kind: ErrorKind | None,
    action: str,
    stop: StopReason | None,
    counts: bool,
    says: str,
) -> None:
    attempt = Attempt()
    fault = AgentFault(kind=kind, message="its words") if kind else None
    result = AgentResult(agent="test", status=status, final_text="done", killed_by=killed, fault=fault, exit_code=3)
    verdict = _verdict(attempt, result=result)
    assert (verdict.hook, verdict.action, verdict.stop_reason, verdict.counts) == ("agent", action, stop, counts)
    assert says in verdict.reason
    assert bool(verdict.feedback) == (action == "continue")
    assert attempt.asked == []


def test_when_the_usage_limit_ends_is_said() -> None:
    fault = AgentFault(kind="usage-limit", message="no more", resets_at="2026-01-01T05:00:00Z")
    verdict = _verdict(result=AgentResult(agent="test", status="failed", fault=fault))
    assert "2026-01-01T05:00:00Z" in verdict.reason


def test_an_agent_ended_by_the_limit_of_the_run_ends_the_run() -> None:
    for killed, action in (("wall-time", "stop"), ("idle-time", "continue")):
        result = AgentResult(agent="test", status="killed", killed_by=killed)  # type: ignore[arg-type]  # the two words
        verdict = _verdict(result=result, run_limited=True)
        assert (verdict.hook, verdict.action, verdict.counts) == ("agent", action, action == "continue")
        assert verdict.stop_reason == ("max-wall-time" if action == "stop" else None)


def test_tools_that_were_denied_are_told_unless_all_is_well() -> None:
    result = AgentResult(agent="test", status="finished", final_text="done", permission_denials=("Bash",))
    assert _verdict(result=result).feedback == ""
    assert "not allowed to use: Bash" in _verdict(result=result, changes=()).feedback


def test_a_repository_inside_is_named() -> None:
    attempt = Attempt()
    verdict = _verdict(attempt, changes=(*CHANGED, Change("vendor/lib", "A", is_gitlink=True)))
    assert (verdict.hook, verdict.action) == ("integrity", "continue")
    assert "vendor/lib" in verdict.feedback
    assert "src/a.py" not in verdict.feedback
    assert attempt.asked == []


def test_a_blocked_agent_ends_the_task() -> None:
    attempt = Attempt()
    verdict = _verdict(attempt, parsed=ParsedIteration(blocked_reason="no key", promises=(PROMISE,)))
    assert (verdict.hook, verdict.action, verdict.stop_reason) == ("blocked", "stop", "blocked")
    assert "no key" in verdict.reason
    assert attempt.asked == []


@pytest.mark.parametrize("status", ["completed", "partial"])
@pytest.mark.parametrize("text", ["I did it.", " \n"])
def test_an_attempt_without_a_change_never_completes(status: Literal["completed", "partial"], text: str) -> None:
    attempt = Attempt()
    verdict = _verdict(
        attempt,
        changes=(),
        trust_agent=True,
        parsed=ParsedIteration(status=status, promises=(PROMISE,)),
        result=AgentResult(agent="test", status="finished", final_text=text),
    )
    assert (verdict.hook, verdict.action) == ("work", "continue")
    assert ("said it was done" in verdict.feedback) == (status == "completed")
    assert ("empty" in verdict.feedback) == (not text.strip())
    assert attempt.asked == []


def test_a_red_gate_is_fed_back_with_what_it_printed() -> None:
    attempt = Attempt(Gates((LINT_GREEN, RED)))
    judged = attempt.judged()
    verdict = judged.verdict
    assert (verdict.hook, verdict.action) == ("gates", "continue")
    assert verdict.reason == "gate failed: tests (exit code 1)"
    for text in ("make test", "exit code 1", "1 failed"):
        assert text in verdict.feedback
    assert "make lint" not in verdict.feedback
    assert judged.gates.results == (LINT_GREEN, RED)
    assert "commit" not in attempt.asked


def test_a_long_output_is_fed_back_in_part() -> None:
    output = "\n".join(f"line {n}" for n in range(10_000))
    feedback = _verdict(Attempt(Gates((CheckResult(step="t", command="c", passed=False, output=output),)))).feedback
    assert len(feedback) < 5_000
    assert "line 0\n" in feedback
    assert "line 9999" in feedback


@pytest.mark.parametrize(
    ("claims", "denied"),
    [
        ({"tests": True}, ["tests"]),
        ({"tests": True, "lint": True}, ["tests", "lint"]),
        ({"tests": False, "lint": True}, ["lint"]),
        ({"typecheck": True}, []),
        ({}, []),
    ],
)
def test_a_claim_that_a_gate_denies_is_told(claims: dict[str, bool], denied: list[str]) -> None:
    parsed = ParsedIteration(status="completed", promises=(PROMISE,), quality_claims=claims)
    feedback = _verdict(Attempt(Gates((RED, LINT_RED))), parsed=parsed).feedback
    assert feedback.endswith(f"they failed when Ralph ran them: {', '.join(denied)}.") == bool(denied)
    assert ("You claimed" in feedback) == bool(denied)


def test_gates_that_are_warnings_or_were_red_before_do_not_count() -> None:
    warning = CheckResult(step="style", command="c", passed=False, required=False)
    assert _verdict(Attempt(Gates((GREEN, warning)))).action == "complete"
    assert _verdict(Attempt(Gates((RED, LINT_GREEN))), excused=frozenset({"tests"})).action == "complete"
    verdict = _verdict(Attempt(Gates((RED, LINT_RED))), excused=frozenset({"tests"}))
    assert "lint" in verdict.reason
    assert "tests" not in verdict.reason
    claims = ParsedIteration(promises=(PROMISE,), quality_claims={"tests": True})
    both = _verdict(Attempt(Gates((RED, LINT_RED))), excused=frozenset({"tests"}), parsed=claims)
    assert "You claimed" not in both.feedback


@pytest.mark.parametrize(
    ("results", "excused"),
    [
        ((RED,), {"tests"}),
        ((RED, LINT_RED), {"tests", "lint"}),
        ((CheckResult(step="style", command="c", passed=False, required=False),), set()),
        ((), set()),
    ],
)
def test_where_no_gate_passed_nothing_is_proven(results: tuple[CheckResult, ...], excused: set[str]) -> None:
    verdict = _verdict(Attempt(Gates(results)), excused=frozenset(excused))
    assert (verdict.hook, verdict.action) == ("gates", "continue")
    assert _verdict(Attempt(Gates(results)), excused=frozenset(excused), trust_agent=True).action == "complete"


def test_gates_that_go_on_changing_the_tree_are_told() -> None:
    verdict = _verdict(Attempt(Gates((GREEN,), ("build/out.txt",))))
    assert (verdict.hook, verdict.action) == ("gates", "continue")
    assert "build/out.txt" in verdict.feedback


def test_without_gates_none_are_run() -> None:
    attempt = Attempt()
    judged = attempt.judged(steps=())
    assert judged.verdict.action == "complete"
    assert judged.gates == Gates()
    assert attempt.asked == ["commit"]


@pytest.mark.parametrize(
    ("wanted", "promises", "kept"),
    [
        (PROMISE, (PROMISE,), True),
        (PROMISE, ("OTHER", PROMISE, "LAST"), True),
        ("IT  IS\tDONE", ("IT IS DONE",), True),
        (PROMISE, (), False),
        (PROMISE, ("OTHER",), False),
        (PROMISE, (PROMISE.lower(),), False),
        (PROMISE, (f"{PROMISE}!",), False),
    ],
)
def test_the_promise(wanted: str, promises: tuple[str, ...], kept: bool) -> None:
    attempt = Attempt()
    parsed = ParsedIteration(status="completed", promises=promises)
    judged = attempt.judged(promise=wanted, parsed=parsed)
    assert (judged.verdict.action == "complete") == kept
    assert judged.gates.results == (GREEN,)
    if not kept:
        assert judged.verdict.hook == "promise"
        assert wanted in judged.verdict.feedback
        assert "commit" not in attempt.asked
        assert "<promise>" not in judged.verdict.feedback


@pytest.mark.parametrize("problem", ["pre-commit refused it (exit code 1)\nno tabs", "", "\n\n", "x" * 100_000])
def test_a_refused_commit(problem: str) -> None:
    attempt = Attempt(refused=problem)
    verdict = _verdict(attempt)
    assert (verdict.hook, verdict.action) == ("commit", "continue")
    assert verdict.reason.startswith("the commit was refused")
    assert "\n" not in verdict.reason
    assert len(verdict.reason) < 500
    assert problem[:20].strip() in verdict.feedback
    assert attempt.asked.count("commit") == 1


def test_what_was_put_back_is_told_whatever_the_verdict() -> None:
    told = ("You changed git's own files; they were put back.",)
    for values in ({"changes": ()}, {"parsed": ParsedIteration()}, {"parsed": ParsedIteration(blocked_reason="x")}):
        assert _verdict(told=lambda: told, **values).feedback.endswith(told[0])
    assert _verdict(Attempt(Gates((RED,))), told=lambda: told).feedback.endswith(told[0])
    assert _verdict(told=lambda: told).action == "complete"


def test_evidence_is_not_changed_by_judging() -> None:
    evidence = Attempt(Gates((RED,))).evidence()
    before = replace(evidence)
    judge(evidence, built_in_hooks())
    assert evidence == before
