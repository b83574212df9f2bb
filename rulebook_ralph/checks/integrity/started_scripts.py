"""Scripts that were there, that gates start in whatever way, and that were changed. New scripts are free."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.extraction import Case
from rulebook_ralph.checks.integrity.gate import Gate
from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.indirect_scripts import Followed, PythonScript, ReadBase, follow, imported_modules
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.script_files import (
    ending,
    is_for_checks,
    is_in_test_folder,
    is_of_program,
    is_script,
    may_be_run,
)
from rulebook_ralph.checks.integrity.sourced_scripts import functions_of, what_decides
from rulebook_ralph.checks.integrity.suites import Suite
from rulebook_ralph.core.diff import FileDiff, Line, Versions

_DONE = {"M": "changed", "D": "deleted", "R": "renamed"}
_ENDS = re.compile(r"^\s*(?:exit|return)\b|[;&{]\s*(?:exit|return)\b")
_ADVICE = "put it back as it was, and put new tests into a new script"
_WILL_RUN = " beside it, which the gate will run too"


class StartedScripts:
    """Holds changed files against what gates start. `is_judged` tells of a file that is judged as tests are.

    `read_base` and `read` are asked only where a file was changed that could count.
    """

    def __init__(
        self,
        gates: Sequence[Gate],
        read_base: ReadBase,
        read: Callable[[FileDiff], Versions],
        is_judged: Callable[[FileDiff], bool],
    ) -> None:
        self._gates = [(gate, _Starts(gate)) for gate in gates]
        self._read_base, self._read, self._is_judged = read_base, read, is_judged
        self._followed: dict[int, tuple[Followed, list[_Starts], list[_Starts]]] = {}
        self._has_shebang: dict[str, bool] = {}

    def objections(self, diff: Sequence[FileDiff], excused: Callable[[FileDiff], bool]) -> Iterator[Objection]:
        """One for each such file."""
        for file in diff:
            path = file.old_path
            how = None if path is None or self._is_judged(file) else self._how(path)
            if how is None and file.kind != "D" and not file.binary and not excused(file):
                yield from self._deciding(file)
            if path is not None and how is not None and not excused(file):
                line = (file.added or file.removed)[0].number if file.added or file.removed else None
                advice = _ADVICE + (_WILL_RUN if any(starts.many(path) for _, starts in self._gates) else "")
                yield Objection(path, line, f"{how}, and it was {_DONE[file.kind]}; {advice}")

    def reached(self) -> Iterator[Gate]:
        """The gates, and what each starts through others."""
        for at, (gate, _) in enumerate(self._gates):
            yield gate
            if gate.opaque:
                followed = self._follow(at)[0]
                yield from (*followed.recipes, *followed.scripts)

    def loads(self, path: str) -> bool:
        """Whether a script that a gate starts names a file, or loads it as a module."""
        return any(gate.opaque and self._follow(at)[0].imports(path) for at, (gate, _) in enumerate(self._gates))

    def python_scripts(self) -> Iterator[PythonScript]:
        """The scripts of Python that gates run."""
        for at, (gate, _) in enumerate(self._gates):
            texts = self._follow(at)[0].texts if gate.opaque else {}
            imported = frozenset(name for path, text in texts.items() for name in imported_modules(path, text))
            folders = {posixpath.dirname(path) for path in texts if path.endswith(".py")}
            yield from (PythonScript(gate.name, folder, imported) for folder in sorted(folders))

    def _deciding(self, file: FileDiff) -> Iterator[Objection]:
        """What a script would do to a gate that sources it."""
        if is_script(file.path) is False:
            return
        for at, (gate, starts) in enumerate(self._gates):
            if not gate.opaque or not (starts.sources(file.path) or self._sources_through_others(at, file.path)):
                continue
            texts = Versions(None, self._read(file).after) if file.kind in ("A", "R") else self._read(file)
            is_new = "new " if texts.before is None else ""
            found = next(what_decides(texts.before, texts.after), None) or self._replacing(at, texts)
            if found is not None:
                line, what = found
                yield Objection(file.path, line, f"the gate '{gate.name}' sources this {is_new}script, and it {what}")
                return

    def _replacing(self, at: int, texts: Versions) -> tuple[int, str] | None:
        """A function that is new in one script and that another has, which was there."""
        added = functions_of(texts.after or "") - functions_of(texts.before or "")
        known = {name for text in self._follow(at)[0].texts.values() for name in functions_of(text)} if added else set()
        return next(((1, f"has a second `{name}`") for name in sorted(added & known)), None)

    def _sources_through_others(self, at: int, path: str) -> bool:
        _, recipes, scripts = self._follow(at)
        return any(each.sources(path) for each in (*recipes, *scripts))

    def _how(self, path: str) -> str | None:
        """In what way a gate starts a script."""
        for gate, starts in self._gates:
            if path in gate.paths or (starts.match(path) and self._may_be_run(path)):
                return f"the gate '{gate.name}' starts this script"
            if gate.loose and path in gate.lists and is_for_checks(path):
                return f"the gate '{gate.name}' may go by the lines of this file"
        if (linked := self._linked(path)) is not None:
            return f"the gate '{linked}' starts this script by a link"
        if may_be_run(path) is False or not (is_script(path) or is_for_checks(path)):
            return None
        return self._how_through_others(path)

    def _how_through_others(self, path: str) -> str | None:
        for at, (gate, _) in enumerate(self._gates):
            if gate.opaque and self._starts_through_others(at, path) and self._may_be_run(path):
                return f"the gate '{gate.name}' starts this script through others"
        if is_in_test_folder(path) and is_script(path) is not False:
            for at, (gate, _) in enumerate(self._gates):
                if gate.opaque and self._follow(at)[0].is_open and self._may_be_run(path):
                    return f"the gate '{gate.name}' may start this script of the tests"
        return None

    def _linked(self, path: str) -> str | None:
        """The gate that starts a script under the name of a symbolic link to it."""
        for at, (gate, _) in enumerate(self._gates):
            may_be = is_script(path) is not False or ending(path) in map(ending, gate.followed)
            if gate.opaque and may_be and path in self._follow(at)[0].links:
                return gate.name
        return None

    def _starts_through_others(self, at: int, path: str) -> bool:
        followed, recipes, scripts = self._follow(at)
        if not is_of_program(path) and (any(each.match(path) for each in recipes) or followed.runner_names(path)):
            return True
        return is_for_checks(path) and (any(each.match(path) for each in scripts) or followed.mention(path))

    def _follow(self, at: int) -> tuple[Followed, list["_Starts"], list["_Starts"]]:
        if at not in self._followed:
            found = follow(self._gates[at][0], self._read_base)
            self._followed[at] = found, [_Starts(each) for each in found.recipes], [_Starts(g) for g in found.scripts]
        return self._followed[at]

    def _may_be_run(self, path: str) -> bool:
        by_name = may_be_run(path)
        if by_name is not None:
            return by_name
        if path not in self._has_shebang:
            self._has_shebang[path] = self._read_base([path]).get(path, "").startswith("#!")
        return self._has_shebang[path]


def changes_only_tests(suite: Suite) -> bool:
    """Whether all that was changed of a file stands in its tests, and ends none of them early."""
    file = suite.file
    if file.kind != "M" or file.binary or not (file.added or file.removed):
        return False
    old, new = _lines_inside(suite.old_cases), _lines_inside(suite.new_cases)
    outside = [line for line in file.added if line.number not in new]
    outside += [line for line in file.removed if line.number not in old]
    return not any(map(_says_something, outside)) and not any(_ENDS.search(line.text) for line in file.added)


def _says_something(line: Line) -> bool:
    return bool(line.text.strip()) and not line.text.lstrip().startswith("#")


def _lines_inside(cases: Iterable[Case]) -> set[int]:
    return {case.first_line + at for case in cases for at in range(case.text.count("\n") + 1)}


class _Starts:
    """Which paths a command starts, or may be given to start."""

    def __init__(self, gate: Gate) -> None:
        self._paths = gate.paths
        self._started = _globs({*gate.patterns, *(gate.seen | gate.given if gate.loose else ())})
        self._given = _globs(gate.given)
        self._sourced = _globs(gate.sourced)

    def match(self, path: str) -> bool:
        if path in self._paths or self._started.match(path):
            return True
        return is_for_checks(path) and self._given.match(path)

    def sources(self, path: str) -> bool:
        return self._sourced.match(path)

    def many(self, path: str) -> bool:
        """Whether it starts whatever stands beside a script."""
        return path not in self._paths and self._started.match(path)


_MOST_GLOBS = 500


def _globs(places: set[str]) -> Globs:
    inside = (place for place in sorted(places) if not place.startswith(("..", "/")) and place != ".")
    return Globs([f"/{place}" for place in inside][:_MOST_GLOBS])
