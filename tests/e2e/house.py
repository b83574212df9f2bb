"""A real repository with a rulebook task list, and Ralph at work in it with a genuine agent.

Every command of Ralph's runs in a network namespace of its own (inside.py) and with an environment of its own.
"""

import json
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from .clis import PORT, Cli
from .model.server import ScriptedModel

_INSIDE = Path(__file__).with_name("inside.py")
_LONGEST_COMMAND = 150.0
_IDENTITY = "[user]\n\tname = e2e\n\temail = e2e@ralph.invalid\n"

FILES = {
    "calc.py": '"""Numbers."""\n\n\ndef negate(number):\n    return -number\n',
    "tests/test_calc.py": (
        "import unittest\n\nimport calc\n\n\nclass Negate(unittest.TestCase):\n"
        "    def test_negative(self):\n        self.assertEqual(calc.negate(2), -2)\n"
    ),
    ".gitignore": "__pycache__/\n",
    "rulebook/tasks/add-numbers/proposal.md": (
        "# Proposal: Add two numbers\n\n## Why\nSums are wanted.\n\n## What Changes\n`add(a, b)` in `add.py`.\n"
    ),
    "rulebook/tasks/add-numbers/tasks.md": "## 1. Implementation\n- [ ] 1.1 `add(2, 3)` gives 5\n",
    "rulebook/tasks/double-numbers/proposal.md": (
        "# Proposal: Double a number\n\n## Why\nTwice is nice.\n\n## What Changes\n`double(number)` in `double.py`, by `add`.\n"
    ),
    "rulebook/tasks/double-numbers/tasks.md": "## 1. Implementation\n- [ ] 1.1 `double(4)` gives 8\n",
    "rulebook/tasks/double-numbers/.metadata.json": '{"status": "pending", "blockedBy": ["add-numbers"]}\n',
}
ADD, DOUBLE = "add-numbers", "double-numbers"
GATE = "python3 -m unittest discover -s tests"


def inside(namespace: Sequence[str], listener_to: socket.socket, *command: str) -> list[str]:
    """The command, in a network namespace; a listener in there is sent to the socket."""
    interpreter = (sys.executable, "-I", "-S")
    return [*namespace, *interpreter, str(_INSIDE), str(listener_to.fileno()), str(PORT), *command]


@dataclass(frozen=True, slots=True)
class Ended:
    """A command of Ralph's that has ended. `result` is what `--json` printed."""

    stdout: str
    stderr: str
    seconds: float

    @property
    def result(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.stdout)
        return value


@dataclass(slots=True)
class House:
    """The repository `root`, the HOME of its own, and the model that the agent talks to."""

    folder: Path
    cli: Cli
    program: Path
    namespace: Sequence[str]
    model: ScriptedModel
    mark: str = field(default_factory=lambda: f"RALPH_E2E_{uuid.uuid4().hex}")
    forever: str = field(default_factory=lambda: f"7531.{uuid.uuid4().int}")
    """Seconds to sleep that no other sleeps, to find also a process that cleared its environment."""

    @property
    def root(self) -> Path:
        return self.folder / "calculator"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def build(self) -> None:
        """The repository with its first commit, and the programs that Ralph is to find."""
        for name, content in FILES.items():
            self.write(name, content)
        for name, content in ({".gitconfig": _IDENTITY} | dict(self.cli.files)).items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        programs = self.folder / "bin"
        programs.mkdir()
        (self.folder / "tmp").mkdir()
        (programs / self.cli.name).symlink_to(self.program)
        if node := shutil.which("node"):
            (programs / "node").symlink_to(node)
        (programs / "python3").symlink_to(Path(sys.executable).resolve())
        for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "A calculator"]):
            self.git(*arguments)
        self.configure()

    def configure(
        self,
        *,
        permissions: str = "full",
        limits: Mapping[str, float] | None = None,
        hasty: bool = False,
        env: Mapping[str, str] = {},
        **more: object,
    ) -> None:
        """The user's own configuration (JSON is YAML); `hasty`: the agent tries nothing again by itself. `env` is of
        the executor, all else of the whole.
        """
        agent = self.cli
        executor: dict[str, Any] = {"id": agent.name, "type": agent.name, "permissions": permissions, **agent.settings}
        if hasty:
            executor |= agent.hasty
        executor["env"] = {**executor.get("env", {}), **env}
        config = {
            "tools": {"executors": [executor]},
            "defaults": {"executor": agent.name},
            "limits": {"maxWallTime": 90, **(limits or {})},
            **more,
        }
        path = self.home / ".config" / "rulebook-ralph" / "config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder / "tmp"),
            self.mark: "1",
            **self.cli.environment,
        }

    # Ralph

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Ralph in a namespace of its own."""
        return self.start_program(str(Path(sys.executable).with_name("ralph")), *arguments)

    def start_program(self, *command: str, **more: str) -> subprocess.Popen[str]:
        """The same of any program, with `more` in its environment; the process is the program itself once the model has
        got its listener.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                inside(self.namespace, theirs, *command),
                cwd=self.root,
                env={**self.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[theirs.fileno()],
            )
            theirs.close()
            _, descriptors, _, _ = socket.recv_fds(ours, 100, 1)
        assert descriptors, process.communicate()
        self.model.listen_on(socket.socket(fileno=descriptors[0]))
        return process

    def ralph(self, *arguments: str, code: int = 0) -> Ended:
        """Run Ralph to its end, which is to have that exit code."""
        started = time.monotonic()
        process = self.start(*arguments)
        try:
            stdout, stderr = process.communicate(timeout=_LONGEST_COMMAND)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError("\n".join(process.communicate())) from None
        assert process.returncode == code, f"exit code {process.returncode}\n{stdout}\n{stderr}"
        return Ended(stdout, stderr, time.monotonic() - started)

    def processes(self) -> list[str]:
        """What still runs of all that was started here."""
        found = []
        for process in self._found():
            with suppress(psutil.Error):  # it may have ended since
                found.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
        return found

    def end_processes(self) -> None:
        for process in self._found():
            with suppress(psutil.Error):
                process.kill()

    def _found(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                ours = self.mark in process.environ() or self.forever in process.cmdline()
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    # What came of it

    def write(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def files_of(self, commit: str) -> list[str]:
        return self.git("show", "--format=", "--name-only", commit).splitlines()

    def prd(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.root / ".rulebook-ralph" / "prd.json").read_text())
        return value

    def task(self, task_id: str) -> dict[str, Any]:
        (task,) = (task for task in self.prd()["tasks"] if task["id"] == task_id)
        return dict(task)

    def iteration(self, number: int) -> dict[str, Any]:
        path = self.root / ".rulebook-ralph" / "history" / f"iteration-{number}.json"
        value: dict[str, Any] = json.loads(path.read_text())
        return value

    def iterations(self) -> int:
        return len(list((self.root / ".rulebook-ralph" / "history").glob("iteration-*.json")))

    def trailer(self, name: str, revision: str) -> str:
        return self.git("log", "-1", f"--format=%(trailers:key={name},valueonly)", revision).strip()
