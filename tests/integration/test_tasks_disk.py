"""State files on a real disk: whole or not at all, never through a link, one clear line where it fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk

Write = Callable[[Path, bytes], object]
WRITES: dict[str, Write] = {"replace": disk.replace_file, "append": disk.append_file}
WHOLE = {name: write for name, write in WRITES.items() if name != "append"}

_FULL = """
import resource, sys
from pathlib import Path
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    getattr(disk, sys.argv[1])(Path(sys.argv[2]), b"y" * 10_000)
except RalphError as error:
    print(error)
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


@pytest.mark.parametrize("name", ["replace_file", "append_file"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(name: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write breaks off in the middle likewise."""
    path = tmp_path / "file.json"
    path.write_bytes(b"old")
    out, err = _python(_FULL, name, path).communicate(timeout=20)
    assert "cannot write" in out, err
    match name:
        case "replace_file":
            assert path.read_bytes() == b"old"
        case "append_file":
            assert path.read_bytes().startswith(b"oldy")
            assert path.stat().st_size == 4096
    assert _names(tmp_path) == ["file.json"]


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


@pytest.mark.parametrize("planted", ["link", "fifo", "folder", "large"])
def test_what_is_no_plain_file_is_not_read(planted: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    match planted:
        case "link":
            (tmp_path / "secret").write_text("keep")
            path.symlink_to(tmp_path / "secret")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "large":
            path.write_bytes(b"123456789")
    signal.alarm(5)
    try:
        with pytest.raises(OSError, match=r".") as told:
            disk.read_file(path, largest=8)
    finally:
        signal.alarm(0)
    assert told.value.strerror
    assert disk.content_of(path) == (b"123456789" if planted == "large" else None)


def test_the_start_of_a_large_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"123456789")
    assert disk.read_file(tmp_path / "a", largest=4, only_start=True) == b"1234"


def test_what_was_replaced_has_a_second_name_as_long_as_it_is_wanted(tmp_path: Path) -> None:
    path, second = tmp_path / "prd.json", tmp_path / ".second"
    disk.replace_file(path, b"one", replaced=second)
    assert not second.exists()
    for text in (b"two", b"three"):
        written = disk.replace_file(path, text, replaced=second)
        assert disk.fingerprint(path) == written
    assert (path.read_bytes(), second.read_bytes()) == (b"three", b"two")
    path.write_bytes(b"four!")
    assert disk.fingerprint(path) != written
    path.unlink()
    assert disk.fingerprint(path) != written


def test_a_file_that_was_just_written_may_be_half_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("{")
    now = datetime.now(UTC)
    assert disk.is_being_saved(path, now + timedelta(milliseconds=100))
    assert not disk.is_being_saved(path, now + timedelta(seconds=2))
    assert not disk.is_being_saved(tmp_path / "none", now)


def test_only_temporary_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    for name in (".prd.json.123.tmp", ".mine.tmp", "a.tmp"):
        (tmp_path / name).write_text("x")
    disk.remove_temporaries(tmp_path, tmp_path / "none")
    assert _names(tmp_path) == [".mine.tmp", "a.tmp"]
