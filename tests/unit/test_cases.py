"""Cases within one test hide no failure."""

from pathlib import Path

import pytest

from tests.cases import each_of


@each_of("number", [1, 2])
@each_of(("left", "right"), [(1, 1), (2, 2)])
def test_a_fixture_is_given_to_all(number: int, left: int, right: int, thorough: bool) -> None:
    assert left == right
    assert number in (1, 2)
    assert thorough in (True, False)


@each_of("number", [1, 2])
def test_each_has_a_folder_of_its_own(number: int, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    (tmp_path / str(number)).touch()


def test_every_case_is_tried_and_those_that_fail_are_told() -> None:
    tried = []

    @each_of(("left", "right"), [(1, 2), (3, 3), (4, 5), (6, 6)])
    def alike(left: int, right: int) -> None:
        tried.append(left)
        assert left == right

    with pytest.raises(ExceptionGroup) as failed:
        alike()
    assert tried == [1, 3, 4, 6]
    assert failed.value.message == "2 of 4 cases"
    told = [failure.__notes__ for failure in failed.value.exceptions]
    assert told == [["The case: {'left': 1, 'right': 2}"], ["The case: {'left': 4, 'right': 5}"]]


def test_what_is_not_raised_is_a_failure_too() -> None:
    @each_of("value", ["1", "x"])
    def is_refused(value: str) -> None:
        with pytest.raises(ValueError):
            int(value)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases"):
        is_refused()


def test_no_cases_are_no_test() -> None:
    with pytest.raises(AssertionError):
        each_of("value", [])
