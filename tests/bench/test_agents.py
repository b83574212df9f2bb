"""What agents cost Ralph: reading their streams, supervising them, ending them. Prints figures, and never fails on time.

Run with `-s`. The least of several rounds is told, as others may use the processors.
"""

import json
import os
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from rulebook_ralph.agents.takeover import reader_of
from rulebook_ralph.supervisor import Command, Limits, run

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
BLOCK = 64 * 1024
ROUNDS = 7
ENOUGH = 2_000_000
NOW = datetime(2026, 11, 22, tzinfo=UTC)
PATH = os.environ["PATH"]


def say(what: str, measured: str, aim: str) -> None:
    sys.stdout.write(f"\n{what}: {measured} (aim: {aim})\n")


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


# Reading streams


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def ratio(kind: str, lines: list[bytes]) -> tuple[float, float]:
    """Our time for a long stream of these lines over that of `json.loads`, and our microseconds for a line."""
    whole = b"".join(line + b"\n" for line in lines)
    times = max(1, ENOUGH // len(whole))
    whole, lines = whole * times, lines * times

    def ours() -> None:
        reader = reader_of(kind, lambda: NOW)
        assert reader
        for start in range(0, len(whole), BLOCK):
            reader.feed(whole[start : start + BLOCK])
        reader.close()

    def plain() -> None:
        for line in lines:
            json.loads(line)

    rounds = [(seconds(plain), seconds(ours)) for _ in range(ROUNDS)]
    best = min(ours for _, ours in rounds)
    return best / min(plain for plain, _ in rounds), best / len(lines) * 1e6


@pytest.mark.parametrize("kind", ["claude", "codex", "gemini", "qwen", "opencode"])
def test_reading_a_stream_against_json_loads(kind: str) -> None:
    """Over all that the agent was seen to print, and over the run that went well."""
    files = sorted(CAPTURES.glob(f"{kind}*/*.out"))
    told = []
    for name, chosen in (("all runs", files), ("a good run", [file for file in files if file.stem == "success"])):
        lines = [line for file in chosen for line in file.read_bytes().split(b"\n") if line and is_json(line)]
        found, each = ratio(kind, lines)
        told.append(f"{name} {found:.2f} times, {each:.1f} µs a line of {len(b''.join(lines)) // len(lines)} bytes")
    say(f"reading {kind}", "; ".join(told), "1.5 times json.loads")


# Supervising


def test_cost_of_the_supervisor(tmp_path: Path) -> None:
    """The same agent, which prints 100 lines and ends, under the supervisor and under subprocess.run."""
    argv = ("sh", "-c", "cat > /dev/null; seq 100")
    command = Command(argv, tmp_path, {"PATH": PATH}, stdin=b"do it\n")

    def plainly() -> None:
        subprocess.run(argv, cwd=tmp_path, env={"PATH": PATH}, input=b"do it\n", capture_output=True, check=True)

    def supervised() -> None:
        assert run(command, output_file=tmp_path / "raw").exit_code == 0

    supervised()
    pairs = [(seconds(plainly), seconds(supervised)) for _ in range(40)]
    over = statistics.median(ours - plain for plain, ours in pairs)
    least = min(ours for _, ours in pairs) - min(plain for plain, _ in pairs)
    say("the supervisor over subprocess.run", f"median {over * 1000:.2f} ms, least {least * 1000:.2f} ms", "5 ms")


# Ending

TREE = "(sleep 300 & sleep 300 & wait) & setsid sleep 300 & sleep 300; wait"
"""An agent whose tools do as they are told: a tree, and one in a session of its own."""

DEAF = """
import os, signal, sys, time
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
def left(clear):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open("pids", "a") as file:
                file.write(f"{os.getpid()}\\n")
            if clear:
                program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
                os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", program], {})
            time.sleep(300)
        os._exit(0)
    os.wait()
left(clear=False)
left(clear=True)
time.sleep(300)
"""
"""An agent that ignores what it is told, as do the daemons it left: forked twice, in sessions of their own, one of them
without its environment."""


def ending(command: Command, wall_time: float) -> float:
    """Seconds from the limit to the return of the supervisor, by when nothing of it may run."""
    before = set(psutil.pids())
    took = seconds(lambda: run(command, limits=Limits(wall_time=wall_time)))
    new = [pid for pid in set(psutil.pids()) - before if _asleep(pid)]
    assert new == []
    return took - wall_time


def _asleep(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "300" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_from_a_timeout_to_no_process_left(tmp_path: Path) -> None:
    well = ending(Command(("sh", "-c", TREE), tmp_path, {"PATH": PATH}), 0.5)
    say("from a timeout to no process left, well-behaved", f"{well:.2f} s", "3 s")
    deaf = (sys.executable, "-I", "-S", "-c", textwrap.dedent(DEAF))
    took = ending(Command(deaf, tmp_path, {"PATH": PATH}), 1.5)
    say("the same, deaf to signals, forked twice, without environment", f"{took:.2f} s", "8 s")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
