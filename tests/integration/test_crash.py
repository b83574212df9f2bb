"""Nothing is lost: Ralph dies, or a call fails, or the power is cut, at every point where it touches the disk."""

import errno
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from rulebook_ralph.errors import ExitCode
from tests.crash.points import Mode
from tests.crash.scenario import Ending, Scenario, Zygote, make_scenario
from tests.harness import Ran

Case = TypeVar("Case")
POINTS = {
    "create": 180,
    "write": 110,
    "append": 6,
    "truncate": 2,
    "rename": 60,
    "link": 24,
    "fsync": 160,
    "remove": 68,
    "mkdir": 36,
    "chmod": 28,
    "git": 68,
    "git end": 68,
    "git read": 100,
    "process": 13,
}
"""As many as a run has, at the most."""


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Ending:
    scenario = make_scenario(tmp_path_factory.mktemp("undisturbed"), zygote)
    listing = scenario.project.beside / "points"
    ran = scenario.ralph("run", plan=scenario.plan("record", listing=str(listing)))
    scenario.check()
    found = Counter(line.partition("\t")[0] for line in listing.read_text().splitlines())
    assert {kind: count for kind, count in found.items() if count > POINTS[kind]} == {}, "raise POINTS"
    return scenario.ending(ran.code)


@pytest.fixture
def scenario(tmp_path: Path, zygote: Zygote) -> Scenario:
    return make_scenario(tmp_path, zygote)


def all_of(*kinds: str) -> list[tuple[str, int]]:
    return [(kind, number) for kind in kinds for number in range(1, POINTS[kind] + 1)]


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """As many of them, far from each other and from both ends."""
    return [cases[(2 * index + 1) * len(cases) // (2 * count)] for index in range(count)]


def require_same_end(scenario: Scenario, undisturbed: Ending, ran: Ran, *, died: bool = True) -> None:
    assert "Traceback" not in ran.err, ran.err
    scenario.check(folders=died)
    ending = scenario.ending(ran.code)
    for name in Ending.__dataclass_fields__:
        assert getattr(ending, name) == getattr(undisturbed, name), (name, ran.out, ran.err)


def require_died(ran: Ran) -> None:
    """The run was killed, or had ended before, where it has fewer points than others."""
    assert ran.code == -signal.SIGKILL or (ran.code, ran.err) == (ExitCode.BLOCKED, ""), (ran.code, ran.err)


KILLED = all_of(*(kind for kind in POINTS if kind != "git read"))


def test_killed(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan("kill", kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


def test_killed_with_git(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan("locks", kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


POWER_CUTS: list[tuple[Mode, str, int]] = [(mode, *point) for mode in ("lost", "torn") for point in KILLED]


def test_power_cut(scenario: Scenario, undisturbed: Ending, mode: Mode, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan(mode, kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


FILES = all_of("create", "write", "append", "truncate", "rename", "link", "fsync", "remove", "mkdir", "chmod")
FAILING = [(errno.EIO, *point) for point in [*all_of("git", "git read"), *FILES]]
FAILING += [(errno.EACCES, *point) for point in FILES]
FULL = all_of("create", "write", "append", "mkdir", "git")
ONE_LINE = re.compile(r"error: \S.*[;:] \S.*\n")


def test_call_fails(scenario: Scenario, undisturbed: Ending, code: int, kind: str, number: int) -> None:
    require_told(scenario, scenario.ralph("run", plan=scenario.plan("fails", kind, number, errno=code)), undisturbed)
    require_same_end(scenario, undisturbed, scenario.ralph("resume"), died=False)


def test_disk_is_full(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_told(scenario, scenario.ralph("run", plan=scenario.plan("full", kind, number)), undisturbed)
    require_same_end(scenario, undisturbed, scenario.ralph("resume"), died=False)


def test_killed_at_any_moment(scenario: Scenario, undisturbed: Ending, seed: int) -> None:
    """While real agents and git work; Ralph alone, whose agent goes on, or all of them; twice."""
    chance = random.Random(seed)
    for command in ("run", "resume"):
        scenario.start(command)
        time.sleep(chance.uniform(0, 1.2))
        scenario.kill(household=chance.random() < 0.5)
        scenario.finish()
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


def require_told(scenario: Scenario, ran: Ran, undisturbed: Ending) -> None:
    """The run ended by itself: undisturbed after all, or with one line that says where and what to do."""
    refused = scenario.project.beside / "refused"
    if refused.exists():
        assert str(scenario.project.root) in refused.read_text()
    if ran.code == undisturbed.code:
        assert ran.err == ""
        return
    assert ran.code in (1, 2), (ran.code, ran.err, ran.out)
    assert "unexpected error" not in ran.err
    assert ONE_LINE.fullmatch(ran.err), ran.err
    assert str(scenario.project.root.parent) in ran.err  # or the folder for temporary files, beside it


def test_killed_and_the_git_folder_cleaned_by_hand(scenario: Scenario, undisturbed: Ending) -> None:
    """Without what the dead run kept, ignored files are still nobody's work: neither committed nor rolled back."""
    agent = 3
    require_died(scenario.ralph("run", plan=scenario.plan("kill", "process", agent)))
    project = scenario.project
    for path in (project.root / ".git/ralph").glob("opening-*"):
        path.unlink()
    scenario.ralph("resume")
    assert all("built.o" not in project.tree(commit) for commit in project.snapshots().values())
    assert (project.root / "built.o").read_bytes() == undisturbed.files["built.o"]


CASES: dict[str, tuple[tuple[str, ...], Sequence[object], Sequence[object]]] = {
    "test_killed": (("kind", "number"), KILLED, spread(KILLED, 2)),
    "test_killed_with_git": (("kind", "number"), all_of("git"), [("git", 25)]),
    "test_power_cut": (("mode", "kind", "number"), POWER_CUTS, spread(POWER_CUTS, 2)),
    "test_call_fails": (("code", "kind", "number"), FAILING, spread(FAILING, 2)),
    "test_disk_is_full": (("kind", "number"), FULL, [("write", 45)]),
    "test_killed_at_any_moment": (("seed",), [(seed,) for seed in range(500)], [(7,)]),
}
"""Test -> its arguments, all cases, and those that run always: thousands that are skipped would take seconds."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function.__name__ in CASES:
        names, everything, always = CASES[metafunc.function.__name__]
        metafunc.parametrize(names, everything if metafunc.config.getoption("--thorough") else always)
