"""What is held for `ralph accept`: reading it from a folder that agents can write, telling it, taking it over."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.core import edits, taking
from rulebook_ralph.core.difference_lines import LONGEST, lines_of
from rulebook_ralph.core.edits import EditRefusedError
from rulebook_ralph.core.merging import differences
from rulebook_ralph.core.model import LOOP_FIELDS, Prd, Status, Task
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.core.taking import Put, Take
from rulebook_ralph.core.whole_text import whole
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import editable, held
from rulebook_ralph.state.store import StateFolder
from tests.cases import each_of

AT = "2026-01-02T00:00:00.000Z"


def hold(folder: Path, name: str, other: bytes, base: bytes | None = None, *, number: int = 1) -> Path:
    for top, content in ((f"iteration-{number}", other), (f"iteration-{number}.base", base)):
        if content is not None:
            path = folder / top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder / f"iteration-{number}" / name


# Reading


def test_every_edit_is_found_the_oldest_first(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        hold(tmp_path, "prd.json", b"{}", b"{ }", number=number)
    hold(tmp_path, "prd.json.10", b"10", number=2)
    hold(tmp_path, "prd.json.2", b"2", number=2)
    hold(tmp_path, "config.yaml", b"", b"a: 1", number=2)
    hold(tmp_path, "templates/sub/b.md.7", b"own name", number=2)
    hold(tmp_path, "templates/a.md", b"a", number=2)
    hold(tmp_path, "templates/a.md.2", b"second", number=2)
    found = [(place.number, place.name, place.order) for place in held.find(tmp_path)]
    assert found == [
        (0, "prd.json", 1),
        (2, "config.yaml", 1),
        (2, "prd.json", 1),
        (2, "prd.json", 2),
        (2, "prd.json", 10),
        (2, "templates/a.md", 1),
        (2, "templates/a.md", 2),
        (2, "templates/sub/b.md.7", 1),
        (10, "prd.json", 1),
    ]
    assert [place.number for place in held.find(tmp_path, (10, 0))] == [0, 10]
    config, first, second, *_ = map(held.read, held.find(tmp_path, [2]))
    assert (config.other, config.base) == (b"", b"a: 1")
    assert (first.base, second.base, second.other) == (b"{ }", None, b"2")


@each_of(
    "name",
    [
        "iteration-1/progress.txt",
        "iteration-1/history/iteration-1.json",
        "iteration-1/git/config",
        "iteration-1/prd.json.0",
        "iteration-1/prd.json.x",
        "iteration-1/config.yaml/prd.json",
        "iteration-1/templates/.x.12.tmp",
        "iteration-1/templates/a/b/c/d/e/f.md",
        "iteration-01/prd.json",
        "iteration-1234567890/prd.json",
        "iteration-1.base/prd.json",
        "iteration--1/prd.json",
        "prd.json",
        f"iteration-1/templates/{'x' * 250}",
    ],
)
def test_nothing_else_there_is_an_edit(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"{}")
    assert held.find(tmp_path) == ()


def test_no_link_is_followed_and_nothing_is_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "prd.json").write_bytes(b"secret")
    folder = tmp_path / "held"
    good = hold(folder, "prd.json", b"good", b"secret")
    (folder / "iteration-2").symlink_to(secret)
    hold(folder, "config.yaml", b"", number=3).unlink()
    (folder / "iteration-3" / "config.yaml").symlink_to(secret / "prd.json")
    (folder / "iteration-3" / "templates").symlink_to(secret)
    os.mkfifo(folder / "iteration-3" / "prd.json")
    found = [held.read(place) for place in held.find(folder)]
    assert [(each.place.number, each.place.name) for each in found] == [
        (1, "prd.json"),
        (3, "config.yaml"),
        (3, "prd.json"),
    ]
    assert all(each.problem and not each.other for each in found[1:])
    base = folder / "iteration-1.base"
    (base / "prd.json").unlink()
    base.rmdir()
    base.symlink_to(secret)
    assert "below a symbolic link" in held.read(found[0].place).problem
    good.parent.rename(secret / "moved")
    good.parent.symlink_to(secret / "moved")
    assert "below a symbolic link" in held.read(found[0].place).problem
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert held.find(folder) == ()


def test_what_is_too_much_is_not_read(tmp_path: Path) -> None:
    path = hold(tmp_path, "prd.json", b"")
    os.truncate(path, held.MOST_BYTES + 1)
    (place,) = held.find(tmp_path)
    assert "is larger than 32 MB" in held.read(place).problem
    for number in range(2, held.MOST_EDITS + 20):
        hold(tmp_path, "config.yaml", b"", number=number)
    assert len(held.find(tmp_path)) == held.MOST_EDITS


def test_only_what_was_read_is_forgotten(tmp_path: Path) -> None:
    path = hold(tmp_path, "templates/a.md", b"shown", b"base")
    hold(tmp_path, "prd.json", b"stays")
    each = held.read(held.find(tmp_path)[1])
    path.write_bytes(b"another")
    held.remove(each)
    assert path.read_bytes() == b"another"
    held.remove(held.read(each.place))
    assert not path.parent.exists()
    assert not (tmp_path / "iteration-1.base").exists()
    assert [place.name for place in held.find(tmp_path)] == ["prd.json"]


# Files beside the task list


@each_of(
    "name",
    [
        "prd.json",
        "progress.txt",
        "../config.yaml",
        "templates/../prd.json",
        "templates/../../x",
        "templates/",
        "templates//etc/passwd",
        "/etc/passwd",
        "config.yaml/",
        "templates/a\0b",
        "",
    ],
)
def test_no_other_file_can_be_put(tmp_path: Path, name: str) -> None:
    with pytest.raises(RalphError, match="no file that can be put there"):
        editable.put(StateFolder(tmp_path), name, b"x")
    assert list(tmp_path.iterdir()) == []


def _link_templates(state: Path, outside: Path) -> None:
    (state / "templates").symlink_to(outside)


def _link_file(state: Path, outside: Path) -> None:
    (state / "templates").mkdir()
    (state / "templates" / "a.md").symlink_to(outside / "a.md")


def _link_state(state: Path, outside: Path) -> None:
    state.rmdir()
    state.symlink_to(outside)


@pytest.mark.parametrize("link", [_link_templates, _link_file, _link_state])
def test_nothing_is_put_where_a_link_leads(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    folder, outside = StateFolder(tmp_path), tmp_path / "outside"
    for path in (folder.path, outside):
        path.mkdir()
    link(folder.path, outside)
    with pytest.raises(RalphError, match="is no plain"):
        editable.put(folder, "templates/a.md", b"x")
    assert list(outside.iterdir()) == []


def test_a_file_is_put_only_upon_what_its_edit_began_with(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    assert editable.current(folder, "templates/new/a.md") is None
    new = Put(name="templates/new/a.md", base="", content=b"a")
    assert edits.is_to_be_put(new, None)
    editable.put(folder, new.name, new.content)
    assert editable.current(folder, new.name) == b"a"
    assert not edits.is_to_be_put(new, b"a")
    with pytest.raises(EditRefusedError) as caught:
        edits.is_to_be_put(new, b"")
    assert caught.value.faults == (taking.CHANGED_SINCE,)
    assert edits.is_to_be_put(replace(new, base=taking.digest(b"")), b"")
    assert edits.decode(msgspec.json.encode(new)) == new


# In words


def _task(task_id: str, status: Status = "pending", **more: Any) -> Task:
    return Task(id=task_id, title=f"Do {task_id}", status=status, **more)


def _prd(*tasks: Task, **more: Any) -> Prd:
    return Prd(version=1, project="p", tasks=tasks, **more)


def _criteria(command: str) -> dict[str, Any]:
    return {"coder": {"verificationMethod": "external", "verificationConfig": {"command": command}}}


def test_each_value_that_changes_has_a_line() -> None:
    before = _prd(_task("a", priority=3, completion=_criteria("make"), extra={"odd": 1}), _task("b"), _task("c"))
    after = _prd(
        _task("a", "completed", priority=1, completion=_criteria("true"), extra={"odd": 2}),
        _task("c", acceptance_criteria=("it\u202e works", "\x1b[31mred"), completion=_criteria("true")),
        _task("d", completion=_criteria("true")),
        description="new",
    )
    assert list(lines_of(differences(before, after))) == [
        'list: description: "" → "new"',
        'a: status: "pending" → "completed"',
        "a: priority: 3 → 1",
        'a: completion.coder.verificationConfig.command: "make" → "true"',
        "a: odd: 1 → 2",
        'c: acceptanceCriteria: [] → ["it\\u202e works", "\\u001b[31mred"]',
        'c: completion.coder.verificationMethod: (none) → "external"',
        'c: completion.coder.verificationConfig.command: (none) → "true"',
        "d: new task, pending",
        'd: title: "Do d"',
        'd: completion.coder.verificationMethod: "external"',
        'd: completion.coder.verificationConfig.command: "true"',
        'b: removed from the list ("Do b")',
    ]


def test_of_a_long_value_what_changes_is_shown() -> None:
    long = "x" * 1000
    (line,) = lines_of(differences(_prd(_task("a", notes=long + " old")), _prd(_task("a", notes=long + " new" + long))))
    assert ' old" → ' in line
    assert " new" in line
    assert line.endswith(long + '"')
    assert len(line) < len(long) + LONGEST


def test_what_is_run_is_shown_from_its_beginning_to_its_end() -> None:
    long = "x" * 1000
    old, new = (_task("a", completion=_criteria(f"{long} {end}")) for end in ("old", f"{' ' * 450}; evil"))
    (line,) = lines_of(differences(_prd(old), _prd(new)))
    assert f'"{long} old" → "{long}␣\u00d7451; evil"' in line
    (*_, line) = lines_of(differences(_prd(), _prd(new)))
    assert f'"{long}␣\u00d7451; evil"' in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("    four", "    four"),
        ("a  b", "a  b"),
        ("a" + " " * 450 + "b", "a␣\u00d7450b"),
        (" " * 450 + "b", "␣\u00d7450b"),
        ("a\u2800\u3164\u00a0\x1bb", "a\\u2800\\u3164\\xa0\\x1bb"),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_a_whole_text_hides_nothing(text: str, shown: str) -> None:
    assert whole(text) == shown


@given(st.text(max_size=40))
def test_no_line_hides_or_breaks_anything(text: str) -> None:
    for line in lines_of(differences(_prd(_task("a")), _prd(_task("a", notes=text, metadata={text: text})))):
        assert line.isprintable()


# Taking over


_words = st.text("xy", max_size=3)
_STATUSES: tuple[Status, ...] = ("pending", "completed", "blocked", "in_iteration")


@st.composite
def _tasks(draw: st.DrawFn, task_id: str) -> Task:
    return Task(
        id=task_id,
        title=draw(st.sampled_from(("T", "U"))),
        status=draw(st.sampled_from(_STATUSES)),
        notes=draw(_words),
        priority=draw(st.integers(1, 3)),
        dependencies=tuple(each for each in "abcd" if each < task_id and draw(st.booleans())),
        attempts=draw(st.dictionaries(st.just("coder"), st.integers(0, 9))),
        stage=draw(st.sampled_from((None, "coder", "qa"))),
        settled_iteration=draw(st.none() | st.integers(1, 99)),
        started_at=draw(st.none() | _words),
        summary=draw(_words),
        tokens=draw(st.integers(0, 9)),
        cost_usd=draw(st.floats(0, 9)),
    )


@st.composite
def _prds(draw: st.DrawFn) -> Prd:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    tasks = [draw(_tasks(name)) for name in names]
    kept = [replace(task, dependencies=tuple(need for need in task.dependencies if need in names)) for task in tasks]
    return _prd(*kept, description=draw(_words))


_RESET = {"stage", "attempts", "blocked_reason", "completed_at"}


@given(_prds(), _prds(), _prds(), st.booleans())
def test_whatever_is_taken_over_the_loops_facts_stay(now: Prd, base: Prd, theirs: Prd, running: bool) -> None:
    sent = edits.decode(msgspec.json.encode(taking.take(base, theirs)))
    assert isinstance(sent, Take)
    try:
        after = edits.apply(now, sent, at=AT, at_work=None if running else ()).prd
    except EditRefusedError:
        return
    assert problems_of(after) == ()
    were = {task.id: task for task in now.tasks}
    standing = {task.id for task in after.tasks}
    assert [task.id for task in after.tasks[: len(standing & were.keys())]] == [
        task.id for task in now.tasks if task.id in standing
    ]
    for task in after.tasks:
        before = were.get(task.id, Task(id=task.id, title=""))
        changed = task.status != before.status and task.id in were
        for name in set(LOOP_FIELDS) - (_RESET if changed else set()):
            assert getattr(task, name) == getattr(before, name)
    if running:
        known = {task.id: task for task in after.tasks}
        for task in (task for task in now.tasks if task.status == "in_iteration"):
            assert replace(known[task.id], title="", notes="", priority=1) == replace(
                task, title="", notes="", priority=1
            )


@given(_prds(), _prds())
def test_what_is_taken_over_upon_what_it_began_with_is_all_there(base: Prd, theirs: Prd) -> None:
    after = taking.taken(base, taking.take(base, theirs))
    known = {task.id: task for task in after.tasks}
    assert after.description == theirs.description
    assert known.keys() == {task.id for task in theirs.tasks}
    for task in theirs.tasks:
        assert (known[task.id].title, known[task.id].notes) == (task.title, task.notes)
        if task.status != "in_iteration":
            assert known[task.id].status == task.status
    assert taking.taken(after, taking.take(base, theirs)) == after or any(
        task.status == "in_iteration" for task in theirs.tasks
    )


@given(_prds(), _prds())
def test_what_nobody_changed_is_left_alone(now: Prd, base: Prd) -> None:
    assert edits.apply(now, taking.take(base, base), at=AT, at_work=()).prd is now


def test_both_sides_stand_where_they_changed_different_things() -> None:
    base = _prd(_task("a", notes="old", priority=3), _task("b"))
    theirs = _prd(_task("a", notes="old", priority=1), _task("b"), _task("d"))
    now = _prd(_task("a", "completed", notes="new", priority=3, tokens=7), _task("b"), _task("c"))
    applied = edits.apply(now, taking.take(base, theirs), at=AT)
    assert applied.answer == "taken over: a, d"
    assert applied.prd.tasks == (
        _task("a", "completed", notes="new", priority=1, tokens=7),
        _task("b"),
        _task("c"),
        _task("d"),
    )


def test_of_a_task_at_work_only_words_change_and_the_rest_waits() -> None:
    base = _prd(_task("z", "completed"), _task("a", "in_iteration", attempts={"coder": 1}), _task("b", "in_iteration"))
    wanted = _task("a", "completed", notes="n", dependencies=("z",), overrides={"verify": False})
    edit = taking.take(base, _prd(_task("z", "completed"), wanted))
    applied = edits.apply(base, edit, at=AT)
    assert applied.prd.tasks[1:] == (replace(base.tasks[1], notes="n"), base.tasks[2])
    assert "the attempt now running at a is judged by what it started with" in applied.answer
    assert "status, dependencies and overrides of a, b stay" in applied.answer
    assert taking.waiting(base, edit, at_work=["a", "b"]) == ("a", "b")
    reopened = taking.take(base, replace(base, tasks=(_task("z"), *base.tasks[1:])))
    needing = replace(base, tasks=(base.tasks[0], replace(base.tasks[1], dependencies=("z",)), base.tasks[2]))
    with pytest.raises(EditRefusedError, match="a, which is being worked on, depends on z"):
        edits.apply(needing, reopened, at=AT)


def test_what_does_not_fit_the_list_any_more_is_refused_with_its_place() -> None:
    base = _prd(_task("a"), _task("b"))
    edit = taking.take(base, _prd(_task("a"), _task("b", dependencies=("a",))))
    with pytest.raises(EditRefusedError) as caught:
        edits.apply(_prd(_task("b")), edit, at=AT)
    assert caught.value.faults[0].path == ("tasks", 0, "dependencies", 0)
