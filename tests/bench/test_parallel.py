"""What working on several tasks at once saves. Prints figures beside what the project aims at: run with `-s`."""

import json
import statistics
import subprocess
from pathlib import Path

import pytest

from tests.bench.projects import make_project, ralph
from tests.bench.test_speed import say, timed

TASKS, WORKERS, SECONDS = 8, 4, 1.0
AGENT = (
    f'cat >/dev/null; sleep {SECONDS}; echo "$RALPH_TASK" > "$RALPH_TASK.txt"; echo "<promise>$RALPH_PROMISE</promise>"'
)


def make(root: Path, gate: str) -> None:
    """Independent tasks of a second each, every one with a file of its own."""
    make_project(root, tasks=TASKS)
    state = root / ".rulebook-ralph"
    prd = json.loads((state / "prd.json").read_text())
    for task in prd["tasks"]:
        task["markers"] = ["P"]
    (state / "prd.json").write_text(json.dumps(prd))
    config = json.loads((state / "config.yaml").read_text())
    config["tools"]["executors"][0]["args"] = ["-c", AGENT]
    config["verification"]["steps"] = [{"name": "gate", "command": gate}] if gate else []
    (state / "config.yaml").write_text(json.dumps(config))


def run(root: Path, *arguments: str) -> None:
    command = [*ralph(), "run", "-q", *arguments]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    landed = subprocess.run(["git", "ls-files", "task-*"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert len(landed.split()) == TASKS


@pytest.mark.parametrize(("gate", "aim"), [("", 0.4), ("sleep 0.1", 0.5)])
def test_independent_tasks_at_once_against_one_after_the_other(tmp_path: Path, gate: str, aim: float) -> None:
    trust = [] if gate else ["--trust-agent"]
    ratios = []
    for attempt in range(3):
        make(tmp_path / f"serial-{attempt}", gate)
        make(tmp_path / f"parallel-{attempt}", gate)
        serial = timed(lambda number=attempt: run(tmp_path / f"serial-{number}", *trust))  # type: ignore[misc]
        several = timed(
            lambda number=attempt: run(tmp_path / f"parallel-{number}", "--parallel", str(WORKERS), *trust)  # type: ignore[misc]
        )
        ratios.append(several / serial)
    what = f"{TASKS} tasks of {SECONDS:.0f} s with {WORKERS} workers, {'a gate of 100 ms' if gate else 'no gate'}"
    say(
        what,
        f"median {statistics.median(ratios):.2f} of serial time ({min(ratios):.2f} to {max(ratios):.2f})",
        f"{aim}",
    )
