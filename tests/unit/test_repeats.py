"""When an attempt counts as the same failure as the one before."""

import pytest
from msgspec.structs import replace

from rulebook_ralph.core.evidence import CheckResult, Iteration, Verdict
from rulebook_ralph.core.repeats import counted, failure_of

AT = "2026-01-01T00:00:00.000Z"
OUTPUT = "test_b FAILED in 0.31s at 0x7f3a\ntest_a FAILED\n2 failed in 1.02s (abc1234)"


def _judged(feedback: str = OUTPUT, *, tree: str = "t1", hook: str = "gates", counts: bool = True) -> Iteration:
    return Iteration(
        iteration_number=1,
        phase="judged",
        task_id="a",
        stage="coder",
        attempt=1,
        agent="x",
        timestamp=AT,
        started_at=AT,
        base_commit="0" * 40,
        verdict=Verdict(action="continue", hook=hook, reason="gate failed: tests (exit code 1)", counts=counts),
        feedback="in the words of the agent",
        checks=(CheckResult(step="tests", command="make test", passed=False, reason="exit code 1", output=feedback),),
        tree=tree,
    )


def test_timings_addresses_hashes_and_the_order_of_lines_make_no_new_failure() -> None:
    other = "test_a FAILED\ntest_b FAILED in 12.5s at 0x00ff\n2 failed in 9.9s (0def567)"
    assert failure_of(_judged()) == failure_of(_judged(other))


@pytest.mark.parametrize(
    "other",
    [_judged(tree="t2"), _judged(hook="criteria"), _judged("test_c FAILED"), replace(_judged(), stage="qa")],
)
def test_another_tree_hook_stage_or_test_is_another_failure(other: Iteration) -> None:
    assert failure_of(_judged()) != failure_of(other)


@pytest.mark.parametrize("hook", ["promise", "contradictions", "work"])
def test_other_words_of_an_agent_make_no_new_failure(hook: str) -> None:
    said = _judged(hook=hook)
    verdict = Verdict(action="continue", hook=hook, reason="it said something else")
    assert failure_of(said) == failure_of(replace(said, verdict=verdict, feedback="other words"))


def test_what_does_not_count_or_did_not_fail_is_no_failure() -> None:
    done = replace(_judged(), verdict=Verdict(action="complete"))
    assert failure_of(done) == failure_of(_judged(counts=False)) == ""


def test_the_row_is_counted_and_broken_only_by_another_failure() -> None:
    first = counted(_judged(), None)
    assert (first.repeats, first.restarted) == (1, False)
    verified = counted(replace(_judged(), verdict=Verdict(action="complete")), first)
    assert (verified.failure, verified.repeats) == (first.failure, 1)
    second = counted(_judged(), replace(verified, restarted=True))
    assert (second.repeats, second.restarted) == (2, True)
    other = counted(_judged(tree="t2"), second)
    assert (other.repeats, other.restarted) == (1, True)
