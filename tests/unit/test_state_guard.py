"""The state folder is put back as it was, the history too, however often it was looked at."""

from pathlib import Path

from rulebook_ralph.state import guard
from rulebook_ralph.state.store import StateFolder

SAVED = {f"history/iteration-{number}.json": f'{{"number": {number}}}\n'.encode() for number in (1, 2)}


def made(root: Path) -> StateFolder:
    folder = StateFolder(root)
    folder.history.mkdir(parents=True)
    folder.prd.write_text("{}")
    for name, content in SAVED.items():
        (folder.path / name).write_bytes(content)
    return folder


def stands(folder: StateFolder) -> dict[str, bytes]:
    return {f"history/{path.name}": path.read_bytes() for path in folder.history.iterdir()}


def test_what_is_guarded_already_is_put_back_also_where_it_changed_in_between(tmp_path: Path) -> None:
    folder = made(tmp_path)
    before = guard.remember(folder)
    folder.iteration(1).write_text("in between")
    folder.iteration(3).write_text("new in between")
    again = guard.remember(folder, before=before)
    folder.iteration(2).write_text("now")
    folder.iteration(3).write_text("changed now")
    folder.iteration(4).write_text("new now")
    restored = again.restore({**SAVED, "history/iteration-3.json": b"new in between"}.get)
    assert {item.name: item.other for item in restored} == {
        "history/iteration-1.json": b"in between",
        "history/iteration-2.json": b"now",
        "history/iteration-3.json": b"changed now",
        "history/iteration-4.json": b"new now",
    }
    assert stands(folder) == SAVED | {"history/iteration-3.json": b"new in between"}


def test_a_record_that_was_written_or_removed_in_between_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = made(tmp_path)
    before = guard.remember(folder).without_fingerprint("history/iteration-2.json")
    folder.iteration(2).write_text("settled")
    folder.iteration(1).unlink()
    again = guard.remember(folder, before=before)
    assert again.restore(SAVED.get) == ()
    assert stands(folder) == {"history/iteration-2.json": b"settled"}
