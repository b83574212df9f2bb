"""Which attempt came furthest."""

from itertools import pairwise

from rulebook_ralph.core.best_attempt import better
from rulebook_ralph.core.evidence import CheckResult, Iteration, Verdict
from rulebook_ralph.core.model import Stage
from rulebook_ralph.core.review import IssueCounts, Look, Review, Tier
from rulebook_ralph.loop.rules.built_in import built_in_hooks
from tests.cases import each_of


def attempt(
    hook: str,
    *,
    stage: Stage = "coder",
    high: int = 0,
    medium: int = 0,
    tiers: tuple[Tier, ...] = (),
    failed: int = 0,
    made: bool = True,
) -> Iteration:
    counts = IssueCounts(total=high + medium, high=high, medium=medium, low=0)
    looks = tuple(Look(tier=tier, reviewer="r", decision="REVISE") for tier in tiers)
    return Iteration(
        iteration_number=1,
        phase="judged",
        task_id="one",
        stage=stage,
        attempt=1,
        agent="a",
        timestamp="",
        started_at="",
        base_commit="",
        verdict=Verdict(action="continue", hook=hook),
        review=Review(decision="REVISE", issues=(), summary=counts, looks=looks) if tiers else None,
        checks=tuple(CheckResult(step=str(number), command="x", passed=False) for number in range(failed)),
        snapshot="abc" if made else None,
        files_changed=("a",) if made else (),
    )


WORSE_THEN_BETTER = {
    "the agent's end, the gates": (attempt("agent"), attempt("gates")),
    "a hook of the user's own, the promise": (attempt("my-hook"), attempt("promise")),
    "criteria, review": (attempt("criteria"), attempt("review", high=9, tiers=("quick",))),
    "review, the commit's hooks": (attempt("review", medium=1, tiers=("quick",)), attempt("commit")),
    "many high issues, few": (
        attempt("review", high=2, tiers=("quick",)),
        attempt("review", high=1, medium=5, tiers=("quick",)),
    ),
    "many issues, few": (attempt("review", medium=2, tiers=("quick",)), attempt("review", medium=1, tiers=("quick",))),
    "the quick look, the deep one": (
        attempt("review", tiers=("quick",)),
        attempt("review", high=3, tiers=("quick", "deep")),
    ),
    "many red gates, few": (attempt("gates", failed=2), attempt("gates", failed=1)),
    "a stage, the one after it": (attempt("commit"), attempt("agent", stage="qa")),
    "nothing made, something": (attempt("commit", made=False), attempt("agent")),
}


@each_of(("worse", "best"), WORSE_THEN_BETTER.values())
def test_the_one_that_came_further_is_the_best_in_either_order(worse: Iteration, best: Iteration) -> None:
    assert better(best, better(worse, None)) is best
    assert better(worse, better(best, None)) is best


def test_the_rules_count_in_the_order_in_which_they_are_asked() -> None:
    names = dict.fromkeys(hook.name for hook in sorted(built_in_hooks(), key=lambda hook: hook.priority))
    for earlier, later in pairwise(names):
        further = attempt(later)
        assert better(attempt(earlier), further) is further, (earlier, later)


def test_of_equals_the_later_one_is_the_best() -> None:
    first, second = attempt("gates"), attempt("gates")
    assert better(second, first) is second
    assert better(attempt("agent", made=False), None) is None
