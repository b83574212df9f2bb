"""What the model takes that judges: summed, priced, and counted beside the agent's in every sum and budget."""

from concurrent.futures import ThreadPoolExecutor

from rulebook_ralph.agents.prices import priced_spend
from rulebook_ralph.core.evidence import Iteration, Usage
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.requirements import over_budget
from rulebook_ralph.core.settings import Limits, Price
from rulebook_ralph.core.spending import Ledger
from rulebook_ralph.loop.record import with_judging

ONE = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)
RECORD = Iteration(
    iteration_number=1,
    phase="judged",
    task_id="one",
    stage="coder",
    attempt=1,
    agent="a",
    timestamp="",
    started_at="",
    base_commit="",
    cost_usd=0.5,
    usage=ONE,
)


def test_questions_in_threads_are_summed_and_taken_once() -> None:
    ledger = Ledger()
    with ThreadPoolExecutor(4) as pool:
        for _ in range(200):
            pool.submit(ledger.spend, ONE, 0.25)
    assert ledger.take() == (
        Usage(input_tokens=200, output_tokens=400, cache_read_tokens=600, cache_write_tokens=800),
        50.0,
    )
    assert ledger.take() == (Usage(), None)


def test_tokens_without_a_known_cost_have_none() -> None:
    ledger = Ledger()
    ledger.spend(ONE, None)
    assert ledger.take() == (ONE, None)


def test_the_configured_price_is_for_what_tells_no_cost() -> None:
    ledger = Ledger()
    spend = priced_spend(ledger.spend, {"haiku": Price(input=1_000_000, output=0)})
    spend(("claude-haiku-5-5", "haiku"), Usage(input_tokens=2, output_tokens=9), None)
    assert ledger.take()[1] == 2
    spend(("haiku",), Usage(input_tokens=2), 0.5)
    assert ledger.take()[1] == 0.5
    spend(("haiku",), Usage(output_tokens=9), None)  # who tells only what it wrote would seem too cheap
    spend(("opus",), Usage(input_tokens=2), None)
    assert ledger.take()[1] is None


def test_what_judging_took_counts_in_the_budgets_of_a_task() -> None:
    judged = with_judging(RECORD, Usage(input_tokens=990), 0.5)
    assert (judged.spent_usd, judged.spent_tokens) == (1.0, 1000)
    task = Task(id="one", title="")
    assert over_budget(Limits(max_task_cost_usd=1), task, RECORD) == ""
    assert "$1.00" in over_budget(Limits(max_task_cost_usd=1), task, judged)
    assert "1,000" in over_budget(Limits(max_task_tokens=1000), task, judged)
