"""How fast Ralph is. Prints figures beside what the project aims at, and never fails on time: run with `-s`.

Whatever else the machine does is in the figures: look at them on a quiet one.
"""

import io
import itertools
import json
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

from rulebook_ralph.cli import main as cli
from rulebook_ralph.cli.app import App
from rulebook_ralph.clock import Clock
from tests.bench.projects import PROGRAM, add_history, git, make_project, make_repository, ralph, shell_loop
from tests.bench.stopwatch import Stopwatch, watching

ITERATIONS = 20
TASKS, WORKERS, SECONDS = 8, 4, 1.0
EACH_ITS_FILE = (
    'cat >/dev/null; sleep {seconds}; echo "$RALPH_TASK" > "$RALPH_TASK.txt"; echo "<promise>$RALPH_PROMISE</promise>"'
)
STOP = f"import sys; sys.argv[1:] = ['hook', 'stop', '--timeout', '1800']; {PROGRAM}"


def say(what: str, measured: str, aim: str) -> None:
    sys.stdout.write(f"\n{what}: {measured} (aim: {aim})\n")
    sys.stdout.flush()


def run_here(root: Path, *arguments: str) -> int:
    clock = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)
    app = App(dict(os.environ), root, Path(os.environ["HOME"]), io.StringIO(), sys.stderr, clock)
    return cli.run(app, ["run", "--quiet", *arguments])


def run_ralph(root: Path, *arguments: str) -> None:
    done = subprocess.run([*ralph(), "run", "-q", *arguments], cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


@pytest.mark.parametrize(("tasks", "before", "aim"), [(10, 0, 10), (1_000, 1_000, 60), (10_000, 10_000, 150)])
def test_own_time_of_an_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, before: int, aim: int
) -> None:
    """From one agent's start to the next, less the agent, the gates, git and fsync; with so many iterations before."""
    make_project(tmp_path / "p", tasks=tasks)
    if before:
        assert run_here(tmp_path / "p", "--max-iterations", "1") == 4
        add_history(tmp_path / "p", before)
    with watching(monkeypatch) as watch:
        assert run_here(tmp_path / "p", "--max-iterations", str(min(ITERATIONS, tasks))) in (0, 4)
    agents = sorted(begin for begin, _ in watch.spans["agent"])
    rounds = list(itertools.pairwise(agents))
    own = statistics.median(1000 * ((end - begin) - watch.within(begin, end)) for begin, end in rounds)
    cpu = statistics.median(1000 * (later - sooner) for sooner, later in itertools.pairwise(watch.cpu))
    say(
        f"own time of an iteration, {tasks:,} tasks, {before:,} iterations before",
        f"median {own:.1f} ms, CPU {cpu:.1f} ms; beside it {', '.join(shares(watch, rounds))}",
        f"{aim} ms",
    )


def shares(watch: Stopwatch, rounds: list[tuple[float, float]]) -> list[str]:
    """What else an iteration takes, by kind: the median, and how many calls."""
    told = []
    for kind, spans in sorted(watch.spans.items()):
        taken = statistics.median(1000 * watch.within(begin, end, kind) for begin, end in rounds)
        calls = statistics.median(sum(begin <= at < end for at, _ in spans) for begin, end in rounds)
        told.append(f"{kind} {taken:.0f} ms in {calls:.0f}")
    return told


def test_a_run_against_a_shell_loop(tmp_path: Path) -> None:
    """Twenty iterations of a 200 ms agent, a gate and a commit."""
    ratios, over = [], []
    for attempt in range(3):
        ours, bare = tmp_path / f"ralph-{attempt}", tmp_path / f"shell-{attempt}"
        make_project(ours, tasks=ITERATIONS, seconds=0.2)
        make_repository(bare)
        took = timed(lambda root=ours: run_ralph(root))  # type: ignore[misc]
        plainly = timed(lambda root=bare: shell_loop(root, iterations=ITERATIONS, seconds=0.2))  # type: ignore[misc]
        ratios.append(took / plainly)
        over.append(1000 * (took - plainly) / ITERATIONS)
    say(
        "20 iterations against a shell loop",
        f"median {statistics.median(ratios):.2f} times, {statistics.median(over):.0f} ms more an iteration",
        "1.25",
    )


def test_one_iteration_in_a_large_repository(tmp_path: Path) -> None:
    """A whole run, less its agent and gates; the clones are there, as after a first run."""
    root = tmp_path / "p"
    make_project(root, tasks=6, files=5_000)
    first = timed(lambda: run_some(root))
    taken = []
    for _ in range(5):
        whole = timed(lambda: run_some(root))
        record = json.loads(max((root / ".rulebook-ralph/history").iterdir(), key=_number).read_text())
        apart = record["durationMs"] + sum(each["durationMs"] for each in record["checks"])
        taken.append(whole - apart / 1000)
    say(
        "a run of one iteration, 5,000 files, beside agent and gates",
        f"median {statistics.median(taken):.2f} s; the first one, with its clones, {first:.2f} s",
        "1 s",
    )


def run_some(root: Path) -> None:
    done = subprocess.run([*ralph(), "run", "-q", "--max-iterations", "1"], cwd=root, check=False, capture_output=True)
    assert done.returncode in (0, 4), done.stdout + done.stderr


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


@pytest.mark.parametrize(("tasks", "iterations", "aim"), [(200, 1_000, 8), (10_000, 10_000, 12)])
def test_cpu_of_status(tmp_path: Path, tasks: int, iterations: int, aim: int) -> None:
    root = tmp_path / "p"
    make_project(root, tasks=tasks, completed=tasks // 2)
    run_some(root)
    add_history(root, iterations)
    status = statistics.median(cpu_of([*ralph(), "status"], root) for _ in range(9))
    bare = statistics.median(cpu_of([sys.executable, "-c", "0"], root) for _ in range(9))
    say(
        f"CPU of status, {tasks:,} tasks, {iterations:,} iterations",
        f"{status / bare:.1f} times the interpreter ({status * 1000:.0f} ms)",
        f"{aim} times",
    )


def cpu_of(argv: list[str], root: Path) -> float:
    """CPU seconds, own and of its children, of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, cwd=root, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(("gate", "aim"), [("", 0.35), ("sleep 0.1", 0.4)])
def test_tasks_at_once_against_one_after_the_other(tmp_path: Path, gate: str, aim: float) -> None:
    ratios = []
    for attempt in range(3):
        took = []
        for workers in (1, WORKERS):
            root = tmp_path / f"{attempt}-{workers}"
            make_project(root, tasks=TASKS, seconds=SECONDS, gate=gate, agent=EACH_ITS_FILE)
            took.append(timed(lambda at=root, many=workers: run_ralph(at, "--parallel", str(many))))  # type: ignore[misc]
            assert len(git(root, "ls-files", "task-*").split()) == TASKS
        ratios.append(took[1] / took[0])
    say(
        f"{TASKS} tasks of {SECONDS:.0f} s on {WORKERS} workers, {'a gate of 100 ms' if gate else 'no gate'}",
        f"median {statistics.median(ratios):.2f} of serial time ({min(ratios):.2f} to {max(ratios):.2f})",
        f"{aim}",
    )


def test_memory_while_an_agent_prints_a_gigabyte(tmp_path: Path) -> None:
    root = tmp_path / "p"
    make_project(root, tasks=1, agent=EACH_ITS_FILE.replace("sleep {seconds}", "head -c 1000000000 /dev/zero; echo"))
    peak = "next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]"
    code = PROGRAM.replace("main()", f"\ntry:\n    main()\nfinally:\n    print({peak}, file=sys.stderr)")
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "-q"], cwd=root, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    say("memory while an agent prints 1 GB", f"{int(done.stderr.split()[-1]) / 1024:.0f} MB", "100 MB")


def test_a_stop_with_nothing_to_do(tmp_path: Path) -> None:
    """What a Stop hook costs in a session in which no loop goes on."""
    root = tmp_path / "p"
    make_project(root, tasks=200)

    def seconds(code: str) -> float:
        given = b'{"session_id": "x"}'
        return timed(lambda: subprocess.run([sys.executable, "-c", code], cwd=root, input=given, check=True))

    stop = statistics.median(seconds(STOP) for _ in range(15))
    bare = statistics.median(seconds("0") for _ in range(15))
    say("ralph hook stop with nothing to do", f"{stop / bare:.1f} times a bare interpreter", "3 times")
