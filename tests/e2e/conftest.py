"""The real loop with genuine agents, from `ralph init` to verified commits.

    pip install -e '.[dev,e2e]'                         # brings claude; no account, no key
    npm install --prefix ~/agents @openai/codex         # and any of @google/gemini-cli @qwen-code/qwen-code opencode-ai
    RALPH_E2E_CLIS=~/agents python -m pytest tests/e2e -n 2 -rs

Nothing here reaches a network. Each command of Ralph's runs in a network namespace of its own that has only loopback
(inside.py), and the agent talks to a scripted model (model/), which lives in the test's process and answers on a
listener that was made inside that namespace. House (house.py) is the repository, Ralph and what came of it; clis.py
says how each agent is pointed there. Linux only, as root or where unprivileged user namespaces are allowed. Where the
namespace or an agent cannot be had, its tests are skipped and say why.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .clis import ALL, CLAUDE, Cli
from .house import House, inside
from .installed import FOLDERS, program
from .model.server import ScriptedModel


def pytest_report_header() -> list[str]:
    found = {cli.name: program(cli.name, os.environ) for cli in ALL}
    return [f"genuine {name}: {path or 'none'}" for name, path in found.items()]


@pytest.fixture(scope="session")
def namespace() -> tuple[str, ...]:
    """The command that starts another in a network namespace of its own."""
    if not shutil.which("unshare"):
        pytest.skip("no loopback-only network namespace: there is no `unshare` (util-linux; Linux only)")
    said = ""
    for flags in ("-n", "-rn"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = inside(("unshare", flags), theirs, "/bin/true")
            tried = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=[theirs.fileno()])
        if tried.returncode == 0:
            return ("unshare", flags)
        said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    pytest.skip(f"no loopback-only network namespace: unshare -rn: {said}")


@pytest.fixture
def cli() -> Cli:
    """The agent at work; tests of several agents parametrize it."""
    return CLAUDE


@pytest.fixture(scope="session")
def folders() -> dict[str, str]:
    """Where to look for agents, as it was before `surroundings` took the environment away."""
    return {name: os.environ[name] for name in (FOLDERS, "PATH") if name in os.environ}


@pytest.fixture
def house(
    tmp_path: Path, cli: Cli, folders: dict[str, str], namespace: tuple[str, ...], request: pytest.FixtureRequest
) -> Iterator[House]:
    """A repository with two tasks, the second building on the first, after `ralph init` (but for the adapters' tests).

    At the end of a test none of the processes that were started may be left.
    """
    genuine = program(cli.name, folders)
    if genuine is None:
        pytest.skip(f"no {cli.name}: not in {FOLDERS}, not on PATH ({cli.install})")
    built = House(
        tmp_path, cli, genuine, namespace, ScriptedModel(tmp_path / "calculator", without_tools=not cli.tools)
    )
    built.build()
    try:
        if request.path.stem != "test_adapters":
            built.ralph("init")
        yield built
    finally:
        left = built.processes()
        built.end_processes()
        built.model.close()
    assert left == []
