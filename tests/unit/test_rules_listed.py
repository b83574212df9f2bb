"""tests/README.md lists every rule of the specifications with a test that exists, and no rule test is left out."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = {
    "CC": "test_rules_completion_criteria.py",
    "CH": "test_rules_completion_hooks.py",
    "CR": "test_rules_config_review_rollback.py",
}
_ROW = re.compile(
    r"\| (?P<kind>C[CHR])(?P<number>\d+) \| [^|]+ \| [^|]+ \| (?P<folder>unit|integration) "
    r"\| `(?P<test>\w+)`(?: in `(?P<file>[\w/]+\.py)`)? \|"
)
_RULE_TEST = re.compile(r"test_(c[chr])(\d+)_\w+")


def listed() -> list[re.Match[str]]:
    lines = (TESTS / "README.md").read_text("utf-8").splitlines()
    rows = [_ROW.fullmatch(line) for line in lines if re.match(r"\| C[CHR]\d", line)]
    assert all(rows), "a row of a rule is not as the others are"
    return [row for row in rows if row]


@cache
def names_in(file: Path) -> tuple[str, ...]:
    """The names of all that pytest would take for a test, also those that a later one of the same name hides; none where
    the rules of a page have no file there.
    """
    if not file.exists():
        return ()
    tree = ast.parse(file.read_text("utf-8"))
    functions = (each.name for each in tree.body if isinstance(each, ast.FunctionDef))
    return tuple(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize("kind", FILES)
def test_rules_are_numbered_without_gaps(kind: str) -> None:
    numbers = [int(row["number"]) for row in listed() if row["kind"] == kind]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers


def test_every_rule_has_a_test_that_begins_with_its_number_or_is_named_with_its_file() -> None:
    for row in listed():
        file = row["file"] or f"{row['folder']}/{FILES[row['kind']]}"
        assert row["file"] or row["test"].startswith(f"test_{row['kind'].lower()}{row['number']}_"), row[0]
        assert row["test"] in names_in(TESTS / file), row[0]


def test_every_test_of_a_rule_is_listed_once() -> None:
    there = [
        (folder, name)
        for folder in ("unit", "integration")
        for file in FILES.values()
        for name in names_in(TESTS / folder / file)
    ]
    assert sorted(there) == sorted((row["folder"], row["test"]) for row in listed() if not row["file"])


def test_tests_named_like_those_of_rules_stand_where_rules_are_tested() -> None:
    strays = [
        f"{file.name}: {name}"
        for folder in ("unit", "integration")
        for file in (TESTS / folder).glob("test_*.py")
        if file.name not in FILES.values()
        for name in names_in(file)
        if _RULE_TEST.fullmatch(name)
    ]
    assert strays == []


def test_every_test_and_file_that_the_page_names_is_there() -> None:
    text = (TESTS / "README.md").read_text("utf-8")
    files = {name for name in re.findall(r"`([\w/]+\.py)`", text) if not (TESTS / name).exists()}
    there = {name for file in TESTS.rglob("test_*.py") for name in names_in(file)}
    assert (files, set(re.findall(r"`(test_\w+)`", text)) - there) == (set(), set())
