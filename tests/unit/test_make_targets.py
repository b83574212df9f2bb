"""Targets of a Makefile are read in linear time, and nothing of a long one goes unseen."""

import time

import pytest

from rulebook_ralph.checks.integrity.make_targets import changed_targets, recipes
from rulebook_ralph.checks.integrity.program_words import UNTOLD

FIRST = frozenset(("",))
SECONDS = 5.0
"""A hundredth of what quadratic reading takes, and many times what linear reading does."""

NAMES = " ".join(f"t{number}" for number in range(50))


@pytest.mark.parametrize(
    "text",
    [
        ("a" + " " * 3990 + "b\n") * 50,
        "a" + " " * 1_000_000 + "b",
        "set " * 250_000,
        f"{NAMES}:\n" + "\t" + "t1 " * 60_000,
        "V=" + "x" * 100_000 + "\nt:\n" + ("\t" + "$(V)" * 900 + "\n") * 20,
    ],
    ids=["blanks", "one line", "words", "many names", "references"],
)
def test_no_makefile_takes_long(text: str) -> None:
    began = time.process_time()
    list(changed_targets(text, f"{text}x", FIRST))
    list(recipes(text, FIRST))
    assert time.process_time() - began < SECONDS


def test_blanks_before_the_colon_and_the_sign_mean_nothing() -> None:
    text = "V  :=  src\nexport\tW = 1\ntest  unit : build\n\trun $(V)\nbuild::\n\techo $(W)\n"
    assert list(recipes(text, frozenset(("unit",)))) == [": ", "echo 1", ": build", "run src"]


def test_a_change_after_what_is_read_is_told() -> None:
    text = "test:\n\tpytest\n" + "# so it goes\n" * 20_000
    assert list(changed_targets(text, f"{text}\nSHELL = true\n", FIRST)) == [
        ("what holds for all targets was changed", "")
    ]


def test_a_change_far_along_a_line_is_told() -> None:
    line = "test:\n\tpytest " + "tests/test_a.py " * 1000
    assert list(changed_targets(f"{line}\n", f"{line}|| true\n", FIRST))


def test_more_commands_than_are_given_cannot_be_told() -> None:
    long = "test:\n" + "\techo so it goes and goes\n" * 7_000
    assert list(recipes(long, FIRST))[-1] == UNTOLD
    assert UNTOLD not in recipes("test:\n\techo so it goes\n", FIRST)
