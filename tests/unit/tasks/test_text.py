import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulebook_ralph.tasks.text import (
    cost,
    cut,
    display_width,
    duration,
    money,
    printable,
    printable_block,
    tokens,
)
from tests.cases import each_of

HOSTILE = st.text(st.characters() | st.sampled_from("\x1b\x9b\x9d\x90[]m;0J\x07\\\r\n\t\u202e\u2066\u200b\ud800漢é"))
TIDY = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "))


@given(HOSTILE)
@example("\x1b[31mred\x1b[0m")
@example("\x1b\x1b[[31mm")
@example("\u001b]0;title\u0007")
def test_nothing_that_moves_or_hides_is_left(text: str) -> None:
    shown = printable(text)
    left = {character for character in shown if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert left <= {"\u200c", "\u200d"}
    assert printable(shown) == shown


@given(HOSTILE)
def test_lines_of_a_block_are_printable(text: str) -> None:
    lines = printable_block(text).split("\n")
    assert [printable(line) for line in lines] == lines


@given(TIDY)
def test_tidy_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == printable_block(text) == text


def test_what_becomes_of_things() -> None:
    assert printable("a\x1b[1;31mb\x1b[0m c") == "ab c"
    assert printable("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert printable("\x1b]0;new title\x07rest") == "rest"
    assert printable("\x9b2Jgone") == "gone"
    assert printable("one\r\ntwo\nthree\tfour") == "one two three four"
    assert printable("abc\u202edef\u2069\u200b\ufeff") == "abcdef"
    assert printable("lone \ud800") == "lone \ufffd"
    joined = "नमस्ते क्\u200dष 👩\u200d💻"
    assert printable(joined) == joined
    assert printable_block("10%\r20%\n\tdone") == "10%\n20%\n    done"


def test_an_unfinished_sequence_costs_linear_time_and_no_later_line() -> None:
    assert printable_block("\x1b]0;never ended\nnext line") == "\nnext line"
    assert printable("\x1b]" * 200_000) == ""
    assert printable("\x1b[" + ";" * 200_000) == ""


@given(HOSTILE.map(printable), st.integers(1, 30))
def test_cut_fits(text: str, width: int) -> None:
    assert display_width(cut(text, width)) <= width
    if display_width(text) <= width:
        assert cut(text, width) == text


def test_width_of_wide_and_combining_characters() -> None:
    assert display_width("漢字") == 4
    assert display_width("e\u0301") == 1
    assert cut("漢字漢字", 5) == "漢字…"


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


def test_a_cost_that_nobody_told_is_not_nothing() -> None:
    assert [cost(0, 0), cost(0, 1200), cost(0.5, 1200)] == ["$0.00", "cost unknown", "$0.50"]


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
