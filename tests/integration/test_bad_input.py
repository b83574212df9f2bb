"""Input that cannot be worked with: one clear line (what, where, what to do), the right exit code, nothing changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import HONEST, Project, Ran, finish, make_project, picture, task
from tests.sampling import sample

PRD = ".rulebook-ralph/prd.json"
NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


def without_lock(path: str) -> bool:
    """Ralph's lock lies in the git folder and carries nothing; git's index may be refreshed."""
    return path.startswith(".git/ralph") or path == ".git/index"


def refused(project: Project, *arguments: str, code: int = 2, says: tuple[str, ...]) -> Ran:
    """The command is refused with one line that says those words, and nothing is changed."""
    before = picture(project.root, without=without_lock)
    ran = project.ralph(*(arguments or ("run",)))
    after = picture(project.root, without=without_lock)
    assert ran.code == code, ran.err + ran.out
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1, ran.err
    assert [words for words in says if words not in lines[0]] == [], lines[0]
    assert "Traceback" not in ran.err
    assert len(lines[0]) < 600
    assert sorted(after) == sorted(before)
    assert {name for name in before if before[name] != after[name]} == set()
    return ran


def raw(project_: Project, /, **changes: Any) -> None:
    """Put a prd.json in place that no code of ours would write."""
    project_.folder.prd.write_text(json.dumps({"version": 1, "project": "toy", "tasks": []} | changes, indent=2))


def raw_tasks(project: Project, *tasks: dict[str, Any]) -> None:
    raw(project, tasks=[{"title": "x", **each} for each in tasks])


# git


@pytest.mark.parametrize("command", sample(["init", "resume", "run"], 2))
def test_no_git(tmp_path: Path, command: str) -> None:
    (tmp_path / "root").mkdir()
    project = Project(tmp_path / "root", tmp_path)
    refused(project, command, says=(str(project.root), "not in a git repository", "git init"))


def test_state_folder_without_git(project: Project) -> None:
    shutil.rmtree(project.root / ".git")
    refused(project, says=("not in a git repository", "git init"))


def test_no_git_program(project: Project, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    project.environment["PATH"] = str(tmp_path / "empty")
    refused(project, says=("git is not installed",))


@pytest.mark.parametrize("command", sample(["init", "resume", "run"], 2))
def test_no_commit_yet(project: Project, command: str) -> None:
    project.git("update-ref", "-d", "HEAD")
    refused(project, command, says=("no commit yet", "first"))


def test_no_identity(project: Project) -> None:
    project.environment.update(
        dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "")
    )
    project.git("config", "user.useConfigOnly", "true")
    refused(project, says=("git", "user.name", "user.email"))


@pytest.mark.parametrize("how", ["modified", "staged", "deleted", "new in the index", "mode"])
def test_changed_tracked_files(project: Project, how: str) -> None:
    if how in ("modified", "staged"):
        project.write({"docs/guide.md": "changed\n"})
    if how == "deleted":
        (project.root / "docs" / "guide.md").unlink()
    if how == "new in the index":
        project.write({"docs/guide.md.new": "new\n"})
    if how == "mode":
        (project.root / "docs" / "guide.md").chmod(0o755)
    if how in ("staged", "new in the index"):
        project.git("add", "docs")
    refused(project, says=("docs/guide.md", "uncommitted", "commit or stash"))


def test_an_unfinished_merge(project: Project) -> None:
    project.git("checkout", "-q", "-b", "side")
    project.commit("side", **{"app.txt": "side\n"})
    project.git("checkout", "-q", "main")
    project.commit("main", **{"app.txt": "sound\nmain\n"})
    project.git("merge", "-q", "side", check=False)
    refused(project, says=("merge", "git merge --abort"))


def test_an_unfinished_merge_without_conflicts(project: Project) -> None:
    project.git("checkout", "-q", "-b", "side")
    project.commit("side", side="side\n")
    project.git("checkout", "-q", "main")
    project.commit("main", main="main\n")
    project.git("merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "side")
    assert project.status() == []
    refused(project, says=("merge", "git merge --abort"))


@pytest.mark.parametrize("command", sample(["init", "run", "history", "status"], 2))
def test_state_only_on_another_branch(project: Project, command: str) -> None:
    assert project.ralph("run").code == 0
    project.git("switch", "-q", "main")
    assert not project.folder.prd.exists()
    shutil.rmtree(project.folder.path, ignore_errors=True)
    refused(project, command, says=("ralph/toy", "git switch ralph/toy"))


def test_the_branch_of_the_run_is_checked_out_elsewhere(project: Project, tmp_path: Path) -> None:
    project.git("branch", "ralph/toy")
    project.git("worktree", "add", "-q", str(tmp_path / "elsewhere"), "ralph/toy")
    refused(project, says=("ralph/toy", "switch"))


def test_a_branch_name_that_is_none(project: Project) -> None:
    project.tasks(task(), branch="a..b")
    refused(project, says=("a..b", "branch", "prd.json"))


def test_a_branch_that_cannot_be_made(project: Project) -> None:
    """`ralph` is a branch, so `ralph/toy` cannot be one."""
    project.git("branch", "ralph")
    refused(project, says=("ralph/toy", "branch"))


@pytest.mark.parametrize(
    "name", sample(["My Project", "a..b", "x~1", "../../heads/main", "a/b", "x.lock", "-x", "@{", "ü"], 5)
)
def test_project_names_become_refs_or_are_refused(project: Project, name: str) -> None:
    raw(project, project=name, branch="work", tasks=[{"id": "one", "title": "x"}])
    before = picture(project.root, without=without_lock)
    ran = project.ralph("run")
    assert ran.code in (0, 2), ran.err
    assert "unexpected" not in ran.err
    if ran.code == 2:
        assert "project" in ran.err
        assert len(ran.err.strip().splitlines()) == 1
        assert picture(project.root, without=without_lock) == before


# prd.json


def test_missing(project: Project) -> None:
    project.folder.prd.unlink()
    refused(project, says=(PRD, "ralph init"))


@pytest.mark.parametrize("command", sample(["run", "resume", "status", "init"], 2))
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", ("prd.json", "empty")),
        (b"  \n", ("prd.json", "empty")),
        (b'{\n  "version": 1,\n  oops\n}', ("prd.json:3:3",)),
        (b"[]", ("prd.json", "object")),
        (b"\xff\xfe{}", ("prd.json", "UTF-8")),
        (b"[" * 100_000, ("prd.json",)),
        (b'{"version": 1, "project": "toy"} trailing', ("prd.json:1:",)),
    ],
    ids=["empty", "blank", "malformed", "a list", "no text", "deep", "trailing"],
)
def test_malformed(project: Project, command: str, content: bytes, says: tuple[str, ...]) -> None:
    project.folder.prd.write_bytes(content)
    refused(project, command, says=says)


def test_huge(project: Project) -> None:
    with project.folder.prd.open("wb") as file:
        file.truncate(300 * 2**20)
    ran = project.ralph("run")
    assert ran.code == 2
    assert "prd.json" in ran.err
    assert "larger" in ran.err


def test_no_tasks(project: Project) -> None:
    raw(project)
    refused(project, says=("no tasks", "ralph init"))


def test_symbolic_link(project: Project) -> None:
    shutil.move(project.folder.prd, project.beside / "prd.json")
    project.folder.prd.symlink_to(project.beside / "prd.json")
    refused(project, says=("prd.json", "symbolic link"))


def test_folder_in_its_place(project: Project) -> None:
    project.folder.prd.unlink()
    project.folder.prd.mkdir()
    refused(project, says=("prd.json",))


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ([{"id": "a", "status": "done"}], ("status", "pending", "completed", "done", "prd.json:8")),
        ([{"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]}], ("cycle", "a -> b -> a")),
        ([{"id": "a", "dependencies": ["a"]}], ("'a'", "itself")),
        ([{"id": "a", "dependencies": ["nope"]}], ("'nope'", "no task")),
        ([{"id": "a"}, {"id": "A"}], ("tasks[1].id", "'A'", "already")),
        ([{"id": "a"}, {"id": "a"}], ("tasks[1].id", "'a'", "already")),
        ([{"id": "../x"}], ("tasks[0].id", "letter or digit")),
        ([{"id": "a/b"}], ("tasks[0].id", "letters, digits")),
        ([{"id": "a\0b"}], ("tasks[0].id", "letters, digits")),
        ([{"id": "-x"}], ("tasks[0].id", "letter or digit")),
        ([{"id": "a..b"}], ("tasks[0].id", "'..'")),
        ([{"id": "a.lock"}], ("tasks[0].id", ".lock")),
        ([{"id": ""}], ("tasks[0].id", "empty")),
        ([{"id": "x" * 101}], ("tasks[0].id", "100")),
        ([{"id": "a", "priority": 0}], ("priority", "1")),
        ([{"id": "a", "priority": "high"}], ("priority", "number")),
        ([{"id": 7}], ("id", "string")),
        ([{}], ("id", "missing")),
    ],
)
def test_tasks_that_cannot_be(project: Project, tasks: list[dict[str, Any]], says: tuple[str, ...]) -> None:
    raw_tasks(project, *tasks)
    refused(project, says=("prd.json", *says))


@pytest.mark.parametrize("version", [2, 999])
def test_future_version(project: Project, version: int) -> None:
    raw(project, version=version, tasks=[{"id": "a", "title": "x", "status": "dreamt"}])
    refused(project, says=("prd.json", "newer", "upgrade"))


def test_unknown_task(project: Project) -> None:
    refused(project, "run", "--task", "on", says=("'on'", "did you mean one?"))


# config.yaml


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("limits:\n  maxIterations: many\n", ("config.yaml:2", "limits.maxIterations", "whole number")),
        ("limits:\n  maxIteration: 3\n", ("config.yaml:2", "limits.maxIteration", "did you mean `maxIterations`")),
        ("verification:\n  steps: make test\n", ("config.yaml:2", "verification.steps", "list")),
        ("verification:\n  steps:\n  - {name: a}\n", ("config.yaml:3", "command", "missing")),
        ("limits: {maxCostUsd: -1}\n", ("config.yaml:1", "limits.maxCostUsd")),
        ("git: {rollback: maybe}\n", ("config.yaml:1", "git.rollback", "keep, reset")),
        ("a: [\n", ("config.yaml:",)),
        ("- a\n", ("config.yaml", "keys and values")),
        ("? [x]\n: y\n", ("config.yaml",)),
        ("a: 1\na: 2\n", ("config.yaml:2",)),
    ],
)
def test_config(project: Project, content: str, says: tuple[str, ...]) -> None:
    project.folder.config.write_text(content)
    refused(project, says=says)


def test_nothing_to_verify_with(project: Project) -> None:
    project.configure(gates=[])
    refused(project, says=("nothing would verify", "verification.steps", "--trust-agent"))


def test_only_warnings_to_verify_with(project: Project) -> None:
    project.configure(gates=[{"name": "lint", "command": "true", "required": False}])
    refused(project, says=("nothing would verify",))


def test_environment(project: Project) -> None:
    project.environment["RALPH_LIMITS__MAX_COST_USD"] = "much"
    refused(project, says=("RALPH_LIMITS__MAX_COST_USD", "number"))


@pytest.mark.parametrize(
    "arguments",
    [["--max-iterations", "0"], ["--max-wall-time", "soon"], ["--max-iterations", "x"], ["--what"], ["extra"]],
)
def test_usage(project: Project, arguments: list[str]) -> None:
    before = picture(project.root)
    ran = project.ralph("run", *arguments)
    assert ran.code == 2
    assert picture(project.root) == before


# The agent


def test_agent_that_is_not_installed(project: Project) -> None:
    project.configure(tools={"executors": [{"id": "script", "type": "command", "command": "no-such-agent -p"}]})
    refused(project, code=5, says=("no-such-agent", "not found on PATH", "install"))


def test_unknown_agent(project: Project) -> None:
    refused(project, "run", "--agent", "cloude", says=("cloude", "did you mean claude?"))


def test_agent_whose_command_cannot_be_read(project: Project) -> None:
    project.configure(tools={"executors": [{"id": "script", "type": "command", "command": "sh 'x"}]})
    refused(project, says=("script", "sh 'x", "tools.executors[].command"))


# What cannot be read or written. Modes do not hold for root, so these run as nobody.


def as_nobody(project: Project, *arguments: str) -> Ran:
    project.known_here(project.beside)
    if os.geteuid() != 0:
        return finish(project.start(*arguments))
    if shutil.which("setpriv") is None:
        pytest.skip("modes do not hold for root, and there is no setpriv to become somebody else")
    program = "import sys; from rulebook_ralph.cli import main; main(sys.argv[1:])"
    command = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        sys.executable,
        "-c",
        program,
        *arguments,
    ]
    environment = {**os.environ, **project.environment, "HOME": str(project.beside)}
    done = subprocess.run(
        command, cwd=project.root, env=environment, capture_output=True, text=True, check=False, timeout=20
    )
    if (
        "ModuleNotFoundError" in done.stderr
        or "Permission denied: '/root" in done.stderr
        or "can't open" in done.stderr
    ):
        pytest.skip(f"nobody cannot run this Python: {done.stderr.strip().splitlines()[-1]}")
    return Ran(done.returncode, done.stdout, done.stderr)


def given_to_nobody(project: Project) -> None:
    for folder in (project.root, project.beside):
        for path in (folder, *folder.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for parent in project.root.parents:
        if parent in (Path("/"), Path("/tmp")):
            break
        parent.chmod(parent.stat().st_mode | 0o755)


@pytest.mark.parametrize(
    "place",
    sample(
        [
            ".rulebook-ralph",
            PRD,
            ".rulebook-ralph/history",
            ".rulebook-ralph/progress.txt",
            ".git",
            ".git/objects",
            ".git/refs",
            ".",
        ],
        2,
    ),
)
def test_read_only(project: Project, place: str) -> None:
    given_to_nobody(project)
    path = project.root / place
    mode = path.stat().st_mode
    path.chmod(0o444 if path.is_file() else 0o555)
    before = picture(project.root, without=without_lock)
    ran = as_nobody(project, "run")
    path.chmod(mode)
    after = picture(project.root, without=without_lock)
    if place in after:
        before[place] = after[place]
    assert ran.code == 2, ran.err + ran.out
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    assert str(path if place != "." else project.root) in ran.err
    assert "writ" in ran.err
    assert after == before


@pytest.mark.parametrize("place", sample([PRD, ".rulebook-ralph/config.yaml"], 1))
def test_unreadable(project: Project, place: str) -> None:
    given_to_nobody(project)
    path = project.root / place
    path.chmod(0)
    ran = as_nobody(project, "run")
    path.chmod(0o644)
    assert ran.code == 2
    assert Path(place).name in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert project.records == []


def test_what_an_agent_makes_unreadable_is_still_judged(project: Project) -> None:
    project.agent("echo x > new.txt\nchmod 0 new.txt\nmkdir shut\necho x > shut/x.txt\nchmod 0 shut\n" + HONEST)
    given_to_nobody(project)
    ran = as_nobody(project, "run", "--max-iterations", "1")
    assert ran.code in (0, 4), ran.err
    assert "unexpected" not in ran.err
    assert project.git("-c", "safe.directory=*", "show", "refs/ralph/toy/tasks/one/1:new.txt") == "x"
