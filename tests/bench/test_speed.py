"""How fast Ralph is. Prints figures beside what the project aims at, and never fails on time: run with `-s`."""

import io
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rulebook_ralph import cli
from rulebook_ralph.app import App
from rulebook_ralph.clock import Clock
from tests.bench.projects import add_history, make_project, make_repository, ralph, shell_loop
from tests.bench.stopwatch import Stopwatch, watching

ITERATIONS = 20


def say(what: str, measured: str, aim: str) -> None:
    sys.stdout.write(f"\n{what}: {measured} (aim: {aim})\n")


def run_here(root: Path, *arguments: str) -> int:
    app = App(
        environment=dict(os.environ),
        cwd=root,
        home=Path(os.environ["HOME"]),
        stdout=io.StringIO(),
        stderr=sys.stderr,
        clock=Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic),
    )
    return cli.run(app, arguments)


@pytest.mark.parametrize(("tasks", "before", "aim"), [(10, 0, 10), (10_000, 0, 120), (10_000, 10_000, 120)])
def test_own_time_of_an_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, before: int, aim: int
) -> None:
    """From one agent's start to the next, less the agent, the gates, git and fsync; with so many iterations before."""
    make_project(tmp_path / "p", tasks=tasks)
    if before:
        assert run_here(tmp_path / "p", "run", "--quiet", "--max-iterations", "1") == 4
        add_history(tmp_path / "p", before)
    with watching(monkeypatch) as watch:
        assert run_here(tmp_path / "p", "run", "--quiet", "--max-iterations", str(min(ITERATIONS, tasks))) in (0, 4)
    own = own_times(watch)
    shares = ", ".join(f"{kind} {seconds * 1000 / len(own):.1f} ms" for kind, seconds in sorted(watch.seconds.items()))
    say(
        f"own time per iteration, {tasks} tasks, {before} iterations before",
        f"median {statistics.median(own):.1f} ms; {shares}",
        f"{aim} ms",
    )


def own_times(watch: Stopwatch) -> list[float]:
    """Milliseconds between every second start (agent, gate, agent, …) that nothing else accounts for."""
    agents = watch.starts[1::2]
    return [
        1000 * ((later - sooner) - (used_later - used_sooner))
        for (sooner, used_sooner), (later, used_later) in itertools.pairwise(agents)
    ]


def test_a_run_against_a_shell_loop(tmp_path: Path) -> None:
    """Twenty iterations of a 200 ms agent, a gate and a commit."""
    ratios = []
    for attempt in range(3):
        make_project(tmp_path / f"ralph-{attempt}", tasks=ITERATIONS, seconds=0.2)
        make_repository(tmp_path / f"shell-{attempt}")
        ours = timed(lambda number=attempt: run_ralph(tmp_path / f"ralph-{number}"))  # type: ignore[misc]
        bare = timed(
            lambda number=attempt: shell_loop(tmp_path / f"shell-{number}", iterations=ITERATIONS, seconds=0.2)  # type: ignore[misc]
        )
        ratios.append(ours / bare)
    say("20 iterations against a shell loop", f"median {statistics.median(ratios):.2f} times", "1.4, better 1.25")


@pytest.mark.parametrize(("tasks", "iterations", "aim"), [(200, 1_000, 8), (10_000, 10_000, 12)])
def test_cpu_of_status(tmp_path: Path, tasks: int, iterations: int, aim: int) -> None:
    root = tmp_path / "p"
    make_project(root, tasks=tasks, completed=tasks // 2)
    subprocess.run([*ralph(), "run", "-q", "--max-iterations", "1"], cwd=root, check=False, capture_output=True)
    add_history(root, iterations)
    status = statistics.median(cpu_of([*ralph(), "status"], root) for _ in range(7))
    bare = statistics.median(cpu_of([sys.executable, "-c", "0"], root) for _ in range(7))
    say(f"CPU of status, {tasks} tasks, {iterations} iterations", f"{status / bare:.1f} times", f"{aim} times")


def test_memory_while_an_agent_prints_a_gigabyte(tmp_path: Path) -> None:
    root = tmp_path / "p"
    make_project(root, tasks=1)
    config = root / ".rulebook-ralph" / "config.yaml"
    config.write_text(
        config.read_text().replace("cat >/dev/null;", "cat >/dev/null; head -c 1000000000 /dev/zero; echo;")
    )
    peak = "next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]"
    run = "import sys\nfrom rulebook_ralph import cli\ntry:\n    cli.main()\nfinally:\n"
    code = f"{run}    print({peak}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "-q"], cwd=root, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    say("memory while an agent prints 1 GB", f"{int(done.stderr.split()[-1]) / 1024:.0f} MB", "100 MB")


def run_ralph(root: Path) -> None:
    done = subprocess.run([*ralph(), "run", "-q"], cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def timed(function: Callable[[], None]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def cpu_of(argv: list[str], root: Path) -> float:
    """CPU seconds, own and of its children, of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=root, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
