"""Tests that stayed and check less than before: fewer assertions, or such as cannot fail."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.extraction import Case, gained_tokens
from rulebook_ralph.checks.integrity.languages import JAVASCRIPT, PYTHON, is_beside_tests
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.python_assertions import Assertions, assertions_of
from rulebook_ralph.checks.integrity.suites import Pairing, Suite, is_test_file
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.enumeration import counted

_SURVIVING = 0.6
_SHORTEST_NAME = 3
_SWALLOWS = re.compile(r"\bcatch\s*(?:\(\s*\w*\s*\))?\s*\{\s*\}|\.catch\(\s*\(?\w*\)?\s*=>\s*\{\s*\}\s*\)")


def weakened_tests(
    pairing: Pairing,
    suites: Sequence[Suite],
    diff: Sequence[FileDiff],
    explained: Callable[[Case], bool],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """One objection for each. Assertions that were moved elsewhere or put together are none that are lost, nor are
    those of what the program has no more.
    """
    pairs = [
        (old, new)
        for old, new in pairing.pairs
        if old.code != new.code and not (excused(old.path) or excused(new.path)) and new.skipped_at is None
    ]
    gone: frozenset[str] | None = None
    for old, new in pairs:
        if not old.assertions or not new.assertions or explained(old):
            continue  # one that lost all of them is another rule's
        before, after = _read(old), _read(new)
        if (found := _cannot_fail(old, new, before, after)) is not None:
            yield Objection(new.path, found[0], found[1])
            continue
        missing = Counter(before.effective) - Counter(after.effective)
        fewer = len(before.effective) - len(after.effective)
        if fewer <= 0:
            continue
        gone = _gone(diff) if gone is None else gone
        gained = _gained(diff, _new_tests(pairing, suites), new, after)
        lost = sum(1 for text in missing.elements() if not _is_explained(text, gained, gone))
        if lost > 0:
            what = f"the test `{new.name}` lost {counted(min(lost, fewer), 'assertion')} of {len(before.effective)}"
            yield Objection(new.path, new.line, what)


def _read(case: Case) -> Assertions:
    read = assertions_of(case.text) if case.language is PYTHON else None
    return read or Assertions(effective=[line.strip() for line in case.asserting])


def _cannot_fail(old: Case, new: Case, before: Assertions, after: Assertions) -> tuple[int, str] | None:
    """Where assertions were made such as always hold, or whose failure nobody sees."""
    name, top = f"the test `{new.name}`", new.first_line - 1
    is_less = len(after.effective) < len(before.effective)
    if is_less and len(after.suppressed) > len(before.suppressed):
        return top + after.suppressed[-1], f"{name} now goes on when an assertion fails"
    if len(after.tautologies) > len(before.tautologies) and is_less:
        return top + after.tautologies[-1], f"{name} has an assertion now that always holds"
    if len(after.returns) > len(before.returns):
        return top + after.returns[0], f"{name} may now end before its assertions"
    if len(after.wide) > len(before.wide) and len(after.effective) <= len(before.effective):
        return top + after.wide[-1], f"{name} now holds with any exception"
    if new.language is JAVASCRIPT and len(_SWALLOWS.findall(new.code)) > len(_SWALLOWS.findall(old.code)):
        return new.line, f"{name} now goes on when an assertion fails"
    return None


def _is_explained(assertion: str, gained: frozenset[str], gone: frozenset[str]) -> bool:
    tokens = gained_tokens([assertion])
    return not tokens or bool(tokens & gone) or len(tokens & gained) / len(tokens) >= _SURVIVING


def _gained(diff: Sequence[FileDiff], added: Sequence[str], new: Case, after: Assertions) -> frozenset[str]:
    """What tests got, without comments and what cannot fail in this one."""
    dead = {new.first_line - 1 + number for number in after.dead | set(after.tautologies)}
    lines = [
        line.text
        for file in diff
        if is_test_file(file.path) or is_beside_tests(file.path)
        for line in file.added
        if (file.path != new.path or line.number not in dead) and not line.text.lstrip().startswith(("#", "//"))
    ]
    return gained_tokens([*lines, *added])


def _new_tests(pairing: Pairing, suites: Sequence[Suite]) -> list[str]:
    """What tests say that were not there: of those a diff may show lines as if nothing was changed."""
    old = {id(new) for _, new in pairing.pairs}
    return [case.code for suite in suites for case in suite.new_cases if id(case) not in old]


def _gone(diff: Sequence[FileDiff]) -> frozenset[str]:
    """Names that the program had and has no more."""
    code = [file for file in diff if not is_test_file(file.path) and not is_beside_tests(file.path)]
    removed = gained_tokens([line.text for file in code for line in file.removed])
    still = gained_tokens([line.text for file in code for line in file.added])
    return frozenset(name for name in removed - still if name.isidentifier() and len(name) >= _SHORTEST_NAME)
