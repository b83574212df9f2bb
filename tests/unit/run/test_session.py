"""A session works in a person's own tree: what is read of it, what it is brought to, and what of its list counts."""

import os
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import Repository, open_repository
from rulebook_ralph.git.user_tree import UserTree
from rulebook_ralph.run.edits import SessionPrdFile
from rulebook_ralph.tasks import prd_file
from rulebook_ralph.tasks.model import Prd, Status
from tests.harness import Project, make_project, task

NAMES = (
    "app.txt",
    "docs/guide.md",
    "new.txt",
    "docs/new.md",
    "app.txt.d/deep.txt",
    ".gitignore",
    "made.o",
    "ä b\n.txt",
)
CONTENTS = st.sampled_from(("one\n", "two\n", "", "sound\n", "*.txt\n"))
WORK = st.dictionaries(st.sampled_from(NAMES), st.none() | CONTENTS, max_size=5)
"""What an agent leaves: files, and those that it removes."""


def opened(folder: Path) -> tuple[Project, Repository]:
    project = make_project(folder)
    project.commit("the state", **{".rulebook-ralph__prd.json": project.folder.prd.read_text()})
    return project, open_repository(project.root, os.environ)


def leave(root: Path, work: dict[str, str | None]) -> None:
    for name, content in work.items():
        path = root / name
        if content is None:
            path.unlink(missing_ok=True)
        elif not path.is_dir() and not any(above.is_file() for above in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Repository, UserTree]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{name}_NAME", "Test")
            patch.setenv(f"GIT_{name}_EMAIL", "test@ralph.invalid")
        project, repository = opened(tmp_path_factory.mktemp("session"))
    project.write({"mine.txt": "mine\n", "docs/mine.md": "mine too\n", "mine.o": "ignored\n"})
    tree = UserTree(repository)
    tree.begin()
    return project, repository, tree


@given(work=WORK, then=WORK)
@example(work={".gitignore": "*.txt\n", "new.txt": "one\n", "docs/new.md": "one\n"}, then={"app.txt": None})
@example(work={}, then={".gitignore": "*.txt\n", "app.txt.d/deep.txt": ""})
@settings(
    max_examples=max(6, settings().max_examples // 4), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_was_left_is_read_taken_away_and_brought_again(
    begun: tuple[Project, Repository, UserTree], work: dict[str, str | None], then: dict[str, str | None]
) -> None:
    project, repository, tree = begun
    head = repository.head()
    mine = ("app.txt", "docs/guide.md", "docs/mine.md", "mine.txt", "mine.o", ".gitignore")
    before = {name: (project.root / name).read_bytes() for name in mine}
    trees = []
    for each in (work, then):
        leave(project.root, each)
        trees.append(tree.capture().tree)
    assert UserTree(repository).capture().tree == trees[-1]
    tree.hold(head, head)
    assert tree.capture().tree == repository.tree_of(head)
    assert not [line for line in project.status() if not line.startswith("?? ")]
    for wanted in (*trees, head):
        tree.hold(head, wanted)
        assert tree.capture().tree == repository.tree_of(wanted)
    assert {name: (project.root / name).read_bytes() for name in mine} == before


def test_a_file_that_was_written_again_as_it_was_is_in_nobodys_way(tmp_path: Path) -> None:
    project, repository = opened(tmp_path)
    tree = UserTree(repository)
    tree.begin()
    project.write({"app.txt": "sound\nmore\n"})
    left = tree.capture().tree
    path = project.root / "app.txt"
    path.write_text(path.read_text())
    os.utime(path, (1, 1))
    tree.hold("HEAD", "HEAD")
    assert path.read_text() == "sound\n"
    os.utime(path, (1, 1))
    tree.hold("HEAD", left)
    assert path.read_text() == "sound\nmore\n"


def test_a_file_that_is_none_of_the_work_is_never_overwritten(tmp_path: Path) -> None:
    project, repository = opened(tmp_path)
    wanted = project.commit(**{"mine.txt": "theirs\n"})
    project.git("reset", "-q", "--hard", "HEAD^")
    project.write({"mine.txt": "mine\n"})
    tree = UserTree(repository)
    tree.begin()
    with pytest.raises(RalphError, match=r"'mine\.txt' would be overwritten"):
        tree.hold(repository.head(), wanted)
    assert (project.root / "mine.txt").read_text() == "mine\n"


def test_a_nested_repository_and_a_pipe_stay_and_are_none_of_the_work(tmp_path: Path) -> None:
    project, repository = opened(tmp_path)
    tree = UserTree(repository)
    tree.begin()
    project.write({"inner/file.txt": "1\n"})
    project.git("init", "-q", "inner")
    os.mkfifo(project.root / "pipe")
    captured = tree.capture()
    assert captured.tree == repository.tree_of("HEAD")
    assert captured.notes == ("inner/: a git repository of its own; it is left out",)
    assert (project.root / "inner" / ".git").is_dir()
    assert (project.root / "pipe").exists()


# The task list

CLOCK = Clock(now=lambda: datetime.now(UTC), monotonic=monotonic)
STATUSES = st.sampled_from(("pending", "in_iteration", "completed", "blocked"))
KNOWN = Prd(version=1, project="toy", updated_at="2026-01-01T00:00:00.000Z", tasks=(task("one"), task("two")))


@given(statuses=st.tuples(STATUSES, STATUSES), attempts=st.integers(0, 9), notes=st.sampled_from(("", "by hand")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_what_stands_in_the_list_nothing_counts_and_a_persons_words_stay(
    tmp_path: Path, statuses: tuple[Status, Status], attempts: int, notes: str
) -> None:
    path = tmp_path / "prd.json"
    path.unlink(missing_ok=True)
    known: dict[str, Prd] = {KNOWN.updated_at: KNOWN}
    file = SessionPrdFile(path, KNOWN, saved_version=known.get, clock=CLOCK, notice=lambda *_: None)
    file.write()
    tasks = [
        replace(each, status=status, attempts={"coder": attempts}, summary="done", notes=notes)
        for each, status in zip(KNOWN.tasks, statuses, strict=True)
    ]
    new = replace(task("three"), status="completed", notes=notes)
    path.write_bytes(prd_file.encode_prd(replace(KNOWN, tasks=(*tasks, new))))
    worked = replace(KNOWN, updated_at="2026-01-02T00:00:00.000Z").replacing(
        replace(task("one"), status="in_iteration")
    )
    known[worked.updated_at] = worked
    file.take_edits()
    assert file.prd == KNOWN
    for _ in range(2):
        file.put(worked)
        file.write()
        assert file.prd == worked
        shown = prd_file.read_prd(path)
        assert [(each.status, each.attempts, each.summary) for each in shown.tasks] == [
            ("in_iteration", {}, ""),
            ("pending", {}, ""),
            ("pending", {}, ""),
        ]
        assert [each.notes for each in shown.tasks] == [notes] * 3
