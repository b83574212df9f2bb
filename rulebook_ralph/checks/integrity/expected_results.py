"""Files that say what tests are to find: snapshots, golden files, expected output."""

import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.languages import is_beside_tests
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.diff import FileDiff

_EXPECTED = re.compile(
    r"(?:^|/)(?:__snapshots__|__image_snapshots__|snapshots?|goldens?|expected|baselines?)/|"
    r"\.(?:snap|ambr|golden|approved|expected)(?:\.\w+)?$|"
    r"(?:^|[/_.-])(?:expected|golden)[^/]*\.(?:json|txt|ya?ml|xml|html|csv|out|svg)$",
    re.IGNORECASE,
)
_SNAPSHOT = re.compile(r"(?:^|/)__snapshots__/|\.(?:snap|ambr)$")
_NO_PROGRAM = re.compile(
    r"\.(?:md|rst|txt|adoc|log)$|(?:^|/)(?:docs?|notes?|testdata|fixtures)/|(?:^|/)(?:LICENSE|CHANGELOG|README)[^/]*$"
)


def expected_results(diff: Sequence[FileDiff], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """Those that were there, and were changed where nothing of the program was, so that nothing else may be expected of
    it; and snapshots that were deleted beside tests that stay: a runner may write new ones from whatever it finds.
    """
    old = [file for file in diff if is_expected(file.old_path) and not excused(file.old_path or file.path)]
    if not old:
        return
    is_same_program = not any(map(_is_of_program, diff))
    tests_gone = any(file.kind in ("D", "R") and is_test_file(file.old_path) for file in diff)
    for file in old:
        line = (file.removed or file.added)[0].number if file.removed or file.added else None
        if file.kind == "D" and _SNAPSHOT.search(file.path) and not tests_gone:
            yield Objection(file.path, line, "says what tests are to find, and was deleted; the tests stay")
        elif file.kind in ("M", "D") and is_same_program and (file.removed or file.binary):
            yield Objection(file.path, line, "says what tests are to find, and was changed though the program was not")


def is_expected(path: str | None) -> bool:
    """Whether a file is one of these, by its name."""
    return path is not None and _EXPECTED.search(path) is not None and not path.endswith((".py", ".js", ".ts", ".go"))


def _is_of_program(file: FileDiff) -> bool:
    paths = [path for path in (file.path, file.old_path) if path]
    return not any(
        is_expected(path) or is_test_file(path) or is_beside_tests(path) or _NO_PROGRAM.search(path) for path in paths
    )
