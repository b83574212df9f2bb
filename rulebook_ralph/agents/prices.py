"""What a run cost by the configured prices, for agents that tell their tokens and no cost. Pure."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from rulebook_ralph.core.evidence import AgentResult, Usage
from rulebook_ralph.core.settings import Price
from rulebook_ralph.core.spending import Spend

_MILLION = 1_000_000


def cost_of(usage: Usage, price: Price) -> float:
    """The cost in dollars. Tokens read from or written to the cache cost what any input does, where nothing is said."""
    cached = price.input if price.cached_input is None else price.cached_input
    written = price.input if price.cache_write is None else price.cache_write
    dollars = (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * cached
        + usage.cache_write_tokens * written
        + usage.output_tokens * price.output
    )
    return dollars / _MILLION


ModelSpend = Callable[[tuple[str, ...], Usage, float | None], None]
"""Told what a question to a model took: the names that its price may stand under, tokens, dollars where known."""


def free_of_charge(_names: tuple[str, ...], _usage: Usage, _cost_usd: float | None) -> None:
    """Where nothing is summed up."""


def priced_spend(spend: Spend, prices: Mapping[str, Price]) -> ModelSpend:
    """Passes on what a question took, with its cost by the configured prices where none is known."""

    def spent(names: tuple[str, ...], usage: Usage, cost_usd: float | None) -> None:
        price = next((prices[name] for name in names if name in prices), None)
        spend(
            usage,
            cost_of(usage, price) if cost_usd is None and price and usage.total > usage.output_tokens else cost_usd,
        )

    return spent


def with_cost(result: AgentResult, prices: Mapping[str, Price], *, executor: str, model: str) -> AgentResult:
    """The result with its cost, where the agent told tokens and no cost, and there is a price.

    The price is that of the executor's `model`, else that under the executor's id.
    """
    was_read = result.usage.total - result.usage.output_tokens
    if result.cost_usd is not None or not was_read:  # who tells only what it wrote (copilot) would seem too cheap
        return result
    price = (prices.get(model) if model else None) or prices.get(executor)
    return result if price is None else replace(result, cost_usd=cost_of(result.usage, price))
