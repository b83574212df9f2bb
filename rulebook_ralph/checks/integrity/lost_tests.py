"""Tests that were deleted, or that check nothing any more."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.extraction import Case, gained_tokens
from rulebook_ralph.checks.integrity.languages import PYTHON, is_other_test
from rulebook_ralph.checks.integrity.mentions import Removal
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.suites import Pairing, Suite, is_test_file
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.enumeration import some

_SURVIVING = 0.6


class Removals:
    """What a task says is to be removed, held against what is gone from the program."""

    def __init__(self, removals: Sequence[Removal], diff: Sequence[FileDiff]) -> None:
        self._removals = removals
        code = [file for file in diff if not is_test_file(file.path)] if removals else []
        gone = "\n".join(line.text for file in code for line in file.removed)
        still = "\n".join(line.text for file in code for line in file.added)
        named = {name for removal in removals for name in removal.names}
        self._gone = frozenset(name for name in named if name in gone and name not in still)
        self._deleted = {file.path.rpartition("/")[2].partition(".")[0] for file in code if file.kind == "D"}

    def explain(self, case: Case) -> bool:
        """Whether a test had to go with what the task removes."""
        return any(
            removal.names & self._gone & (case.tokens | {case.name})
            or any(name in case.text for name in removal.names & self._gone)
            or (removal.speaks_of_tests and removal.means(case.name))
            for removal in self._removals
        ) or self.explain_file(case.path)

    def explain_file(self, path: str) -> bool:
        """The same for a whole test file."""
        stem = path.rpartition("/")[2].partition(".")[0]
        return any(
            removal.means(stem) and (removal.speaks_of_tests or self._has_subject(stem)) for removal in self._removals
        )

    def _has_subject(self, stem: str) -> bool:
        """Whether the file that a test file is about was deleted too."""
        plain = stem.removeprefix("test_").removesuffix("_test").removesuffix("_spec").removesuffix("Test")
        return plain in self._deleted


def deleted_tests(
    pairing: Pairing, suites: Sequence[Suite], removals: Removals, excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """One objection for each file that lost tests."""
    by_path: dict[str, list[Case]] = defaultdict(list)
    for case in pairing.lost:
        if not excused(case.path) and not removals.explain(case):
            by_path[case.path].append(case)
    unreadable = {suite.file.old_path for suite in suites if suite.is_unreadable}
    for path, lost in by_path.items():
        names = some([f"`{case.name}`" for case in lost])
        if path in unreadable:
            yield Objection(path, None, f"is no readable text any more; its tests are gone: {names}")
        else:
            what = "a test was deleted" if len(lost) == 1 else f"{len(lost)} tests were deleted"
            yield Objection(path, lost[0].line, f"{what}: {names}")


def deleted_other_tests(
    diff: Iterable[FileDiff], removals: Removals, excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """Deleted test files in languages whose tests are not told apart."""
    for file in diff:
        old = file.old_path
        if old is None or not is_other_test(old) or excused(old) or removals.explain_file(old):
            continue
        if file.kind == "D":
            yield Objection(old, None, "a test file was deleted")
        elif file.kind == "R" and not is_test_file(file.path):
            yield Objection(old, None, f"a test file was renamed to {file.path}, where it is none")


def emptied_tests(pairing: Pairing, suites: Sequence[Suite], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """Tests that checked something and now check nothing."""
    gained: frozenset[str] | None = None
    for old, new in pairing.pairs:
        if old.text == new.text or excused(old.path) or excused(new.path) or new.skipped_at is not None:
            continue
        if new.assertions or not old.assertions:
            continue
        if gained is None:
            gained = _gained_outside_of_tests(suites)
        checked = old.assertion_tokens
        if new.code.strip() and checked and len(checked & gained) / len(checked) >= _SURVIVING:
            continue  # they were moved into a function that the tests share
        yield Objection(new.path, new.line, f"the test `{new.name}` lost all its assertions")


def _gained_outside_of_tests(suites: Sequence[Suite]) -> frozenset[str]:
    lines = []
    for suite in suites:
        inside = {
            number
            for case in suite.new_cases
            for number in range(case.first_line, case.first_line + case.text.count("\n") + 1)
        }
        lines += [line.text for line in suite.file.added if line.number not in inside]
    return gained_tokens(lines)


def hidden_tests(suites: Iterable[Suite], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """Python tests that a later one of the same name hides, and that nothing hid before."""
    for suite in suites:
        if not suite.new_cases or suite.new_cases[0].language is not PYTHON or excused(suite.file.path):
            continue
        before = {(case.scope, case.name) for case in _later_ones(suite.old_cases)}
        were_there = {(case.scope, case.name) for case in suite.old_cases}
        for case in _later_ones(suite.new_cases):
            if (case.scope, case.name) in were_there and (case.scope, case.name) not in before:
                what = f"a second test named `{case.name}` hides the first, which is then never run"
                yield Objection(case.path, case.line, what)


def _later_ones(cases: Iterable[Case]) -> Iterator[Case]:
    seen = set()
    for case in cases:
        if (case.scope, case.name) in seen:
            yield case
        seen.add((case.scope, case.name))
