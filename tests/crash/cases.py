"""The points where a run touches the disk, as cases of tests, and what every test asks of a run that was disturbed."""

import errno
import re
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from rulebook_ralph.errors import ExitCode
from tests.crash.parallel import Ending as WorkersEnding
from tests.crash.points import Mode
from tests.crash.scenario import Ending, Scenario
from tests.harness import Ran

Case = TypeVar("Case")
SomeEnding = TypeVar("SomeEnding", Ending, WorkersEnding)
_FILES = ("create", "write", "append", "truncate", "rename", "link", "fsync", "remove", "mkdir", "chmod")
_ONE_LINE = re.compile(r"error: \S.*[;:] \S.*\n")


@dataclass(frozen=True)
class Points:
    """How many of each kind a run has, at the most."""

    most: Mapping[str, int]

    def all_of(self, *kinds: str) -> list[tuple[str, int]]:
        return [(kind, number) for kind in kinds for number in range(1, self.most[kind] + 1)]

    @property
    def killed(self) -> list[tuple[str, int]]:
        return self.all_of(*(kind for kind in self.most if kind != "git read"))

    @property
    def power_cuts(self) -> list[tuple[Mode, str, int]]:
        modes: tuple[Mode, ...] = ("lost", "torn")
        return [(mode, *point) for mode in modes for point in self.killed]

    @property
    def failing(self) -> list[tuple[int, str, int]]:
        """With the number of the error."""
        files = self.all_of(*_FILES)
        failing = [(errno.EIO, *point) for point in [*self.all_of("git", "git read"), *files]]
        return failing + [(errno.EACCES, *point) for point in files]

    @property
    def full(self) -> list[tuple[str, int]]:
        return self.all_of("create", "write", "append", "mkdir", "git")

    def run_undisturbed(self, scenario: Scenario) -> Ran:
        """Nothing happens to it; fails where it has more points."""
        listing = scenario.project.beside / "points"
        ran = scenario.ralph("run", plan=scenario.plan("record", listing=str(listing)))
        found = Counter(line.partition("\t")[0] for line in listing.read_text().splitlines())
        assert {kind: count for kind, count in found.items() if count > self.most[kind]} == {}, "raise POINTS"
        return ran


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """As many of them, far from each other and from both ends."""
    return [cases[(2 * index + 1) * len(cases) // (2 * count)] for index in range(count)]


def require_died(ran: Ran) -> None:
    """The run was killed, or had ended before, where it has fewer points than others."""
    assert ran.code == -signal.SIGKILL or (ran.code, ran.err) == (ExitCode.BLOCKED, ""), (ran.code, ran.err)


def require_told(scenario: Scenario, ran: Ran) -> None:
    """The run ended by itself: undisturbed after all, or with one line that says where and what to do; and so was a
    command from beside it refused, if it was.
    """
    refused = scenario.project.beside / "refused"
    if refused.exists():
        assert str(scenario.project.root) in refused.read_text()
    if ran.code == ExitCode.BLOCKED:
        assert ran.err == ""
        return
    assert ran.code in (ExitCode.UNEXPECTED, ExitCode.INVALID), (ran.code, ran.err, ran.out)
    assert "unexpected error" not in ran.err
    assert _ONE_LINE.fullmatch(ran.err), ran.err
    assert str(scenario.project.root.parent) in ran.err  # or the folder for temporary files, beside it


def require_same(ending: SomeEnding, undisturbed: SomeEnding, ran: Ran) -> None:
    """The end that this run came to is the one of a run to which nothing happened."""
    for field in fields(undisturbed):
        assert getattr(ending, field.name) == getattr(undisturbed, field.name), (field.name, ran.out, ran.err)
