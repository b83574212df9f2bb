"""The supervisor against children that do their worst. Each test ends with nothing of them running."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.process import tree
from rulebook_ralph.process.box import Box, probe_box
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.process.supervisor import Command, Ended, ProcessLimits, run

PATH = os.environ["PATH"]
BWRAP = probe_box({"PATH": PATH})
BOXES = [None, Box(BWRAP)] if isinstance(BWRAP, Path) else [None]


def python(tmp_path: Path, program: str, **more: object) -> Command:
    argv = (sys.executable, "-I", "-S", "-c", textwrap.dedent(program))
    return Command(argv, tmp_path, {"PATH": PATH}, **more)  # type: ignore[arg-type]


def shell(tmp_path: Path, program: str, **more: object) -> Command:
    return Command(("sh", "-c", program), tmp_path, {"PATH": PATH}, **more)  # type: ignore[arg-type]


def limits(**changed: float) -> ProcessLimits:
    return ProcessLimits(**{"interrupt_grace": 0.15, "terminate_grace": 0.15, **changed})


SHORT = limits()


def pids(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "pids").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def soon(condition: Callable[[], object], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


# A process that writes its id to `pids`, ignores INT, TERM and HUP, and stays.
IMMORTAL = """
import os, signal, sys, time
for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(one, signal.SIG_IGN)
def settle():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\\n")
def stay():
    settle()
    time.sleep(60)
"""

DAEMON = (
    IMMORTAL
    + """
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        settle()
        os.write(done, b".")
        time.sleep(60)
    os._exit(0)
os.wait()
os.read(ready, 1)
"""
)


@pytest.mark.parametrize("box", BOXES)
def test_reports_exit_code_and_output(tmp_path: Path, box: Box | None) -> None:
    blocks: list[bytes] = []
    command = shell(tmp_path, "cat; echo on stderr >&2; exit 3", stdin=b"asked\n", box=box)
    ended = run(command, on_output=blocks.append, output_file=tmp_path / "raw")
    assert (ended.exit_code, ended.killed_by, ended.background) == (3, None, 0)
    assert b"".join(blocks) == b"asked\n"
    assert (ended.output_bytes, ended.stderr_tail) == (6, "on stderr\n")
    assert (tmp_path / "raw").read_text() == "asked\n\n--- stderr: the last 10 of 10 bytes ---\non stderr\n"


@pytest.mark.parametrize("box", BOXES)
def test_merged_stderr_keeps_its_place(tmp_path: Path, box: Box | None) -> None:
    blocks: list[bytes] = []
    run(shell(tmp_path, "echo 1; echo 2 >&2; echo 3", merge_stderr=True, box=box), on_output=blocks.append)
    assert b"".join(blocks) == b"1\n2\n3\n"


@pytest.mark.parametrize("box", BOXES)
def test_gets_only_the_environment_given_and_a_mark(tmp_path: Path, box: Box | None) -> None:
    blocks: list[bytes] = []
    run(Command(("/usr/bin/env",), tmp_path, {"ONLY": "this"}, box=box), on_output=blocks.append)
    names = [line.partition("=")[0] for line in b"".join(blocks).decode().split("\n") if line]
    assert "ONLY" in names
    assert tree.carries_mark(names)
    if box is None:
        assert len(names) == 2


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize(
    ("program", "size", "code", "said"),
    [
        ("cat", None, 0, 0),
        ("cat", 0, 0, 0),
        ("cat", 3_000_000, 0, 3_000_000),
        ("exec <&-; echo closed", 1_000_000, 0, 7),
        ("echo never reads", 1_000_000, 0, 12),
        ("head -c 10; exit 4", 1_000_000, 4, 10),
    ],
)
def test_input_of_any_size_never_blocks(
    tmp_path: Path, box: Box | None, program: str, size: int | None, code: int, said: int
) -> None:
    command = shell(tmp_path, program, stdin=None if size is None else b"x" * size, box=box)
    ended = run(command, limits=limits(wall_time=10))
    assert (ended.exit_code, ended.killed_by, ended.output_bytes) == (code, None, said)


@pytest.mark.parametrize("box", BOXES)
def test_what_cannot_start_is_told(tmp_path: Path, box: Box | None) -> None:
    (tmp_path / "plain").write_text("no program")
    for argv, folder, number, told in (
        (("no-such-program",), tmp_path, 2, "no-such-program: No such file or directory"),
        ((str(tmp_path / "plain"),), tmp_path, 13, f"{tmp_path}/plain: Permission denied"),
        (("true",), tmp_path / "gone", 20, f"the folder {tmp_path}/gone: No such file or directory"),
        (("sh", "-c", "x" * 3_000_000), tmp_path, 7, ": Argument list too long"),
        (("sh", "nul\0"), tmp_path, 0, "embedded null byte"),
    ):
        ended = run(Command(argv, folder, {"PATH": PATH}, box=box))
        assert ended.failure, (argv, box)
        assert (ended.exit_code, ended.failure.errno) == (None, number)
        assert ended.failure.message.endswith(told)


def test_an_output_file_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="gone/raw"):
        run(shell(tmp_path, "true"), output_file=tmp_path / "gone" / "raw")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_ends_the_process(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="No space left"):
        run(python(tmp_path, IMMORTAL + "settle(); print('x', flush=True); stay()"), output_file=Path("/dev/full"))
    assert not any(map(alive, pids(tmp_path)))


def test_an_exception_in_the_sink_leaves_nothing_running(tmp_path: Path) -> None:
    def fail(_: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(python(tmp_path, IMMORTAL + "settle(); print('x', flush=True); stay()"), on_output=fail)
    assert not any(map(alive, pids(tmp_path)))


@pytest.mark.parametrize("box", BOXES)
def test_silence_ends_at_the_idle_limit(tmp_path: Path, box: Box | None) -> None:
    ended = run(shell(tmp_path, "echo one; sleep 60", box=box), limits=limits(idle_time=0.2))
    assert ended.killed_by == "idle-time"
    assert ended.duration_ms < 8000


def test_changes_hold_off_the_idle_limit_but_not_the_wall_limit(tmp_path: Path) -> None:
    looks: list[float] = []

    def changed_now() -> float:
        looks.append(time.time())
        return looks[-1]

    ended = run(shell(tmp_path, "sleep 60"), limits=limits(idle_time=0.1, wall_time=0.55), last_change=changed_now)
    assert ended.killed_by == "wall-time"
    assert 1 <= len(looks) <= 6
    ended = run(shell(tmp_path, "sleep 60"), limits=limits(idle_time=0.1, wall_time=5), last_change=lambda: 1.0)
    assert ended.killed_by == "idle-time"


def test_the_tree_is_not_looked_at_while_output_comes(tmp_path: Path) -> None:
    looks: list[int] = []
    program = "for i in 1 2 3 4 5 6; do echo .; sleep 0.1; done"
    ended = run(shell(tmp_path, program), limits=limits(idle_time=2), last_change=lambda: looks.append(1))
    assert (ended.killed_by, looks) == (None, [])


@pytest.mark.parametrize("box", BOXES)
def test_bytes_on_stderr_are_not_silence(tmp_path: Path, box: Box | None) -> None:
    program = "for i in 1 2 3 4 5 6 7 8; do echo . >&2; sleep 0.1; done"
    assert run(shell(tmp_path, program, box=box), limits=limits(idle_time=2)).killed_by is None


def test_wall_limit_ends_one_that_prints_for_ever(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # where pytest runs in a script's background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    ended = run(shell(tmp_path, "yes"), limits=limits(wall_time=0.2))
    assert ended.killed_by == "wall-time"
    assert ended.exit_code == -signal.SIGINT


CLEANS_UP = """
import signal, sys, time
def clean(number, _):
    print("success after", number, flush=True)
    time.sleep(0.1)
    sys.exit(5)
signal.signal(signal.SIGINT, signal.SIG_IGN if "{ignored}" == "INT" else clean)
signal.signal(signal.SIGTERM, clean)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize(("ignored", "number"), [("", 2), ("INT", 15)])
def test_interrupt_and_terminate_let_it_clean_up_and_it_stays_killed(
    tmp_path: Path, box: Box | None, ignored: str, number: int
) -> None:
    blocks: list[bytes] = []
    limits = ProcessLimits(wall_time=0.6, interrupt_grace=0.3, terminate_grace=5)
    program = python(tmp_path, CLEANS_UP.replace("{ignored}", ignored), box=box)
    ended = run(program, limits=limits, on_output=blocks.append)
    assert b"".join(blocks).decode() == f"ready\nsuccess after {number}\n"
    assert (ended.exit_code, ended.killed_by) == (5, "wall-time")


@pytest.mark.parametrize("make", [Cancellation, threading.Event])
def test_cancellation_ends_it(tmp_path: Path, make: Callable[[], threading.Event]) -> None:
    cancelled = make()
    threading.Timer(0.1, cancelled.set).start()
    for _ in range(2):  # once it is set the next one does not begin to work
        ended = run(shell(tmp_path, "sleep 60"), cancelled=cancelled, limits=SHORT)
        assert ended.killed_by == "interrupted"
        assert ended.duration_ms < 6000
    cancelled.clear()
    assert run(shell(tmp_path, "true"), cancelled=cancelled).killed_by is None


@pytest.mark.parametrize("box", BOXES)
def test_a_second_order_kills_without_waiting_any_longer(tmp_path: Path, box: Box | None) -> None:
    cancelled = Cancellation()
    cancelled.at_once = at_once = Cancellation()
    command = shell(tmp_path, "trap 'touch told' INT; trap '' TERM; touch begun; while :; do sleep 0.05; done", box=box)

    def order() -> None:
        soon((tmp_path / "begun").exists, 30)
        cancelled.set()
        soon((tmp_path / "told").exists, 30)
        at_once.set()

    threading.Thread(target=order).start()
    ended = run(command, cancelled=Cancellation(cancelled, Cancellation()), limits=limits(interrupt_grace=100))
    assert (ended.killed_by, ended.exit_code) == ("interrupted", -signal.SIGKILL)
    assert ended.duration_ms < 60_000


def test_the_signal_handler_wakes_the_waiting_main_thread(tmp_path: Path) -> None:
    cancelled = Cancellation()
    previous = signal.signal(signal.SIGUSR1, lambda *_: cancelled.set())
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        ended = run(shell(tmp_path, "sleep 60"), cancelled=cancelled, limits=SHORT)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert ended.killed_by == "interrupted"
    assert ended.duration_ms < 6000


@pytest.mark.parametrize("box", BOXES)
def test_a_background_process_that_holds_stdout_open_delays_nothing(tmp_path: Path, box: Box | None) -> None:
    blocks: list[bytes] = []
    ended = run(shell(tmp_path, "sleep 60 & echo $! > pids; echo done", box=box), on_output=blocks.append)
    assert (ended.exit_code, ended.killed_by, ended.background) == (0, None, 0 if box else 1)
    assert ended.duration_ms < 6000
    assert b"".join(blocks) == b"done\n"
    assert box or not any(map(alive, pids(tmp_path)))  # ids inside are other ones


def test_background_processes_are_asked_before_they_are_killed(tmp_path: Path) -> None:
    program = """
import os, signal
def leave(*_):
    open("asked", "w").close()
    os._exit(0)
reader, writer = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGTERM, leave)
    os.write(writer, b".")
    while True:
        signal.pause()
os.read(reader, 1)
"""
    ended = run(python(tmp_path, program), limits=limits(terminate_grace=5))
    assert (tmp_path / "asked").exists()
    assert ended.background == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_daemon_that_ignores_signals_is_found_by_its_mark_and_killed(tmp_path: Path, killed: bool) -> None:
    program = DAEMON + ("time.sleep(60)" if killed else "")
    ended = run(python(tmp_path, program), limits=limits(wall_time=1 if killed else 5))
    assert (ended.killed_by, ended.exit_code) == (("wall-time", -signal.SIGKILL) if killed else (None, 0))
    assert ended.background == 1
    assert len(pids(tmp_path)) == 1
    assert not any(map(alive, pids(tmp_path)))


def test_one_that_clears_its_environment_is_found_by_its_session_or_parent(tmp_path: Path) -> None:
    program = f"""
import os, sys
stay = [{sys.executable!r}, "-I", "-S", "-c", "import os, time; open('pids', 'a').write(str(os.getpid()) + ' '); time.sleep(60)"]
for leave in (False, True):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid() if leave else None
            os.execve(stay[0], stay, {{}})
        os.wait() if leave else None
        os._exit(0)
while not os.path.exists("pids") or len(open("pids").read().split()) < 2:
    pass
"""
    run(python(tmp_path, program), limits=limits(wall_time=5))
    assert len(pids(tmp_path)) == 2
    assert not any(map(alive, pids(tmp_path)))


def test_a_tree_of_processes_in_sessions_of_their_own_is_ended(tmp_path: Path) -> None:
    program = (
        IMMORTAL
        + """
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        settle()
for _ in range(200):
    if len(open("pids").read().split()) >= 4: break
    time.sleep(0.01)
if os.getsid(0) == os.getpgid(0) and str(os.getpid()) not in open("pids").read().split():
    sys.exit(0)
time.sleep(60)
"""
    )
    ended = run(python(tmp_path, program), limits=limits(wall_time=5))
    assert ended.killed_by is None
    assert ended.background >= 4
    assert not any(map(alive, pids(tmp_path)))


def test_one_that_multiplies_while_it_is_killed_is_ended(tmp_path: Path) -> None:
    program = (
        IMMORTAL
        + """
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        for _ in range(150):
            if os.fork():
                os._exit(0)
            time.sleep(0.002)
        time.sleep(60)
"""
    )
    ended = run(python(tmp_path, program), limits=limits(wall_time=5))
    assert ended.background >= 3
    assert [one for one in psutil.process_iter() if _works_in(one, tmp_path)] == []


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_other_children_of_this_process_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        run(shell(tmp_path, "sleep 60 & exit 0"), limits=SHORT)
        run(shell(tmp_path, "sleep 60"), limits=limits(wall_time=0.1))
        assert other.poll() is None
        other.kill()


def test_a_run_ends_only_its_own_processes(tmp_path: Path) -> None:
    results: dict[str, Ended] = {}
    folders = {name: tmp_path / name for name in ("a", "b")}
    for folder in folders.values():
        folder.mkdir()
    other = DAEMON + "os.read(0, 1); sys.exit(7)"
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: results.update(b=run(_reading(folders["b"], other, reader), limits=SHORT)))
    thread.start()
    assert soon(lambda: (folders["b"] / "pids").exists() and pids(folders["b"]))
    results["a"] = run(python(folders["a"], DAEMON), limits=SHORT)
    assert not any(map(alive, pids(folders["a"])))
    assert all(map(alive, pids(folders["b"])))
    os.write(writer, b".")
    thread.join(10)
    os.close(reader)
    os.close(writer)
    assert results["a"].background == 1
    assert (results["b"].background, results["b"].exit_code) == (1, 7)
    assert not any(map(alive, pids(folders["b"])))


def _reading(folder: Path, program: str, file: int) -> Command:
    path = f"/proc/{os.getpid()}/fd/{file}" if sys.platform == "linux" else f"/dev/fd/{file}"
    opened = f"import os; os.dup2(os.open({path!r}, os.O_RDONLY), 0)\n"
    return python(folder, opened + program)


def test_many_runs_at_once_keep_their_own_exit_codes(tmp_path: Path) -> None:
    codes: dict[int, int | None] = {}

    def one(number: int) -> None:
        program = f"(setsid sleep 60 &) ; (setsid true &) ; exit {number}"
        codes[number] = run(shell(tmp_path, program), limits=SHORT).exit_code

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {number: number for number in range(1, 9)}


def test_what_a_living_ralph_with_the_id_of_a_dead_one_started_is_left_alone(tmp_path: Path) -> None:
    environment = {"PATH": PATH, tree.new_mark(): "1"}
    with subprocess.Popen(["sleep", "60"], env=environment, cwd=tmp_path) as ours:
        assert tree.end_left_by(os.getpid(), tree.own_start() - 10_000) == (0, 0)
        assert ours.poll() is None
        ours.kill()


def test_who_ends_what_the_dead_left_is_not_ended_with_it(tmp_path: Path) -> None:
    """A person goes on in a terminal that an agent of the dead run began."""
    dead, since = 2**22 + 1, round(time.time() * 1000)
    ends = f"from rulebook_ralph.process import tree; print(*tree.end_left_by({dead}, {since}), flush=True)"
    command = ["sh", "-c", '"$0" -c "$1"; :', sys.executable, ends]
    environment = {"PATH": PATH, f"{tree.marks_of(dead, since)}x": "1"}
    root = Path(tree.__file__).parents[2]
    with subprocess.Popen(command, env=environment, cwd=root, stdout=subprocess.PIPE, start_new_session=True) as begun:
        assert begun.communicate(timeout=30)[0] == b"1 0\n"


BULK = """
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from rulebook_ralph.process.streams import HeadTail, LineSplitter
from rulebook_ralph.process.supervisor import Command, run
lines = {}
splitter, kept = LineSplitter(lambda line: lines.update({len(line): len(lines)})), HeadTail(head=64_000, tail=1_000_000)
def take(block):
    splitter.feed(block)
    kept.feed(block)
before = getrusage(RUSAGE_SELF).ru_maxrss
program = "echo first; head -c 60000000 /dev/zero; echo; yes $(seq 99) | head -c 39999995; echo; echo last"
ended = run(Command(("sh", "-c", program), Path.cwd(), {"PATH": sys.argv[1]}), on_output=take, output_file=Path("raw"))
splitter.close()
print(ended.output_bytes, int(60_000_000 not in lines), min(lines), kept.size, getrusage(RUSAGE_SELF).ru_maxrss - before)
"""


def test_output_of_any_size_takes_constant_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BULK, PATH], cwd=tmp_path, capture_output=True, text=True, check=True)
    size, dropped, shortest, kept, grown = map(int, done.stdout.split())
    assert size == kept == (tmp_path / "raw").stat().st_size == 100_000_008
    assert (dropped, shortest) == (1, 4)
    assert grown * (1024 if sys.platform == "linux" else 1) < 40_000_000


def test_no_file_descriptor_is_left_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208

    run(shell(tmp_path, "true"))
    before = count()
    for program in ("true", "sleep 60 & true", "exec sleep 60"):
        run(shell(tmp_path, program, stdin=b"x"), limits=limits(wall_time=0.1), cancelled=Cancellation())
    run(Command(("nothing-like-this",), tmp_path, {}))
    assert count() == before
