"""Which tests passed and which failed, by name, as the output of their runner tells.

Read line by line while a gate runs, so that nothing is lost of a long output. Runners that can be asked for names
through the environment are asked; of others the names of the failures and the numbers are known.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rulebook_ralph.verify.test_counts import Outcome, TestCounts, TestRun

_WORST: tuple[Outcome, ...] = ("skipped", "passed", "failed", "error")
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_LONGEST_LINE = 2000
_MOST_NAMES = 100_000
_PYTEST_OPTIONS = "-rap --continue-on-collection-errors --maxfail=0"
_JEST = " \u203a "
_SEPARATORS = (" > ", _JEST)

_MISSING_NAME = re.compile(
    r"\b(?:ImportError|ModuleNotFoundError|NameError|AttributeError|ReferenceError)\b"
    r"|is not a (?:function|constructor)|is not defined|does not provide an export|Cannot (?:find|read)\b"
    r"|unexpected keyword argument|cannot find \w+ `|^undefined: "
)
"""The words of an error that only tells that something is not there yet."""


def asking_for_names(command: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the runners of a command name their tests, where the environment sets none against it."""
    asked = {
        "PYTEST_ADDOPTS": " ".join(filter(None, (environment.get("PYTEST_ADDOPTS"), _PYTEST_OPTIONS))),
        "MOCHA_OPTIONS": f"--reporter=spec {environment.get('MOCHA_OPTIONS', '')}".strip(),
    }
    if re.search(r"\bgo\s+test\b", command):
        asked["GOFLAGS"] = f"{environment.get('GOFLAGS', '')} -v".strip()
    return asked


class TestOutput:
    """The output of a gate, taken in line by line."""

    __test__ = False

    def __init__(self) -> None:
        self._counts = TestCounts()
        self._found = _Found()
        self._readers = tuple(kind(self._found) for kind in (_Pytest, _Unittest, _Tap, _Compiled, _Marks))

    def feed(self, line: str) -> bool:
        """Take in a line without its end; whether it only names a test that passed, which nobody needs to read."""
        line = _COLOUR.sub("", line).rstrip()
        if not line.strip() or len(line) > _LONGEST_LINE:
            return False
        self._counts.read(line.strip())
        any(reader.read(line) for reader in self._readers)  # the first that knows the line takes it
        return line.startswith("PASSED ")

    def result(self) -> TestRun:
        """What was told so far."""
        found = self._found
        names = found.tests()
        ran, failed = self._counts.counted() or (None, None)
        if ran is None and names:
            ran = sum(told in ("passed", "failed") for told in names.values())
            failed = sum(told in ("failed", "error") for told in names.values())
        unnamed = frozenset(name for name, told in names.items() if told == "failed" and found.is_unnamed(name))
        passed = sum(told == "passed" for told in found.names.values())
        complete = bool(names) and passed >= (ran or 0) - (failed or 0)
        return TestRun(names or None, ran, failed, complete, found.varies, unnamed)


@dataclass(slots=True)
class _Found:
    """The names so far, each with its worst outcome, and the first line of each one's error."""

    names: dict[str, Outcome] = field(default_factory=dict)
    containers: set[str] = field(default_factory=set)
    errors: dict[str, str] = field(default_factory=dict)
    varies: bool = False

    def add(self, name: str, outcome: Outcome) -> str:
        name = name.strip()
        if len(self.names) < _MOST_NAMES:
            before = self.names.get(name, outcome)
            self.names[name] = max(before, outcome, key=_WORST.index)
        return name

    def add_once_more(self, name: str, outcome: Outcome) -> str:
        """Of a runner that lists each test once: another one of the same name is another test."""
        number, told = 1, name.strip()
        while told in self.names:
            number += 1
            told = f"{name.strip()} ({number})"
        return self.add(told, outcome)

    def tests(self) -> dict[str, Outcome]:
        """The names without those of suites, which hold tests and fail with them; one that failed by itself stays."""
        parents = {
            name.rsplit(mark, depth)[0]
            for name in self.names
            for mark in _SEPARATORS
            for depth in range(1, name.count(mark) + 1)
        }
        own = {name for name in parents & self.names.keys() if self.names[name] == "failed"} - self.containers
        return {name: told for name, told in self.names.items() if name in own or name not in parents}

    def error(self, name: str, line: str) -> None:
        if name and line.strip():
            self.errors.setdefault(name, line.strip())

    def is_unnamed(self, name: str) -> bool:
        """Whether a test only found a name missing; pytest heads its error by its name without the file."""
        error = self.errors.get(name) or self.errors.get(name.partition("::")[2].replace("::", "."), "")
        return _MISSING_NAME.search(error) is not None


class _Reader:
    """Of one kind of output, line by line. `_failed` is the test whose error is told next."""

    _failed = ""

    def __init__(self, found: _Found) -> None:
        self._found = found

    def read(self, line: str) -> bool:
        """Whether it knows the line."""
        raise NotImplementedError


class _Pytest(_Reader):
    """Its short summary (`-rap`), and the first line of each failure."""

    _LINE = re.compile(r"(PASSED|FAILED|ERROR|XFAIL|XPASS|SUBFAILED\S*|SUBFAIL) (\S.*)")
    _HEAD = re.compile(r"_{3,} (?:ERROR at \w+ of )?(\S.*?)(?: \(.*\))? _{3,}")
    _OUTCOMES: Mapping[str, Outcome] = {"PASSED": "passed", "XPASS": "passed", "XFAIL": "skipped"}

    def read(self, line: str) -> bool:
        if found := self._LINE.fullmatch(line):
            return self._outcome(found[1], found[2])
        if line.startswith("___") and (found := self._HEAD.fullmatch(line)):
            self._failed = found[1]
        elif self._failed and line.startswith("E  "):
            self._found.error(self._failed, line[2:])
        else:
            return False
        return True

    def _outcome(self, word: str, rest: str) -> bool:
        name, message = (rest, "") if word == "PASSED" else _without_message(rest)
        if not re.match(r"[^\s:][^:]*(?:::|\.\w+$)", name):
            return False
        outcome = self._OUTCOMES.get(word, "failed" if "::" in name else "error")
        name = self._found.add(name, outcome)
        if outcome == "failed":
            self._found.error(name, message)
        return True


def _without_message(text: str) -> tuple[str, str]:
    """The node id and the message; an id's parameters may hold what divides the two."""
    name, _, message = text.partition(" - ")
    if "[" in name:
        for end in (found.end() for found in re.finditer(r"\](?= - |$)", text)):
            if text.count("[", 0, end) == text.count("]", 0, end):
                return text[:end], text[end + 3 :]
    return name, message


class _Unittest(_Reader):
    """`-v`, and the headings of failures, which stand without it too."""

    _HEAD = re.compile(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\w+) \(([\w.<>]+)\)")
    _BEGUN = re.compile(r"(\w+) \(([\w.<>]+)\)(?: \.\.\. (.*))?")
    _DOC = re.compile(r".* \.\.\. (ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)")
    _ENDS: Mapping[str, Outcome] = {"ok": "passed", "expected failure": "skipped", "unexpected success": "failed"}
    _ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Warning)\b.*")

    _begun = ""

    def read(self, line: str) -> bool:
        if found := self._HEAD.match(line):
            outcome: Outcome = "error" if "_FailedTest" in found[3] else "failed"
            self._failed = self._found.add(self._name(found[2], found[3]), outcome)
        elif (found := self._BEGUN.fullmatch(line)) and "." in found[2]:
            self._begun = self._name(found[1], found[2])
            self._end(found[3] or "")
        elif self._begun and (found := self._DOC.fullmatch(line)):
            self._end(found[1])
        elif self._begun and self._outcome(line):
            self._end(line)
        elif self._failed and self._ERROR.fullmatch(line):
            self._found.errors[self._failed] = line  # of a chain the last one is told
        elif self._failed and line.startswith(("=====", "Ran ")):
            self._failed = ""
            return False
        else:
            return False
        return True

    def _end(self, told: str) -> None:
        if outcome := self._outcome(told):
            self._found.add(self._begun, "error" if "_FailedTest" in self._begun and outcome == "failed" else outcome)
            self._begun = ""

    def _outcome(self, told: str) -> Outcome | None:
        if told.startswith("skipped"):
            return "skipped"
        return "failed" if told in ("FAIL", "ERROR") else self._ENDS.get(told)

    @staticmethod
    def _name(method: str, place: str) -> str:
        """The whole id; before Python 3.11 the parentheses hold only its class."""
        return place if place.endswith(f".{method}") else f"{place}.{method}"


_FILE = re.compile(r"\.?/.*\.[cm]?[jt]sx?")
"""By which node's runner names a file that it could not run."""


class _Tap(_Reader):
    """The Test Anything Protocol, with the subtests of node's own runner."""

    _POINT = re.compile(r"( *)(not )?ok \d+(?: -)?(?: (?!#)(.*?))?(?:\s+#\s*(skip|todo)\b.*)?", re.IGNORECASE)
    _SUBTEST = re.compile(r"( *)# Subtest: (.*)")
    _ERROR = re.compile(r" *(?:error|name): (.+)")

    _path: tuple[str, ...] = ()

    def read(self, line: str) -> bool:
        if found := self._SUBTEST.fullmatch(line):
            self._path = (*self._path[: len(found[1]) // 4], found[2])
        elif found := self._POINT.fullmatch(line):
            if found[3]:
                self._point(found, " > ".join((*self._path[: len(found[1]) // 4], found[3])))
        elif self._failed and (found := self._ERROR.fullmatch(line)):
            before = self._found.errors.get(self._failed, "")
            self._found.errors[self._failed] = f"{before} {found[1]}"[:_LONGEST_LINE].strip()
        elif self._failed and "failureType: 'subtestsFailed'" in line:
            self._found.containers.add(self._failed)
        else:
            return False
        return True

    def _point(self, found: re.Match[str], name: str) -> None:
        red: Outcome = "error" if _FILE.fullmatch(found[3]) else "failed"
        outcome: Outcome = "skipped" if found[4] else red if found[2] else "passed"
        name = self._found.add_once_more(name, outcome)
        self._failed = name if outcome == "failed" else ""


class _Marks(_Reader):
    """Runners that list tests with marks below the titles of their suites: mocha, jest, node's `spec`."""

    _LINE = re.compile(
        r"(?P<space>\s*)(?P<mark>[✔✓√✖✕×✗﹣○↓✎]|-|\d+\)) (?P<name>\S.*?)"  # noqa: RUF001
        r"(?: \(?\d[\d.]* ?m?s\)?)?(?: # (?P<more>\w+).*)?"
    )
    _PASSED, _SKIPPED = "✔✓√", "﹣○↓✎-"
    _FILE = re.compile(r"(?:PASS|FAIL) {1,2}(\S+?\.\w+)(?: \(.+\))?")
    _BULLET = re.compile(r" {2}● (\S.*)")
    _END = re.compile(r" *(?:\d+ (?:passing|failing)\b.*|[ℹ✖] (?:tests \d+|failing tests:)|⎯+.*)")  # noqa: RUF001
    _TITLE = re.compile(r"(?P<space> *)▶ (?P<suite>.*)|(?P<indent> +)(?!at |\d+\) )(?P<title>\S.*)")
    _LISTED = re.compile(r" {2}\d+\) (\S.*)| {5,}(\S.*)")

    _titles: tuple[tuple[int, str], ...] = ()
    _listed: tuple[str, ...] = ()
    _file = ""
    _ended = False

    def read(self, line: str) -> bool:
        if found := self._FILE.fullmatch(line.strip()):
            self._file, self._titles, self._ended = found[1], (), False
            self._found.varies = True
        elif found := self._BULLET.fullmatch(line):
            self._take_bullet(found[1])
        elif self._END.fullmatch(line):
            self._ended, self._failed = True, ""
        elif self._ended and (found := self._LISTED.fullmatch(line)):
            self._list(found)
        elif not self._ended and (found := self._LINE.fullmatch(line)):
            self._take(found)
        elif self._failed and re.match(r"\s*(?:\w*Error\b|expect\()", line):
            self._found.error(self._failed, line)
            self._failed = ""
        elif not self._ended and (found := self._TITLE.fullmatch(line)) and (found["suite"] or not self._failed):
            self._enter(len(found["space"] or found["indent"] or ""), found["suite"] or found["title"])
        else:
            return False
        return True

    def _take_bullet(self, name: str) -> None:
        if name == "Test suite failed to run":
            self._found.add(self._file or name, "error")
        elif (_JEST in name or self._file) and name not in ("Console", "Cannot log after tests are done."):
            self._failed = self._found.add(_JEST.join(filter(None, (self._file, name))), "failed")

    def _list(self, found: re.Match[str]) -> None:
        """Mocha lists its failures once more: the titles down to one that ends in a colon, then the error."""
        if found[1] or self._listed:
            self._listed = (found[1],) if found[1] else (*self._listed, found[2])
        if self._listed and self._listed[-1].endswith(":"):
            self._failed, self._listed = _JEST.join(self._listed).removesuffix(":"), ()
        elif self._failed:
            self._found.error(self._failed, found[2] or "")
            self._failed = ""

    def _take(self, found: re.Match[str]) -> None:
        mark, name = found["mark"], found["name"]
        indent = len(found["space"])
        if mark[0] in "-0123456789" and not indent:
            return  # a list in somebody's text
        if re.search(r"\(\d+ tests?\b.*\)$", name):
            self._found.varies = True  # vitest lists files, and the tests of those that failed
            return
        titles = [title for depth, title in self._titles if depth < indent]
        told = _JEST.join(filter(None, (self._file, *titles, name)))
        red: Outcome = "error" if _FILE.fullmatch(name) else "failed"
        is_skipped = mark in self._SKIPPED or found["more"] in ("SKIP", "TODO")
        outcome: Outcome = "skipped" if is_skipped else "passed" if mark in self._PASSED else red
        self._failed = ""
        if any(depth == indent and title == name for depth, title in self._titles):
            self._found.containers.add(told)  # node repeats a suite's title behind its tests
        else:
            told = self._found.add_once_more(told, outcome)
            self._failed = told if outcome == "failed" else ""

    def _enter(self, indent: int, title: str) -> None:
        self._titles = (*(each for each in self._titles if each[0] < indent), (indent, title))


class _Compiled(_Reader):
    """Go and Rust, which list each test on a line."""

    _TEST = re.compile(
        r"\s*--- (?P<go>PASS|FAIL|SKIP): (?P<name>\S+) \(.*|test (?P<test>\S.*) \.\.\. (?P<cargo>ok|FAILED|ignored).*"
    )
    _BUILD = re.compile(r"FAIL\s+(\S+) \[(?:build|setup) failed\]|error: could not compile `([^`]+)`.*")
    _OUTCOMES: Mapping[str, Outcome] = {"PASS": "passed", "ok": "passed", "SKIP": "skipped", "ignored": "skipped"}

    def read(self, line: str) -> bool:
        if found := self._TEST.fullmatch(line):
            outcome = self._OUTCOMES.get(found["go"] or found["cargo"], "failed")
            self._found.add(found["name"] or found["test"], outcome)
        elif found := self._BUILD.fullmatch(line):
            self._found.add(found[1] or found[2], "error")
        else:
            return False
        return True
