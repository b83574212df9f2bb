"""What a run cost by its tokens, for agents that tell no cost: by the configured prices, else by the usual ones."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from types import MappingProxyType

from msgspec.structs import replace

from rulebook_ralph.agents.events import added
from rulebook_ralph.agents.registry import capabilities_of, chosen_model
from rulebook_ralph.config.settings import Executor, Price
from rulebook_ralph.tasks.results import AgentResult, Usage

_MILLION = 1_000_000

_TABLE = """
4     20    0.2    5      claude-opus-5-5
5     25    0.5    6.25   claude-opus-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 claude-opus-4-5
15    75    1.5    18.75  claude-opus-4-1
2     10    0.1    2.5    claude-sonnet-5-5 gpt-6.1-sol
2     10    0.2    2.5    claude-sonnet-5 gpt-6-sol
3     15    0.3    3.75   claude-sonnet-4-6 claude-sonnet-4-5 claude-sonnet-4
0.5   2.5   0.05   0.625  claude-haiku-5-5
1     5     0.1    1.25   claude-haiku-4-5
0.1   0.5   0.01   0.125  gpt-6-luna
4     20    0.4    5      gpt-5.6-sol
2     12    0.2    2.5    gpt-5.6-terra
0.2   1.2   0.02   0.25   gpt-5.6-luna
5     30    0.5    5      gpt-5.5
2.5   15    0.25   2.5    gpt-5.4 gemini-2.5-pro
0.75  4.5   0.075  0.75   gpt-5.4-mini
1.75  14    0.175  1.75   gpt-5.3-codex gpt-5.2-codex gpt-5.2
1.25  10    0.125  1.25   gpt-5.1-codex-max gpt-5.1-codex gpt-5.1 gpt-5-codex gpt-5
0.25  2     0.025  0.25   gpt-5.1-codex-mini gpt-5-mini
0.05  0.4   0.005  0.05   gpt-5-nano
1.5   7.5   0.15   1.5    gemini-3.8-flash gemini-3.7-flash gemini-3.6-flash
1.5   9     0.15   1.5    gemini-3.5-flash
0.3   2.5   0.03   0.3    gemini-3.5-flash-lite gemini-2.5-flash
4     18    0.4    4      gemini-3.1-pro gemini-3-pro
0.5   3     0.05   0.5    gemini-3-flash
0.1   0.4   0.01   0.1    gemini-2.5-flash-lite
"""
"""The list prices of 2026-11-22: input, output, read from the cache, written to it, in dollars per million; then the
models of that price. Where a price depends on the prompt's length or is a promotion, the higher one, since a limit that
holds too early does less harm than one that holds too late.
"""


def _read(table: str) -> Mapping[str, Price]:
    prices: dict[str, Price] = {}
    for line in table.strip().splitlines():
        given, output, cached, written, *names = line.split()
        price = Price(input=float(given), output=float(output), cached_input=float(cached), cache_write=float(written))
        prices |= dict.fromkeys(names, price)
    return MappingProxyType(prices)


DEFAULT_PRICES = _read(_TABLE)
_VARIANT = re.compile(r"(?:-\d{8}|-20\d\d-\d\d-\d\d|-latest|-preview(?:-\d\d-\d\d(?:-\d{4})?|-\d\d-20\d\d)?|\[1m\])$")

Spend = Callable[[Usage, float | None], None]
"""Told what one question took: tokens, and dollars where they are known."""

ModelSpend = Callable[[tuple[str, ...], Usage, float | None], None]
"""Told what a question to a model took: the names that its price may stand under, tokens, dollars where known."""


def price_of(prices: Mapping[str, Price], *names: str) -> Price | None:
    """The price of a model or executor, by the first of the names that has one; a configured one goes before."""
    known = (*(prices.get(name) for name in names), *(DEFAULT_PRICES.get(_plain(name)) for name in names))
    return next((price for price in known if price), None)


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


def known_cost(usage: Usage, told: float | None, prices: Mapping[str, Price], *names: str) -> float | None:
    """The cost as it was told, else by the price that stands under one of the names. None without a price, and of one
    that tells only what it wrote (copilot), which would seem too cheap.
    """
    if told is not None or usage.total <= usage.output_tokens:
        return told
    price = price_of(prices, *names)
    return cost_of(usage, price) if price else None


def with_cost(result: AgentResult, prices: Mapping[str, Price], settings: Executor) -> AgentResult:
    """The result with its cost: as told, else by the price of the model that was chosen for the agent or that it told,
    or by the one under the executor's id.
    """
    names = (chosen_model(settings) or result.model, settings.id)
    cost = known_cost(result.usage, result.cost_usd, prices, *names)
    return result if cost == result.cost_usd else replace(result, cost_usd=cost)


def cost_problem(prices: Mapping[str, Price], settings: Executor) -> str:
    """Why a limit of cost cannot hold for an agent, with what to do; empty where it can, or where a plug-in does not
    say what it tells.
    """
    known, model = capabilities_of(settings), chosen_model(settings)
    if known is None or known.cost or (known.tokens and price_of(prices, model, settings.id)):
        return ""
    told = f"agent {settings.id} does not tell what it costs, so the limit of cost cannot hold"
    if not known.tokens:
        return f"{told}; limit its time instead (limits.maxRunWallTime), or use another agent"
    if model:
        return f"{told}, and the price of {model} is not known; set prices.{model}: {{input: …, output: …}}"
    return f"{told}; name its model (tools.executors[].model), or set prices.{settings.id}: {{input: …, output: …}}"


def _plain(name: str) -> str:
    """A model's name without its provider, date and other marks of the same price."""
    plain = name.lower().rpartition("/")[2]
    while (shorter := _VARIANT.sub("", plain)) != plain:
        plain = shorter
    return plain


# What a run spends

_NOBODY = 0
_payer: ContextVar[int] = ContextVar("payer", default=_NOBODY)


class Ledger:
    """Sums what is spent, from any thread, for each iteration. The cost is None as long as none was told."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent: list[tuple[int, Usage, float | None]] = []

    @contextmanager
    def paying(self, iteration: int) -> Iterator[None]:
        """What is spent meanwhile in this thread is that iteration's."""
        token = _payer.set(iteration)
        try:
            yield
        finally:
            _payer.reset(token)

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        with self._lock:
            self._spent.append((_payer.get(), usage, cost_usd))

    def take(self, iteration: int = _NOBODY) -> tuple[Usage, float | None]:
        """All that was spent for that iteration, and for none, since it was last taken."""
        with self._lock:
            taken = [each for each in self._spent if each[0] in (iteration, _NOBODY)]
            self._spent = [each for each in self._spent if each[0] not in (iteration, _NOBODY)]
        costs = [cost for _, _, cost in taken if cost is not None]
        return added(*(usage for _, usage, _ in taken)), sum(costs) if costs else None
