"""Commands that change much at once, killed at every point where they touch the disk: given again they do the rest."""

import shutil
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.crash.scenario import Ending, Scenario, Zygote
from tests.harness import Project, make_project, task

AGENT = (
    'case "$RALPH_TASK" in\n'
    "two) echo half > two.txt; echo half > app.txt; rm -rf docs; mkdir -p new/deep; echo x > new/deep/er ;;\n"
    '*) echo w > "$RALPH_TASK.txt"; echo "<promise>$RALPH_PROMISE</promise>" ;;\n'
    "esac\n"
)
COMMANDS = {
    "run": ("run", "--task", "three", "--trust-commands"),
    "prune": ("prune", "--keep", "1", "--yes"),
    "undo": ("restore", "2", "--undo"),
    "restore": ("restore", "2"),
}
_FEW = {"create": 5, "write": 7, "rename": 2, "fsync": 9, "remove": 7, "chmod": 3, "git": 20, "git end": 20}
_OF_RUN = {"create": 42, "write": 28, "rename": 12, "link": 5, "fsync": 34, "remove": 17, "git": 31, "git end": 31}
EVERYWHERE = [
    (name, kind, nth)
    for name in COMMANDS
    for kind, most in (_OF_RUN if name == "run" else _FEW).items()
    for nth in range(1, most + 1)
]
ALWAYS = [("run", "remove", 4), ("undo", "remove", 5), ("prune", "git", 3)]


@dataclass(frozen=True, slots=True)
class End:
    """What must be the same."""

    ending: Ending
    snapshots: list[int]
    saved: str


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Work of two stands in the tree, unfinished; three is still to be done."""
    folder = tmp_path_factory.mktemp("made")
    tasks = [task(name) for name in ("one", "two", "three")]
    project = make_project(folder, agent=AGENT, tasks=tasks, attempts=5)
    assert project.ralph("run", "--max-iterations", "2").code == 4
    for name in ("tmp", "scratch"):
        (project.beside / name).mkdir()
    return folder


def copied(original: Path, folder: Path, zygote: Zygote, name: str) -> Scenario:
    shutil.copytree(original, folder, symlinks=True, dirs_exist_ok=True)
    project = Project(folder / "toy", folder / "beside")
    project.agent(AGENT)
    project.configure(attempts=5)
    if name == "restore":
        assert project.ralph(*COMMANDS["undo"]).code == 0
    return Scenario(project, zygote, project.refs())


def end(scenario: Scenario, code: int) -> End:
    project = scenario.project
    assert {record.phase for record in project.records} == {"settled"}
    assert project.ralph("validate").code == 0
    private = project.root / ".git/ralph"
    assert [path.name for path in private.iterdir() if path.name.startswith(("leaving", "prune-index"))] == []
    saved = project.git("ls-tree", "-r", "--name-only", "refs/ralph/toy/state")
    finished = [record.iteration_number for record in project.records if record.completion_status != "interrupted"]
    snapshots = [number for number in sorted(project.snapshots()) if number <= 2 or number in finished]
    return End(scenario.ending(code), snapshots[:2], saved if len(project.records) == 1 else "")


@pytest.fixture(scope="module")
def undisturbed(original: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], End]:
    @cache
    def ended(name: str) -> End:
        scenario = copied(original, tmp_path_factory.mktemp(name), zygote, name)
        listing = scenario.project.beside / "points"
        ran = scenario.ralph(*COMMANDS[name], plan=scenario.plan("record", listing=str(listing)))
        assert ran.code == 0, ran.err
        found = Counter(line.partition("\t")[0] for line in listing.read_text().splitlines())
        assert {kind for kind, most in (_OF_RUN if name == "run" else _FEW).items() if found[kind] > most} == set()
        return end(scenario, ran.code)

    return ended


def test_given_again_it_does_the_rest(
    original: Path, undisturbed: Callable[[str], End], zygote: Zygote, tmp_path: Path, name: str, kind: str, nth: int
) -> None:
    scenario = copied(original, tmp_path, zygote, name)
    ran = scenario.ralph(*COMMANDS[name], plan=scenario.plan("kill", kind, nth))
    if ran.code == -signal.SIGKILL:
        ran = scenario.ralph(*COMMANDS[name])
    assert "Traceback" not in ran.err
    was_done = name == "undo" and "does not stand in the tree" in ran.err
    assert ran.code == 0 or was_done, ran.err + ran.out
    assert end(scenario, 0) == undisturbed(name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "nth" in metafunc.fixturenames:  # as in test_crash.py: many that are skipped would take seconds
        thorough = metafunc.config.getoption("--thorough")
        metafunc.parametrize(("name", "kind", "nth"), EVERYWHERE if thorough else ALWAYS)
