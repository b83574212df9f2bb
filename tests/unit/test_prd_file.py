"""prd.json, written by the loop and by a person at the same moment."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.loop.prd_file import PrdFile
from rulebook_ralph.state import codec, disk
from rulebook_ralph.state.store import StateFolder

AT = "2026-01-01T00:00:00.000Z"


def known_file(root: Path) -> tuple[StateFolder, PrdFile]:
    """A task list with the task `Mine`, as the loop knows it."""
    folder = StateFolder(root)
    folder.path.mkdir()
    prd = Prd(version=1, project="toy", tasks=(Task(id="one", title="Mine"),), created_at=AT, updated_at=AT)
    data = codec.encode_prd(prd)
    folder.prd.write_bytes(data)
    clock = Clock(now=lambda: datetime.now(UTC), monotonic=lambda: 0.0)
    file = PrdFile(folder, prd, data, clock=clock, notice=lambda *_: None)
    file.take_edits()
    return folder, file


def test_a_save_right_after_the_loop_has_written_is_read_and_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = known_file(tmp_path)
    replace_file = disk.replace_file

    def and_a_person_saves(path: Path, content: bytes) -> disk.Fingerprint:
        written = replace_file(path, content)
        path.write_bytes(path.read_bytes().replace(b"Mine", b"Hers"))
        return written

    with monkeypatch.context() as patched:
        patched.setattr(disk, "replace_file", and_a_person_saves)
        file.put(file.prd.replacing(replace(file.prd.tasks[0], status="in_iteration")))
    file.put(file.prd.replacing(replace(file.prd.tasks[0], status="completed")))
    after = codec.decode_prd(folder.prd.read_bytes()).tasks[0]
    assert (after.title, after.status) == ("Hers", "completed")


def test_what_the_loop_wrote_itself_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    written = disk.replace_file(path, b"content")
    assert disk.is_what_was_written(disk.fingerprint(path), written)
    path.write_bytes(b"contents")
    assert not disk.is_what_was_written(disk.fingerprint(path), written)
    path.unlink()
    assert not disk.is_what_was_written(disk.fingerprint(path), written)


@pytest.mark.parametrize("text", [b"Hers", b'Hers", "'])
def test_a_save_right_before_the_loop_writes_is_merged_or_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    folder, file = known_file(tmp_path)
    replace_file = disk.replace_file

    def after_a_person_has_saved(path: Path, content: bytes) -> disk.Fingerprint:
        path.write_bytes(path.read_bytes().replace(b"Mine", text))
        monkeypatch.setattr(disk, "replace_file", replace_file)
        return replace_file(path, content)

    monkeypatch.setattr(disk, "replace_file", after_a_person_has_saved)
    file.put(file.prd.replacing(replace(file.prd.tasks[0], status="in_iteration")))
    file.put(file.prd.replacing(replace(file.prd.tasks[0], status="completed")))
    assert text in folder.prd.read_bytes()
    assert file.prd.tasks[0].status == "completed"
    if not file.problem:
        assert codec.decode_prd(folder.prd.read_bytes()) == file.prd
    assert bool(file.problem) == (text != b"Hers")
    assert [path.name for path in folder.path.iterdir()] == ["prd.json"]
