"""Whether a process that is named in a lock is the one that wrote it, as values."""

import os
import signal
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.state import holder
from rulebook_ralph.state.holder import MOST_BEFORE, Here, Holder
from tests.cases import each_of

HERE = Here("here", "boot-1")
MOUNTS = """22 27 0:21 / /proc rw,relatime - proc proc rw
36 27 0:45 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
37 27 0:46 / /mnt rw,relatime - fuse.sshfs me@server:/ rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
broken""".splitlines()


def by(*, host: str = "here", boot: str = "boot-1", started: int = 5) -> Holder:
    return Holder(7, "now", "run", host, boot, started)


@each_of(
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


HOLDERS = st.builds(Holder, st.integers(0, 2**22), st.text(), st.sampled_from(["run", "init"]), st.text(), st.text())


@given(HOLDERS, st.lists(HOLDERS, max_size=30, unique=True))
def test_the_dead_before_a_holder_are_read_as_they_were_written(me: Holder, dead: list[Holder]) -> None:
    """Flat and each once; of too many the first to die stay, one of which had an agent."""
    read = msgspec.json.decode(msgspec.json.encode(me.after(tuple(dead))), type=Holder)
    assert read.before == tuple(dead[-MOST_BEFORE:])
    assert read.chain() == tuple(dict.fromkeys((me, *dead[-MOST_BEFORE:])))
    assert all(one.before == () for one in read.chain())
    assert me.after(read.chain()).after(()) == me


def test_a_lock_that_an_older_ralph_wrote_is_read() -> None:
    old = b'{"pid":7,"since":"now","command":"run","host":"here","boot":"boot-1","started":5}'
    assert msgspec.json.decode(old, type=Holder).chain() == (by(),)


@pytest.mark.parametrize(("who", "restarted"), [(by(), False), (by(boot="boot-0"), True), (by(boot=""), False)])
def test_nothing_outlives_a_restart_of_its_machine(who: Holder, restarted: bool) -> None:
    assert HERE.has_restarted_since(who) is restarted
