"""`ralph restore`: what an attempt made comes back, exactly, over nothing of a person's, and a run goes on from it."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from rulebook_ralph.workspace import commits, restoring
from rulebook_ralph.workspace.snapshot import Workspace
from tests.harness import HONEST, PROMISE, Project, finish, make_project, picture, wait_for
from tests.integration.test_snapshot import WHO, Case, _cases, _clear, _git, _open, _put, _seen, _work

FILES = {
    "app.txt": "sound\n",
    "check.sh": "#!/bin/sh\ngrep -q '^sound$' app.txt\n",
    "gone.txt": "gone\n",
    "run.sh": "echo\n",
    "folder/inner.txt": "inner\n",
    "was-file": "file\n",
    ".gitignore": "*.o\n",
}
SPOILING = r"""
case $RALPH_ATTEMPT in
1) echo broken > app.txt; rm gone.txt; chmod +x run.sh; ln -s app.txt link; printf '\0\1\377' > binary
   printf x > "$(printf 'na\351me')"; printf y > "$(printf 'new\nline')"; rm -r folder; echo f > folder
   rm was-file; mkdir was-file; echo i > was-file/inside;;
*) echo 'worse' > app.txt; echo second > second.txt;;
esac
"""
"""Two attempts that fail; with `git.rollback: reset` each begins at the base."""


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose only task is blocked after two attempts, made once; tests work on copies."""
    project = make_project(
        tmp_path_factory.mktemp("made"), agent=SPOILING, files=FILES, attempts=2, git={"rollback": "reset"}
    )
    assert project.ralph("run", "--no-retry-blocked").code == 3
    return project.root.parent


@pytest.fixture
def project(blocked: Path, tmp_path: Path) -> Project:
    subprocess.run(["cp", "-a", f"{blocked}/.", str(tmp_path)], check=True)
    copied = Project(tmp_path / "toy", tmp_path / "beside")
    copied.configure(attempts=2, git={"rollback": "reset"})
    copied.git("commit", "-qam", "where the agent is")
    assert copied.ralph("trust", "--yes").code == 0, "another folder is another clone"
    return copied


def work(root: Path) -> dict[str, tuple[int, bytes]]:
    return picture(root, without=lambda path: path.split("/")[0] in (".git", ".rulebook-ralph"))


def refused(project: Project, *arguments: str) -> str:
    before, refs = work(project.root), project.refs()
    ran = project.ralph("restore", *arguments)
    assert (ran.code, ran.out) == (2, ""), ran
    assert (work(project.root), project.refs()) == (before, refs)
    assert ran.err.count("\n") == 1
    return ran.err


def captured(project: Project) -> dict[str, str]:
    """The tree that the work tree is, as git would have it."""
    index = {"GIT_INDEX_FILE": str(project.beside / "index")}
    for arguments in (["read-tree", "HEAD"], ["add", "-A", "-f", "."]):
        subprocess.run(["git", *arguments], cwd=project.root, env=os.environ | index, check=True)
    done = subprocess.run(
        ["git", "write-tree"], cwd=project.root, env=os.environ | index, check=True, capture_output=True, text=True
    )
    return project.tree(done.stdout.strip())


def test_an_attempt_comes_back_as_it_was_and_leaves_again(project: Project) -> None:
    clean, index = work(project.root), project.git("ls-files", "-s")
    told = project.ralph("restore", "1")
    assert told.code == 0, told.err
    assert told.out.count("\n") == 1
    assert "one is blocked; to go on from it: ralph task unblock one, then: ralph resume" in told.out
    assert captured(project) == project.tree(project.snapshots()[1])
    assert project.git("ls-files", "-s") == index
    other = project.ralph("restore", "2")
    assert other.code == 0, other.err
    assert captured(project) == project.tree(project.snapshots()[2])
    assert "does not stand in the tree" in refused(project, "1", "--undo")
    assert project.ralph("restore", "2", "--undo").code == 0
    assert work(project.root) == clean
    assert project.ralph("validate").code == 0


def test_a_run_goes_on_from_it_when_its_task_is_open(project: Project) -> None:
    assert project.ralph("restore", "1").code == 0
    hint = project.ralph("resume")
    assert hint.code == 2
    assert "'ralph restore 1' brought back; one is blocked; to go on from it: ralph task unblock one" in hint.err
    assert project.ralph("task", "unblock", "one").code == 0
    project.agent("test -L link && echo sound > app.txt\n" + PROMISE)
    resumed = project.ralph("resume")
    assert resumed.code == 0, resumed.out + resumed.err
    landed = project.tree(project.task_commits()["one"])
    assert landed == project.tree(project.snapshots()[1]) | {"app.txt": project.tree("main")["app.txt"]}
    assert project.status() == []


def test_new_work_of_a_person_upon_it_is_not_taken_for_the_attempts(project: Project) -> None:
    assert project.ralph("restore", "2").code == 0
    (project.root / "second.txt").write_text("a person's")
    project.ralph("task", "unblock", "one")
    ran = project.ralph("resume")
    assert ran.code == 2
    assert "what 'ralph restore 2' brought back was changed since" in ran.err
    assert (project.root / "second.txt").read_text() == "a person's"
    project.git("add", "-A")
    project.git("commit", "-qm", "mine now")
    project.write({"app.txt": "sound\n"})
    project.git("commit", "-qam", "mended")
    project.agent(HONEST)
    assert project.ralph("resume").code == 0


@pytest.mark.parametrize("note", [b'{"tree": "\xff"}', b'{"x": ' + b"[" * 100_000], ids=["no text", "deep"])
def test_a_note_that_cannot_be_read_is_none(project: Project, note: bytes) -> None:
    (project.root / ".git" / "ralph" / "restored.json").write_bytes(note)
    assert project.ralph("restore", "1").code == 0


def test_nothing_of_a_persons_is_overwritten(project: Project) -> None:
    """Modified, staged, untracked, ignored, in the place of a folder, behind a link, in a folder that must go."""
    outside = project.beside / "outside"
    outside.mkdir()
    for prepare, named in (
        ("echo mine >> check.sh", "check.sh"),
        ("echo mine >> check.sh; git add check.sh", "check.sh"),
        ("echo mine > binary", "binary"),
        ("mkdir .git/info; echo '*' > .git/info/exclude; echo mine > link", "link"),
        ("echo mine > folder/untracked.txt", "folder/untracked.txt"),
        (f"rm -r folder; ln -s {outside} folder", "folder"),
        ("git update-index --assume-unchanged run.sh; echo mine > run.sh", "run.sh"),
    ):
        subprocess.run(["sh", "-c", prepare], cwd=project.root, check=True)
        message = refused(project, "1")
        assert named in message, (prepare, message)
        reset = "rm -rf .git/info; git update-index --no-assume-unchanged run.sh; git reset -q --hard; git clean -qfdx -e .rulebook-ralph"
        subprocess.run(["sh", "-c", reset], cwd=project.root, check=True)
    assert list(outside.iterdir()) == []
    assert project.ralph("restore", "1").code == 0


def test_one_that_was_half_done_when_it_died_can_be_given_again(project: Project) -> None:
    assert project.ralph("restore", "1").code == 0
    for name in ("binary", "app.txt", "folder"):
        (project.root / name).unlink()
    project.git("restore", "app.txt", "folder/inner.txt")
    assert project.ralph("restore", "1").code == 0
    assert captured(project) == project.tree(project.snapshots()[1])


def test_files_that_the_branch_has_otherwise_since(project: Project) -> None:
    project.commit("other", other="other\n")
    project.write({"app.txt": "sound\nand more\n"})
    project.git("commit", "-qam", "elsewhere")
    assert "the branch has other versions of app.txt since" in refused(project, "2")
    project.git("revert", "--no-edit", "HEAD")
    assert project.ralph("restore", "2").code == 0
    assert {line[3:] for line in project.status()} == {"app.txt", "second.txt"}, "and what is new there stays"


def test_a_branch_and_a_folder_beside_the_tree(project: Project, tmp_path: Path) -> None:
    project.write({"app.txt": "mine\n"})
    before, head = work(project.root), project.git("rev-parse", "HEAD")
    made = project.ralph("restore", "1", "--branch", "look/at-it")
    assert made.code == 0, made.err
    assert project.tree("look/at-it") == project.tree(project.snapshots()[1])
    assert project.git("rev-parse", "look/at-it^") == project.records[0].base_commit
    for name in ("look/at-it", "look", "-x", "a..b", "@{-1}", "HEAD"):
        refused(project, "1", f"--branch={name}")
    folder = tmp_path / "new" / "folder"
    assert project.ralph("restore", "1", "--to", str(folder)).code == 0
    project.git("stash", "-q")
    assert project.ralph("restore", "1").code == 0
    assert work(folder) == work(project.root)
    project.ralph("restore", "1", "--undo")
    project.git("stash", "pop", "-q")
    (tmp_path / "to-it").symlink_to(folder)
    (tmp_path / "empty").mkdir()
    (tmp_path / "to-empty").symlink_to(tmp_path / "empty")
    for target in (folder, tmp_path / "to-it", tmp_path / "to-empty", project.root / "in", project.root / ".git/in"):
        refused(project, "1", "--to", str(target))
    assert (work(project.root), project.git("rev-parse", "HEAD")) == (before, head)


def test_what_there_is_no_more(project: Project) -> None:
    assert "iteration 9 is not there" in refused(project, "9")
    project.git("switch", "-q", "main")
    assert "the state is on branch ralph/toy" in refused(project, "1")
    project.git("switch", "-q", "-c", "side", "ralph/toy")
    assert "git switch ralph/toy (or give --branch NAME or --to FOLDER)" in refused(project, "1")
    project.git("switch", "-q", "ralph/toy")
    file = project.folder.iteration(1)
    file.write_text(file.read_text().replace(project.snapshots()[1], "--upload-pack=x"))
    project.git("commit", "-qam", "garbled")
    assert project.ralph("restore", "1").code == 0, "the ref still knows it"
    assert project.ralph("restore", "1", "--undo").code == 0
    project.git("update-ref", "-d", "refs/ralph/toy/tasks/one/1")
    assert "iteration 1 (one) has no snapshot" in refused(project, "1")
    blob = project.git("rev-parse", f"{project.snapshots()[2]}:second.txt")
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    for pack in (project.root / ".git/objects/pack").glob("*.pack"):
        pack.rename(project.beside / pack.name)
    for pack in project.beside.glob("*.pack"):
        pack.with_suffix(".idx").unlink(missing_ok=True)
        with pack.open("rb") as content:
            subprocess.run(["git", "unpack-objects", "-q"], cwd=project.root, stdin=content, check=True)
    (project.root / ".git/objects" / blob[:2] / blob[2:]).unlink(missing_ok=True)
    for index in (project.root / ".git/objects/pack").glob("*.idx"):
        index.unlink()
    assert "is not whole in this repository any more" in refused(project, "2")


def test_not_while_a_run_goes_on_or_one_has_died_in_the_middle(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent="touch new.txt\n", attempts=9)
    assert project.ralph("run", "--max-iterations", "1").code == 4
    project.agent('touch "$BESIDE/started"\nwhile test ! -e "$BESIDE/go"; do sleep 0.01; done\n')
    process = project.start("resume")
    wait_for((project.beside / "started").exists, "the agent")
    for arguments in (["1"], ["1", "--undo"], ["1", "--branch", "b"]):
        assert f"{process.pid}" in refused(project, *arguments)
    assert project.ralph("restore", "1", "--to", str(tmp_path / "meanwhile")).code == 0
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert "the last run ended in the middle of iteration 2 (one); run 'ralph resume' first" in refused(project, "1")
    (project.beside / "go").touch()
    project.agent(HONEST)
    assert project.ralph("resume").code == 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shared") / "toy"
    root.mkdir()
    _git(root, "init", "-q", "-b", "main", "--template=")
    return root


@settings(max_examples=settings().max_examples // 8, suppress_health_check=list(HealthCheck))
@given(_cases())
def test_any_tree_comes_back_and_leaves_again(shared: Path, case: Case) -> None:
    """Beside what a person has there, byte for byte; and whatever stands in the way is named."""
    repository, workspace, opening = _open(shared, case)
    before = _seen(shared)
    _work(shared, case)
    tree = workspace.capture(opening)
    output = repository.private / "output"
    snapshot = commits.Snapshot("refs/ralph/toy/tasks/one/1", tree, opening.commit, "", output, iter, "attempt")
    attempt = restoring.read_attempt(repository, commits.save_snapshot(repository, WHO, snapshot, seconds=1))
    assert attempt is not None
    _clear(shared)
    _put(shared, case.base)
    _put(shared, case.mine)

    wanted = restoring.upon_head(repository, attempt)
    assert wanted == tree
    assert restoring.in_the_way(repository, opening.tree, wanted, repository.modified()) == []
    fresh = Workspace(repository)
    restoring.place(fresh, opening.tree, wanted)
    listed = _git(shared, "ls-tree", "-r", "-z", "--name-only", wanted).split(b"\0")
    names = {os.fsdecode(name) for name in listed if name}
    seen = _seen(shared)
    assert {name: node for name, node in seen.items() if name not in names} == case.mine
    assert fresh.capture(opening) == wanted
    restoring.place(fresh, wanted, opening.tree)
    assert _seen(shared) == before

    for name in [name for name, (old, new) in attempt.changes.items() if old is None and new is not None][:2]:
        if name not in before:
            _put(shared, {name: ("100644", b"a person's very own")})
            assert name in restoring.in_the_way(repository, opening.tree, wanted, repository.modified())
            _clear(shared)
            _put(shared, case.base)
            _put(shared, case.mine)
