import ctypes
import errno
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest

from rulebook_ralph import process_search
from rulebook_ralph.commands.projects import end_orphans
from rulebook_ralph.core import events
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk, folder_lock, holder, lock
from tests.cases import each_of

SINCE = "2026-01-01T00:00:00.000Z"
Write = Callable[[Path, bytes], object]
WRITES: dict[str, Write] = {"replace": disk.replace_file, "create": disk.create_file, "append": disk.append_file}
WHOLE = {name: write for name, write in WRITES.items() if name != "append"}

_FULL = """
import resource, sys
from pathlib import Path
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    getattr(disk, sys.argv[1])(Path(sys.argv[2]), b"y" * 10_000)
except RalphError as error:
    print(error)
"""
_HOLD = """
import sys, time
from pathlib import Path
from rulebook_ralph.state import lock
with lock.held(Path(sys.argv[1]), since="now", command="run") as died:
    print("died" if died else "clean", flush=True)
    sys.stdin.read()
"""


def _python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "prd.json"
    for data in (b"first", b"", b"a longer second"):
        disk.replace_file(path, data)
        assert path.read_bytes() == data
    assert _names(tmp_path) == ["prd.json"]


def test_whoever_reads_while_a_file_is_replaced_sees_one_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "prd.json"
    disk.replace_file(path, b"old")
    with path.open("rb") as file:
        disk.replace_file(path, b"new")
        assert file.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_file_is_created_only_once(tmp_path: Path) -> None:
    path = tmp_path / "iteration-1.json"
    disk.create_file(path, b"first")
    with pytest.raises(FileExistsError):
        disk.create_file(path, b"second")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("folder", "dangling"):
        with pytest.raises(FileExistsError):
            disk.create_file(tmp_path / name, b"x")
    assert path.read_bytes() == b"first"
    assert _names(tmp_path) == ["dangling", "folder", "iteration-1.json"]


def test_appending_makes_the_file_and_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    disk.append_file(path, b"one\n")
    disk.append_file(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("name", WRITES)
def test_a_folder_that_is_not_there_or_is_a_file_is_one_clear_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "none" / "a.json", tmp_path / "file" / "a.json"):
        with pytest.raises(RalphError, match="cannot write") as told:
            WRITES[name](path, b"x")
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)
    assert _names(tmp_path) == ["file"]


def test_what_cannot_be_written_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(RalphError):
        disk.replace_file(path, b"x")
    with pytest.raises(RalphError):
        disk.append_file(path, b"x")
    assert _names(tmp_path) == ["folder"]


@pytest.mark.parametrize("name", ["replace_file", "create_file", "append_file"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(name: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write breaks off in the middle likewise."""
    path = tmp_path / "file.json"
    if name != "create_file":
        path.write_bytes(b"old")
    out, err = _python(_FULL, name, path).communicate(timeout=20)
    assert "cannot write" in out, err
    match name:
        case "replace_file":
            assert path.read_bytes() == b"old"
        case "append_file":
            assert path.read_bytes().startswith(b"oldy")
            assert path.stat().st_size == 4096
    assert _names(tmp_path) == ([] if name == "create_file" else ["file.json"])


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret, link = tmp_path / "secret", tmp_path / "link"
    secret.write_text("keep")
    link.symlink_to(secret)
    with pytest.raises(RalphError):
        disk.append_file(link, b"x")
    disk.replace_file(link, b"new")
    assert (link.is_symlink(), link.read_bytes()) == (False, b"new")
    assert secret.read_text() == "keep"


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("planted", ["link", "fifo", "file", "hard link"])
def test_a_planted_temporary_file_leads_nowhere(name: str, planted: str, tmp_path: Path) -> None:
    """The name of the temporary file can be foreseen; whatever stands there is neither written to nor waited for."""
    secret, path = tmp_path / "secret", tmp_path / "file.json"
    secret.write_text("keep")
    temporary = disk._temporary(path)
    match planted:
        case "link":
            temporary.symlink_to(secret)
        case "fifo":
            os.mkfifo(temporary)
        case "file":
            temporary.write_text("left by a dead process")
        case "hard link":
            temporary.hardlink_to(secret)
    signal.alarm(5)
    try:
        WHOLE[name](path, b"new")
    finally:
        signal.alarm(0)
    assert path.read_bytes() == b"new"
    assert secret.read_text() == "keep"
    assert _names(tmp_path) == ["file.json", "secret"]


def test_folders_are_made(tmp_path: Path) -> None:
    disk.make_folder(tmp_path / "a" / "b")
    disk.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(RalphError, match="cannot write"):
        disk.make_folder(tmp_path / "file" / "c")


# The lock


def _named(path: Path) -> tuple[int, str, str] | None:
    """Who holds it, as far as the holder itself chose."""
    found = lock.holder(path)
    return (found.pid, found.since, found.command) if found is not None else None


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "git" / "ralph" / "lock"
    with lock.held(path, since=SINCE, command="resume") as died:
        assert not died
        assert _named(path) == (os.getpid(), SINCE, "resume")
        other = _python(_HOLD, path)
        _, err = other.communicate(timeout=20)
        assert other.returncode != 0
        assert f"process {os.getpid()} ('ralph resume', since {SINCE}) is working on this project" in err
        assert _named(path) == (os.getpid(), SINCE, "resume")
    assert lock.holder(path) is None
    assert lock.holder(tmp_path / "nowhere") is None
    with lock.held(path, since=SINCE, command="run") as died:
        assert not died


def test_within_one_process_too(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock.held(path, since=SINCE, command="run"), pytest.raises(RalphError, match=f"process {os.getpid()}"):  # noqa: SIM117
        with lock.held(path, since=SINCE, command="run"):
            pytest.fail("held twice")


def test_a_holder_that_is_killed_gives_the_lock_up_and_is_known_to_have_died(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = _python(_HOLD, path)
    assert other.stdout is not None
    assert other.stdout.readline() == "clean\n"
    living = lock.holder(path)
    assert living is not None
    assert (living.pid, living.command) == (other.pid, "run")
    with pytest.raises(RalphError, match=f"process {other.pid} "), lock.held(path, since=SINCE, command="run"):
        pytest.fail("held twice")
    other.send_signal(signal.SIGKILL)
    other.communicate(timeout=20)
    assert lock.holder(path) is None
    with lock.held(path, since=SINCE, command="run") as died:
        assert died
    with lock.held(path, since=SINCE, command="run") as died:
        assert not died


@pytest.mark.parametrize(
    ("error", "died"), [(RalphError("told"), False), (KeyboardInterrupt(), True), (ValueError(), True)]
)
def test_how_the_last_holder_ended(error: BaseException, died: bool, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(type(error)), lock.held(path, since=SINCE, command="run"):
        raise error
    assert lock.holder(path) is None
    with lock.held(path, since=SINCE, command="run") as last_died:
        assert (last_died is not None) is died


@pytest.mark.parametrize("error", [None, RalphError("told")])
def test_only_a_run_mends_what_a_dead_one_left(error: RalphError | None, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b'{"pid":4194304,"since":"now","command":"run"}')
    with suppress(RalphError), lock.held(path, since=SINCE, command="init") as died:
        assert died is not None
        assert died.holders == (holder.Holder(4194304, "now", "run"),)
        if error:
            raise error
    with lock.held(path, since=SINCE, command="run") as died:
        assert died is not None
        assert died.holders == (holder.Holder(4194304, "now", "run"),)


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock.held(path, since=SINCE, command="run"):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert lock.holder(path) is None
        with lock.held(path, since=SINCE, command="run") as died:
            assert not died
    finally:
        child.kill()
        child.wait()


def test_a_lock_that_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    for path in (link, tmp_path / "folder", tmp_path / "fifo", tmp_path / "file" / "lock"):
        assert lock.holder(path) is None
        with pytest.raises(RalphError, match="cannot open the lock"), lock.held(path, since=SINCE, command="run"):
            pytest.fail("held")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "content", [b"", b"not json", b'{"pid": "x"}', b'{"pid":1,"since":"2026', b"\xff" * 100, b"[" * 100_000]
)
def test_a_lock_with_any_content_can_be_taken(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(content)
    assert lock.holder(path) is None
    with lock.held(path, since=SINCE, command="run") as died:
        assert (died is not None) == bool(content)
        assert lock.holder(path) is not None


@pytest.mark.skipif(os.getuid() != 0, reason="without root the file system says no by itself")
def test_a_lock_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    """Root may write everywhere: another user asks."""
    path = tmp_path / "lock"
    path.touch(mode=0o444)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setuid(65534)
        try:
            with lock.held(path, since=SINCE, command="run"):
                os.write(write, b"held")
        except BaseException as error:  # noqa: BLE001 - the parent looks at what it was
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 999).decode().startswith(f"cannot open the lock {path}: Permission denied")
    os.close(read)
    os.close(write)


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    script = _HOLD.replace("with lock", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))\nwith lock")
    _, err = _python(script, tmp_path / "lock").communicate(timeout=20)
    assert "cannot write the lock" in err, err
    assert (tmp_path / "lock").read_bytes() == b"", "no run has died"


def test_a_holder_that_was_stopped_still_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = _python(_HOLD, path)
    assert other.stdout is not None
    other.stdout.readline()
    other.send_signal(signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, other.pid, os.WSTOPPED)
        with pytest.raises(RalphError, match=f"process {other.pid} .*stopped.*kill -CONT {other.pid}"):  # noqa: SIM117
            with lock.held(path, since=SINCE, command="run"):
                pytest.fail("held twice")
    finally:
        other.kill()
        other.communicate(timeout=20)


def test_a_fork_of_a_holder_does_not_keep_the_lock_that_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    read, write = os.pipe()
    with lock.held(path, since=SINCE, command="run"):
        if (child := os.fork()) == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    try:
        assert lock.holder(path) is None
        with lock.held(path, since=SINCE, command="run") as died:
            assert died is None
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_a_fork_that_outlives_its_holder_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_LOOKS", 3)
    monkeypatch.setattr(lock, "_FEW_LOOKS", 2)
    path = tmp_path / "lock"
    script = "import os\n" + _HOLD.replace(
        "    sys.stdin.read()",
        "    child = os.fork()\n    print(child, flush=True) if child else None\n    time.sleep(60)",
    )
    other = _python(script, path)
    assert other.stdout is not None
    other.stdout.readline()
    child = int(other.stdout.readline())
    other.kill()
    other.wait()
    try:
        with pytest.raises(RalphError, match="something holds the lock"), lock.held(path, since=SINCE, command="run"):
            pytest.fail("held twice")
        named = lock.holder(path)
        assert named is not None
        assert named.pid == other.pid
    finally:
        os.kill(child, signal.SIGKILL)
        other.communicate(timeout=20)
    with lock.held(path, since=SINCE, command="run") as died:
        assert died is not None


@pytest.mark.parametrize("change", [{"started": 1}, {"boot": "another"}])
def test_a_process_that_merely_has_the_id_of_a_dead_holder_is_not_taken_for_it(
    change: dict[str, object], tmp_path: Path
) -> None:
    """Also at a moment at which somebody looks at the lock, or writes a line into the task list."""
    path = tmp_path / "lock"
    path.write_bytes(msgspec.json.encode(replace(holder.myself(since=SINCE, command="run"), **change)))  # type: ignore[arg-type]
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    looking = threading.Timer(0.1, os.close, (descriptor,))
    looking.start()
    with lock.held(path, since=SINCE, command="run") as died:
        assert died is not None
        assert died.holders[0].pid == os.getpid()
    looking.join()


def test_another_machine_is_given_way_to_where_it_shares_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    far = replace(holder.myself(since=SINCE, command="run"), host="far", boot="another")
    path.write_bytes(msgspec.json.encode(far))
    monkeypatch.setattr(lock, "is_shared", lambda _: True)
    told = rf"process {os.getpid()} on far \('ralph run', since {SINCE}\) may be working .* rm {path}"
    with pytest.raises(RalphError, match=told), lock.held(path, since=SINCE, command="run"):
        pytest.fail("held")
    with pytest.raises(RalphError, match=told), lock.briefly(path):
        pytest.fail("held")
    assert path.read_bytes() == msgspec.json.encode(far)
    monkeypatch.undo()
    with lock.held(path, since=SINCE, command="run") as died:  # a disk of this machine's own: a container that is gone
        assert died is not None
        assert died.holders == (far,)


_AGENT = """
    import os, subprocess
    apart = {"env": {**os.environ, f"RALPH_MARK_{os.getpid()}_0": "1"}, "start_new_session": True}
    null = open(os.devnull, "w")
    print(subprocess.Popen(["sleep", "60"], stdin=null, stdout=null, stderr=null, **apart).pid, flush=True)
    sys.stdin.read()
"""


def _killed(script: str, path: Path, *, lines: int) -> tuple[int, list[str]]:
    """The id of a process that was killed after so many lines, and these."""
    process = _python(script, path)
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(lines)]
    process.kill()
    process.communicate(timeout=20)
    return process.pid, told


@pytest.mark.parametrize("second", ["run", "prune"])
def test_what_a_dead_run_left_is_ended_though_the_next_start_was_killed_too(second: str, tmp_path: Path) -> None:
    """The second dies before it has ended anything: the third has to know of both."""
    path, told = tmp_path / "lock", list[events.Event]()
    first, (_, agent) = _killed(_HOLD.replace("    sys.stdin.read()", _AGENT.strip("\n")), path, lines=2)
    next_one, (died,) = _killed(_HOLD.replace('"run"', f'"{second}"'), path, lines=1)
    assert died == "died"
    assert holder.is_alive(int(agent))
    try:
        with lock.held(path, since=SINCE, command="run") as dead:
            assert dead is not None
            assert [one.pid for one in dead.holders] == [next_one, first]
            end_orphans(dead, told.append)
            assert not holder.is_alive(int(agent))
            assert msgspec.json.decode(path.read_bytes(), type=holder.Holder).before == ()
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(agent), signal.SIGKILL)
    assert [event.text for event in told if isinstance(event, events.Notice)] == [
        f"ended 1 process that the dead run (process {first}) left running"
    ]
    assert path.read_bytes() == b""


# A lock whose file an agent removed or changed: the git folder is held all the same


def test_a_run_whose_file_is_gone_is_not_joined_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_LOOKS", 3)
    path = tmp_path / "git" / "ralph" / "lock"
    gone = f"another run is working on this project, although its lock file {path} is gone; find it: fuser -v {tmp_path / 'git'}"
    with lock.held_for_run(path, since=SINCE, command="run") as (died, put_back):
        assert died is None
        assert not put_back(), "nothing is amiss"
        shutil.rmtree(path.parent)
        found = lock.holder(path)
        assert found is not None
        assert (found.pid, lock.unnamed(path, found)) == (0, gone)
        for _ in range(2):  # the first makes a file anew
            with pytest.raises(RalphError, match=re.escape(gone)), lock.held(path, since=SINCE, command="resume"):
                pytest.fail("held twice")
        with pytest.raises(RalphError, match="is gone"), lock.briefly(path):
            pytest.fail("held")
        assert put_back()
        assert not put_back()
        assert _named(path) == (os.getpid(), SINCE, "run")
        with pytest.raises(RalphError, match=f"process {os.getpid()} "), lock.held(path, since=SINCE, command="resume"):
            pytest.fail("held twice")
        assert _names(path.parent) == ["lock"]
    assert lock.holder(path) is None
    assert path.read_bytes() == b"", "it did not die"


@each_of(
    ("planted",),
    [
        ("rm -rf git/ralph; touch git/ralph",),
        ("rm git/ralph/lock; touch git/ralph/lock",),
        ("rm git/ralph/lock; mkdir -p git/ralph/lock/sub",),
        ("rm git/ralph/lock; ln -s ../../secret git/ralph/lock",),
        ("rm git/ralph/lock; mkfifo git/ralph/lock",),
        ("ln git/ralph/lock git/ralph/other; rm git/ralph/lock; cp git/ralph/other git/ralph/lock",),
        ("echo forged > git/ralph/lock",),
        (f"ln -s ../../secret git/ralph/.lock.{os.getpid()}.tmp; rm git/ralph/lock",),
        (f"mkdir git/ralph/.lock.{os.getpid()}.tmp; rm git/ralph/lock",),
    ],
)
def test_the_file_comes_back_whatever_stands_there(planted: str, tmp_path: Path) -> None:
    path, secret = tmp_path / "git" / "ralph" / "lock", tmp_path / "secret"
    secret.write_text("keep")
    with lock.held_for_run(path, since=SINCE, command="run") as (_, put_back):
        subprocess.run(planted, shell=True, cwd=tmp_path, check=True)
        if path.parent.is_dir():
            assert put_back()
            assert _named(path) == (os.getpid(), SINCE, "run")
        else:
            with pytest.raises(RalphError, match="cannot open the lock"):
                put_back()
    assert secret.read_text() == "keep"


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOLCK])
def test_where_a_folder_cannot_be_locked_the_file_alone_counts(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems, of which there is none here."""
    path, flock = tmp_path / "git" / "ralph" / "lock", fcntl.flock

    def of_files(descriptor: int, how: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(error, os.strerror(error))
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", of_files)
    with lock.held_for_run(path, since=SINCE, command="run") as (_, put_back):
        assert f"process {os.getpid()}" in _python(_HOLD, path).communicate(timeout=20)[1]
        path.unlink()
        assert lock.holder(path) is None
        with lock.held(path, since=SINCE, command="resume"):
            assert not put_back(), "the other has it by now"
        assert put_back()
        assert _named(path) == (os.getpid(), SINCE, "run")


_TWO = msgspec.json.encode(holder.Holder(9, "now", "resume", before=(holder.Holder(8, "now", "run"),)))


@pytest.mark.parametrize(
    ("command", "ended", "refused", "left"),
    [
        ("run", False, True, [9, 8]),
        ("run", True, True, [os.getpid()]),
        ("run", True, False, []),
        ("init", False, False, [9, 8]),
        ("prune", True, False, [9]),
        ("prune", True, True, [9]),
    ],
)
def test_the_dead_are_named_until_what_they_left_is_ended(
    command: str, ended: bool, refused: bool, left: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "lock"
    path.write_bytes(_TWO)
    with suppress(RalphError), lock.held(path, since=SINCE, command=command) as dead:
        assert dead is not None
        now = msgspec.json.decode(path.read_bytes(), type=holder.Holder)
        assert [one.pid for one in now.chain()] == [os.getpid(), 9, 8]
        if ended:
            dead.ended()
        if refused:
            raise RalphError("told")
    data = path.read_bytes()
    assert [one.pid for one in msgspec.json.decode(data, type=holder.Holder).chain()] == left if left else not data


@pytest.mark.skipif(sys.platform != "linux", reason="told on Linux only")
def test_a_hidden_survivor_is_told_of_and_not_ended(tmp_path: Path) -> None:
    """It cleared its environment, opened a session and lost its parent; a person's shell below another is left out."""
    work = tmp_path / "project" / "sub"
    work.mkdir(parents=True)
    started = holder.myself(since=SINCE, command="run").started
    start = "env -i PATH=$PATH setsid sh -c 'echo $$; exec sleep 60 >&-' & wait"
    starter = subprocess.Popen(["sh", "-c", start], cwd=work, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    hidden = int(starter.stdout.readline())
    person = subprocess.Popen(["sleep", "60"], cwd=work, start_new_session=True)
    try:
        with _adopting_no_orphans():
            starter.kill()
            starter.wait()
        if psutil.Process(hidden).ppid() != 1:
            pytest.skip("something between this test and the first process takes up orphans")
        assert process_search.orphans_within([tmp_path / "project"], since=started) == [hidden]
        assert process_search.orphans_within([tmp_path / "elsewhere"], since=started) == []
        assert process_search.orphans_within([tmp_path / "project"], since=2**60) == []
        path, told = tmp_path / "lock", list[events.Event]()
        dead_run = replace(holder.myself(since=SINCE, command="run"), pid=4194304, started=started)
        path.write_bytes(msgspec.json.encode(dead_run))
        with lock.held(path, since=SINCE, command="run") as dead:
            assert dead is not None
            end_orphans(dead, told.append, within=[tmp_path / "project"])
        assert [event.text for event in told if isinstance(event, events.Notice)] == [
            f"1 process at work in this project may be the dead run's; look, and end what is not yours: ps -fp {hidden}"
        ]
        assert holder.is_alive(hidden)
    finally:
        os.kill(hidden, signal.SIGKILL)
        person.kill()
        person.wait()
        starter.stdout.close()


@contextmanager
def _adopting_no_orphans() -> Iterator[None]:
    """A test before may have made this process one that takes up orphans."""
    prctl, was = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(37, ctypes.byref(was), 0, 0, 0)
    prctl(36, 0, 0, 0, 0)
    yield
    prctl(36, was.value, 0, 0, 0)


_AT_ONCE = """
import os, sys
from pathlib import Path
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import lock
go, told, end = os.pipe(), os.pipe(), os.pipe()
for number in range(int(sys.argv[2])):
    if os.fork() == 0:
        os.close(go[1]); os.close(end[1])
        os.read(go[0], 1)
        try:
            with lock.held(Path(sys.argv[1]), since="now", command="run") as died:
                os.write(told[1], b"won, died\\n" if died else b"won\\n")
                os.read(end[0], 1)
        except RalphError as error:
            os.write(told[1], f"{error}\\n".encode())
        os._exit(0)
os.close(go[0]); os.close(go[1]); os.close(told[1])
with open(told[0]) as lines:
    print("".join(lines.readline() for _ in range(int(sys.argv[2]))), end="")
os.close(end[1])
"""


@pytest.mark.parametrize("before", [b"", b'{"pid":1,"since":"2026', b'{"pid":4194304,"since":"now","command":"run"}'])
def test_of_many_that_start_at_the_same_instant_exactly_one_wins(before: bytes, thorough: bool, tmp_path: Path) -> None:
    """Whatever a dead run wrote; the others are told the process that won."""
    for turn in range(20 if thorough else 2):
        path = tmp_path / f"lock-{turn}"
        path.write_bytes(before)
        out, err = _python(_AT_ONCE, path, 8).communicate(timeout=60)
        lines = out.splitlines()
        assert len(lines) == 8, err
        assert sorted(line for line in lines if line.startswith("won")) == ["won, died" if before else "won"]
        refused = {line for line in lines if not line.startswith("won")}
        assert len(refused) == 1, "all are told the same"
        assert refused.pop().endswith("('ralph run', since now) is working on this project; wait for it or end it")
