"""Functions that tests share, and that check nothing any more."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from rulebook_ralph.checks.integrity.extraction import cases, gained_tokens
from rulebook_ralph.checks.integrity.languages import JAVASCRIPT, PYTHON, Language, is_beside_tests
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff, Versions

_FUNCTIONS: Mapping[str, Language] = {
    "py": replace(PYTHON, start=re.compile(r"def[ \t]+(?P<name>(?!test)\w+)[ \t]*\(")),
    **dict.fromkeys(
        ("js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx"),
        replace(
            JAVASCRIPT, start=re.compile(r"\bfunction\s*\*?\s*(?P<name>\w+)\s*\(|\bconst\s+(?P<sub>\w+)\s*=[^=;\n]*=>")
        ),
    ),
}
_SURVIVING = 0.6
_CHECKS = re.compile(r"_*(?:assert|expect|check|verify|ensure|must|should|fail|die|abort|require)", re.IGNORECASE)
_FAILS = re.compile(r"\b(?:assert|raise|throw|sys\.exit|process\.exit|exit)\b|\bfail\w*\(")


def shared_files(diff: Sequence[FileDiff]) -> list[FileDiff]:
    """Changed files beside tests in which functions of theirs may be."""
    return [file for file in diff if file.kind in ("M", "R") and file.removed and _language(file) is not None]


def emptied_helpers(
    diff: Sequence[FileDiff],
    read: Callable[[FileDiff], Versions],
    loads: Callable[[str], bool],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """The same for files elsewhere that scripts of gates load: functions that are named for a check, and cannot fail
    any more.
    """
    for file in diff:
        language = _FUNCTIONS.get(file.path.rpartition(".")[2])
        if file.kind != "M" or language is None or _language(file) is not None or excused(file.path):
            continue
        if not any(_FAILS.search(line.text) for line in file.removed) or not loads(file.path):
            continue
        texts = read(file)
        after = {case.name: case for case in cases(texts.after or "", file.path, language)}
        for case in cases(texts.before or "", file.path, language):
            now = after.get(case.name)
            if _CHECKS.match(case.name) and now and _FAILS.search(case.code) and not _FAILS.search(now.code):
                yield Objection(
                    file.path, now.line, f"`{case.name}`, by which a gate's script checks, cannot fail any more"
                )


def emptied_checks(
    diff: Sequence[FileDiff], versions: Mapping[str, Versions], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """Functions that lost all their assertions, unless these were moved to somewhere else."""
    gained: frozenset[str] | None = None
    for file in shared_files(diff):
        language, texts = _language(file), versions.get(file.path)
        if language is None or texts is None or excused(file.path) or not (texts.before and texts.after):
            continue
        before = {case.name: case for case in cases(texts.before, file.path, language) if case.assertions}
        for case in cases(texts.after, file.path, language):
            old = before.get(case.name)
            if old is None or case.assertions or old.text == case.text:
                continue
            if gained is None:
                gained = gained_tokens([line.text for other in diff for line in other.added])
            checked = old.assertion_tokens
            if not checked or len(checked & gained) / len(checked) < _SURVIVING:
                yield Objection(file.path, case.line, f"`{case.name}`, which tests share, lost all its assertions")


def _language(file: FileDiff) -> Language | None:
    return _FUNCTIONS.get(file.path.rpartition(".")[2]) if is_beside_tests(file.path) else None
