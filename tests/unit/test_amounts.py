import pytest

from rulebook_ralph.core.amounts import duration, money, tokens
from tests.cases import each_of


@each_of(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (65, "1 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (3720, "1 h 02 min"),
        (100_000, "27 h 47 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(0, "$0.00"), (0.42, "$0.42"), (0.004, "$0.004"), (0.00001, "<$0.0001"), (1234.5, "$1,234.50")],
)
def test_money(usd: float, text: str) -> None:
    assert money(usd) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 tokens"),
        (1, "1 token"),
        (950, "950 tokens"),
        (12_400, "12.4k tokens"),
        (999_949, "999.9k tokens"),
        (999_950, "1.0M tokens"),
        (1_200_000, "1.2M tokens"),
    ],
)
def test_tokens(count: int, text: str) -> None:
    assert tokens(count) == text
