"""Verification methods on values: the promise, several parts in order or at once, what a cache may answer."""

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.checks import multi_stage, string_match
from rulebook_ralph.checks.multi_stage import Checked
from rulebook_ralph.checks.shell import Cancelled, Execution, ResultCache, Search
from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.checks.verification import verify
from rulebook_ralph.core.criteria import Criteria, External, MultiStage, Part, Semantic, Verification
from rulebook_ralph.core.criteria_reading import read_criteria
from rulebook_ralph.core.evidence import CheckResult, Finding, Verified
from tests.cases import each_of


def subject(**values: Any) -> Subject:
    defaults: dict[str, Any] = {
        "root": Path("/nonexistent"),
        "stage": "coder",
        "promise": "ALL DONE",
        "promises": ("ALL DONE",),
        "final_message": "",
        "commit_messages": (),
        "title": "",
        "description": "",
        "acceptance_criteria": (),
        "diff": tuple,
        "relevant_files": dict,
        "tree": lambda: "tree",
        "put_back": lambda: None,
        "environment": {},
        "clean": str,
        "cancelled": Event(),
    }
    return Subject(**(defaults | values))


# string_match


@pytest.mark.parametrize(
    ("promises", "passed"),
    [
        (("ALL DONE",), True),
        ((" ALL \n DONE ",), True),
        (("OTHER", "ALL DONE"), True),
        (("all done",), False),
        (("NOT ALL DONE",), False),
        ((), False),
    ],
)
def test_string_match_is_equality_with_white_space_folded(promises: tuple[str, ...], passed: bool) -> None:
    result = string_match.check(subject(promises=promises), step="coder")
    assert (result.passed, bool(result.reason)) == (passed, not passed)


# multi_stage


@dataclass
class Script:
    """Runs parts as it is told; `ran` lists them in the order of their start."""

    outcomes: Mapping[str, bool]
    ran: list[str] = field(default_factory=list)
    put_back: int = 0

    def run(self, part: Part, step: str) -> Checked:
        self.ran.append(part.name)
        passed = self.outcomes[part.name]
        result = CheckResult(step=step, method=part.method, command="", passed=passed)
        return Checked(True, (result,)) if passed else Checked(False, (result,), f"{step} (failed)", (f"mend {step}",))

    def putting_back(self) -> None:
        self.put_back += 1

    def check(self, multi: MultiStage) -> Checked:
        return multi_stage.check(multi, step="qa", run=self.run, put_back=self.putting_back)


def part(name: str, **values: Any) -> Part:
    return Part(**({"name": name, "method": "external"} | values))


def test_the_first_required_failure_ends_it() -> None:
    script = Script({"a": True, "b": False, "c": True})
    checked = script.check(MultiStage(stages=(part("a"), part("b"), part("c"))))
    assert script.ran == ["a", "b"]
    assert not checked.passed
    assert checked.reason == "qa/b (failed)"
    assert checked.feedback == ("mend qa/b",)
    assert [result.step for result in checked.results] == ["qa/a", "qa/b", "qa"]


def test_without_require_all_everything_runs_and_a_required_failure_still_fails() -> None:
    script = Script({"a": False, "b": True, "c": False})
    checked = script.check(MultiStage(stages=(part("a"), part("b"), part("c")), require_all=False))
    assert script.ran == ["a", "b", "c"]
    assert not checked.passed
    assert checked.reason == "qa/a (failed), qa/c (failed)"


def test_an_optional_failure_is_a_warning_and_a_result_that_is_not_required() -> None:
    checked = Script({"a": False, "b": True}).check(MultiStage(stages=(part("a", required=False), part("b"))))
    assert checked.passed
    assert checked.warnings == ("failed, but is optional: qa/a (failed)",)
    assert [(result.step, result.required) for result in checked.results] == [
        ("qa/a", False),
        ("qa/b", True),
        ("qa", True),
    ]


def test_if_nothing_passed_the_whole_fails() -> None:
    checked = Script({"a": False, "b": False}).check(
        MultiStage(stages=(part("a", required=False), part("b", required=False)))
    )
    assert not checked.passed
    assert "not one of its parts passed" in checked.reason
    assert checked.feedback == ("mend qa/a", "mend qa/b")


@pytest.mark.parametrize("parallel", [False, True])
def test_what_needs_a_failed_part_is_not_run_and_fails(parallel: bool) -> None:
    script = Script({"build": False, "test": True, "lint": True, "report": True})
    parts = (
        part("build", required=False),
        part("test", needs=("build",)),
        part("lint"),
        part("report", needs=("test",), required=False),
    )
    checked = script.check(MultiStage(stages=parts, require_all=False, parallel=parallel))
    assert script.ran == ["build", "lint"]
    assert not checked.passed
    assert checked.reason == "qa/test (not run: it needs 'build', which did not pass)"
    assert [result.step for result in checked.results] == ["qa/build", "qa/test", "qa/lint", "qa/report", "qa"]


def test_put_back_follows_each_part_that_can_change_the_tree_or_all_that_ran_at_once() -> None:
    parts = (part("a"), part("b"), part("promise", method="string_match"), part("c"), part("d"))
    outcomes = dict.fromkeys(("a", "b", "promise", "c", "d"), True)
    one_by_one, together = Script(outcomes), Script(outcomes)
    one_by_one.check(MultiStage(stages=parts))
    together.check(MultiStage(stages=parts, parallel=True))
    assert (one_by_one.put_back, together.put_back) == (4, 2)


def test_the_tree_is_put_back_also_when_the_run_is_cancelled() -> None:
    script = Script({})

    def cancel(part: Part, step: str) -> Checked:
        raise Cancelled

    with pytest.raises(Cancelled):
        multi_stage.check(MultiStage(stages=(part("a"),)), step="qa", run=cancel, put_back=script.putting_back)
    assert script.put_back == 1


def test_in_parallel_external_parts_meet_and_others_are_barriers() -> None:
    meeting = threading.Barrier(3, timeout=10)
    ended: list[str] = []

    def run(part: Part, step: str) -> Checked:
        if part.method == "external":
            meeting.wait()
        ended.append(part.name)
        return Checked(True, (CheckResult(step=step, command="", passed=True),))

    parts = (part("a"), part("b"), part("c"), part("judge", method="semantic"), part("d"), part("e"), part("f"))
    multi_stage.check(MultiStage(stages=parts, parallel=True), step="qa", run=run, put_back=lambda: None)
    assert (set(ended[:3]), ended[3], set(ended[4:])) == ({"a", "b", "c"}, "judge", {"d", "e", "f"})


def test_in_parallel_a_part_waits_for_what_it_needs_and_for_nothing_else() -> None:
    after_a = Event()
    order: list[str] = []

    def run(part: Part, step: str) -> Checked:
        if part.name == "slow":
            assert after_a.wait(10)
        order.append(part.name)
        if part.name == "after a":
            after_a.set()
        return Checked(True, (CheckResult(step=step, command="", passed=True),))

    parts = (part("a"), part("slow"), part("after a", needs=("a",)))
    checked = multi_stage.check(MultiStage(stages=parts, parallel=True), step="qa", run=run, put_back=lambda: None)
    assert order == ["a", "after a", "slow"]
    assert [result.step for result in checked.results] == ["qa/a", "qa/slow", "qa/after a", "qa"]


def test_in_parallel_a_required_failure_starts_nothing_more_and_lets_the_running_end() -> None:
    failed = Event()
    ran: list[str] = []

    def run(part: Part, step: str) -> Checked:
        ran.append(part.name)
        if part.name == "fails":
            failed.set()
            return Checked(False, (CheckResult(step=step, command="", passed=False),), f"{step} (failed)")
        assert failed.wait(10)
        return Checked(False, (CheckResult(step=step, command="", passed=False),), f"{step} (failed too)")

    parts = (part("slow"), part("fails"), part("next", needs=("slow",)), part("last", method="string_match"))
    checked = multi_stage.check(MultiStage(stages=parts, parallel=True), step="qa", run=run, put_back=lambda: None)
    assert sorted(ran) == ["fails", "slow"]
    assert checked.reason == "qa/slow (failed too), qa/fails (failed)"


def test_in_parallel_cancelling_waits_for_all_that_run() -> None:
    started, cancelled, ended = Event(), Event(), Event()

    def run(part: Part, step: str) -> Checked:
        if part.name == "first":
            assert started.wait(10)
            cancelled.set()
            raise Cancelled
        started.set()
        assert cancelled.wait(10)
        ended.set()
        raise Cancelled

    parts = (part("first"), part("second"))
    with pytest.raises(Cancelled):
        multi_stage.check(MultiStage(stages=parts, parallel=True), step="qa", run=run, put_back=lambda: None)
    assert ended.is_set()


@st.composite
def _plans(draw: st.DrawFn) -> tuple[MultiStage, dict[str, bool]]:
    names = [f"p{number}" for number in range(draw(st.integers(1, 7)))]
    parts = tuple(
        part(
            name,
            method=draw(st.sampled_from(["external", "external", "string_match"])),
            required=draw(st.booleans()),
            needs=tuple(draw(st.sets(st.sampled_from(names[:index]), max_size=2))) if index else (),
        )
        for index, name in enumerate(names)
    )
    multi = MultiStage(stages=parts, require_all=draw(st.booleans()), parallel=draw(st.booleans()))
    return multi, {name: draw(st.booleans()) for name in names}


@given(_plans())
def test_any_plan_passes_only_if_something_passed_and_nothing_required_failed(
    plan: tuple[MultiStage, dict[str, bool]],
) -> None:
    multi, outcomes = plan
    script = Script(outcomes)
    checked = script.check(multi)
    real: dict[str, bool] = {}
    for one in multi.stages:
        real[one.name] = outcomes[one.name] and all(real[name] for name in one.needs)
    required = all(real[one.name] for one in multi.stages if one.required)
    assert checked.passed == (required and any(real.values()))
    assert len(script.ran) == len(set(script.ran)), "a part ran twice"
    assert all(real[name] for one in multi.stages if one.name in script.ran for name in one.needs)
    order = [result.step for result in checked.results]
    assert order == [f"qa/{one.name}" for one in multi.stages if f"qa/{one.name}" in order] + ["qa"]
    if checked.passed or not multi.require_all:
        assert len(order) == len(multi.stages) + 1


# A stage's criteria, with a model that is no model


@dataclass(frozen=True)
class Answer:
    result: CheckResult
    model_failed: str = ""


def _judging(*, passed: bool = True, findings: bool = True, failed: str = "") -> Callable[..., Answer]:
    def check(semantic: Semantic, subject: Subject, *, step: str) -> Answer:
        found = (Finding(criterion="it works", met=passed, reason="seen", file="a.py", line=3),) if findings else ()
        result = CheckResult(
            step=step, method="semantic", command="", passed=passed, reason="" if passed else "1 of 1 unmet"
        )
        return Answer(
            CheckResult(**{name: getattr(result, name) for name in result.__struct_fields__} | {"findings": found}),
            failed,
        )

    return check


def _verified(verification: Verification, judging: Callable[..., Answer] | None = None, **values: Any) -> Verified:
    criteria = Criteria(promise="ALL DONE", verification=verification)
    return verify(criteria, subject(**values), cache=ResultCache(), semantic_check=judging)


SEMANTIC = Semantic(check_for=("it works",))


def test_a_model_that_judged_is_proof() -> None:
    verified = _verified(SEMANTIC, _judging())
    assert (verified.passed, verified.proven, [result.step for result in verified.results]) == (True, True, ["coder"])


def test_unmet_criteria_are_told_with_reason_and_place() -> None:
    verified = _verified(SEMANTIC, _judging(passed=False))
    assert (verified.passed, verified.proven) == (False, False)
    assert verified.reason == "coder (1 of 1 unmet)"
    assert "- Not met: it works. seen (a.py:3)" in verified.feedback


def test_the_mere_absence_of_unwanted_texts_is_no_proof() -> None:
    verified = _verified(Semantic(negative_patterns=("TODO",)), _judging(findings=False))
    assert (verified.passed, verified.proven) == (True, False)


@pytest.mark.parametrize("promised", [True, False])
def test_semantic_verification_model_error_falls_back_to_string_match_and_proves_nothing(promised: bool) -> None:
    verified = _verified(SEMANTIC, _judging(failed="no key"), promises=("ALL DONE",) if promised else ())
    assert (verified.passed, verified.proven) == (promised, False)
    assert verified.warnings == ("coder: the model that judges failed (no key); the promise was taken instead",)
    assert [(result.method, result.passed, result.required) for result in verified.results] == [
        ("semantic", False, False),
        ("string_match", promised, True),
    ]


def test_a_string_match_inside_multi_stage_really_looks() -> None:
    parts = (
        part("promise", method="string_match"),
        part("judge", method="semantic", config={"checkFor": ["it works"]}),
    )
    verified = _verified(MultiStage(stages=parts), _judging(), promises=())
    assert not verified.passed
    assert verified.reason.startswith("coder/promise (")


def test_nested_parts_are_known_by_their_path_and_an_optional_whole_only_warns() -> None:
    config = {
        "stages": [
            {
                "name": "checks",
                "method": "multi_stage",
                "required": False,
                "config": {"stages": [{"name": "deep", "method": "string_match"}]},
            },
            {"name": "judge", "method": "semantic", "config": {"check_for": "it works"}},
        ]
    }
    written = {"promise": "ALL DONE", "verification_method": "multi_stage", "verification_config": config}
    faults: list[Any] = []
    criteria = read_criteria(written, "qa", (), faults)
    assert criteria is not None, faults
    verified = verify(criteria, subject(stage="qa", promises=()), cache=ResultCache(), semantic_check=_judging())
    assert (verified.passed, verified.proven) == (True, True)
    assert [(result.step, result.passed, result.required) for result in verified.results] == [
        ("qa/checks/deep", False, False),
        ("qa/checks", False, False),
        ("qa/judge", True, True),
        ("qa", True, True),
    ]
    assert verified.warnings == ("failed, but is optional: qa/checks/deep (ALL DONE was not promised)",)


# Output that is looked through as it comes


_PIECES = st.lists(st.sampled_from([b"a", b"b", b"\0", b"\xc3", b"\xa9"]), max_size=40)


@given(_PIECES.map(b"".join), st.lists(st.integers(0, 40)), st.sets(st.sampled_from(["a", "ab", "\0", "aba", "é"])))
def test_a_text_is_found_wherever_the_blocks_are_cut(output: bytes, cuts: list[int], texts: set[str]) -> None:
    search = Search(texts)
    places = sorted({0, len(output), *(min(cut, len(output)) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        search.feed(output[start:end])
    assert search.found == {text: text.encode() in output for text in texts}


# What was run before


@each_of(
    ("known", "asked", "answers"),
    [
        (Execution(exit_code=0, duration_ms=900), External(command="x", timeout=1), True),
        (Execution(exit_code=0, duration_ms=1100), External(command="x", timeout=1), False),
        (Execution(timed_out=5, problem="late"), External(command="x", timeout=5), True),
        (Execution(timed_out=5, problem="late"), External(command="x", timeout=6), False),
        (Execution(problem="could not start"), External(command="x"), False),
        (Execution(exit_code=0, kept=b"whole"), External(command="x", output_contains="any"), True),
        (Execution(exit_code=0, kept=None), External(command="x"), True),
        (Execution(exit_code=0, kept=None), External(command="x", output_contains="any"), False),
        (Execution(exit_code=0, kept=None, found={"any": True}), External(command="x", output_contains="any"), True),
    ],
)
def test_an_execution_answers_what_running_again_would_not_change(
    known: Execution, asked: External, answers: bool
) -> None:
    assert known.answers(asked) is answers


def test_what_is_asked_for_at_the_same_time_is_run_once() -> None:
    cache, runs, got = ResultCache(), list[int](), list[Execution]()
    started, go = Event(), Event()

    def run() -> Execution:
        runs.append(1)
        started.set()
        assert go.wait(10)
        return Execution(exit_code=3)

    threads = [threading.Thread(target=lambda: got.append(cache.get("key", lambda _: True, run))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    go.set()
    for thread in threads:
        thread.join()
    assert (len(runs), [execution.exit_code for execution in got]) == (1, [3] * 5)


def test_what_does_not_answer_is_run_again_and_replaces_it() -> None:
    cache = ResultCache()
    assert cache.get("key", lambda _: True, lambda: Execution(exit_code=1)).exit_code == 1
    assert cache.get("key", lambda _: False, lambda: Execution(exit_code=2)).exit_code == 2
    assert cache.get("key", lambda _: True, lambda: Execution(exit_code=3)).exit_code == 2


def test_whoever_waits_for_a_cancelled_check_is_cancelled() -> None:
    cache = ResultCache()

    def cancel() -> Execution:
        raise Cancelled

    for _ in range(2):
        with pytest.raises(Cancelled):
            cache.get("key", lambda _: True, cancel)
