"""Nothing is lost with three workers either: Ralph dies, a call fails, or the power is cut, wherever it touches the disk.

The order of calls is another in each run, so a point's number is no more than some moment of that kind.
"""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from rulebook_ralph.errors import ExitCode
from tests.crash.cases import Points, require_died, require_same, require_told, spread
from tests.crash.parallel import Ending, Workers, make_workers
from tests.crash.points import Mode
from tests.crash.scenario import Zygote
from tests.harness import Ran

POINTS = Points(
    {
        "create": 480,
        "write": 370,
        "append": 9,
        "truncate": 2,
        "rename": 90,
        "link": 26,
        "fsync": 185,
        "remove": 225,
        "mkdir": 275,
        "chmod": 60,
        "git": 275,
        "git end": 275,
        "git read": 300,
        "process": 21,
    }
)
SEVERAL_AT_WORK = 7
"""The process at whose start several agents have begun."""


@pytest.fixture(scope="module")
def undisturbed(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Ending:
    workers = make_workers(tmp_path_factory.mktemp("undisturbed"), zygote)
    ran = POINTS.run_undisturbed(workers)
    workers.check_end()
    return workers.end(ran.code)


@pytest.fixture
def workers(tmp_path: Path, zygote: Zygote) -> Workers:
    return make_workers(tmp_path, zygote)


def require_same_end(workers: Workers, undisturbed: Ending, ran: Ran, *, died: bool = True) -> None:
    assert "Traceback" not in ran.err, ran.err
    assert ran.code == ExitCode.BLOCKED, (ran.code, ran.err, ran.out)
    workers.check_end(folders=died)
    require_same(workers.end(ran.code), undisturbed, ran)


def test_killed(workers: Workers, undisturbed: Ending, kind: str, number: int) -> None:
    """Every other time with its agents; else they go on, until `resume` ends them."""
    require_died(workers.ralph("run", plan=workers.plan("kill", kind, number, household=number % 2 == 0)))
    require_same_end(workers, undisturbed, workers.ralph("resume"))


@pytest.mark.thorough
def test_killed_with_git(workers: Workers, undisturbed: Ending, kind: str, number: int) -> None:
    require_died(workers.ralph("run", plan=workers.plan("locks", kind, number)))
    require_same_end(workers, undisturbed, workers.ralph("resume"))


@pytest.mark.thorough
def test_killed_in_resume(workers: Workers, undisturbed: Ending, kind: str, number: int) -> None:
    """A run that died with several at work; then `resume`, at any point up to its second agent, or beyond."""
    agent = 8 + number % 8
    require_died(workers.ralph("run", plan=workers.plan("kill", "process", agent, household=number % 2 == 0)))
    require_died(workers.ralph("resume", plan=workers.plan("kill", kind, number, household=number % 3 == 0)))
    require_same_end(workers, undisturbed, workers.ralph("resume"))


def test_power_cut(workers: Workers, undisturbed: Ending, mode: Mode, kind: str, number: int) -> None:
    require_died(workers.ralph("run", plan=workers.plan(mode, kind, number)))
    workers.start_machine_anew()
    require_same_end(workers, undisturbed, workers.ralph("resume"))


def test_call_fails(workers: Workers, undisturbed: Ending, code: int, kind: str, number: int) -> None:
    require_told(workers, workers.ralph("run", plan=workers.plan("fails", kind, number, errno=code)))
    require_same_end(workers, undisturbed, workers.ralph("resume"), died=False)


@pytest.mark.thorough
def test_disk_is_full(workers: Workers, undisturbed: Ending, kind: str, number: int) -> None:
    require_told(workers, workers.ralph("run", plan=workers.plan("full", kind, number)))
    require_same_end(workers, undisturbed, workers.ralph("resume"), died=False)


@pytest.mark.thorough
def test_killed_at_any_moment(workers: Workers, undisturbed: Ending, seed: int) -> None:
    """While real agents and git work; Ralph alone, whose agents go on, or all of them; twice."""
    chance = random.Random(seed)
    for command in ("run", "resume"):
        workers.start(command)
        time.sleep(chance.uniform(0.2, 2.5))
        workers.kill(household=chance.random() < 0.5)
        workers.finish()
    require_same_end(workers, undisturbed, workers.ralph("resume"))


@pytest.mark.thorough
def test_edits_after_a_death_are_a_persons(workers: Workers) -> None:
    """Agents were out of reach of the state folder, so nobody but a person wrote to it."""
    project = workers.project
    require_died(workers.ralph("run", plan=workers.plan("kill", "process", SEVERAL_AT_WORK)))
    assert sum(record.phase == "executing" for record in project.records) > 1
    prd = project.folder.prd.read_text().replace("Do after", "Do it afterwards")
    project.folder.prd.write_text(prd)
    config = project.folder.config.read_text() + "\n# mine\n"
    project.folder.config.write_text(config)
    ran = workers.ralph("resume")
    assert (ran.code, ran.err) == (ExitCode.BLOCKED, ""), ran.out
    workers.check_end()
    assert "Do it afterwards" in project.subjects()
    assert project.folder.config.read_text() == config
    assert not (project.root / ".git/ralph/held").exists()


@pytest.mark.thorough
def test_goes_on_in_the_tree(workers: Workers, undisturbed: Ending) -> None:
    """What three workers left is brought to its end by a run that works in place."""
    project = workers.project
    require_died(workers.ralph("run", plan=workers.plan("kill", "process", SEVERAL_AT_WORK, household=True)))
    (project.root / ".git/index.lock").unlink(missing_ok=True)  # a person does what git tells them
    project.git("reset", "-q", "--", "staged.txt")
    project.git("checkout", "-q", "mine.txt")
    config = project.folder.config.read_text().replace('"workers": 3', '"workers": 1')
    project.folder.config.write_text(config)
    ran = workers.ralph("resume")
    assert (ran.code, ran.err) == (ExitCode.BLOCKED, ""), ran.out
    ending = workers.end(ran.code)
    assert (ending.tasks, ending.changes) == (undisturbed.tasks, undisturbed.changes)
    assert project.status() == ["?? notes.txt", "?? staged.txt"]
    workers.check_whole()


CASES: dict[str, tuple[tuple[str, ...], Sequence[object]]] = {
    "test_killed": (("kind", "number"), POINTS.killed),
    "test_killed_with_git": (("kind", "number"), POINTS.all_of("git")),
    "test_killed_in_resume": (("kind", "number"), POINTS.killed),
    "test_power_cut": (("mode", "kind", "number"), POINTS.power_cuts),
    "test_call_fails": (("code", "kind", "number"), POINTS.failing),
    "test_disk_is_full": (("kind", "number"), POINTS.full),
    "test_killed_at_any_moment": (("seed",), [(seed,) for seed in range(200)]),
}
"""Test -> its arguments and all cases, of which one runs always, if any: it takes two seconds."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function.__name__ in CASES:
        names, everything = CASES[metafunc.function.__name__]
        metafunc.parametrize(names, everything if metafunc.config.getoption("--thorough") else spread(everything, 1))
