"""What a Stop hook costs in a session in which no loop goes on. Prints figures beside the aim: run with `-s`."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.projects import make_project
from tests.bench.test_speed import say

_STOP = (
    "import sys; sys.argv[1:] = ['hook', 'stop', '--timeout', '1800']; from rulebook_ralph.entry import main; main()"
)


def seconds(root: Path, code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=root, input=b'{"session_id": "x"}', check=True)
    return time.perf_counter() - started


def test_a_stop_with_nothing_to_do(tmp_path: Path) -> None:
    make_project(tmp_path / "p", tasks=200)
    stop = statistics.median(seconds(tmp_path / "p", _STOP) for _ in range(15))
    bare = statistics.median(seconds(tmp_path / "p", "0") for _ in range(15))
    say("ralph hook stop with nothing to do", f"{stop / bare:.1f} times a bare interpreter", "8 times")
