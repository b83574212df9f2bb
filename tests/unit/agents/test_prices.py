"""Costs by the configured prices, and which agents they are for."""

import pytest

from rulebook_ralph.agents.prices import DEFAULT_PRICES, cost_of, cost_problem, price_of, with_cost
from rulebook_ralph.config.settings import Executor, Price
from rulebook_ralph.tasks.results import AgentResult, Usage
from tests.unit.agents.streams import Stream, capture

PRICE = Price(input=1.25, cached_input=0.125, output=10)
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=2_000_000, cache_write_tokens=400_000)


def test_each_kind_of_token_has_its_price() -> None:
    assert cost_of(USAGE, PRICE) == pytest.approx(1.25 + 1 + 0.25 + 0.5)
    assert cost_of(USAGE, Price(input=1, output=0, cache_write=2)) == pytest.approx(1 + 2 + 0.8)
    assert cost_of(USAGE, Price(input=1, output=0, cached_input=0)) == pytest.approx(1.4)
    assert cost_of(Usage(), PRICE) == 0


@pytest.mark.parametrize(
    ("executor", "model", "cost"),
    [
        ("codex", "gpt-5.5", 2.0),
        ("codex", "", 0.02),
        ("codex", "another", 0.02),
        ("gemini", "gemini-9", None),
        ("gemini", "", None),
    ],
)
def test_the_models_price_comes_before_the_executors(executor: str, model: str, cost: float | None) -> None:
    prices = {"gpt-5.5": PRICE, "codex": Price(input=0.01, output=0.1)}
    ran = AgentResult(agent=executor, status="finished", usage=Usage(input_tokens=1, output_tokens=200_000))
    priced = with_cost(ran, prices, Executor(id=executor, type=executor, model=model))
    assert priced.cost_usd == (None if cost is None else pytest.approx(cost, rel=1e-4))


def test_a_model_that_the_agent_itself_tells_has_its_price() -> None:
    ran = Stream("gemini").concluded(capture("gemini", "success"))
    assert (ran.model, ran.cost_usd) == ("gemini-2.5-pro", None)
    price = DEFAULT_PRICES["gemini-2.5-pro"]
    assert with_cost(ran, {}, Executor(id="g", type="gemini")).cost_usd == pytest.approx(cost_of(ran.usage, price))
    chosen = Executor(id="g", type="gemini", model="another")
    assert with_cost(ran, {}, chosen).cost_usd is None, "the one that was chosen goes before"


def test_a_cost_that_was_told_stands_and_no_tokens_cost_nothing_known() -> None:
    prices = {"m": PRICE}
    told = AgentResult(agent="a", status="failed", usage=USAGE, cost_usd=0.0)
    assert with_cost(told, prices, Executor(id="a", type="command", model="m")) is told
    for usage in (Usage(), Usage(output_tokens=9)):
        silent = AgentResult(agent="a", status="failed", usage=usage)
        assert with_cost(silent, prices, Executor(id="a", type="command", model="m")).cost_usd is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("claude-haiku-5-5", "claude-haiku-5-5"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("openai/gpt-5-2025-08-07", "gpt-5"),
        ("gemini-3.1-pro-preview", "gemini-3.1-pro"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("gpt-5-pro", None),
        ("gpt-5.99", None),
        ("", None),
    ],
)
def test_a_known_model_has_its_price_and_no_other_one(name: str, known: str | None) -> None:
    assert price_of({}, name) == (DEFAULT_PRICES[known] if known else None)
    assert price_of({name: PRICE}, name) == PRICE, "a configured price goes before"


@pytest.mark.parametrize(
    ("executor", "problem"),
    [
        (Executor(id="claude", type="claude-code"), ""),
        (Executor(id="codex", type="codex", model="gpt-5.3-codex"), ""),
        (Executor(id="codex", type="codex", args=("-m", "gpt-5.3-codex")), ""),
        (Executor(id="codex", type="codex"), "name its model"),
        (Executor(id="codex", type="codex", model="mine"), "prices.mine"),
        (Executor(id="priced", type="codex", model="mine"), ""),
        (Executor(id="own", type="command", command="x"), "maxRunWallTime"),
    ],
)
def test_a_limit_of_cost_needs_a_cost_or_a_price(executor: Executor, problem: str) -> None:
    told = cost_problem({"priced": PRICE}, executor)
    assert problem in told if problem else told == ""
