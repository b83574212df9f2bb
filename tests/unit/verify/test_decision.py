"""What runs on two codes with two sets of checks tell: properties, then the cases that a property would not find."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.verify.decision import excuses, lost, not_held, only_new_names, red_beyond, turned
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.test_counts import Outcome, TestRun

OUTCOMES: list[Outcome] = ["passed", "failed", "error", "skipped"]
named = st.dictionaries(st.sampled_from([f"t.py::{letter}" for letter in "abcdef"]), st.sampled_from(OUTCOMES))


def run(
    names: Mapping[str, Outcome] | None = None,
    *,
    ran: int | None = None,
    failed: int | None = None,
    code: int | None = None,
    required: bool = True,
    unnamed: frozenset[str] = frozenset(),
    complete: bool = True,
    varies: bool = False,
) -> GateRun:
    """A run whose exit code and numbers are those of its names, unless they are given."""
    told = dict(names or {})
    red = sum(each in ("failed", "error") for each in told.values())
    if names is not None:
        ran = sum(each != "skipped" for each in told.values()) if ran is None else ran
        failed = red if failed is None else failed
    code = (1 if failed else 0) if code is None else code
    result = CheckResult(
        step="tests",
        kind="test",
        command="t",
        passed=code == 0,
        exit_code=code,
        required=required,
        reason=f"exit code {code}" if code else "",
    )
    return GateRun(result, TestRun(told or None, ran, failed, complete and bool(names), varies, unnamed))


def of(names: Mapping[str, Outcome], *wanted: Outcome) -> set[str]:
    return {name for name, told in names.items() if told in wanted}


@given(named, named)
def test_red_beyond_the_base_is_what_fails_now_and_did_not(base: dict[str, Outcome], new: dict[str, Outcome]) -> None:
    found = red_beyond(run(base), run(new))
    more = of(new, "failed", "error") - of(base, "failed", "error")
    assert set(found.tests if found else ()) == more


@given(named)
def test_nothing_is_redder_than_itself(names: dict[str, Outcome]) -> None:
    same = run(names)
    assert red_beyond(same, same) is None
    assert lost(same, same) is None
    assert not_held(same, same) is None
    assert turned(same, same) == ()


@given(named, named)
def test_a_base_without_red_excuses_nothing(base: dict[str, Outcome], new: dict[str, Outcome]) -> None:
    green: dict[str, Outcome] = dict.fromkeys(base, "passed")
    found = red_beyond(run(green), run(new))
    assert (found is not None) == bool(of(new, "failed", "error"))
    assert not excuses(run(green), run(new))


@given(named, named)
def test_lost_is_what_passed_and_neither_passes_nor_fails(base: dict[str, Outcome], new: dict[str, Outcome]) -> None:
    found = lost(run(base), run(new))
    gone = of(base, "passed") - of(new, "passed", "failed", "error")
    assert set(found.tests if found else ()) == gone


@given(named, named)
def test_held_is_what_passed_and_passes(base: dict[str, Outcome], mixed: dict[str, Outcome]) -> None:
    found = not_held(run(base), run(mixed))
    broken = of(base, "passed") - of(mixed, "passed")
    if broken:
        assert found is not None
        assert set(found.tests) == broken


@given(named, named, st.data())
def test_turned_ran_failed_and_passes(there: dict[str, Outcome], new: dict[str, Outcome], data: st.DataObject) -> None:
    failed = of(there, "failed")
    unnamed = frozenset(data.draw(st.sets(st.sampled_from(sorted(failed))))) if failed else frozenset[str]()
    found = set(turned(run(there, unnamed=unnamed), run(new)))
    assert found == (failed - unnamed) & of(new, "passed")
    assert not found & set(only_new_names(run(there, unnamed=unnamed), run(new)))


@given(named, named)
def test_the_best_of_two_runs_is_red_where_both_are(one: dict[str, Outcome], other: dict[str, Outcome]) -> None:
    best = run(one).best_of(run(other))
    assert of(one, "failed", "error") & of(other, "failed", "error") <= best.tests.failing
    assert not best.tests.failing & (of(one, "passed") | of(other, "passed"))
    assert best.result.passed == (run(one).result.passed or run(other).result.passed)


@given(named, named)
def test_an_optional_gate_is_never_red(base: dict[str, Outcome], new: dict[str, Outcome]) -> None:
    assert red_beyond(run(base), run(new, required=False)) is None


counted = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda pair: (pair[0] + pair[1], pair[1]))


@given(counted, counted)
def test_without_names_numbers_decide(base: tuple[int, int], new: tuple[int, int]) -> None:
    before, now = (run(ran=ran, failed=failed) for ran, failed in (base, new))
    assert (red_beyond(before, now) is not None) == (new[1] > base[1])
    assert (lost(before, now) is not None) == (base[0] > 0 and new[0] < base[0])
    assert bool(turned(before, now)) == (new[1] < base[1] and new[0] >= base[0])


@given(st.integers(1, 255), st.integers(1, 255))
def test_without_numbers_exit_codes_decide(base: int, new: int) -> None:
    assert (red_beyond(run(code=base), run(code=new)) is not None) == (base != new)
    assert red_beyond(run(code=0), run(code=new)) is not None
    assert turned(run(code=base), run(code=0)) == ()


def test_a_gate_that_ends_with_success_and_tells_of_failures() -> None:
    assert red_beyond(run(ran=3, failed=0), run(ran=3, failed=1, code=0)) is not None
    assert red_beyond(run({"t.py::a": "passed"}), run({"t.py::a": "failed"}, code=0)) is not None


def test_a_red_gate_that_no_longer_tells_of_its_tests() -> None:
    assert red_beyond(run(ran=3, failed=1), run(code=1)) is not None
    assert lost(run({"t.py::a": "passed"}), run(code=0)) is not None


def test_a_runner_that_was_asked_for_names_and_gives_none() -> None:
    """A forged summary; not so of a runner that names what passes at times only."""
    base = run({"t.py::a": "passed"})
    assert lost(base, run(ran=1, failed=0)) is not None
    varying = run({"./a.test.js \u203a a": "passed"}, varies=True)
    assert lost(varying, run(ran=1, failed=0, varies=True)) is None


def test_what_could_not_run_on_the_base_may_still_be_red() -> None:
    base = run({"test_b.py": "error", "test_a.py::x": "passed"})
    assert red_beyond(base, run({"test_b.py::y": "failed", "test_a.py::x": "passed"})) is None
    assert red_beyond(base, run({"test_b.py::y": "failed", "test_a.py::x": "failed"})) is not None
    assert red_beyond(base, run({"test_c.py::y": "failed", "test_a.py::x": "passed"})) is not None
