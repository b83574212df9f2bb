"""Everything that an attempt may not have done to the checks that judge it, found in one look at its diff."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rulebook_ralph.checks.integrity.collection_hooks import collection_files, collection_hooks
from rulebook_ralph.checks.integrity.earlier_tests import EarlierTests, earlier_tests
from rulebook_ralph.checks.integrity.early_ends import early_ends, ends_when_loaded
from rulebook_ralph.checks.integrity.expected_results import expected_results
from rulebook_ralph.checks.integrity.framework_patches import framework_patches
from rulebook_ralph.checks.integrity.gate_changes import defining_files, gate_changes, named_settings, stand_ins
from rulebook_ralph.checks.integrity.gate_commands import read_gates
from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.go_test_main import go_test_main
from rulebook_ralph.checks.integrity.languages import BATS
from rulebook_ralph.checks.integrity.local_runners import local_runners
from rulebook_ralph.checks.integrity.lost_tests import (
    Removals,
    deleted_other_tests,
    deleted_tests,
    emptied_tests,
    hidden_tests,
)
from rulebook_ralph.checks.integrity.make_paths import make_paths
from rulebook_ralph.checks.integrity.mentions import Mentions
from rulebook_ralph.checks.integrity.node_patches import node_patches
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.replaced_names import may_replace
from rulebook_ralph.checks.integrity.replaced_subjects import replaced_subjects
from rulebook_ralph.checks.integrity.second_modules import second_modules
from rulebook_ralph.checks.integrity.shadowed_modules import shadowed_modules
from rulebook_ralph.checks.integrity.shared_checks import emptied_checks, emptied_helpers, shared_files
from rulebook_ralph.checks.integrity.skipped_tests import skipped_groups, skipped_tests
from rulebook_ralph.checks.integrity.started_scripts import StartedScripts, changes_only_tests
from rulebook_ralph.checks.integrity.suites import Pairing, Suite, is_test_file, pair, read_suites
from rulebook_ralph.checks.integrity.weakened_tests import weakened_tests
from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import VerificationStep

ReadVersions = Callable[[Sequence[FileDiff]], Mapping[str, Versions]]


@dataclass(frozen=True)
class Inspection:
    """The diff of an attempt and what it is held against. `red` are steps of which nothing was green on the base;
    `allow` the globs of files that may be changed all the same; `folders` tells which paths were folders at the base,
    `files` are all files there. Files are read where something in them was changed that could count.
    """

    task: Task
    diff: tuple[FileDiff, ...]
    versions: ReadVersions
    folders: Callable[[Sequence[str]], frozenset[str]]
    steps: tuple[VerificationStep, ...]
    red: frozenset[str]
    allow: tuple[str, ...]
    files: Callable[[], Sequence[str]] = tuple

    @cached_property
    def mentions(self) -> Mentions:
        return Mentions(self.task, self.diff)

    @cached_property
    def removals(self) -> Removals:
        return Removals(self.mentions.removals, self.diff)

    @cached_property
    def _allowed(self) -> Globs:
        return Globs(self.allow)

    def excuses(self, path: str) -> bool:
        """Whether the task names a file, or the configuration allows it to be changed."""
        return self._allowed.match(path) or self.mentions.name(path)

    def allows(self, path: str) -> bool:
        """Whether the configuration allows a file to be changed."""
        return self._allowed.match(path)

    @cached_property
    def _read(self) -> Mapping[str, Versions]:
        """The texts of all files that are looked at: git is asked once."""
        tests = [file for file in self.diff if is_test_file(file.path) or is_test_file(file.old_path)]
        wanted = [file for file in tests if file.kind != "A" or file.binary]
        wanted += [file for file in defining_files(self.diff) if file.kind != "A" or file.binary]
        wanted += [file for file in collection_files(self.diff) if file.kind in ("M", "R")]
        wanted += shared_files(self.diff)
        wanted += [file for file in self.diff if file.kind in ("M", "R") and may_replace(file)]
        found = dict(self.versions(list({file.path: file for file in wanted}.values()))) if wanted else {}
        for file in self.diff:
            if file.kind == "A" and not file.binary and file.path not in found:
                found[file.path] = Versions(None, "\n".join(line.text for line in file.added))
        return found

    @cached_property
    def suites(self) -> tuple[Suite, ...]:
        return read_suites(self.diff, lambda files: {file.path: self._read[file.path] for file in files})

    @cached_property
    def pairing(self) -> Pairing:
        return pair(self.suites)

    def of_tests(self) -> Iterator[Objection]:
        """Tests deleted, emptied, hidden or newly skipped."""
        if self.suites:
            yield from deleted_tests(self.pairing, self.suites, self.removals, self.excuses)
            yield from emptied_tests(self.pairing, self.suites, self.excuses)
            yield from weakened_tests(self.pairing, self.suites, self.diff, self.removals.explain, self.excuses)
            yield from hidden_tests(self.suites, self.excuses)
            yield from skipped_tests(self.pairing, self.excuses)
            yield from skipped_groups(self.diff, self.suites, self.excuses)
        yield from emptied_checks(self.diff, self._read, self.excuses)
        yield from expected_results(self.diff, self.excuses)
        yield from deleted_other_tests(self.diff, self.removals, self.excuses)

    def of_gates(self) -> Iterator[Objection]:
        """Changes to what defines the gates."""
        gates = read_gates(self.steps)
        started = StartedScripts(gates, self._at_base, self._texts_of, self._is_judged_as_tests)
        green = [gate for gate in gates if gate.name not in self.red]
        files = [file for file in defining_files(self.diff) if not self._excuses_change(file)]
        told = list(gate_changes(files, self._read, gates, green, self.diff)) if files else []
        yield from told
        paths = {objection.path for objection in told}
        yield from (each for each in started.objections(self.diff, self._excuses_script) if each.path not in paths)
        yield from (
            each for each in named_settings(self.diff, started.reached, self._excuses_change) if each.path not in paths
        )
        programs = local_runners(self.diff, started.reached, self._at_base, self._texts_of, self._excuses_change)
        yield from (each for each in programs if each.path not in paths)
        reached = started.reached()
        texts = self._texts_of
        of_make = make_paths(self.diff, reached, self._at_base, folders=self.folders, read=texts, excused=self.excuses)
        yield from (each for each in of_make if each.path not in paths)
        yield from emptied_helpers(self.diff, self._texts_of, started.loads, self.excuses)
        yield from stand_ins(self.diff, green, self.excuses)
        yield from shadowed_modules(self.diff, green, started.python_scripts, self.excuses)
        yield from second_modules(self.diff, gates, self._at_base, self.excuses)
        yield from framework_patches(self.diff, self._read, self.excuses)
        yield from node_patches(self.diff, self.excuses)
        yield from (each for each in ends_when_loaded(self.diff, self._texts_of) if not self.excuses(each.path))
        yield from replaced_subjects(self.diff, self._read, self._at_base, self.files, self.excuses)
        yield from collection_hooks(self.diff, self._read, self.excuses)
        yield from go_test_main(self.diff, self._read, self.excuses)

    def _at_base(self, paths: Iterable[str]) -> Mapping[str, str]:
        """The texts of files at the base, changed or not."""
        changed = {file.old_path: file for file in self.diff}
        inside = [path for path in paths if not path.startswith(("/", "..", "~", "-"))]
        files = [changed.get(path) or FileDiff("D", path, path) for path in inside]
        found = self.versions(files) if files else {}
        texts = {file.old_path: found[file.path].before for file in files if file.path in found}
        return {path: text for path, text in texts.items() if path is not None and text is not None}

    def _texts_of(self, file: FileDiff) -> Versions:
        return self._read.get(file.path) or self.versions([file])[file.path]

    def _is_judged_as_tests(self, file: FileDiff) -> bool:
        """Whether what a file says is seen as tests, and nothing else of it was changed where it is a script."""
        suite = self._suites_by_path.get(file.path)
        return suite is not None and (suite.old_cases[0].language is not BATS or changes_only_tests(suite))

    @cached_property
    def _suites_by_path(self) -> Mapping[str, Suite]:
        return {suite.file.path: suite for suite in self.suites if suite.old_cases}

    def _excuses_script(self, file: FileDiff) -> bool:
        return self._excuses_change(file) or (file.kind == "D" and self.removals.explain_file(file.path))

    def _excuses_change(self, file: FileDiff) -> bool:
        """A renamed file is excused where its old name is; that a new one was made of it says nothing of the old."""
        return self.excuses(file.old_path or file.path)

    def early_ends(self) -> Iterator[Objection]:
        """Code that ends a process before what tests it is through."""
        return (each for each in early_ends(self.diff, self._texts_of) if not self.excuses(each.path))

    def earlier_tests(self) -> EarlierTests:
        """What is to be as it was for the tests to be those of the base; not what the task has changed or removed."""
        explained = {case.path for case in self.pairing.lost if self.removals.explain(case)}
        return earlier_tests(self.diff, lambda file: self._excuses_change(file) or file.old_path in explained)

    def explained_losses(self) -> int | None:
        """How many tests fewer than at the base may be run, by what was deleted or merged and was not objected to.

        None where it cannot be told: all changed test files are excused, or one of these tests stands for many.
        """
        changed = [suite for suite in self.suites if suite.file.kind != "A"]
        if changed and all(self.excuses(suite.file.old_path or suite.file.path) for suite in changed):
            return None
        if any(case.is_many for case in self.pairing.lost):
            return None
        return len(self.pairing.lost) + self.pairing.merged
