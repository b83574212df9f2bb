"""Repositories that Ralph can work in, and one clear line for the others."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.repository import GitError, open_repository, unsupported
from tests.unit.git.project import Project


def refused(folder: Path) -> str:
    with pytest.raises(RalphError) as raised:
        open_repository(folder, os.environ)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def init(folder: Path, *options: str) -> Path:
    subprocess.run(["git", "init", "-q", *options, str(folder)], check=True)
    return folder


def test_what_is_no_repository_to_work_in_is_told(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert "git init" in refused(tmp_path / "plain")
    assert "bare" in refused(init(tmp_path / "bare", "--bare"))
    assert "first commit" in refused(init(tmp_path / "unborn"))
    project = Project(tmp_path / "r", {"d/a": "a"})
    assert "top" in refused(project.root / "d")
    assert "git folder" in refused(project.root / ".git")
    assert str(tmp_path / "gone") in refused(tmp_path / "gone")
    (project.root / ".git/HEAD").write_text("nonsense")
    assert "git" in refused(project.root)
    assert "line break" in refused(Project(tmp_path / "new\nline", {"a": "a"}, opened=False).root)


def test_variables_that_lead_elsewhere_are_not_followed(tmp_path: Path) -> None:
    project, other = Project(tmp_path / "r", {"a": "a"}), Project(tmp_path / "other", {"b": "b"})
    wrong = {
        "GIT_DIR": str(other.root / ".git"),
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": "/x",
        "GIT_EXTERNAL_DIFF": "x",
    }
    repository = open_repository(project.root, {**os.environ, **wrong})
    assert repository.head() == project.git("rev-parse", "HEAD")
    assert repository.elsewhere("main") is None


def test_questions_and_failures(tmp_path: Path) -> None:
    repository = Project(tmp_path / "r", {"a": "a"}).repository
    assert repository.commit_of("nothing") is None
    assert repository.file_of("HEAD", "b") is None
    assert repository.contains("HEAD")
    with pytest.raises(GitError, match="NUL"):
        repository.run("log", "a\0b")


def test_a_git_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    repository = Project(tmp_path / "r", {"a": "a"}).repository
    begun = time.monotonic()
    with pytest.raises(GitError, match="no answer within"):
        repository.run("-c", f"alias.x=!echo $$ > {tmp_path}/pid; sleep 60", "x", timeout=0.5)
    assert time.monotonic() - begun < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_hooks_branches_and_what_was_modified(tmp_path: Path) -> None:
    project = Project(tmp_path / "r", {"a": "a", ".rulebook-ralph/prd.json": "1"})
    repository = project.repository
    assert repository.hooks_folder() == project.root / ".git/hooks"
    project.git("config", "core.hooksPath", "tools/hooks")
    assert repository.hooks_folder() == project.root / "tools/hooks"
    project.write({"a": "b", ".rulebook-ralph/prd.json": "2", "new": "n"})
    assert repository.modified() == ("a",)
    assert repository.branch() == "main"
    project.git("switch", "-q", "--detach")
    assert repository.branch() is None


def test_another_work_tree_has_a_branch_and_a_bare_repository_has_none(tmp_path: Path) -> None:
    project = Project(tmp_path / "r", {"a": "a"})
    project.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    assert project.repository.elsewhere("other") == tmp_path / "other"
    project.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    added = ("git", "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    subprocess.run(added, cwd=tmp_path / "bare", check=True)
    assert open_repository(tmp_path / "mine", os.environ).elsewhere("main") is None


def test_the_last_commits_end_where_a_shallow_history_does(tmp_path: Path) -> None:
    project = Project(tmp_path / "r", {"a": "a"})
    second = project.commit("second")
    project.git("clone", "-q", "--depth=1", project.root.as_uri(), str(tmp_path / "shallow"))
    assert open_repository(tmp_path / "shallow", os.environ).recent_commits(5) == (f"{second[:8]} second",)


def test_lfs_without_its_program_is_told(tmp_path: Path) -> None:
    project = Project(tmp_path / "r", {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    assert unsupported(project.repository) is None
    project.git("config", "filter.lfs.required", "true")
    assert "git-lfs is not on PATH" in (unsupported(project.repository) or "")
    assert unsupported(Project(tmp_path / "other", {"a": "a"}).repository) is None
