"""Python code that changes the test framework itself while it runs, or hides in a conftest.py what it does."""

import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_HIDDEN = re.compile(r"(?<![\w.])(?:exec|eval)\(|\b(?:globals|vars)\(\)\[[^\]]*pytest")
_PATCHES = re.compile(
    r"^\s*import\s+_pytest\b|^\s*from\s+_pytest\s+import\b|\bsetattr\(\s*(?:_?pytest|pluggy)\b|"
    r"\b_pytest(?:\.\w+)+\s*=(?!=)|\bunittest\.(?:case\.)?TestCase\.(?:assert|fail|run|__call__|_call)\w*\s*=(?!=)|"
    r"\bpytest\.(?:fail|raises|approx|main|skip|Item|Function|TestReport)\b[\w.]*\s*=(?!=)"
)
_LONGEST_LINE = 2000


def framework_patches(diff: Sequence[FileDiff], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """One objection for each Python file in which such a line was added."""
    for file in diff:
        if file.path.endswith(".py") and file.kind != "D" and not excused(file.path):
            yield from _patches(file)


def _patches(file: FileDiff) -> Iterator[Objection]:
    """The first line that changes a test framework itself, or hides what conftest.py does."""
    hidden = file.path.rpartition("/")[2] == "conftest.py"
    was_there: set[str] | None = None
    for line in file.added:
        if "pytest" in line.text or "unittest" in line.text or hidden:
            text = line.text[:_LONGEST_LINE]
            if not (_PATCHES.search(text) or _HIDDEN.search(text)):
                continue
            was_there = {old.text.strip() for old in file.removed} if was_there is None else was_there
            if text.strip() in was_there:
                continue
            if _PATCHES.search(text):
                yield Objection(file.path, line.number, "a test framework is changed while it runs")
                return
            if hidden and _HIDDEN.search(text):
                yield Objection(file.path, line.number, "what is run here cannot be told from its text")
                return
