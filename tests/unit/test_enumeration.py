"""Counts and lists of names in a sentence."""

import pytest

from rulebook_ralph.core.enumeration import counted


@pytest.mark.parametrize(
    ("count", "noun", "plural", "told"),
    [
        (0, "task", "", "0 tasks"),
        (1, "task", "", "1 task"),
        (2, "task", "", "2 tasks"),
        (1, "process", "processes", "1 process"),
        (2, "process", "processes", "2 processes"),
    ],
)
def test_things_are_counted(count: int, noun: str, plural: str, told: str) -> None:
    assert counted(count, noun, plural) == told
