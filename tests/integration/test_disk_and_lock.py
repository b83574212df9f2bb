import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk, lock

SINCE = "2026-01-01T00:00:00.000Z"
Write = Callable[[Path, bytes], None]
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


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "git" / "ralph" / "lock"
    with lock.held(path, since=SINCE, command="resume") as died:
        assert not died
        assert lock.holder(path) == lock.Holder(os.getpid(), SINCE, "resume")
        other = _python(_HOLD, path)
        _, err = other.communicate(timeout=20)
        assert other.returncode != 0
        assert f"process {os.getpid()} ('ralph resume', since {SINCE}) is working on this project" in err
        assert lock.holder(path) == lock.Holder(os.getpid(), SINCE, "resume")
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
    holder = lock.holder(path)
    assert holder is not None
    assert (holder.pid, holder.command) == (other.pid, "run")
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
    for path in (link, tmp_path / "folder"):
        with pytest.raises(RalphError, match="cannot open the lock"), lock.held(path, since=SINCE, command="run"):
            pytest.fail("held")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("content", [b"", b"not json", b'{"pid": "x"}', b"\xff" * 100])
def test_a_lock_with_any_content_can_be_taken(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(content)
    assert lock.holder(path) is None
    with lock.held(path, since=SINCE, command="run") as died:
        assert (died is not None) == bool(content)
        assert lock.holder(path) is not None
