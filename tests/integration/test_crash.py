"""Nothing is lost: Ralph dies, or a call fails, or the power is cut, at every point where it touches the disk."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.cases import Points, require_died, require_same, require_told, spread
from tests.crash.points import Mode
from tests.crash.scenario import Ending, Scenario, Zygote, make_scenario
from tests.harness import Ran

POINTS = Points(
    {
        "create": 216,
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
        "git read": 124,
        "process": 13,
    }
)


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Ending:
    scenario = make_scenario(tmp_path_factory.mktemp("undisturbed"), zygote)
    ran = POINTS.run_undisturbed(scenario)
    scenario.check()
    return scenario.ending(ran.code)


@pytest.fixture
def scenario(tmp_path: Path, zygote: Zygote) -> Scenario:
    return make_scenario(tmp_path, zygote)


def require_same_end(scenario: Scenario, undisturbed: Ending, ran: Ran, *, died: bool = True) -> None:
    assert "Traceback" not in ran.err, ran.err
    scenario.check(folders=died)
    require_same(scenario.ending(ran.code), undisturbed, ran)


def test_killed(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan("kill", kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


def test_killed_with_git(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan("locks", kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


def test_power_cut(scenario: Scenario, undisturbed: Ending, mode: Mode, kind: str, number: int) -> None:
    require_died(scenario.ralph("run", plan=scenario.plan(mode, kind, number)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"))


def test_call_fails(scenario: Scenario, undisturbed: Ending, code: int, kind: str, number: int) -> None:
    require_told(scenario, scenario.ralph("run", plan=scenario.plan("fails", kind, number, errno=code)))
    require_same_end(scenario, undisturbed, scenario.ralph("resume"), died=False)


def test_disk_is_full(scenario: Scenario, undisturbed: Ending, kind: str, number: int) -> None:
    require_told(scenario, scenario.ralph("run", plan=scenario.plan("full", kind, number)))
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
    "test_killed": (("kind", "number"), POINTS.killed, spread(POINTS.killed, 2)),
    "test_killed_with_git": (("kind", "number"), POINTS.all_of("git"), [("git", 25)]),
    "test_power_cut": (("mode", "kind", "number"), POINTS.power_cuts, spread(POINTS.power_cuts, 2)),
    "test_call_fails": (("code", "kind", "number"), POINTS.failing, spread(POINTS.failing, 2)),
    "test_disk_is_full": (("kind", "number"), POINTS.full, [("write", 45)]),
    "test_killed_at_any_moment": (("seed",), [(seed,) for seed in range(500)], [(7,)]),
}
"""Test -> its arguments, all cases, and those that run always: thousands that are skipped would take seconds."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function.__name__ in CASES:
        names, everything, always = CASES[metafunc.function.__name__]
        metafunc.parametrize(names, everything if metafunc.config.getoption("--thorough") else always)
