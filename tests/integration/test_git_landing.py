"""Landings: the branch moves, the user's tree follows, and nothing of the user's is lost, whatever it is."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulebook_ralph.git import landing
from rulebook_ralph.git.command import Conversation
from rulebook_ralph.git.landing import NotAdvanced, advance
from rulebook_ralph.git.repository import Repository, open_repository
from tests.unit.git.project import Project, files_below

FILES = {"a.txt": "a\n", "b.txt": "b\n", "dir/c.txt": "c\n", ".gitignore": "*.log\n", ".rulebook-ralph/prd.json": "1\n"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "r", FILES)


class Work:
    """A commit of Ralph's on top of the branch."""

    def __init__(self, project: Project, changed: dict[str, str | bytes | None]) -> None:
        self.project = project
        self.old = project.git("rev-parse", "main")
        self.new = project.commit_of(project.tree(changed, self.old), self.old)

    def land(self) -> NotAdvanced | None:
        return advance(self.project.repository, "main", self.new, self.old)

    @property
    def tip(self) -> str:
        return self.project.git("rev-parse", "main")


def clean(project: Project) -> str:
    return project.output("status", "--porcelain")


def test_branch_index_and_tree_follow(project: Project) -> None:
    work = Work(project, {"a.txt": "A\n", "b.txt": None, "dir/new/d.txt": "d\n"})
    assert work.land() is None
    assert (work.tip, clean(project)) == (work.new, "")
    assert files_below(project.root) == {
        "a.txt": "A\n",
        "dir/c.txt": "c\n",
        "dir/new/d.txt": "d\n",
        ".gitignore": "*.log\n",
        ".rulebook-ralph/prd.json": "1\n",
    }
    assert work.land() is None
    assert "ralph" in project.git("reflog", "-1", "main")


def test_edits_at_other_paths_stay_as_they_are(project: Project) -> None:
    project.write({"b.txt": "staged\n"})
    project.git("add", "b.txt")
    project.write({"b.txt": "edited\n", "dir/c.txt": "unstaged\n", "u.txt": "untracked\n", "x.log": "ignored\n"})
    project.git("add", "-N", "u.txt")
    work = Work(project, {"a.txt": "A\n", "n.txt": "n\n"})
    assert work.land() is None
    assert clean(project).splitlines() == ["MM b.txt", " M dir/c.txt", " A u.txt"]
    assert project.git("show", ":b.txt") == "staged"
    assert files_below(project.root).items() >= {"b.txt": "edited\n", "a.txt": "A\n", "x.log": "ignored\n"}.items()


def stage(project: Project, name: str, content: str) -> None:
    project.write({name: content})
    project.git("add", "-f", name)


def _unstage(project: Project) -> None:
    stage(project, "a.txt", "mine\n")
    project.write({"a.txt": "a\n"})


def _make_folder(project: Project) -> None:
    (project.root / "a.txt").unlink()
    project.write({"a.txt/x": "mine\n"})


def _make_link(project: Project) -> None:
    (project.root / "dir").rename(project.root / "real")
    (project.root / "dir").symlink_to("real")


IN_THE_WAY: dict[str, Callable[[Project], object]] = {
    "unstaged": lambda project: project.write({"a.txt": "mine\n"}),
    "staged": lambda project: stage(project, "a.txt", "mine\n"),
    "staged and restored": _unstage,
    "staged removal": lambda project: project.git("rm", "-q", "--cached", "a.txt"),
    "edited where it goes": lambda project: project.write({"b.txt": "mine\n"}),
    "untracked": lambda project: project.write({"new.txt": "mine\n"}),
    "ignored": lambda project: project.write({"new.log": "mine\n"}),
    "staged new": lambda project: stage(project, "new.txt", "mine\n"),
    "a folder for a file": lambda project: project.write({"new.txt/x.log": "mine\n"}),
    "a file for a folder": lambda project: project.write({"deep": "mine\n"}),
    "an ignored link for a folder": lambda project: (project.root / "deep").symlink_to("dir"),
    "a tracked file made a folder": _make_folder,
    "a folder made a link": _make_link,
    "below a folder that becomes a file": lambda project: project.write({"dir/mine.log": "mine\n"}),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_is_in_the_way_is_named_and_nothing_changes(project: Project, case: str) -> None:
    changed: dict[str, str | bytes | None] = {
        **dict.fromkeys(("a.txt", "new.txt", "new.log", "deep/x.txt", "dir/c.txt"), "new\n"),
        "b.txt": None,
        **({"dir/c.txt": None, "dir": "file now\n"} if "becomes a file" in case else {}),
    }
    work = Work(project, changed)
    IN_THE_WAY[case](project)
    before, status = files_below(project.root), clean(project)
    waiting = work.land()
    assert isinstance(waiting, NotAdvanced)
    assert waiting.reason == "your edits are in the way"
    assert waiting.files
    assert (work.tip, files_below(project.root), clean(project)) == (work.old, before, status)
    assert not (project.root / ".git" / "index.lock").exists()


def test_files_that_are_the_new_ones_already_are_entered(project: Project) -> None:
    work = Work(project, {"a.txt": "A\n", "new.log": "n\n", "b.txt": None})
    project.write({"a.txt": "A\n", "new.log": "n\n"})
    (project.root / "b.txt").unlink()
    os.utime(project.root / "a.txt", (1, 1))
    assert work.land() is None
    assert clean(project) == ""
    assert (project.root / "a.txt").stat().st_mtime == 1


def test_the_state_folder_is_entered_without_its_files(project: Project) -> None:
    project.write({".rulebook-ralph/prd.json": "a person's\n"})
    work = Work(project, {".rulebook-ralph/prd.json": "2\n", ".rulebook-ralph/history/1.json": "h\n", "a.txt": "A\n"})
    assert work.land() is None
    assert clean(project).splitlines() == [" D .rulebook-ralph/history/1.json", " M .rulebook-ralph/prd.json"]
    assert (project.root / ".rulebook-ralph/prd.json").read_text() == "a person's\n"
    assert project.git("show", ":.rulebook-ralph/prd.json") == "2"


def test_an_empty_folder_is_in_nobodys_way(project: Project) -> None:
    (project.root / "new.txt").mkdir()
    assert Work(project, {"new.txt": "n\n"}).land() is None
    assert (project.root / "new.txt").read_text() == "n\n"


# Who has the branch


def test_a_branch_that_nobody_has_checked_out_moves_alone(project: Project) -> None:
    work = Work(project, {"a.txt": "A\n"})
    project.git("switch", "-q", "-c", "other")
    project.write({"a.txt": "mine\n"})
    assert work.land() is None
    assert (work.tip, clean(project)) == (work.new, " M a.txt")


def test_another_work_tree_that_has_it_is_named(project: Project, tmp_path: Path) -> None:
    work = Work(project, {"a.txt": "A\n"})
    project.git("switch", "-q", "-c", "other")
    project.git("worktree", "add", "-q", str(tmp_path / "beside"), "main")
    waiting = work.land()
    assert isinstance(waiting, NotAdvanced)
    assert str(tmp_path / "beside") in waiting.reason
    beside = open_repository(tmp_path / "beside", os.environ)
    assert advance(beside, "main", work.new, work.old) is None
    assert (tmp_path / "beside/a.txt").read_text() == "A\n"


def test_rebase_merge_and_bisect_are_waited_for(project: Project) -> None:
    project.write({"a.txt": "second\n"})
    project.commit("second")
    work = Work(project, {"b.txt": "B\n"})
    project.git("-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-q", "-i", "HEAD~1", check=False)
    assert isinstance(waiting := work.land(), NotAdvanced)
    assert "rebase" in waiting.reason
    project.git("rebase", "--abort")
    project.git("bisect", "start", "HEAD", "HEAD~1")
    assert isinstance(waiting := work.land(), NotAdvanced)
    assert "bisect" in waiting.reason
    project.git("bisect", "reset")
    project.git("switch", "-q", "-c", "side", "HEAD~1")
    project.write({"a.txt": "side\n"})
    project.commit("side")
    project.git("switch", "-q", "main")
    project.git("merge", "-q", "side", check=False)
    assert isinstance(waiting := work.land(), NotAdvanced)
    assert "merge" in waiting.reason
    project.git("merge", "--abort")
    assert work.land() is None


def test_a_branch_that_somebody_moved_is_left(project: Project) -> None:
    work = Work(project, {"a.txt": "A\n"})
    project.write({"mine.txt": "m\n"})
    project.commit("mine")
    assert isinstance(waiting := work.land(), NotAdvanced)
    assert "moved" in waiting.reason
    project.git("switch", "-q", "--detach")
    project.git("branch", "-D", "main")
    assert advance(project.repository, "main", work.new, work.old) == NotAdvanced("it is gone")


def test_a_lock_of_another_git_is_waited_for_and_not_removed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_LOCK_SECONDS", 0.1)
    lock = project.root / ".git/index.lock"
    work = Work(project, {"a.txt": "A\n"})
    lock.write_bytes(b"")
    assert isinstance(waiting := work.land(), NotAdvanced)
    assert "locked" in waiting.reason
    assert lock.exists()


# Killed in the middle


def landed_by_a_process_that_dies(work: Work, step: int) -> bool:
    """Land in a process that ends without a word before its `step`th step; whether it came to its end."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    left = [step]

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return function(*arguments, **named)

        return called

    Repository.run = dying(Repository.run)  # type: ignore[method-assign]
    Conversation.say = dying(Conversation.say)  # type: ignore[method-assign]
    for name in ("replace", "unlink", "write_bytes", "write_text", "hardlink_to"):
        setattr(Path, name, dying(getattr(Path, name)))
    try:
        work.land()
    finally:
        os._exit(0)


def test_a_landing_that_was_killed_anywhere_is_done_again(tmp_path: Path) -> None:
    step = 0
    while True:
        step += 1
        project = Project(tmp_path / str(step), FILES)
        project.write({"dir/c.txt": "mine\n"})
        work = Work(project, {"a.txt": "A\n", "b.txt": None, "n/d.txt": "d\n", ".rulebook-ralph/prd.json": "2\n"})
        ended = landed_by_a_process_that_dies(work, step)
        assert work.land() is None
        assert work.tip == work.new
        assert project.git("diff", "--cached", "--name-only") == ""
        assert project.git("diff", "--name-only").splitlines() == [".rulebook-ralph/prd.json", "dir/c.txt"]
        assert not (project.root / ".git/index.lock").exists()
        if ended:
            break
    assert step > 10


def test_files_that_a_kill_left_half_written_are_written_again(project: Project) -> None:
    work = Work(project, {"a.txt": "A new long line\n", "n.txt": "new\n", "b.txt": "B\n"})
    project.write({"a.txt": "A new", "n.txt": ""})
    (project.root / "b.txt").unlink()
    assert isinstance(work.land(), NotAdvanced)
    (project.repository.private / "following").write_text(f"{work.old} {work.new}\n")
    assert work.land() is None
    assert clean(project) == ""
    assert (project.root / "a.txt").read_text() == "A new long line\n"


def test_the_lock_of_a_ralph_that_lives_is_left(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "_LOCK_SECONDS", 0.1)
    work = Work(project, {"a.txt": "A\n"})
    with landing._index_lock(project.repository):
        assert isinstance(work.land(), NotAdvanced)
    assert work.land() is None


# Whatever a person has done


NAMES = ("a", "b", "d/e", "d/f", "x.log", "n", "d")
CONTENTS = ("1\n", "2\n", "1\n2\n", "")
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*CONTENTS, None]), max_size=4)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["write", "stage", "delete", "unstage"]), st.sampled_from(NAMES), st.sampled_from(CONTENTS)
    ),
    max_size=6,
)


def fitting(files: dict[str, Any]) -> dict[str, Any]:
    """No file in the place of a folder."""
    return {name: text for name, text in files.items() if name != "d" or not ("d/e" in files or "d/f" in files)}


def situation(root: Path, start: dict[str, str], changed: dict[str, Any], edits: list[Any]) -> tuple[Project, Work]:
    """A landing, and what a person did meanwhile."""
    project = Project(root, {**start, ".gitignore": "*.log\n", "keep": "k"})
    project.git("add", "-f", "--", *start)
    project.commit("with what is ignored")
    after = {name: text for name, text in {**start, **changed}.items() if text is not None}
    goes = {name: None for name in start if name not in fitting(after)}
    work = Work(project, {**goes, **fitting(after)})
    for act, name, text in edits:
        path = project.root / name
        if act in ("write", "stage") and not path.is_dir() and not path.parent.is_file():
            project.write({name: text})
        if act == "stage":
            project.git("add", "-f", "--", name, check=False)
        if act == "unstage":
            project.git("rm", "-q", "--cached", "--", name, check=False)
        if act == "delete" and path.is_file():
            path.unlink()
    return project, work


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(CONTENTS), min_size=1), CHANGES, EDITS)
@example({"a": "1\n"}, {"a": "2\n"}, [("stage", "a", "1\n2\n"), ("write", "a", "2\n")])
@example({"d": "1\n"}, {"d/f": "1\n"}, [("delete", "d", ""), ("stage", "d/e", "1\n")])
def test_no_byte_of_a_person_is_lost(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str], changed: dict[str, Any], edits: list[Any]
) -> None:
    project, work = situation(tmp_path_factory.mktemp("p") / "r", fitting(files), changed, edits)
    before = files_below(project.root)
    staged = project.content(project.git("write-tree"))
    old, new = project.content(work.old), project.content(work.new)
    outcome = work.land()
    now = files_below(project.root)
    if isinstance(outcome, NotAdvanced):
        assert (now, project.content(project.git("write-tree")), work.tip) == (before, staged, work.old)
        return
    assert work.tip == work.new
    for name, text in before.items():
        if text.strip() != old.get(name) or name not in old:  # a person's own
            assert now.get(name) == text
    for name, text in now.items():
        assert before.get(name) == text or new.get(name) == text.strip()
    then = project.content(project.git("write-tree"))
    for name, text in staged.items():
        if old.get(name) != text:
            assert then.get(name) == text
    assert not [
        name
        for name in new
        if old.get(name) != new[name] and then.get(name) != new[name] and staged.get(name) == old.get(name)
    ]
