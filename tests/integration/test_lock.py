"""One run at a time on a project: two real processes, a dead holder, another machine, an interactive session."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec import json
from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.process import tree
from rulebook_ralph.run import lock
from rulebook_ralph.run.lock import Holder, dead_run, hold, holder

SINCE = "2026-01-01T00:00:00.000Z"

_HOLD = """
import os, subprocess, sys
from pathlib import Path
from rulebook_ralph.process.tree import new_mark
from rulebook_ralph.run.lock import hold
with hold(Path(sys.argv[1]), "run", since="then") as held:
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, new_mark(): "1"}, **quiet)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def start_holder(private: Path) -> tuple["subprocess.Popen[str]", int]:
    """A process that holds the lock, and what it started."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(private)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def end(process: "subprocess.Popen[str]", child: int) -> None:
    process.kill()
    process.communicate()
    os.kill(child, signal.SIGKILL)


def me(**changed: object) -> Holder:
    this = Holder(pid=os.getpid(), since=SINCE, command="run", host=os.uname().nodename, started=tree.own_start())
    return replace(this, **changed)


def leave(private: Path, named: Holder) -> None:
    (private / "lock").write_bytes(json.encode(named))


def test_a_second_run_is_refused_and_told_who_works(tmp_path: Path) -> None:
    process, child = start_holder(tmp_path)
    try:
        for command in ("run", "task"):
            told = rf"process {process.pid} \('ralph run', since then\) is working on this project; .*ralph cancel"
            with pytest.raises(RalphError, match=told) as raised, hold(tmp_path, command, since=SINCE):
                pytest.fail("held twice")
            assert raised.value.exit_code == 2
        found = holder(tmp_path / "lock")
        assert found
        assert (found.pid, found.command) == (process.pid, "run")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        with pytest.raises(RalphError, match=f"kill -CONT {process.pid}"), hold(tmp_path, "run", since=SINCE):
            pytest.fail("held twice")
    finally:
        end(process, child)


def test_a_watch_and_a_run_hold_locks_of_their_own(tmp_path: Path) -> None:
    with hold(tmp_path, "run --watch", since=SINCE, name=lock.WATCH), hold(tmp_path, "run", since=SINCE):
        with pytest.raises(RalphError, match=f"process {os.getpid()}"), hold(tmp_path, "run", since=SINCE):
            pytest.fail("held twice")
        for name in (lock.LOCK, lock.WATCH):
            found = holder(tmp_path / name)
            assert found
            assert found.pid == os.getpid()
    assert holder(tmp_path / "lock") is None
    assert holder(tmp_path / "nowhere" / "lock") is None


def test_after_a_killed_run_the_next_one_knows_and_ends_what_it_left(tmp_path: Path) -> None:
    process, child = start_holder(tmp_path)
    process.kill()
    process.communicate()
    assert holder(tmp_path / "lock") is None
    with hold(tmp_path, "task", since=SINCE) as held:
        assert held.dead
    dead = dead_run(tmp_path / "lock")
    assert dead
    assert dead.pid == process.pid
    with hold(tmp_path, "run", since=SINCE) as held:
        assert held.dead[0].pid == process.pid
        assert held.end_orphans() == (1, 0)
        assert held.end_orphans() == (0, 0)
    assert dead_run(tmp_path / "lock") is None
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    with hold(tmp_path, "run", since=SINCE) as held:
        assert not held.dead


def test_what_a_dead_run_left_is_ended_though_the_next_one_was_killed_too(tmp_path: Path) -> None:
    first, first_child = start_holder(tmp_path)
    first.kill()
    first.communicate()
    second, second_child = start_holder(tmp_path)
    second.kill()
    second.communicate()
    with hold(tmp_path, "run", since=SINCE) as held:
        assert [one.pid for one in held.dead] == [second.pid, first.pid]
        assert held.end_orphans() == (2, 0)
    assert first_child != second_child


@pytest.mark.parametrize(
    ("error", "died"), [(RalphError("told"), False), (KeyboardInterrupt(), True), (ValueError(), True)]
)
def test_how_the_last_holder_ended(error: BaseException, died: bool, tmp_path: Path) -> None:
    with pytest.raises(type(error)), hold(tmp_path, "run", since=SINCE):
        raise error
    assert holder(tmp_path / "lock") is None
    with hold(tmp_path, "run", since=SINCE) as held:
        assert bool(held.dead) is died


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with hold(tmp_path, "run", since=SINCE):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with hold(tmp_path, "run", since=SINCE) as held:
            assert not held.dead
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "content", [b"", b"not json", b'{"pid": "x"}', b'{"pid":1,"since":"2026', b"\xff" * 100, b"[" * 100_000]
)
def test_a_lock_with_any_content_can_be_taken(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(content)
    assert holder(tmp_path / "lock") is None
    with hold(tmp_path, "run", since=SINCE) as held:
        assert bool(held.dead) == bool(content)
        assert held.end_orphans() == (0, 0)
        assert holder(tmp_path / "lock") is not None


def test_a_lock_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    plants: tuple[Callable[[Path], None], ...] = (
        lambda path: path.symlink_to(tmp_path / "elsewhere"),
        lambda path: path.mkdir(),
        os.mkfifo,
    )
    for number, plant in enumerate(plants):
        private = tmp_path / str(number)
        private.mkdir()
        plant(private / "lock")
        assert holder(private / "lock") is None
        with pytest.raises(RalphError, match="cannot open the lock"), hold(private, "run", since=SINCE):
            pytest.fail("held")
    (tmp_path / "file").touch()
    with pytest.raises(RalphError, match="cannot write"), hold(tmp_path / "file", "run", since=SINCE):
        pytest.fail("held")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}, {"pid": 0}])
def test_a_process_that_merely_has_the_id_of_a_dead_one_is_not_taken_for_it(
    change: dict[str, object], tmp_path: Path
) -> None:
    assert me().lives()
    leave(tmp_path, me(**change))
    with hold(tmp_path, "run", since=SINCE) as held:
        assert held.dead


def test_another_machine_is_given_way_to_where_it_shares_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = me(host="far", boot="another")
    leave(tmp_path, far)
    monkeypatch.setattr(lock, "_is_shared", lambda _: True)
    told = rf"process {os.getpid()} on far \('ralph run', since {SINCE}\) may be working .* rm {tmp_path}/lock"
    with pytest.raises(RalphError, match=told), hold(tmp_path, "run", since=SINCE):
        pytest.fail("held")
    assert json.decode((tmp_path / "lock").read_bytes(), type=Holder) == far
    monkeypatch.undo()
    with hold(tmp_path, "run", since=SINCE) as held:  # a disk of this machine's own: a container that is gone
        assert held.dead == (far,)


def test_between_its_hooks_a_session_holds_the_lock_by_its_agent(tmp_path: Path) -> None:
    agent = subprocess.Popen(["sleep", "60"])
    try:
        with hold(tmp_path, lock.SESSION, since=SINCE, session="s1", agent=agent.pid) as held:
            held.stay()
        found = holder(tmp_path / "lock")
        assert found
        assert (found.pid, found.is_agent) == (agent.pid, True)
        with (
            pytest.raises(RalphError, match=r"a Claude Code session .*/ralph:cancel"),
            hold(tmp_path, "run", since="x"),
        ):
            pytest.fail("held")
        with hold(tmp_path, lock.SESSION, since=SINCE, session="s1", agent=agent.pid) as held:
            assert not held.dead
            held.stay()
        lock.release_session(tmp_path, "s2")
        assert holder(tmp_path / "lock") is not None
        lock.release_session(tmp_path, "s1")
        assert holder(tmp_path / "lock") is None
        with hold(tmp_path, lock.SESSION, since=SINCE, session="s1", agent=agent.pid) as held:
            held.stay()
    finally:
        agent.kill()
        agent.wait()
    assert holder(tmp_path / "lock") is None
    with hold(tmp_path, "run", since=SINCE) as held:
        assert held.dead


def test_of_many_that_start_at_the_same_instant_exactly_one_wins(tmp_path: Path) -> None:
    leave(tmp_path, me(pid=4_000_000))
    script = """
import sys, time
from pathlib import Path
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.lock import hold
print("ready", flush=True); sys.stdin.readline()
try:
    with hold(Path(sys.argv[1]), "run", since="now") as held:
        print("won" if held.dead else "clean", flush=True); sys.stdin.read()
except RalphError as error:
    print(error, flush=True)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = []
    for process in processes:
        assert process.stdout
        process.stdout.readline()
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout
        said.append(process.stdout.readline().strip())
    for process in processes:
        process.communicate()
    assert said.count("won") == 1
    assert sum("is working on this project" in line for line in said) == 3
