"""Nothing is lost: Ralph dies, or a call fails, or the power is cut, at every point where it touches the disk."""

import random
import time
from collections.abc import Iterator, Sequence

import pytest

from tests.crash.cases import Points, require_died, require_same, require_told, spread
from tests.crash.points import Mode
from tests.crash.scenario import Ending, Scenario, Zygote, make_scenario
from tests.harness import Ran

WORKERS = (1, 3)
POINTS = Points(
    {
        "git": 80,
        "git end": 80,
        "git read": 60,
        "process": 16,
        "create": 56,
        "write": 56,
        "append": 6,
        "fsync": 90,
        "rename": 32,
        "link": 16,
        "remove": 40,
        "mkdir": 12,
        "chmod": 4,
        "object create": 120,
        "object write": 120,
        "object fsync": 120,
        "object rename": 120,
        "object mkdir": 100,
        "object chmod": 100,
        "aside create": 130,
        "aside write": 120,
        "aside mkdir": 150,
        "aside remove": 18,
        "aside chmod": 16,
        "aside fsync": 4,
        "aside rename": 2,
        "aside link": 2,
    }
)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    started = Zygote()
    yield started
    started.end()


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Ending]:
    """For each number of workers."""
    endings = {}
    for workers in WORKERS:
        scenario = make_scenario(tmp_path_factory.mktemp("undisturbed"), zygote, workers=workers)
        ran = POINTS.run_undisturbed(scenario)
        scenario.check()
        endings[workers] = scenario.ending(ran.code)
    return endings


class Crash:
    """A project that is disturbed, and then resumed."""

    def __init__(self, scenario: Scenario, undisturbed: Ending) -> None:
        self.scenario = scenario
        self.undisturbed = undisturbed

    def run(self, mode: Mode, kind: str, number: int, **more: int) -> Ran:
        return self.scenario.ralph("run", plan=self.scenario.plan(mode, kind, number, **more))

    def require_same_end(self, *, died: bool = True, cut: bool = False) -> None:
        ran = self.scenario.ralph("resume")
        assert "Traceback" not in ran.err, ran.err
        require_same(self.scenario.ending(ran.code), self.undisturbed, ran)
        self.scenario.check(folders=died, cut=cut)


@pytest.fixture
def crash(
    tmp_path_factory: pytest.TempPathFactory, zygote: Zygote, undisturbed: dict[int, Ending], workers: int
) -> Crash:
    return Crash(make_scenario(tmp_path_factory.mktemp("crash"), zygote, workers=workers), undisturbed[workers])


def test_killed(crash: Crash, kind: str, number: int) -> None:
    require_died(crash.run("kill", kind, number))
    crash.require_same_end()


def test_killed_with_git(crash: Crash, kind: str, number: int) -> None:
    require_died(crash.run("locks", kind, number))
    crash.require_same_end()


def test_power_cut(crash: Crash, mode: Mode, kind: str, number: int) -> None:
    require_died(crash.run(mode, kind, number))
    crash.require_same_end(cut=True)


def test_call_fails(crash: Crash, code: int, kind: str, number: int) -> None:
    require_told(crash.scenario, crash.run("fails", kind, number, errno=code))
    crash.require_same_end(died=False)


def test_disk_is_full(crash: Crash, kind: str, number: int) -> None:
    require_told(crash.scenario, crash.run("full", kind, number))
    crash.require_same_end(died=False)


def test_killed_at_any_moment(crash: Crash, seed: int) -> None:
    """While real agents and git work; Ralph alone, or with all that it started; twice."""
    chance = random.Random(seed)
    for command in ("run", "resume"):
        crash.scenario.start(command)
        time.sleep(chance.uniform(0, 1.2))
        crash.scenario.kill(whole_tree=chance.random() < 0.5)
        crash.scenario.finish()
    crash.require_same_end()


def _cases() -> dict[str, tuple[tuple[str, ...], Sequence[tuple[object, ...]], int]]:
    """Test -> its arguments, all cases, and how many of them run always."""
    changing = POINTS.changing
    cut = [(mode, *point) for mode in ("lost", "torn") for point in changing[::3]]
    return {
        "test_killed": (("kind", "number"), changing, 4),
        "test_killed_with_git": (("kind", "number"), POINTS.all_of("git"), 1),
        "test_power_cut": (("mode", "kind", "number"), cut, 3),
        "test_call_fails": (("code", "kind", "number"), POINTS.failing, 3),
        "test_disk_is_full": (("kind", "number"), POINTS.full[::3], 1),
        "test_killed_at_any_moment": (("seed",), [(seed,) for seed in range(100)], 1),
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each case has one worker or three, in turn; thousands that are skipped would take seconds."""
    if (found := _cases().get(metafunc.function.__name__)) is not None:
        names, everything, always = found
        chosen = everything if metafunc.config.getoption("--thorough") else spread(everything, always)
        with_workers = [(WORKERS[index % len(WORKERS)], *case) for index, case in enumerate(chosen)]
        metafunc.parametrize(("workers", *names), with_workers)
