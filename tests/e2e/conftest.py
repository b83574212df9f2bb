"""The real loop with the genuine claude, from `ralph init` to verified commits.

    pip install -e '.[dev,e2e]'      # the wheel claude-agent-sdk brings the claude binary; no Node, no account, no key
    pytest tests/e2e

Nothing here reaches a network. Each command of Ralph's runs in a network namespace of its own that has only loopback
(inside.py), and claude talks to a scripted model (scripted_model.py), which lives in the test's process and answers on
a listener that was made inside that namespace. House (house.py) is the repository, Ralph and what came of it. Linux
only, as root or where unprivileged user namespaces are allowed; where the namespace or claude cannot be had, the tests
are skipped and say why (`pytest tests/e2e -rs`). Without the extra, a `claude` on PATH is taken.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .house import House, inside
from .scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def claude() -> Path:
    """The genuine binary."""
    wheel = importlib.util.find_spec("claude_agent_sdk")
    bundled = Path(wheel.origin).parent / "_bundled" / "claude" if wheel and wheel.origin else None
    if bundled and os.access(bundled, os.X_OK):
        return bundled
    on_path = shutil.which("claude")
    if on_path:
        return Path(on_path).resolve()
    why = f"{bundled} is not there" if bundled else "claude-agent-sdk is not installed"
    pytest.skip(f"no claude: {why} (pip install -e '.[e2e]'), and there is none on PATH")


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
def house(tmp_path: Path, claude: Path, namespace: tuple[str, ...]) -> Iterator[House]:
    """A repository with two tasks, the second building on the first, after `ralph init`.

    At the end of a test none of the processes that were started may be left.
    """
    built = House(tmp_path, claude, namespace, ScriptedModel())
    built.build()
    try:
        built.ralph("init")
        yield built
    finally:
        left = built.processes()
        built.end_processes()
        built.model.close()
    assert left == []
