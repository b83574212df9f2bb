"""A user's regular expressions on an agent's text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.patterns import HEAD, TAIL, Search, problem_with_pattern, search
from tests.cases import each_of


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("<ralph>COMPLETE</ralph>", "so\n<ralph>COMPLETE</ralph>\n", "<ralph>COMPLETE</ralph>"),
        ("<ralph>BLOCKED:(.*?)</ralph>", "<ralph>BLOCKED:no key</ralph>", "no key"),
        ("(a)|(b)", "b", "b"),
        ("x()y", "xy", ""),
        ("(?m)^DONE$", "not DONE\nDONE\n", "DONE"),
        ("^DONE$", "not DONE\nDONE too", None),
    ],
)
def test_what_is_found(pattern: str, text: str, found: str | None) -> None:
    assert search(pattern, text) == Search(found)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a|aa)+$",
        r"(a+)\1+$",
        r"(\w+\s?)*$",
        r".*.*.*!?x$",
        r"(?:abcdefgh){e}\d$",
        r"(?:a?){90}a{90}(a+)+x$",
    ],
)
def test_a_pattern_that_runs_away_is_stopped(pattern: str) -> None:
    started = time.monotonic()
    searched = search(pattern, "x" + "a" * 150_000 + "!", timeout=0.05)
    assert time.monotonic() - started < 2
    assert searched.found is None
    assert searched.problem


@pytest.mark.parametrize(
    "text", ["DONE", "(?i)all done", r"BLOCKED: (.*)", r"\p{Lu}{3,10}", r"(?m)^ok$\n", "[a-f0-9]{40}", r"\{1\}{2,}"]
)
def test_patterns_that_can_be_used(text: str) -> None:
    assert problem_with_pattern(text) is None


@each_of(
    ("text", "problem"),
    [
        ("(", "is no regular expression: missing )"),
        ("done\\", "is no regular expression: bad escape"),
        ("x" * 1001, "is longer than 1000 characters"),
        ("((((a{1000}){1000}){1000}){1000})", "its counted repeats come to more than 10000"),
        ("(?<!a{999999999})b", "its counted repeats come to more than 10000"),
        (f"a{{{'9' * 900}}}", "its counted repeats come to more than 10000"),
        ("(?R)", "must not call itself"),
        ("(?P<a>x(?&a)?)", "must not call itself"),
        ("(a(?1)?)", "must not call itself"),
        ("(" * 490 + "a" + ")" * 490, "too complex"),
        (".*", "matches an empty text"),
        ("x?", "matches an empty text"),
        ("DONE|", "matches an empty text"),
    ],
)
def test_patterns_that_cannot(text: str, problem: str) -> None:
    assert problem in (problem_with_pattern(text) or "")
    assert search(text, "aaa") == Search(problem=problem_with_pattern(text) or "")


@given(st.text(max_size=60), st.text(max_size=200))
def test_no_pattern_and_no_text_raises(pattern: str, text: str) -> None:
    searched = search(pattern, text, timeout=0.2)
    assert searched.found is None or not searched.problem


def test_of_a_long_text_head_and_tail_are_searched() -> None:
    text = f"first{'.' * HEAD}middle{'.' * TAIL}last"
    assert search("first", text).found == "first"
    assert search("last$", text).found == "last"
    assert search("middle", text).found is None
    assert search(r"first\.+last", text).found is None
    assert search("middle", "middle".rjust(HEAD + TAIL, ".")).found == "middle"
