"""The points where a run touches the disk, as cases of tests, and what every test asks of a run that was disturbed."""

import errno
import re
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

from rulebook_ralph.errors import ExitCode
from tests.crash.points import NEEDING_ROOM
from tests.crash.scenario import Ending, Scenario
from tests.harness import Ran

Case = TypeVar("Case")
Point = tuple[str, int]
_ONE_LINE = re.compile(r"error: \S.*[;:] \S.*\n")


@dataclass(frozen=True)
class Points:
    """How many of each kind a run has, at the most."""

    most: Mapping[str, int]

    def all_of(self, *kinds: str) -> list[Point]:
        return [(kind, number) for kind in kinds for number in range(1, self.most[kind] + 1)]

    @property
    def changing(self) -> list[Point]:
        """Where something changes in the repository, each; and every tenth among its objects and in the clones."""
        many = [kind for kind in self.most if kind.startswith(("aside ", "object "))]
        return self.all_of(*(kind for kind in self.most if kind not in ("git read", *many))) + self.all_of(*many)[::10]

    @property
    def failing(self) -> list[tuple[int, str, int]]:
        """With the number of the error."""
        files = [point for point in self.changing if not point[0].startswith(("git", "process"))]
        commands = [*self.all_of("git"), *self.all_of("git read")[::4]]
        return [
            *((errno.EIO, *point) for point in commands + files[::2]),
            *((errno.EACCES, *point) for point in files[1::6]),
        ]

    @property
    def full(self) -> list[Point]:
        return [point for point in self.changing if point[0].rpartition(" ")[2] in NEEDING_ROOM]

    def run_undisturbed(self, scenario: Scenario) -> Ran:
        """Nothing happens to it; fails where it has more points."""
        listing = scenario.project.beside / "points"
        ran = scenario.ralph("run", plan=scenario.plan("record", listing=str(listing)))
        assert ran.code == ExitCode.OK, ran.out + ran.err
        found = Counter(line.partition("\t")[0] for line in listing.read_text().splitlines())
        beyond = {kind: count for kind, count in found.items() if count > self.most.get(kind, 0)}
        assert not any(kind for kind in beyond if not kind.startswith("aside ")), f"raise POINTS: {beyond}, {found}"
        return ran


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """As many of them, far from each other and from both ends."""
    return [cases[(2 * index + 1) * len(cases) // (2 * count)] for index in range(count)]


def require_died(ran: Ran) -> None:
    """The run was killed, or had ended before, where it has fewer points than others."""
    assert ran.code == -signal.SIGKILL or (ran.code, ran.err) == (ExitCode.OK, ""), (ran.code, ran.err)


def require_told(scenario: Scenario, ran: Ran) -> None:
    """The run ended by itself: undisturbed after all, or with one line that says where and what to do."""
    if ran.code == ExitCode.OK:
        assert ran.err == ""
        return
    if ran.code == ExitCode.AGENT:  # the fault met an agent or a judgement: it is told in the run's own words
        assert "stopped by an error" in ran.out
        return
    assert ran.code in (ExitCode.UNEXPECTED, ExitCode.INVALID), (ran.code, ran.err, ran.out)
    assert "unexpected error" not in ran.err, ran.err
    assert _ONE_LINE.fullmatch(ran.err), ran.err
    assert str(scenario.project.root.parent) in ran.err, ran.err  # or the folder for temporary files, beside it


def require_same(ending: Ending, undisturbed: Ending, ran: Ran) -> None:
    """The end that this run came to is the one of a run to which nothing happened."""
    for field in fields(undisturbed):
        found, wanted = getattr(ending, field.name), getattr(undisturbed, field.name)
        assert found == wanted, f"{field.name}: {found} instead of {wanted}\n{ran.out}\n{ran.err}"
