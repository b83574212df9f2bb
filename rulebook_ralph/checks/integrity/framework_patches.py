"""Python code that changes the test framework itself while it runs, or hides in a conftest.py what it does."""

import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.replaced_names import may_replace, newly_replaced
from rulebook_ralph.core.diff import FileDiff, Versions

_HIDDEN = re.compile(
    r"(?<![\w.])(?:exec|eval)\(|\b(?:globals|vars|locals)\(\)(?:\[|\.update)|\bsys\.modules\[__name__\]"
)
_FRAMEWORK = re.compile(
    r"_pytest(?:\..*)?|pluggy(?:\..*)?|pytest\.[A-Z]\w*\.\w+|"
    r"pytest(?:\.(?:fail|raises|approx|main|skip|mark|Item|Function|TestReport))?|"
    r"unittest(?:\.(?!mock\b)(?:.*\.)?(?!maxDiff$|longMessage$)\w+)?"
)
_HARMLESS = frozenset(("print", "input", "open", "help", "exit", "quit", "breakpoint", "_"))
_PATCHES = re.compile(
    r"^\s*import\s+_pytest\b|^\s*from\s+_pytest\s+import\b|\bsetattr\(\s*(?:_?pytest|pluggy)\b|"
    r"\b_pytest(?:\.\w+)+\s*=(?!=)|\bunittest\.(?:case\.)?TestCase\.(?:assert|fail|run|__call__|_call)\w*\s*=(?!=)|"
    r"\bpytest\.(?:fail|raises|approx|main|skip|Item|Function|TestReport)\b[\w.]*\s*=(?!=)"
)
_LONGEST_LINE = 2000


def framework_patches(
    diff: Sequence[FileDiff], versions: Mapping[str, Versions], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """One objection for each Python file that does so now."""
    for file in diff:
        if not file.path.endswith(".py") or file.kind == "D" or excused(file.path):
            continue
        found = next(_patches(file), None)
        if found is None and may_replace(file) and (texts := versions.get(file.path)) is not None:
            found = next(_replaced(file.path, texts), None)
        if found is not None:
            yield found


def _replaced(path: str, texts: Versions) -> Iterator[Objection]:
    """Parts of a test framework, and names that are built into Python, save for one test alone."""
    for each in newly_replaced(texts):
        module, _, name = each.target.rpartition(".")
        if _FRAMEWORK.fullmatch(each.target):
            yield Objection(path, each.line, f"a test framework is changed while it runs (`{each.target}`)")
        elif module == "builtins" and hasattr(builtins, name) and name not in _HARMLESS and each.function[:4] != "test":
            yield Objection(path, each.line, f"`{name}`, which is built into Python, is replaced for all tests")


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
