"""What a run told of tests; and how many passed and failed, as the summaries of test runners tell, line by line.

An agent can make a gate print anything: every pattern takes time that grows no faster than the line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_FAILED = ("failed", "failing", "error", "errors")
_RAN = ("passed", "xpassed", "passing", *_FAILED)
_COUNT = re.compile(r"(?<!\d)(\d+) (\w+)")

_SUMMARY = re.compile(
    r"=*\s*(?:Tests:?\s+)?(\d+ [A-Za-z]\w*(?:(?:, | \| )\d+ [A-Za-z][\w ]*)*)( in [\d.]+s)?(?: \([\w.: ]*\))?\.?\s*=*"
)
"""pytest, jest, vitest, and a bare `3 passed, 1 failed` of any runner."""
_NOTHING = re.compile(r"=*\s*no tests (?:ran|collected)\b.*")
_UNITTEST = re.compile(r"Ran (\d+) tests? in [\d.]+s")
_UNITTEST_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?")
_MOCHA = re.compile(r"(\d+) (passing|failing)(?: \([\d.]+ ?m?s\))?")
_CARGO = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed;.*")
_TAP_TOTAL = re.compile(r"[#ℹ] (tests|pass|fail|skip\w*|todo|cancelled) (\d+)")  # noqa: RUF001 - node's own sign

_Counted = tuple[int, int]
"""How many ran, and how many of them failed."""


Outcome = Literal["passed", "failed", "error", "skipped"]
"""error: what could not be run at all (not imported, not compiled). skipped: also what was expected to fail."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """What one run of a gate told of tests. `names` is None where no test was named; `ran` and `failed` are None where
    no number was told. `complete`: every test that passed is named; `varies`: the runner does that at times only.
    `unnamed` are those of the failed tests that only found a name missing.
    """

    __test__ = False  # for pytest: the name says otherwise

    names: Mapping[str, Outcome] | None = None
    ran: int | None = None
    failed: int | None = None
    complete: bool = False
    varies: bool = False
    unnamed: frozenset[str] = frozenset()

    @property
    def passing(self) -> frozenset[str]:
        return self._having("passed")

    @property
    def failing(self) -> frozenset[str]:
        """The names of what failed, and of what could not be run."""
        return self._having("failed") | self._having("error")

    @property
    def not_run(self) -> frozenset[str]:
        """The names of what could not be run at all."""
        return self._having("error")

    @property
    def passed(self) -> int | None:
        return None if self.ran is None else self.ran - (self.failed or 0)

    def has_same_tests(self, other: "TestRun") -> bool:
        """Whether the same tests ran, by name where both have names, else by number."""
        if self.names and other.names:
            return self.names.keys() == other.names.keys()
        return bool(self.ran) and self.ran == other.ran

    def _having(self, outcome: Outcome) -> frozenset[str]:
        return frozenset(name for name, told in (self.names or {}).items() if told == outcome)


NO_TESTS = TestRun()
"""Of a gate that told nothing of tests."""


class TestCounts:
    """The last summary that was read, or the sum where a runner prints one for each of its programs, or none."""

    __test__ = False  # for pytest: the name says otherwise

    def __init__(self) -> None:
        self._last: _Counted | None = None
        self._sum: _Counted | None = None
        self._open = ""

    def counted(self) -> _Counted | None:
        """How many tests ran and how many of them failed, or None where nothing told."""
        return self._sum if self._last is None else self._last

    def read(self, line: str) -> None:
        """Take in one line, stripped."""
        opened, self._open = self._open, ""
        if _NOTHING.fullmatch(line):
            self._last = 0, 0
        elif (found := _SUMMARY.fullmatch(line)) and (told := _told(found[1], timed=bool(found[2]))):
            self._last = told
        elif found := _UNITTEST.fullmatch(line):
            self._last, self._open = (int(found[1]), 0), "unittest"
        elif opened == "unittest" and (found := _UNITTEST_END.fullmatch(line)):
            self._end_unittest(found[1] or "")
        elif found := _MOCHA.fullmatch(line):
            self._go_on("mocha", opened, int(found[1]), failed=found[2] == "failing")
        elif found := _TAP_TOTAL.fullmatch(line):
            counts = found[1] in ("pass", "fail", "cancelled")
            self._go_on("tap", opened, int(found[2]) * counts, failed=found[1] != "pass")
        elif found := _CARGO.fullmatch(line):
            ran, failed = self._sum or (0, 0)
            self._sum = ran + int(found[1]) + int(found[2]), failed + int(found[2])
        else:
            self._open = opened

    def _end_unittest(self, details: str) -> None:
        told = {key.strip(): int(value) for key, value in re.findall(r"([a-z ]+)=(\d+)", details)}
        failed = sum(told.get(key, 0) for key in ("failures", "errors", "unexpected successes"))
        left_out = told.get("skipped", 0) + told.get("expected failures", 0)
        self._last = ((self._last or (0, 0))[0] - left_out, failed)

    def _go_on(self, kind: str, opened: str, number: int, *, failed: bool) -> None:
        """A line of a summary that has one number on each line."""
        before = self._last if opened == kind and self._last else (0, 0)
        self._last, self._open = (before[0] + number, before[1] + number * failed), kind


def _told(counts: str, *, timed: bool) -> _Counted | None:
    """The numbers of a summary; None where neither a time nor a word of tests says that it is one."""
    told = [(int(number), word) for number, word in _COUNT.findall(counts)]
    if not timed and not {word for _, word in told} & {"passed", "failed"}:
        return None
    return sum(n for n, word in told if word in _RAN), sum(n for n, word in told if word in _FAILED)
