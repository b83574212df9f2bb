"""How a project with a long history and a long task list behaves. Prints figures beside the aims, and never fails on
time: run with `-s`. RALPH_BENCH_COUNT sets how many iterations and tasks there are.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench.projects import add_history, make_project, ralph
from tests.conftest import isolate

COUNT = int(os.environ.get("RALPH_BENCH_COUNT", "10000"))
"""Read here, as the tests' surroundings take RALPH_* out of the environment."""


def add_snapshots(root: Path, count: int) -> None:
    """A snapshot ref for each iteration, loose as a run leaves them."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout
    orders = "".join(
        f"update refs/ralph/bench/tasks/task-{number % 5000}/{number} {commit.strip()}\n"
        for number in range(2, count + 1)
    )
    subprocess.run(["git", "update-ref", "--stdin"], cwd=root, input=orders, text=True, check=True)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half of the tasks are completed. The agent says when it starts."""
    root = tmp_path_factory.mktemp("grown") / "p"
    home_of(root).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, home_of(root))
        grow(root)
    return root


def home_of(root: Path) -> Path:
    return root.parent / "home"


def grow(root: Path) -> None:
    make_project(root, tasks=COUNT, completed=COUNT // 2)
    config = root / ".rulebook-ralph" / "config.yaml"
    config.write_text(
        config.read_text().replace("cat >/dev/null;", f"date +%s.%N > {root.parent}/started; cat >/dev/null;")
    )
    subprocess.run([*ralph(), "run", "-q", "--max-iterations", "1"], cwd=root, check=False, capture_output=True)
    add_history(root, COUNT)
    add_snapshots(root, COUNT)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", "commit", "-qm", "a long history"], cwd=root, check=True)
    subprocess.run(
        [*ralph(), "trust", "--yes"], cwd=root, check=True, capture_output=True
    )  # it comes with a commit now


def seconds_of(root: Path, arguments: Sequence[str]) -> tuple[float, float]:
    """Wall clock and CPU of a command, those of its own processes included."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    at_home = {**os.environ, "HOME": str(home_of(root))}
    done = subprocess.run([*ralph(), *arguments], cwd=root, env=at_home, check=False, capture_output=True, text=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 4), done.stderr
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("command", ["run", "resume"])
def test_until_the_first_agent_starts(grown: Path, command: str) -> None:
    started = time.time()
    wall, cpu = seconds_of(grown, [command, "-q", "--max-iterations", "1"])
    until = float((grown.parent / "started").read_text()) - started
    say(
        f"{command}: until the first agent starts",
        f"{until:.2f} s (whole, with one iteration: {wall:.2f} s, CPU {cpu:.2f} s)",
        "1 s",
    )


@pytest.mark.parametrize(
    ("arguments", "aim"),
    [
        (["run", "--dry-run"], "1 s"),
        (["status"], "0.5 s"),
        (["history"], "0.5 s"),
        (["show", "5"], "0.5 s"),
        (["validate"], "some seconds"),
        (["prune", "--dry-run"], "2 s"),
        (["restore", "1", "--branch", "looked-at"], "1 s"),
        (["prune", "--keep", "100", "--yes"], "some seconds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_commands(grown: Path, arguments: list[str], aim: str) -> None:
    wall, cpu = seconds_of(grown, arguments)
    say(f"ralph {' '.join(arguments)}", f"{wall:.2f} s, CPU {cpu:.2f} s", aim)


def say(what: str, measured: str, aim: str) -> None:
    sys.stdout.write(f"\n{COUNT} iterations, {COUNT} tasks, {what}: {measured} (aim: {aim})\n")
