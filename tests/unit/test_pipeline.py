import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_changes

from rulebook_ralph.checks.hook_command import HookFailed
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core.events import Notice
from rulebook_ralph.core.evidence import (
    SKIP,
    AgentFault,
    AgentResult,
    CheckResult,
    ErrorKind,
    KillReason,
    ParsedIteration,
    StopReason,
    Verdict,
    Verified,
)
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement
from rulebook_ralph.loop.pipeline import CompletionHook, judge
from rulebook_ralph.loop.rules.built_in import built_in_hooks
from rulebook_ralph.loop.rules.stop_criteria import StopCriteria
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.snapshot import Change
from tests.cases import each_of
from tests.evidence import CHANGED, GREEN, LINT_GREEN, LINT_RED, PROMISE, RED, Attempt, criteria


def rules() -> tuple[CompletionHook, ...]:
    """Ralph's own, with the stop criteria."""
    hooks = built_in_hooks()
    return hooks if any(isinstance(hook, StopCriteria) for hook in hooks) else (*hooks, StopCriteria())


def judged(attempt: Attempt, **values: Any) -> Judgement:
    return judge(attempt.evidence(**values), rules())


def _verdict(attempt: Attempt | None = None, **values: Any) -> Verdict:
    return judged(attempt or Attempt(), **values).verdict


# The order


class BrokenError(Exception):
    pass


AGAIN = Verdict(action="continue", reason="again", feedback="mend it")
ENOUGH = Verdict(action="stop", reason="no more", stop_reason="blocked", counts=False)
COMPLETE = Verdict(action="complete", reason="trust me")
TIMEOUT = HookFailed("did not end within 30 s")
Answer = Verdict | Exception


@dataclass
class Hook:
    """A user's hook: what `should_run` and `run` give or raise."""

    name: str
    priority: int
    runs: bool | Exception = True
    answer: Answer = SKIP
    required: bool = False
    shown_as: str | None = None
    asked: list[str] = field(default_factory=list, compare=False)

    def should_run(self, evidence: Evidence) -> bool:
        if isinstance(self.runs, Exception):
            raise self.runs
        return self.runs

    def run(self, evidence: Evidence) -> Verdict:
        self.asked.append(self.name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def winner(hooks: Sequence[Hook]) -> tuple[str, str]:
    """The documented winner's name and action: lowest priority first, as given among equals, the first not to skip."""
    for hook in sorted(hooks, key=lambda hook: hook.priority):
        failed = isinstance(hook.runs, Exception) or (hook.runs and isinstance(hook.answer, Exception))
        if failed and hook.required:
            return hook.name, "continue"
        if not failed and hook.runs and hook.answer in (AGAIN, ENOUGH):
            assert isinstance(hook.answer, Verdict)
            return hook.name, hook.answer.action
    return "pipeline", "complete"


_runs = st.sampled_from([True, True, True, False, BrokenError("should_run")])
_answers = st.sampled_from([SKIP, SKIP, COMPLETE, AGAIN, ENOUGH, BrokenError("run"), TIMEOUT])


@given(st.lists(st.tuples(st.integers(-1, 3), _runs, _answers, st.booleans()), max_size=8))
def test_any_order_of_hooks_and_results_gives_the_documented_winner(
    drawn: list[tuple[int, bool | Exception, Answer, bool]],
) -> None:
    asked: list[str] = []
    notices: list[Notice] = []
    hooks = [Hook(f"h{index}", *each, asked=asked) for index, each in enumerate(drawn)]
    judgement = judge(Attempt().evidence(), hooks, report=notices.append)
    verdict = judgement.verdict
    assert (verdict.hook, verdict.action) == winner(hooks)
    ordered = [hook.name for hook in sorted(hooks, key=lambda hook: hook.priority)]
    reached = ordered if verdict.hook == "pipeline" else ordered[: ordered.index(verdict.hook) + 1]
    by_name = {hook.name: hook for hook in hooks}
    assert asked == [name for name in reached if by_name[name].runs is True]
    failing = [
        name
        for name in reached
        if isinstance(by_name[name].runs, Exception)
        or (by_name[name].runs and isinstance(by_name[name].answer, Exception))
    ]
    assert len(judgement.log) == len(failing)
    assert [notice.text for notice in notices] == list(judgement.log)
    assert all(f"'{name}'" in line for name, line in zip(failing, judgement.log, strict=True))
    decided = by_name.get(verdict.hook)
    if decided and decided.answer in (AGAIN, ENOUGH) and decided.name not in failing:
        assert isinstance(decided.answer, Verdict)
        assert verdict == with_changes(decided.answer, hook=verdict.hook)


def test_equal_priorities_keep_the_order_in_which_they_were_given() -> None:
    hooks = [Hook("late", 2, answer=AGAIN), Hook("first", 1, answer=AGAIN), Hook("second", 1, answer=ENOUGH)]
    assert judge(Attempt().evidence(), hooks).verdict.hook == "first"
    assert judge(Attempt().evidence(), hooks[::-1]).verdict.hook == "second"


def test_a_required_hook_that_errs_asks_for_another_attempt_with_its_words() -> None:
    hooks = [Hook("mine", 1, answer=BrokenError("no such table"), required=True), Hook("next", 2, answer=ENOUGH)]
    judgement = judge(Attempt().evidence(), hooks)
    assert (judgement.verdict.hook, judgement.verdict.action) == ("mine", "continue")
    assert "BrokenError: no such table" in judgement.verdict.reason
    assert "BrokenError: no such table" in judgement.verdict.feedback


@pytest.mark.parametrize("check", ["run_gates", "try_commit", "diff"])
def test_an_error_in_one_of_the_rules_that_always_hold_completes_nothing(check: str) -> None:
    def broken(*_: object) -> Any:
        raise OSError("disk on fire")

    evidence = Attempt().evidence(**{check: broken})
    hooks = (*rules(), AsksForDiff()) if check == "diff" else rules()
    judgement = judge(evidence, hooks)
    assert judgement.verdict.action == "continue"
    assert "OSError: disk on fire" in judgement.verdict.feedback
    assert judgement.gates == (Gates((GREEN,)) if check == "try_commit" else judgement.gates)
    assert check != "run_gates" or judgement.gates == Gates()


class AsksForDiff:
    name, priority = "mine", 60

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.diff())

    def run(self, evidence: Evidence) -> Verdict:
        return SKIP


def test_words_of_an_error_that_hold_a_secret_are_not_told() -> None:
    judgement = judge(
        Attempt().evidence(), [Hook("mine", 1, answer=BrokenError("login s3cret refused"), required=True)]
    )
    assert "s3cret" not in f"{judgement}"
    assert "Broken" in judgement.log[0]


@pytest.mark.parametrize(
    "error", [Cancelled(), RalphError("disk full"), GitError(Path("/toy"), ["add"], 128, "fatal: no")]
)
def test_an_order_to_end_is_no_error_of_a_hook(error: Exception) -> None:
    with pytest.raises(type(error)):
        judge(Attempt().evidence(), [Hook("mine", 1, answer=error)])


def test_a_disk_that_fails_ralphs_own_rule_is_held_against_no_attempt() -> None:
    failing = Hook("gates", 1, answer=OSError(errno.EIO, "Input/output error"), required=True)
    with pytest.raises(OSError, match="Input/output error"):
        judge(Attempt().evidence(), [failing])
    failing.shown_as = "./may-go-on"
    assert judge(Attempt().evidence(), [failing]).verdict.action == "continue"


def test_the_reason_of_a_skip_is_told() -> None:
    judgement = judge(Attempt().evidence(), [Hook("mine", 1, answer=Verdict(action="skip", reason="nothing to see"))])
    assert judgement.verdict.action == "complete"
    assert judgement.log == ("mine: nothing to see",)


def test_a_hook_cannot_complete_a_task() -> None:
    forged = Hook("mine", 30, answer=COMPLETE)
    verdict = judge(Attempt().evidence(changes=()), [*rules(), forged]).verdict
    assert (verdict.action, verdict.hook) == ("continue", "work")


def test_gates_are_run_for_a_hook_that_continues_and_not_for_one_that_stops() -> None:
    for answer, steps in ((AGAIN, ["gates", "gates"]), (ENOUGH, [])):
        attempt = Attempt()
        judgement = judge(attempt.evidence(), [*rules(), Hook("mine", 30, answer=answer)])
        assert judgement.verdict.hook == "mine"
        assert attempt.asked == steps
        assert judgement.gates == (Gates((GREEN,)) if steps else Gates())
    late = judge(Attempt().evidence(), [*rules(), Hook("mine", 70, answer=ENOUGH)])
    assert late.gates == Gates((GREEN,))


def test_checks_of_the_criteria_are_kept() -> None:
    result = CheckResult(step="coder", method="external", command="make check", passed=True)
    attempt = Attempt(verified=Verified(passed=True, proven=True, results=(result,)))

    class Criteria:
        name, priority = "criteria", 60

        def should_run(self, evidence: Evidence) -> bool:
            return True

        def run(self, evidence: Evidence) -> Verdict:
            return SKIP if evidence.run_criteria().passed else AGAIN

    assert judge(attempt.evidence(), [Criteria()]).checks == (result,)
    assert judge(attempt.evidence(), [Hook("mine", 1, answer=ENOUGH), Criteria()]).checks == ()


def test_the_built_in_hooks_stand_in_the_order_of_the_design() -> None:
    names = [hook.name for hook in sorted(rules(), key=lambda hook: hook.priority)]
    before = ["agent", "integrity", "blocked", "contradictions", "work"]
    after = [
        "gates",
        "test-counts",
        "earlier-tests",
        "stop-criteria",
        "promise",
        "criteria",
        "earlier-tests",
        "review",
        "integrity",
        "commit",
    ]
    assert names == [*before, *after]


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
    verdict = judge(attempt.evidence(**values), data.draw(st.permutations(rules()))).verdict
    assert verdict.hook == next((name for name in wrong if name in chosen), "pipeline")
    assert (verdict.action == "complete") == (not chosen)
    asked_for_gates = verdict.hook in ("gates", "promise", "commit", "pipeline")
    assert ("gates" in attempt.asked) == asked_for_gates
    assert attempt.asked.count("commit") == (verdict.hook in ("commit", "pipeline"))
    assert verdict.action == "complete" or verdict.reason


# Each hook


def test_everything_that_holds_completes() -> None:
    attempt = Attempt(Gates((GREEN, LINT_GREEN)))
    judgement = judged(attempt)
    assert judgement.verdict.action == "complete"
    assert judgement.gates.results == (GREEN, LINT_GREEN)
    assert attempt.asked[0] == "gates"
    assert attempt.asked.count("commit") == 1


@each_of(
    ("status", "killed", "kind", "action", "stop", "counts", "says"),
    [
        ("killed", "wall-time", None, "continue", None, True, "longer"),
        ("killed", "idle-time", None, "continue", None, True, "gave no output"),
        ("killed", "interrupted", None, "stop", "interrupted", False, "interrupted"),
        ("truncated", None, None, "continue", None, True, "cut off"),
        ("failed", None, None, "continue", None, True, "exit code 3"),
        ("failed", None, "crash", "continue", None, False, "its words"),
        ("failed", None, "max-turns", "continue", None, True, "its words"),
        ("failed", None, "network", "continue", None, False, "its words"),
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
    judgement = judged(attempt)
    verdict = judgement.verdict
    assert (verdict.hook, verdict.action) == ("gates", "continue")
    assert verdict.reason == "gate failed: tests (exit code 1)"
    for text in ("make test", "exit code 1", "1 failed"):
        assert text in verdict.feedback
    assert "make lint" not in verdict.feedback
    assert judgement.gates.results == (LINT_GREEN, RED)
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
    assert _verdict(Attempt(Gates((GREEN, LINT_RED))), excused=frozenset({"lint"})).action == "complete"
    assert _verdict(Attempt(Gates((RED, LINT_GREEN))), excused=frozenset({"tests"})).action == "continue"
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
    judgement = judged(attempt, steps=())
    assert judgement.verdict.action == "complete"
    assert judgement.gates == Gates()
    assert attempt.asked == ["criteria", "commit"]


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
    judgement = judged(attempt, criteria=criteria(wanted), parsed=parsed)
    assert (judgement.verdict.action == "complete") == kept
    assert judgement.gates.results == (GREEN,)
    if not kept:
        assert judgement.verdict.hook == "promise"
        assert wanted in judgement.verdict.feedback
        assert "commit" not in attempt.asked
        assert "<promise>" not in judgement.verdict.feedback


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
    judge(evidence, rules())
    assert evidence == before
