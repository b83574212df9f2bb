"""Projects to measure on: many tasks, a long history, many files, and an agent that takes a known time."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from rulebook_ralph.entry import main; main()"
AGENT = (
    'cat >/dev/null; sleep {seconds}; echo "$RALPH_TASK$1" > out.txt; '
    "echo '<promise>IMPLEMENTATION_COMPLETE</promise>'"
)
GATE = "grep -q . out.txt || test ! -e out.txt"
SHOWN = {"promise": "IMPLEMENTATION_COMPLETE", "verificationMethod": "external", "verificationConfig": {"command": ":"}}


def ralph() -> list[str]:
    """The command line of this checkout's program."""
    return [sys.executable, "-c", PROGRAM]


def make_repository(root: Path, *, files: int = 0) -> None:
    """A repository with one commit."""
    root.mkdir(parents=True)
    (root / "README").write_text("measured\n")
    for number in range(files):
        path = root / f"src/{number // 100}/file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the file with number {number}\n" * 20)
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", *arguments], cwd=root, check=True)


def make_project(
    root: Path,
    *,
    tasks: int,
    seconds: float = 0.0,
    completed: int = 0,
    files: int = 0,
    gate: str = GATE,
    agent: str = AGENT,
) -> None:
    """A repository with a task list and an agent that does each task at once, in `seconds`. Nothing is asked of a
    model; where there is no gate, a command shows each task.
    """
    make_repository(root, files=files)
    state = root / ".rulebook-ralph"
    state.mkdir()
    listed: list[dict[str, Any]] = [
        {
            "id": f"task-{number}",
            "title": f"The task with number {number}",
            "description": "What has to be done, and why. " * (20 if tasks > 1000 else 2),
            "status": "completed" if number < completed else "pending",
            **({} if gate else {"completion": {"coder": SHOWN}}),
        }
        for number in range(tasks)
    ]
    (state / "prd.json").write_text(json.dumps({"version": 1, "project": "bench", "tasks": listed}, indent=2))
    command = {
        "id": "sh",
        "type": "command",
        "command": "/bin/sh",
        "args": ["-c", agent.replace("{seconds}", str(seconds))],
    }
    config = {
        "tools": {"executors": [command]},
        "defaults": {"executor": "sh"},
        "verification": {"steps": [{"name": "gate", "command": gate}] if gate else []},
        "integrity": {"unproven": "allow"},
    }
    (state / "config.yaml").write_text(json.dumps(config))


def add_history(root: Path, iterations: int) -> None:
    """Settled iteration files, made from the one of a real iteration, in the folder and in the saved state, and their
    entries in progress.txt.
    """
    state = root / ".rulebook-ralph"
    template = (state / "history" / "iteration-1.json").read_text()
    with (state / "progress.txt").open("a") as progress:
        for number in range(2, iterations + 1):
            text = template.replace('"iterationNumber": 1,', f'"iterationNumber": {number},')
            (state / "history" / f"iteration-{number}.json").write_text(text)
            progress.write(f"## Iteration {number} · task-0 · coder · attempt 1 · failed\n")
            progress.write(f"    reason: a reason of usual length\n    learned: something ({number})\n")
            progress.write(f"## End of iteration {number}\n")
    reference, index = "refs/ralph/bench/state", {"GIT_INDEX_FILE": str(root / ".git" / "bench-index")}
    git(root, "read-tree", reference, **index)
    git(root, "add", "-f", ".rulebook-ralph/history", **index)
    saved = git(root, "commit-tree", git(root, "write-tree", **index), "-p", reference, "-m", "a long history")
    git(root, "update-ref", reference, saved)
    git(root, "add", "-f", "-A")
    git(root, "commit", "-q", "-m", "a long history")


def git(root: Path, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


def shell_loop(root: Path, *, iterations: int, seconds: float) -> None:
    """The same agent, gate and git commit in a bare shell loop."""
    script = (
        f'for i in $(seq {iterations}); do sh -c "$AGENT" - $i </dev/null >/dev/null; sh -c "$GATE"; '
        'git add -A; git commit -qm "task $i"; done'
    )
    agent = AGENT.replace("{seconds}", str(seconds))
    subprocess.run(["sh", "-c", script], cwd=root, check=True, env={**os.environ, "AGENT": agent, "GATE": GATE})
