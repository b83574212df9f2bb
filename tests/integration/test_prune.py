"""`ralph prune`: old iterations go, what is needed stays, and everything works afterwards, also after a crash within."""

import json
import os
import shutil
from pathlib import Path

import pytest

from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.repository import open_repository
from tests.harness import PROMISE, Project, make_project, task
from tests.terminal import at_terminal

AGENT = (
    'if [ $RALPH_TASK = two ]; then echo "x$RALPH_ATTEMPT" > two.txt; exit; fi\necho w > $RALPH_TASK.txt\n' + PROMISE
)


def made(folder: Path) -> Project:
    """Iterations 1 (one completed), 2 and 3 (two blocked), 4 to 6 completed."""
    tasks = [task(name) for name in ("one", "two", "three", "four", "five")]
    project = make_project(folder, agent=AGENT, tasks=tasks, attempts=2)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    return project


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made")).root.parent


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Project:
    shutil.copytree(original, tmp_path, symlinks=True, dirs_exist_ok=True)
    copied = Project(tmp_path / "toy", tmp_path / "beside")
    copied.configure(attempts=2)
    copied.git("commit", "-qam", "where the agent is")
    assert copied.ralph("trust", "--yes").code == 0, "another folder is another clone"
    return copied


def numbers(project: Project) -> list[int]:
    return [record.iteration_number for record in project.records]


def saved(project: Project) -> list[str]:
    return project.git("ls-tree", "--name-only", "refs/ralph/toy/state", ".rulebook-ralph/history/").splitlines()


def names(*wanted: int) -> list[str]:
    return [f".rulebook-ralph/history/iteration-{number}.json" for number in wanted]


def test_old_iterations_go_and_everything_works_afterwards(project: Project) -> None:
    totals, state = project.prd.totals, project.folder.progress.read_bytes()
    held = project.root / ".git/ralph/held/iteration-1"
    held.mkdir(parents=True)
    looked = project.ralph("prune", "--keep", "1", "--dry-run", "--json")
    assert looked.json["iterations"] == [1, 4, 5]
    assert looked.json["snapshots"] == [f"refs/ralph/toy/tasks/{name}" for name in ("four/5", "one/1", "three/4")]
    assert (looked.json["removed"], looked.json["keptFiles"], looked.json["keptSnapshots"]) == (False, 3, 3)
    asked = project.ralph("prune", "--keep", "1")
    assert (asked.code, "give --yes" in asked.err) == (2, True)
    assert "3 snapshots, of iterations 1, 4-5; 3 iteration files and 3 snapshots stay" in asked.out
    assert (numbers(project), len(project.snapshots())) == ([1, 2, 3, 4, 5, 6], 6), "until now it only said"

    done = project.ralph("prune", "--keep", "1", "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (0, "removed"), done.err
    assert "stays, --held removes it" in done.out
    assert (numbers(project), sorted(project.snapshots())) == ([2, 3, 6], [2, 3, 6])
    assert (project.status(), project.git("status", "--porcelain")) == ([], "")
    assert sorted(project.changed("HEAD")) == names(1, 4, 5)
    assert saved(project) == names(2, 3, 6)
    assert (project.prd.totals, project.folder.progress.read_bytes()) == (totals, state)
    assert held.exists()
    assert project.ralph("prune", "--keep", "1", "--yes", "--held").code == 0
    assert not held.exists()

    assert project.ralph("validate").out == "no problems\n"
    assert "6 iterations" in project.ralph("status").out
    assert "kept: 3 of 6 iterations; the others were pruned" in project.ralph("history").out
    for command in (["show", "4"], ["restore", "4"]):
        told = project.ralph(*command)
        assert (told.code, told.err) == (2, "error: iteration 4 was pruned; 'ralph history' lists those there are\n")

    project.agent("echo done > two.txt\n" + PROMISE)
    project.git("pack-refs", "--all")
    assert project.ralph("run").code == 0
    assert (project.last.iteration_number, project.last.task_id) == (7, "two")
    assert not (project.root / ".git/refs/ralph/toy/tasks/two/2").exists(), "what was packed stays packed"
    assert "agent" not in project.ralph("resume").err
    assert saved(project) == names(2, 3, 6, 7)


def test_after_a_crash_within_it_the_rest_is_done_by_giving_it_again(project: Project) -> None:
    """Whichever steps were done: files, then the state, then snapshots."""
    for number in (1, 4):
        project.folder.iteration(number).unlink()
    assert project.ralph("validate").code == 0
    project.git("update-ref", "-d", "refs/ralph/toy/tasks/one/1")
    assert project.ralph("prune", "--keep", "1", "--yes").code == 0
    assert (numbers(project), sorted(project.snapshots()), saved(project)) == ([2, 3, 6], [2, 3, 6], names(2, 3, 6))
    assert project.git("status", "--porcelain") == ""


def test_the_number_of_a_lost_file_is_not_used_again(project: Project) -> None:
    """Another branch's snapshots are above what the history here knows."""
    project.git("update-ref", "refs/ralph/toy/tasks/gone/41", project.snapshots()[6])
    assert project.ralph("prune", "--keep", "1", "--yes").code == 0
    assert sorted(project.snapshots()) == [2, 3, 6, 41]
    project.agent("echo done > two.txt\n" + PROMISE)
    assert project.ralph("run").code == 0
    assert project.last.iteration_number == 42


def test_where_the_state_is_not_committed_the_saved_state_forgets_too(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=AGENT, tasks=[task("one"), task("three")], git={"stateCommit": "none"})
    assert project.ralph("run").code == 0
    head = project.git("rev-parse", "HEAD")
    (project.folder.history / "iteration-x.json").write_text("a stranger")
    assert project.ralph("prune", "--keep", "1", "-y").code == 0
    assert (project.git("rev-parse", "HEAD"), saved(project)) == (head, names(2))
    shutil.rmtree(project.folder.path)
    assert project.ralph("resume").code in (0, 2)
    assert [path.name for path in project.folder.history.iterdir()] == ["iteration-2.json"]


def test_what_cannot_be_pruned(project: Project) -> None:
    lock = project.root / ".git/ralph/lock"
    project.folder.iteration(5).write_text("{")
    record = json.loads(project.folder.iteration(4).read_text())
    project.git("commit", "-qam", "broken")
    assert project.ralph("prune", "--keep", "1", "--dry-run", "--json").json["iterations"] == [1, 4], "5 is unreadable"
    project.folder.iteration(4).write_text(json.dumps(record | {"phase": "judged"}))
    refused = project.ralph("prune", "--keep", "1", "--yes")
    assert (refused.code, "the last run ended in the middle of iteration 4" in refused.err) == (2, True)
    project.git("reset", "-q", "--hard", "HEAD^")
    project.git("switch", "-q", "-c", "side")
    refused = project.ralph("prune", "--keep", "1", "--yes")
    assert (refused.code, "git switch ralph/toy" in refused.err) == (2, True)
    project.git("switch", "-q", "ralph/toy")
    repository = open_repository(project.root, os.environ)
    waiting = {"prd.base.json": project.folder.prd.read_bytes()}
    reference = "refs/ralph/toy/state"
    commits.save_state(
        repository, commits.identity(repository), reference, waiting, parent=project.refs()[reference], seconds=1
    )
    refused = project.ralph("prune", "--keep", "1", "--yes")
    assert (refused.code, "still to be merged into it; run 'ralph resume' first" in refused.err) == (2, True)
    assert len(project.snapshots()) == 6
    assert lock.read_bytes() == b""


@pytest.mark.parametrize(("answer", "left"), [("y\n", 3), pytest.param("n\n", 6, marks=pytest.mark.thorough)])
def test_a_person_at_a_terminal_is_asked_once(project: Project, answer: str, left: int) -> None:
    code, shown = at_terminal(project, "prune", "--keep", "1", typed=answer)
    assert code == (2 if left == 6 else 0)
    assert shown.count("Remove this? [y/N]") == 1
    assert len(project.snapshots()) == left
