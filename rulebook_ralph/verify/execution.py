"""A check's command in a shell: its output searched whole, read for tests, kept in part; and what a run of it says."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from msgspec.structs import replace

from rulebook_ralph.process import supervisor
from rulebook_ralph.process.streams import HeadTail, LineSplitter
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.verify.test_counts import NO_TESTS, Outcome, TestRun
from rulebook_ralph.verify.test_names import TestOutput
from rulebook_ralph.verify.workspace import Place

_HEAD = 16 * 1024
_TAIL = 48 * 1024
_LONGEST_LINE = 256 * 1024
_LONGEST_TEXT = 200
MOST_FAILING = 50


@dataclass(frozen=True, slots=True)
class GateRun:
    """What a gate said of a tree, and what its output told of tests."""

    result: CheckResult
    tests: TestRun = NO_TESTS

    @property
    def step(self) -> str:
        return self.result.step

    def best_of(self, other: "GateRun") -> "GateRun":
        """Of two runs on one tree: a test that passed in either of them is flaky, and is not what decides."""
        better = self if self.result.passed else other
        names = _best(self, other)
        failing = tuple(sorted(name for name, told in names.items() if told in ("failed", "error")))
        fewer = min((each.tests for each in (self, other)), key=lambda tests: tests.failed or 0)
        tests = TestRun(
            names or None,
            fewer.ran,
            len(failing) if names else fewer.failed,
            self.tests.complete and other.tests.complete,
            self.tests.varies or other.tests.varies,
            self.tests.unnamed & other.tests.unnamed,
        )
        flaky = self.result.passed != other.result.passed or self.result.flaky
        attempts = self.result.attempts + other.result.attempts
        return GateRun(replace(better.result, flaky=flaky, attempts=attempts, failing=failing[:MOST_FAILING]), tests)


def _best(one: GateRun, other: GateRun) -> dict[str, Outcome]:
    """The names of two runs, each with the better outcome. What a run does not name passed there, where it names only
    failures; else it stays as the other says.
    """
    order: tuple[Outcome, ...] = ("passed", "skipped", "failed", "error")
    names: dict[str, Outcome] = {}
    for run, beside in ((one, other), (other, one)):
        passed = not beside.tests.complete and (beside.result.passed or bool(beside.tests.ran))
        for name, told in (run.tests.names or {}).items():
            there = (beside.tests.names or {}).get(name, "passed" if passed else told)
            names[name] = min(told, there, key=order.index)
    return names


def execute(
    external: External,
    place: Place,
    environment: Mapping[str, str],
    *,
    clean: Callable[[str], str],
    cancelled: Flag,
) -> GateRun:
    """Run the command in that place, to its end or its time limit. `clean` takes secrets out of a text that may be cut.
    Raises Cancelled, and nothing else.
    """
    taken = _Taken((external.output_contains, external.output_not_contains), str(place.inside))
    limits = supervisor.ProcessLimits(wall_time=external.timeout)
    result = CheckResult(step="", method="external", command=external.command, passed=False)
    try:
        cwd = _folder(place, external.working_dir)
        ended = place.run(
            [external.command], environment, limits=limits, on_output=taken.feed, cancelled=cancelled, cwd=cwd
        )
    except ValueError as error:
        return GateRun(replace(result, reason=f"not run: the folder {external.working_dir!r}: {error}"))
    if ended.failure is not None:
        result = replace(result, reason=f"could not start: {ended.failure.message}")
    elif ended.killed_by is not None:
        result = replace(result, reason=f"did not end within {external.timeout:g} s")
    else:
        reason = "; ".join(_differences(external, ended.exit_code, taken.absent))
        result = replace(result, passed=not reason, exit_code=ended.exit_code, reason=reason)
    result = replace(result, output=clean(taken.text()), duration_ms=ended.duration_ms)
    return GateRun(result, taken.tests.result())


def _differences(external: External, code: int | None, absent: Collection[str]) -> Iterator[str]:
    expected = external.success_exit_code
    if code != expected:
        instead = f", expected {expected}" if expected else ""
        by_signal = code is not None and code < 0
        yield (f"ended by signal {-(code or 0)}" if by_signal else f"exit code {code}") + instead
    if external.output_contains in absent:
        yield f"the output does not contain {quoted(external.output_contains)}"
    if external.output_not_contains and external.output_not_contains not in absent:
        yield f"the output contains {quoted(external.output_not_contains)}"


class _Taken:
    """The output of a command: searched for texts, read for tests, and its head and tail kept."""

    def __init__(self, texts: Iterable[str], root: str) -> None:
        self.absent = {text: text.encode("utf-8", "surrogatepass") for text in texts if text}
        self.tests = TestOutput()
        self._overlap = max(map(len, self.absent.values()), default=1) - 1
        self._end = b""
        self._kept = HeadTail(head=_HEAD, tail=_TAIL)
        self._lines = LineSplitter(self._line, longest=_LONGEST_LINE)
        self._root = root

    def feed(self, block: bytes) -> None:
        data = self._end + block
        self.absent = {text: wanted for text, wanted in self.absent.items() if wanted not in data}
        self._end = data[max(0, len(data) - self._overlap) :]
        self._lines.feed(block)

    def text(self) -> str:
        """What a person reads: without the lines that only name tests that passed, where Ralph asked for them."""
        self._lines.close()
        return self._kept.text()

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        if not self.tests.feed(text.replace(self._root, ".")):
            self._kept.feed(line + b"\n")


def _folder(place: Place, working_dir: str) -> Path:
    """The folder as the process sees it. Raises ValueError for one outside of the repository."""
    real = Path(os.path.realpath(place.folder))
    wanted = os.path.normpath(os.path.join(real, working_dir))  # noqa: PTH118 - resolve() raises on loops
    reached = Path(os.path.realpath(wanted))
    if not reached.is_relative_to(real):
        raise ValueError("it leads out of the repository")
    return place.inside / reached.relative_to(real)


def quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")
