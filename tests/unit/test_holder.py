"""Whether a process that is named in a lock is the one that wrote it, as values."""

import os
import signal
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.state import holder
from rulebook_ralph.state.holder import Here, Holder

HERE = Here("here", "boot-1")
MOUNTS = """22 27 0:21 / /proc rw,relatime - proc proc rw
36 27 0:45 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
37 27 0:46 / /mnt rw,relatime - fuse.sshfs me@server:/ rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
broken""".splitlines()


def by(*, host: str = "here", boot: str = "boot-1", started: int = 5) -> Holder:
    return Holder(7, "now", "run", host, boot, started)


@pytest.mark.parametrize(
    ("who", "started", "lives"),
    [
        (by(), 5, True),
        (by(), None, False),
        (by(), 6, False),
        (by(boot="boot-0"), 5, False),
        (by(boot=""), 5, True),
        (by(started=0), 5, True),
        (by(), 0, True),
        (by(host=""), 5, True),
        (by(host="far"), None, True),
        (by(host="far", boot="boot-0"), None, True),
        (Holder(7, "now", "run"), 9, True),
        (Holder(7, "now", "run"), None, False),
    ],
)
def test_a_holder_lives_while_its_own_process_does(who: Holder, started: int | None, lives: bool) -> None:
    assert HERE.lives(who, started) is lives


@pytest.mark.parametrize(
    ("who", "elsewhere"),
    [
        (by(), False),
        (by(boot="boot-0"), False),  # this machine before it was started again
        (by(host="container"), False),  # of the same machine
        (by(host="far", boot="boot-0"), True),
        (by(host="far", boot=""), True),
        (by(host="", boot="boot-0"), False),
    ],
)
def test_another_machine_has_another_name_and_another_start(who: Holder, elsewhere: bool) -> None:
    assert HERE.is_elsewhere(who) is elsewhere


@given(st.builds(by, host=st.sampled_from(["", "here", "far"]), boot=st.sampled_from(["", "boot-1", "boot-0"])))
def test_nobody_is_both_dead_here_and_elsewhere(who: Holder) -> None:
    assert not HERE.is_elsewhere(who) or HERE.lives(who, None)


@pytest.mark.parametrize(
    ("device", "shared"), [("0:45", True), ("0:46", True), ("254:0", False), ("0:21", False), ("9:9", False)]
)
def test_shared_disks_are_known_by_their_type(device: str, shared: bool) -> None:
    assert holder.has_shared_type(MOUNTS, device) is shared


def test_this_process_is_known_again_and_others_are_not() -> None:
    me = holder.myself(since="now", command="run")
    assert holder.lives(me)
    assert me.told(holder.here()) == f"process {os.getpid()} ('ralph run', since now)"
    child = subprocess.Popen(["sleep", "60"])
    other = Holder(child.pid, "now", "run", me.host, me.boot)
    assert holder.lives(other)
    assert not holder.is_stopped(other)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert holder.lives(other), "one that stands still is not dead"
    assert holder.is_stopped(other)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not holder.lives(other), "a zombie holds nothing"
    child.wait()
    assert not holder.lives(other)
    assert not holder.is_stopped(other)
    assert not holder.is_alive(0)
    assert not holder.is_alive(2**70)
