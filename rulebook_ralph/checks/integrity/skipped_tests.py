"""Tests that are newly skipped, or silenced because another one is the only one to be run."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.extraction import is_comment, without_strings
from rulebook_ralph.checks.integrity.languages import Language, language_of
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.suites import Pairing, Suite
from rulebook_ralph.core.diff import FileDiff, Line


def skipped_tests(pairing: Pairing, excused: Callable[[str], bool]) -> Iterator[Objection]:
    """Tests that ran and are now skipped, expected to fail, or never reached. A new test may be a skipped one."""
    for old, new in pairing.pairs:
        if old.text == new.text or excused(new.path) or new.skipped_at is None or old.skipped_at is not None:
            continue
        yield Objection(new.path, new.skipped_at, f"the test `{new.name}` is newly skipped, or expected to fail")


def skipped_groups(
    diff: Sequence[FileDiff], suites: Sequence[Suite], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """Marks that skip a class, a group or a whole file with tests that were there, and marks of only ones."""
    moved = Counter(
        line.text.strip()
        for file in diff
        for line in file.removed
        if (language := language_of(file.old_path)) and _marks(language, line)
    )
    for suite in suites:
        language = language_of(suite.file.path)
        if language is None or suite.file.kind == "D" or excused(suite.file.path):
            continue
        marks = [line for line in suite.file.added if _marks(language, line)]
        inside = _lines_inside(suite) if marks else set()
        for line in marks:
            if moved[line.text.strip()] > 0:
                moved[line.text.strip()] -= 1
            elif language.focus is not None and language.focus.search(without_strings(line.text)):
                yield Objection(suite.file.path, line.number, "a test is marked as the only one to be run")
            elif suite.old_cases and line.number not in inside:
                yield Objection(suite.file.path, line.number, "tests that were there are newly skipped")


def _marks(language: Language, line: Line) -> bool:
    text = without_strings(line.text)
    marked = language.skip.search(text) or (language.focus is not None and language.focus.search(text))
    return bool(marked) and not is_comment(line.text, language)


def _lines_inside(suite: Suite) -> set[int]:
    """The lines of a file that belong to one test."""
    found: set[int] = set()
    for case in suite.new_cases:
        found.update(range(case.first_line, case.first_line + case.text.count("\n") + 1))
    return found
