"""A person at a terminal: Ralph's input and output are one, and what is typed stands ready there."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from threading import Timer

from tests.harness import DEADLINE, Project


def at_terminal(project: Project, *arguments: str, typed: str = "") -> tuple[int, str]:
    """Runs a command there to its end; its exit code, and all that was shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from rulebook_ralph.cli.main import main; import sys; main(sys.argv[1:])", *arguments],
        cwd=project.root,
        env={**os.environ, **project.environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    late = Timer(DEADLINE, process.kill)
    late.start()
    os.write(ours, typed.encode())
    shown = b""
    with suppress(OSError):  # the other end is closed
        while block := os.read(ours, 4096):
            shown += block
    os.close(ours)
    code = process.wait()
    late.cancel()
    return code, shown.decode()
