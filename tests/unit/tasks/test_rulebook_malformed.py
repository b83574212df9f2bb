"""Task folders that nobody vouches for: what is wrong is named with file and line, the others are read all the same."""

import os
from pathlib import Path

import pytest

from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.importers.merge import merge
from rulebook_ralph.tasks.importers.source import SourceReading, UnreadableError
from rulebook_ralph.tasks.model import Prd, Task, problem_with_id
from tests.cases import each_of

TASKS = ".rulebook/tasks"


def read_with(root: Path, files: dict[str, bytes]) -> tuple[SourceReading, list[str]]:
    """Read tasks that hold these files, beside a good one; the reading and its problems as told to a person."""
    for name, content in {"good/tasks.md": b"- [ ] fine", **files}.items():
        file = root / TASKS / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    reading = rulebook.read_all([root], root=root)
    assert "good" in [task.id for task in reading.tasks]
    return reading, [str(problem).removeprefix(f"{TASKS}/") for problem in reading.problems]


@each_of(
    ("files", "told"),
    [
        ({"bad/tasks.md": b"- [ ] a\n- [ ] \xff"}, "bad/tasks.md:2: is not UTF-8 (byte 0xff)"),
        ({"bad/proposal.md": "# Ü".encode("utf-16")}, "bad/proposal.md:1: is not UTF-8"),
        ({"bad/tasks.md": b"- [ ] a", "bad/specs/x/spec.md": b"\n\n\xfe"}, "bad/specs/x/spec.md:3: is not UTF-8"),
        (
            {"bad/tasks.md": b"- [ ] a", "bad/.metadata.json": b'{\n  "a": 1,\n}'},
            "bad/.metadata.json:3: is no JSON",
        ),
        ({"bad/tasks.md": b"- [ ] a", "bad/.metadata.json": b""}, "bad/.metadata.json: is empty"),
        (
            {"bad/tasks.md": b"- [ ] a", "bad/.metadata.json": b'{"blockedBy": "a"}'},
            "bad/.metadata.json:1: $.blockedBy: expected a list, got a string",
        ),
        (
            {"bad/tasks.md": b"- [ ] a", "bad/.metadata.json": b"[]"},
            "bad/.metadata.json:1: $: expected keys and values, got a list",
        ),
        (
            {"bad/tasks.md": b"- [ ] a", "bad/.metadata.json": b"[" * 100_000},
            "bad/.metadata.json: is nested too deeply",
        ),
        ({"bad/tasks.md": b"- [ ] a\n" * 700_000}, "bad/tasks.md: is larger than 2 MB"),
        ({"bad/notes.txt": b""}, "bad: has no proposal.md, no tasks.md and no specs"),
        ({"bad name/tasks.md": b""}, "bad name: the folder's name is the task's id, and may hold only letters"),
        ({"-bad/tasks.md": b""}, "-bad: the folder's name is the task's id, and must start with a letter or digit"),
        ({"bad\x1b[2J\n/tasks.md": b""}, "bad\\x1b[2J\\n: the folder's name is the task's id"),
    ],
)
def test_a_malformed_task_is_named_and_left_out(tmp_path: Path, files: dict[str, bytes], told: str) -> None:
    reading, problems = read_with(tmp_path, files)
    assert [task.id for task in reading.tasks] == ["good"]
    assert [problem[: len(told)] for problem in problems] == [told]
    assert "\n" not in problems[0]
    assert reading.refused == (next(iter(files)).split("/")[0],)


def test_folders_that_differ_only_in_case_are_one_id(tmp_path: Path) -> None:
    reading, _ = read_with(tmp_path, {"Fix/tasks.md": b"- [ ] a", "fix/tasks.md": b"- [ ] b"})
    merged = merge(Prd(version=1, project="p"), reading.tasks)
    assert merged.added == ("Fix", "good")
    assert merged.problems[0].startswith(
        f"{TASKS}/fix: its id equals that of the task Fix but for upper and lower case"
    )


@pytest.mark.parametrize("broken", ["folder", "file", "specs", "spec folder", "lost", "loop"])
def test_links_out_of_the_tasks_folder_are_refused(tmp_path: Path, broken: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tasks.md").write_text("- [ ] secret")
    (outside / "spec.md").write_text("It MUST be secret")
    bad = tmp_path / "project" / TASKS / "bad"
    bad.parent.mkdir(parents=True)
    if broken in ("folder", "lost", "loop"):
        bad.symlink_to({"folder": outside, "lost": tmp_path / "nothing", "loop": bad}[broken])
    else:
        (bad / "specs").mkdir(parents=True) if broken == "spec folder" else bad.mkdir()
        name, target = {
            "file": ("tasks.md", outside / "tasks.md"),
            "specs": ("specs", outside),
            "spec folder": ("specs/x", outside),
        }[broken]
        (bad / name).symlink_to(target)
    reading, problems = read_with(tmp_path / "project", {})
    assert [task.id for task in reading.tasks] == ["good"]
    assert len(problems) == 1
    assert problems[0].startswith("bad")
    assert "link" in problems[0] or "leads nowhere" in problems[0]


def test_links_inside_are_followed_and_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / TASKS / "twin").mkdir(parents=True)
    (tmp_path / TASKS / "twin" / "tasks.md").symlink_to("../good/tasks.md")
    (tmp_path / TASKS / "bad").mkdir(parents=True)
    os.mkfifo(tmp_path / TASKS / "bad" / "tasks.md")
    (tmp_path / TASKS / "worse" / "proposal.md").mkdir(parents=True)
    reading, problems = read_with(tmp_path, {})
    assert [task.acceptance_criteria for task in reading.tasks] == [("fine",), ("fine",)]
    assert problems == ["bad/tasks.md: is no regular file", "worse/proposal.md: Is a directory"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_that_may_not_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / TASKS / "bad").mkdir(parents=True)
    (tmp_path / TASKS / "bad" / "tasks.md").touch(mode=0)
    closed = tmp_path / TASKS / "worse" / "specs" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    _, problems = read_with(tmp_path, {})
    closed.chmod(0o700)
    assert problems == ["bad/tasks.md: Permission denied", "worse/specs/closed: cannot be read: Permission denied"]


def test_what_is_no_task_is_passed_over_in_silence(tmp_path: Path) -> None:
    files = {"README.md": b"\xff", "archive/old/tasks.md": b"\xff", ".cache/tasks.md": b"\xff", "notes.txt": b""}
    reading, problems = read_with(tmp_path, files)
    assert (len(reading.tasks), problems, reading.refused) == (1, [], ())


def test_references_to_tasks_that_are_not_there_are_told_and_left_out(tmp_path: Path) -> None:
    metadata = b'{"blockedBy": ["gone", "good", "known"], "blocks": ["Good", "known"]}'
    reading, _ = read_with(tmp_path, {"a/tasks.md": b"- [ ] a", "a/.metadata.json": metadata})
    merged = merge(Prd(version=1, project="p", tasks=(Task(id="known", title="K"),)), reading.tasks)
    assert merged.problems == (f"{TASKS}/a: depends on what is not in the PRD (gone): left out",)
    assert {task.id: task.dependencies for task in merged.prd.tasks} == {
        "known": (),
        "a": ("good", "known"),
        "good": (),
    }


def test_a_problem_is_told_on_one_printable_line() -> None:
    error = UnreadableError(Path("/p/a\udcff\x1b"), 3, "bad\nthing")
    assert str(error.problem(Path("/p"))) == "a\\udcff\\x1b:3: bad\\nthing"
    assert str(error.problem(Path("/elsewhere"))).startswith("/p/a")


BAD_IDS = ["", "../x", "a/b", "a\0", "-x", ".x", "_x", "a..b", "a.", "a.lock", "a" * 101, "a\n", "é", "a b", "٣", "a٣"]


def test_ids() -> None:
    assert [one for one in BAD_IDS if problem_with_id(one) is None] == []
    assert [
        one for one in ("a", "A-1", "phase1_x.y", "2026-01-01-x", "a" * 100, "a.locked") if problem_with_id(one)
    ] == []
