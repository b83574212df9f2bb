"""How many tests ran, as the output of a test runner tells.

An agent can make a gate print anything: every pattern takes time that grows no faster than the line.
"""

import re
from collections.abc import Callable

_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_LEFT_OUT = re.compile(r"^… \d+ bytes left out …$", re.MULTILINE)

_RAN = ("passed", "failed", "xfailed", "xpassed", "failing", "passing")
_COUNT = re.compile(r"(?<!\d)(\d+) (\w+)")
_LONGEST_LINE = 2000
"""Characters; no runner's summary is longer."""

_PYTEST = re.compile(r"=*\s*(\d+ [A-Za-z]\w*(?:, \d+ [A-Za-z]\w*)*) in [\d.]+s(?: \([\d:]+\))?\s*=*")
_NO_PYTEST = re.compile(r"=*\s*no tests (?:ran|collected)\b.*")
_UNITTEST = re.compile(r"Ran (\d+) tests? in [\d.]+s")
_UNITTEST_END = re.compile(r"(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?")
_JEST = re.compile(r"Tests:\s++(?=.*\d \w)(.*)")
_VITEST = re.compile(r"Tests\s{2,}(\d+ [A-Za-z]\w*(?: \| \d+ [A-Za-z]\w*)*)(?: \(\d+\))?")
_MOCHA = re.compile(r"(\d+) (passing|failing)(?: \([\d.]+ ?m?s\))?")
_PLAYWRIGHT = re.compile(r"(\d+) passed \([\d.]+m?s\)")
_GO = re.compile(r"--- (PASS|FAIL): |=== RUN ")
_CARGO = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed;.*")
_NEXTEST = re.compile(r"Summary \[[^\]]*\]\s+(\d+)(?:/\d+)? tests? run:.*")
_RSPEC = re.compile(r"(\d+) examples?, \d+ failures?(?:, (\d+) pending)?.*")
_MINITEST = re.compile(
    r"(\d+) (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors(?:, \d+ pendings, \d+ omissions|, (\d+) skips)?.*"
)
_PHPUNIT_OK = re.compile(r"OK \((\d+) tests?, \d+ assertions?\)")
_PHPUNIT = re.compile(r"Tests: (\d+), Assertions: \d+(.*)")
_EXUNIT = re.compile(r"(?:\d+ doctests?, )?(\d+) tests?, \d+ failures?(?:.*?, (\d+) (?:skipped|excluded))?.*")
_MAVEN = re.compile(r"(?:\[\w+\] )?Tests run: (\d+), Failures: \d+, Errors: \d+, Skipped: (\d+)")
_DOTNET = re.compile(r".*Failed:\s+(\d+), Passed:\s+(\d+), Skipped:\s+\d+, Total:.*")
_CTEST = re.compile(r"\d+% tests passed, \d+ tests failed out of (\d+)")
_DENO = re.compile(r"(?:ok|FAILED) \| (\d+) passed.*? \| (\d+) failed.*")
_XCTEST = re.compile(r"Executed (\d+) tests?, with .*")
_TAP_TOTAL = re.compile(r"[#ℹ] (tests|pass|fail|skip\w*|todo|cancelled) (\d+)")  # noqa: RUF001 - node's own sign
_TAP = re.compile(r"(not )?ok \d+\b(.*)")
_BUN = re.compile(r"(\d+) (pass|fail)")


_FAILED = re.compile(
    r"(?<![\d.])(\d+) (?:failed|failing|failures?|errors?|fail)\b|(?<!expected )(?:failures|errors)=(\d+)|"
    r"(?:Failures|Errors|Failed):\s+(\d+)|(?<!\d)(\d+) tests failed|[#ℹ] fail (\d+)"  # noqa: RUF001 - node's own sign
)


class _Tally:
    """What the lines said so far: the last summary, and sums where a runner prints many or none."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.go = self.cargo = self.tap = 0
        self.listed_failures = 0
        """Of the runners that print many summaries or none."""
        self.has_go = self.has_cargo = self.has_tap = False
        self.is_open = ""
        """The kind of summary that goes on in the next line."""
        self._summary: list[str] = []

    @property
    def summary(self) -> str:
        """The text of the last summary."""
        return " ".join(self._summary)

    def read(self, line: str) -> None:
        opened, self.is_open = self.is_open, ""
        for pattern, meaning in _SUMMARIES:
            if found := pattern.fullmatch(line):
                self.last = meaning(found)
                self._summary = [line]
                return
        if not self._read_long(line, opened):
            self.is_open = opened

    def _read_long(self, line: str, opened: str) -> bool:
        """Summaries of several lines, and runners that only list their tests."""
        if found := _UNITTEST.fullmatch(line):
            self._summary = []
            self.last, self.is_open = int(found[1]), "unittest"
        elif opened == "unittest" and (found := _UNITTEST_END.fullmatch(line)):
            self._summary = [line]
            skipped = re.search(r"skipped=(\d+)", found[1] or "")
            self.last = (self.last or 0) - (int(skipped[1]) if skipped else 0)
        elif found := _MOCHA.fullmatch(line) or _BUN.fullmatch(line):
            kind = "mocha" if found[2].endswith("ing") else "bun"
            self.last = int(found[1]) + ((self.last or 0) if opened == kind else 0)
            self._continue(line, is_first=opened != kind)
            self.is_open = kind
        elif found := _TAP_TOTAL.fullmatch(line):
            self._continue(line, is_first=found[1] == "tests")
            if found[1] == "tests":
                self.last = int(found[2])
            elif found[1].startswith(("skip", "todo", "cancel")) and opened == "tap" and self.last is not None:
                self.last -= int(found[2])
            self.is_open = "tap"
        elif found := _CARGO.fullmatch(line):
            self.cargo += int(found[1]) + int(found[2])
            self.listed_failures += int(found[2])
            self.has_cargo = True
        elif found := _GO.match(line):
            self.go += found[1] is not None
            self.listed_failures += found[1] == "FAIL"
            self.has_go |= found[1] != "FAIL"  # without -v it lists failures alone
        elif found := _TAP.fullmatch(line):
            counts = not re.search(r"#\s*(?:skip|todo)\b", found[2], re.IGNORECASE)
            self.tap += counts
            self.listed_failures += counts and found[1] is not None
            self.has_tap = True
        else:
            return False
        return True

    def _continue(self, line: str, *, is_first: bool) -> None:
        if is_first:
            self._summary = []
        self._summary.append(line)


def tells_of_failures(output: str) -> bool:
    """Whether the last summary of a test runner tells that tests failed."""
    return _failures_in(_tally(output).summary) > 0


def tests_failed(output: str) -> int | None:
    """How many tests failed, or could not be run; None where the output does not tell how many were run."""
    if tests_run(output) is None:
        return None
    tally = _tally(output)
    return tally.listed_failures if tally.last is None else _failures_in(tally.summary)


def _failures_in(summary: str) -> int:
    return sum(int(number) for found in _FAILED.findall(summary) for number in found if number)


def tests_run(output: str) -> int | None:
    """The number of tests that were really run (passed or failed, not skipped); None where the output does not tell.

    Of several summaries the last one counts, save where a runner prints one for each of its programs.
    """
    tally = _tally(output)
    if tally.last is not None:
        return tally.last
    if _LEFT_OUT.search(output):
        return None  # single tests were listed, and not all of them are here
    if tally.has_cargo:
        return tally.cargo
    if tally.has_go:
        return tally.go
    return tally.tap if tally.has_tap else None


def _tally(output: str) -> _Tally:
    tally = _Tally()
    for line in _COLOUR.sub("", output).splitlines():
        if (stripped := line.strip()) and len(stripped) <= _LONGEST_LINE:
            tally.read(stripped)
    return tally


def _sum_of_ran(found: re.Match[str]) -> int:
    return sum(int(number) for number, word in _COUNT.findall(found[1]) if word in _RAN)


def _first(found: re.Match[str]) -> int:
    return int(found[1])


def _without_second(found: re.Match[str]) -> int:
    return int(found[1]) - int(found[2] or 0)


def _both(found: re.Match[str]) -> int:
    return int(found[1]) + int(found[2])


def _without_skipped(found: re.Match[str]) -> int:
    skipped = re.findall(r"(?:Skipped|Incomplete): (\d+)", found[2])
    return int(found[1]) - sum(map(int, skipped))


def _nothing(found: re.Match[str]) -> int:  # noqa: ARG001 - says itself that none ran
    return 0


_SUMMARIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], int]], ...] = (
    (_PYTEST, _sum_of_ran),
    (_NO_PYTEST, _nothing),
    (_PHPUNIT, _without_skipped),
    (_PHPUNIT_OK, _first),
    (_JEST, _sum_of_ran),
    (_VITEST, _sum_of_ran),
    (_PLAYWRIGHT, _first),
    (_NEXTEST, _first),
    (_RSPEC, _without_second),
    (_MINITEST, _without_second),
    (_EXUNIT, _without_second),
    (_MAVEN, _without_second),
    (_DOTNET, _both),
    (_CTEST, _first),
    (_DENO, _both),
    (_XCTEST, _first),
)
