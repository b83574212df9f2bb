"""A toolkit for tests of the whole loop: a real repository, a real task list, an agent that is a shell script, real runs."""

import atexit
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from rulebook_ralph.cli import main as cli
from rulebook_ralph.cli.app import App
from rulebook_ralph.clock import Clock
from rulebook_ralph.tasks import disk, history, prd_file, progress
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import STATE_FOLDER, Prd, Task

CREATED = "2026-01-01T00:00:00.000Z"
CHECK = "#!/bin/sh\ngrep -q '^sound$' app.txt || { echo 'app.txt: not sound' >&2; exit 1; }\n"
FILES: Mapping[str, str] = {
    "app.txt": "sound\n",
    "check.sh": CHECK,
    "docs/guide.md": "# Guide\n",
    ".gitignore": "*.o\n",
}
TESTS: dict[str, Any] = {"name": "tests", "kind": "test", "command": "sh check.sh"}
PROMISE = 'echo "<promise>$RALPH_PROMISE</promise>"\n'
HONEST = 'mkdir -p work && echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"\n' + PROMISE
"""An agent that makes a file for its task and gives the promise."""

DEADLINE = 20.0
_RALPH = (
    "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # pytest may run under nohup
    "from rulebook_ralph.cli.main import main; main(sys.argv[1:])"
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


@dataclass(frozen=True, slots=True)
class Project:
    """A repository with a task list. `root` is its work tree; the agent's script and notes lie in `beside`.

    What is uncommitted is one's own, so nothing of it asks for trust.
    """

    root: Path
    beside: Path
    name: str = "toy"
    environment: dict[str, str] = field(default_factory=dict)

    # Making it

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"git {' '.join(arguments)}: {done.stderr}")
        return done.stdout.removesuffix("\n")

    def write(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")

    def commit(self, message: str = "more", **files: str) -> str:
        """Write the files (slashes as `__`), commit all that is tracked or named; returns the commit."""
        named = {name.replace("__", "/"): content for name, content in files.items()}
        self.write(named)
        self.git("add", "-A", "--", *(named or ["."]))
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def agent(self, script: str) -> None:
        """The agent is this sh script; it reads RALPH_TASK, RALPH_ATTEMPT, RALPH_PROMISE, and $BESIDE, a scratch folder."""
        (self.beside / "agent.sh").write_text(f"BESIDE='{self.beside}'\nset -e\n{script}", "utf-8")

    def tasks(self, *tasks: Task, **settings: Any) -> None:
        prd = Prd(version=1, project=self.name, created_at=CREATED, updated_at=CREATED, tasks=tasks, **settings)
        disk.make_folder(self.folder.history)
        disk.replace_file(self.folder.prd, prd_file.encode_prd(prd))
        if not self.folder.progress.exists():
            text = progress.header(self.name, created_at=CREATED, task_count=len(tasks))
            disk.append_file(self.folder.progress, text.encode())

    def configure(
        self, *, gates: Iterable[dict[str, Any]] = (TESTS,), attempts: int | None = None, **settings: Any
    ) -> None:
        """config.yaml: the script as the default agent, the gates, at most `attempts` for each task. JSON is YAML.

        Work that turns no test from red to green is believed, unless `integrity` says otherwise: HONEST turns none.
        """
        executor = {"id": "script", "type": "command", "command": f"sh {self.beside}/agent.sh"}
        config: dict[str, Any] = {
            "tools": {"executors": [executor]},
            "defaults": {"executor": "script"} | ({"maxIterations": attempts} if attempts else {}),
            "verification": {"steps": list(gates)},
            "integrity": {"unproven": "allow"},
        }
        disk.make_folder(self.folder.path)
        self.folder.config.write_text(json.dumps(config | settings, indent=1), "utf-8")

    # Running it

    def app(self, *, cwd: Path | None = None) -> tuple[App, StringIO, StringIO]:
        out, err = StringIO(), StringIO()
        clock = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)
        environment = {**os.environ, **self.environment}
        return App(environment, cwd or self.root, Path(environment["HOME"]), out, err, clock), out, err

    def ralph(self, *arguments: str, cwd: Path | None = None) -> Ran:
        """Run a command in this process."""
        app, out, err = self.app(cwd=cwd)
        code = cli.run(app, arguments)
        return Ran(int(code), out.getvalue(), err.getvalue())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run a command in a process of its own, for signals."""
        return subprocess.Popen(
            [sys.executable, "-c", _RALPH, *arguments],
            cwd=self.root,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    # Looking at it

    @property
    def folder(self) -> StateFolder:
        return StateFolder(self.root)

    @property
    def prd(self) -> Prd:
        return prd_file.read_prd(self.folder.prd)

    def task(self, task_id: str = "one") -> Task:
        return self.prd.task(task_id)

    @property
    def records(self) -> list[Iteration]:
        return [history.read(self.folder, number) for number in history.numbers(self.folder)]

    @property
    def last(self) -> Iteration:
        return self.records[-1]

    def subjects(self, revision: str = "HEAD") -> list[str]:
        """The commits since the first, oldest first."""
        return self.git("log", "--reverse", "--format=%s", revision).splitlines()[1:]

    def task_commits(self, revision: str = "HEAD") -> dict[str, str]:
        """Task id -> commit, of every commit with a Ralph-Task trailer; fails where a task has two."""
        lines = self.git(
            "log", "--format=%H %(trailers:key=Ralph-Task,valueonly,separator=%x2C)", revision
        ).splitlines()
        pairs = [(task, commit) for commit, _, task in (line.partition(" ") for line in lines) if task]
        assert len(dict(pairs)) == len(pairs), f"a task has two commits: {pairs}"
        return dict(pairs)

    def tree(self, revision: str = "HEAD") -> dict[str, str]:
        """Path -> mode and object, the state folder aside."""
        entries = self.git("ls-tree", "-r", "-z", revision).split("\0")
        pairs = (entry.split("\t", 1) for entry in entries if entry)
        return {path: what for what, path in pairs if not path.startswith(f"{STATE_FOLDER}/")}

    def changed(self, commit: str) -> list[str]:
        """The paths a commit changes, the state folder included."""
        return [
            path
            for path in self.git("diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit).split("\0")
            if path
        ]

    def refs(self, pattern: str = "") -> dict[str, str]:
        lines = self.git(
            "for-each-ref", "--format=%(refname) %(objectname)", *([pattern] if pattern else [])
        ).splitlines()
        return {name: commit for name, _, commit in (line.partition(" ") for line in lines)}

    def snapshots(self) -> dict[int, str]:
        """Iteration number -> commit of its snapshot."""
        found = self.refs(f"refs/ralph/{self.name}/tasks")
        return {int(name.rsplit("/", 1)[1]): commit for name, commit in found.items()}

    def status(self) -> list[str]:
        """What `git status` says, the state folder aside."""
        lines = self.git("status", "--porcelain", "--untracked-files=all").splitlines()
        return [line for line in lines if STATE_FOLDER not in line]


def task(task_id: str = "one", **settings: Any) -> Task:
    return Task(id=task_id, title=settings.pop("title", f"Do {task_id}"), **settings)


@cache
def _repository(files: tuple[tuple[str, str], ...], _hash: str) -> Path:
    """A repository with these files in its first commit, made once, to copy from; it goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="ralph-tests-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
    atexit.register(folder.cleanup)
    made = Project(Path(folder.name, "toy"), Path(folder.name))
    made.root.mkdir()
    made.git("init", "-q", "-b", "main", "--template=")
    made.write(files=dict(files))
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "first")
    return made.root


def make_project(
    folder: Path,
    *,
    agent: str = HONEST,
    tasks: Iterable[Task] | None = None,
    files: Mapping[str, str] = FILES,
    gates: Iterable[dict[str, Any]] = (TESTS,),
    attempts: int | None = None,
    **settings: Any,
) -> Project:
    """A repository with one commit on `main`, one task unless told otherwise, and the state folder not yet committed."""
    root, beside = folder / "toy", folder / "beside"
    beside.mkdir(parents=True)
    shutil.copytree(_repository(tuple(files.items()), os.environ.get("GIT_DEFAULT_HASH", "")), root, symlinks=True)
    project = Project(root, beside)
    project.git("update-index", "-q", "--refresh")  # the copies are other files to git
    project.tasks(*([task()] if tasks is None else tasks))
    project.configure(gates=gates, attempts=attempts, **settings)
    project.agent(agent)
    return project


def save(folder: StateFolder, iteration: Iteration) -> None:
    """Write an iteration's file."""
    disk.make_folder(folder.history)
    disk.replace_file(folder.iteration(iteration.iteration_number), history.encode(iteration))


def picture(folder: Path, *, without: Callable[[str], bool] = lambda _: False) -> dict[str, tuple[int, bytes]]:
    """Every path below a folder with its mode and its content (a link's target), byte for byte."""
    found: dict[str, tuple[int, bytes]] = {}
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            relative = path.relative_to(folder).as_posix()
            if without(relative):
                continue
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            else:
                content = path.read_bytes() if stat.S_ISREG(mode) else b""
            found[relative] = (mode, content)
    return found


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as the condition holds; fail after DEADLINE seconds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> Ran:
    """Wait for a started command."""
    try:
        out, err = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        raise
    return Ran(process.returncode, out, err)
