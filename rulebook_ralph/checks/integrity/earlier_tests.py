"""Which files are those of tests: they are to be as they were where red tests turned green, and while they are run."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from rulebook_ralph.checks.integrity.languages import is_beside_tests, language_of
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.diff import FileDiff


@dataclass(frozen=True, slots=True)
class EarlierTests:
    """`restored` are paths of the base that the attempt changed, `removed` are tests that it wrote."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def named_in(self, output: str) -> "EarlierTests":
        """Without the tests that the output of a run of the base does not name among those that failed; all of them
        where it names none. Those that were green may have to change with the program.
        """
        named = self._restored_in(output)
        return replace(self, restored=named) if any(map(_is_test, named)) else self

    def failed_in(self, output: str) -> "EarlierTests":
        """The same, but nothing where the output names none of them; and of the tests that the attempt wrote only those
        are removed that stand for one of these.
        """
        if not any(map(_is_test, (found := self._restored_in(output)))):
            return EarlierTests()
        names = {path.rpartition("/")[2] for path in found}
        return EarlierTests(found, tuple(path for path in self.removed if path.rpartition("/")[2] in names))

    def _restored_in(self, output: str) -> tuple[str, ...]:
        return tuple(path for path in self.restored if not _is_test(path) or path.rpartition("/")[2] in output)


def earlier_tests(diff: Sequence[FileDiff], left: Callable[[FileDiff], bool]) -> EarlierTests:
    """All that is of tests alone, without the files that are to be `left` as they are."""
    restored, removed = [], []
    for file in diff:
        if file.old_path is not None and _is_of_tests(file.old_path):
            if left(file):
                continue
            restored.append(file.old_path)
            if file.path != file.old_path:
                removed.append(file.path)
        elif file.old_path is None and _is_test(file.path):
            removed.append(file.path)
    return EarlierTests(_once(restored), _once(removed)) if restored else EarlierTests()


def code_of_tests(paths: Iterable[str]) -> list[str]:
    """Those of the paths that are plainly tests in a language that Ralph knows."""
    return [path for path in paths if path.endswith("conftest.py") or (language_of(path) and _is_test(path))]


def _once(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


def _is_of_tests(path: str) -> bool:
    return is_beside_tests(path) or _is_test(path)


def _is_test(path: str) -> bool:
    """Whether a file is a test by its own name or folder: in some languages any file of the program may hold some."""
    return is_test_file(path) and not is_test_file(f"program.{path.rpartition('.')[2]}")
