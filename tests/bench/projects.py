"""Projects to measure on: many tasks, a long history, and an agent that takes a known time."""

import json
import os
import subprocess
import sys
from pathlib import Path

from rulebook_ralph.state import trust_record

AGENT = (
    'cat >/dev/null; sleep {seconds}; echo "$RALPH_TASK$1" > out.txt; '
    "echo '<promise>IMPLEMENTATION_COMPLETE</promise>'"
)
GATE = "grep -q . out.txt || test ! -e out.txt"


def ralph() -> list[str]:
    """The command line of the installed program."""
    return [sys.executable, "-c", "from rulebook_ralph.cli import main; main()"]


def make_repository(root: Path) -> None:
    """A repository with one commit."""
    root.mkdir(parents=True)
    (root / "README").write_text("measured\n")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", *arguments], cwd=root, check=True)


def make_project(root: Path, *, tasks: int, seconds: float = 0.0, completed: int = 0) -> None:
    """A repository with a task list and an agent that does each task at once, in `seconds`."""
    make_repository(root)
    state = root / ".rulebook-ralph"
    state.mkdir()
    listed = [
        {
            "id": f"task-{number}",
            "title": f"The task with number {number}",
            "description": "What has to be done, and why. " * (20 if tasks > 1000 else 2),
            "status": "completed" if number < completed else "pending",
        }
        for number in range(tasks)
    ]
    (state / "prd.json").write_text(json.dumps({"version": 1, "project": "bench", "tasks": listed}, indent=2))
    config = {
        "tools": {
            "executors": [
                {"id": "sh", "type": "command", "command": "/bin/sh", "args": ["-c", AGENT.format(seconds=seconds)]}
            ]
        },
        "defaults": {"executor": "sh"},
        "verification": {"steps": [{"name": "gate", "command": GATE}]},
    }
    (state / "config.yaml").write_text(json.dumps(config))
    trust = trust_record.trust_folder(os.environ, Path.home())
    trust_record.write(trust, root.resolve() / ".git", agreed=frozenset())


def add_history(root: Path, iterations: int) -> None:
    """Settled iteration files, made from the one of a real iteration, and their entries in progress.txt."""
    state = root / ".rulebook-ralph"
    template = (state / "history" / "iteration-1.json").read_text()
    with (state / "progress.txt").open("a") as progress:
        for number in range(2, iterations + 1):
            text = template.replace('"iterationNumber": 1,', f'"iterationNumber": {number},')
            (state / "history" / f"iteration-{number}.json").write_text(text)
            progress.write(f"## Iteration {number} · task-0 · coder · attempt 1 · failed\n")
            progress.write(f"    reason: a reason of usual length\n    learned: something ({number})\n")
            progress.write(f"## End of iteration {number}\n")


def shell_loop(root: Path, *, iterations: int, seconds: float) -> None:
    """The same agent, gate and git commit in a bare shell loop."""
    agent = AGENT.format(seconds=seconds)
    script = (
        f'for i in $(seq {iterations}); do sh -c "$AGENT" - $i </dev/null >/dev/null; sh -c "$GATE"; '
        'git add -A; git commit -qm "task $i"; done'
    )
    subprocess.run(["sh", "-c", script], cwd=root, check=True, env={**os.environ, "AGENT": agent, "GATE": GATE})
