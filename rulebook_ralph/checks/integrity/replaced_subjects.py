"""Test code that puts something else in place of what is tested, for all tests or in one that was there."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.indirect_scripts import ReadBase
from rulebook_ralph.checks.integrity.languages import is_beside_tests, language_of
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.replaced_names import Replaced, may_replace, newly_replaced
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.diff import FileDiff, Versions

_DEEPEST = 6
_MOST_TESTS = 300


def replaced_subjects(
    diff: Sequence[FileDiff],
    versions: Mapping[str, Versions],
    read_base: ReadBase,
    files: Callable[[], Sequence[str]],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """One for each file. Modules of the repository are known by their text, which is read only where they are named;
    `files` are all of the base.
    """
    for file in diff:
        texts = versions.get(file.path)
        is_of_tests = is_beside_tests(file.path) or language_of(file.path) is not None
        if texts is None or not is_of_tests or not may_replace(file) or excused(file.path):
            continue
        new = [each for each in newly_replaced(texts) if _counts(each, texts.before or "")]
        tests = _tests_below(file.path, files()) if any(not each.function for each in new) else ()
        known = _texts_at_hand(new, tests, file.path, diff, read_base) if new else {}
        for each in new:
            if (what := _subject(each, tests, file.path, known, {other.path for other in diff})) is not None:
                yield Objection(file.path, each.line, what)
                break


def _counts(each: Replaced, before: str) -> bool:
    """Whether other tests than new ones see it."""
    return not each.function or re.search(rf"\bdef[ \t]+{re.escape(each.function)}\(", before) is not None


def _tests_below(path: str, files: Sequence[str]) -> Sequence[str]:
    """The tests of the base that a file beside or above them may be loaded for."""
    folder = posixpath.dirname(path)
    below = (each for each in files if not folder or each.startswith(f"{folder}/"))
    return [each for each in below if each.endswith(".py") and each != path and is_test_file(each)][:_MOST_TESTS]


def _subject(
    each: Replaced, below: Sequence[str], path: str, known: Mapping[str, str], changed: set[str]
) -> str | None:
    parts = each.target.split(".")
    for depth in range(min(len(parts), _DEEPEST), 0, -1):
        module = next((place for place in _places(parts[:depth], path) if place in known), None)
        if module is None:
            continue
        if depth == len(parts):
            return f"`{each.target}` is replaced by something else for all tests" if not each.function else None
        name = parts[depth]
        if re.search(rf"^(?:async[ \t]+)?(?:def|class)[ \t]+{re.escape(name)}\b", known[module], re.MULTILINE) is None:
            return None
        called = re.compile(rf"\b{re.escape(name)}\(")
        if each.function.startswith("test"):
            is_tested = called.search(_function(known[path], each.function)) if path in known else None
            return f"`{each.function}` tested `{name}`, and now replaces it" if is_tested else None
        tests = (known[place] for place in (*_tests_of(module, path), *below) if place in known)
        if module in changed or any(map(called.search, tests)):
            return f"`{name}` of {module}, which is tested, is replaced by something else for all tests"
        return None
    return None


def _texts_at_hand(
    new: Sequence[Replaced], tests: Sequence[str], path: str, diff: Sequence[FileDiff], read_base: ReadBase
) -> Mapping[str, str]:
    wanted = {path, *tests}
    for each in new:
        parts = each.target.split(".")
        for depth in range(1, min(len(parts), _DEEPEST) + 1):
            for place in _places(parts[:depth], path):
                wanted |= {place, *_tests_of(place, path)}
    added = {file.path: "\n".join(line.text for line in file.added) for file in diff if file.path in wanted}
    base = read_base(sorted(wanted))
    return {place: f"{base.get(place, '')}\n{added.get(place, '')}" for place in base.keys() | added.keys()}


def _places(parts: Sequence[str], path: str) -> Iterator[str]:
    """Where a module may lie: from the root, in src, or from a folder above the test."""
    name = "/".join(parts)
    folders = ["", "src", posixpath.dirname(path), posixpath.dirname(posixpath.dirname(path))]
    for folder in dict.fromkeys(folders):
        yield posixpath.join(folder, f"{name}.py")
        yield posixpath.join(folder, name, "__init__.py")


def _tests_of(module: str, path: str) -> Iterator[str]:
    """The test files that a module's name tells of."""
    name = module.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
    for folder in dict.fromkeys((posixpath.dirname(path), "tests", "test", posixpath.dirname(module))):
        yield posixpath.join(folder, f"test_{name}.py")
        yield posixpath.join(folder, f"{name}_test.py")


def _function(text: str, name: str) -> str:
    """The text of the first function of a name, as far as it stands together."""
    start = re.search(rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(name)}\(", text, re.MULTILINE)
    if start is None:
        return ""
    end = re.compile(rf"^{start[1]}\S", re.MULTILINE).search(text, start.end())
    return text[start.end() : end.start() if end else len(text)]
