"""A run whose agent has HEAD elsewhere at its end goes on by itself, also where it dies so: what git's refs were is put
back, and what switching took out of the tree is never taken for a deletion.
"""

import os
import signal
from pathlib import Path

import pytest

from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.loop import departure
from rulebook_ralph.workspace.repository import open_repository
from rulebook_ralph.workspace.snapshot import Workspace
from tests.harness import HONEST, PROMISE, Project, finish, make_project, task
from tests.sampling import sample

AWAY = {
    "another": "git switch -qf main; echo elsewhere > app.txt",
    "detached": "git checkout -q --detach; echo half > half.txt",
    "new": "git switch -qc side; echo half > half.txt; git add half.txt; git commit -qm half",
}

LEAVING = {
    "committed": "git add -A; git commit -qm half; git switch -q main",
    "stashed": "git stash -qu; git switch -q main",
    "detached": "git checkout -qf --detach main",
    "back": "git add -A; git commit -qm half; git reset -q --hard main",
    "on it": "git switch -qf main; echo more > more.txt; git add more.txt; git commit -qm more",
    "orphan": "git checkout -q --orphan new; git rm -rfq .; git commit -q --allow-empty -m new",
}
"""How an agent with `half.txt` leaves the commit that its work is measured against."""


def died(project: Project, away: str) -> None:
    """The second task's agent works elsewhere, kills Ralph, and is done with its task when it is asked again."""
    project.agent(
        'if test $RALPH_TASK = two && mkdir "$BESIDE/once" 2>/dev/null; then\n'
        'while test ! -s "$BESIDE/pid"; do sleep 0.01; done\n'
        f"{away}\ngit branch theirs\ngit tag -f old HEAD\necho done; sleep 0.05\n"
        'kill -9 "$(cat "$BESIDE/pid")"; sleep 5; fi\n'
        'echo sound > app.txt; mkdir -p work; echo x > "work/$RALPH_TASK.txt"\n' + PROMISE
    )
    process = project.start("run")
    (project.beside / "pid").write_text(str(process.pid))
    assert finish(process).code == -9


def project_in(folder: object) -> Project:
    project = make_project(folder, tasks=[task("one"), task("two")], attempts=2)  # type: ignore[arg-type]
    project.git("tag", "old")
    return project


@pytest.mark.parametrize("away", sample(AWAY, 2, always=("another",)))
def test_a_run_that_died_elsewhere_goes_on_from_its_branch(tmp_path_factory: pytest.TempPathFactory, away: str) -> None:
    project = project_in(tmp_path_factory.mktemp("p"))
    before = project.refs()
    died(project, AWAY[away])
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert project.git("branch", "--show-current") == "ralph/toy"
    assert {name: ref for name, ref in project.refs().items() if "ralph" not in name} == {
        name: ref for name, ref in before.items() if "ralph" not in name
    }
    assert list(project.task_commits()) == ["two", "one"]
    assert {"work/one.txt", "work/two.txt"} <= project.tree().keys()
    assert [record.completion_status for record in project.records] == ["completed", "interrupted", "completed"]
    snapshot = project.snapshots()[2]
    kept = "app.txt" if away == "another" else "half.txt"
    assert project.git("show", f"{snapshot}:{kept}") == ("elsewhere" if away == "another" else "half")
    assert ("half.txt" in project.tree()) == (away != "another"), "the tree of another commit is no unfinished work"
    assert project.status() == []


def test_what_a_person_did_with_git_after_the_death_stays(tmp_path_factory: pytest.TempPathFactory) -> None:
    project = project_in(tmp_path_factory.mktemp("p"))
    died(project, "true")
    for path in (project.root / ".git/ralph").glob("*-2*"):
        os.utime(path, (0, 0))
    project.git("pack-refs", "--all")
    project.git("branch", "mine")
    project.git("switch", "-qf", "main")
    project.write({"app.txt": "a person's\n"})
    refused = project.ralph("resume")
    assert (refused.code, "git switch ralph/toy" in refused.err) == (2, True), refused.err
    assert (project.root / "app.txt").read_text() == "a person's\n"
    project.git("checkout", "-q", "--", "app.txt")
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert "left, as yours: heads/mine" in " ".join(ran.out.split())
    assert {"refs/heads/mine", "refs/heads/main", "refs/heads/theirs"} <= project.refs().keys()
    assert list(project.task_commits()) == ["two", "one"]


def deletions(project: Project) -> list[str]:
    """The files that any commit of the branch deletes."""
    listed = project.git("log", "--no-renames", "--diff-filter=D", "--name-only", "--format=", "ralph/toy").split()
    return [path for path in listed if not path.startswith(STATE_FOLDER)]


def is_whole(project: Project, *outcomes: str) -> bool:
    """Whether all is done in the end, with each task's work in the commits and in the tree, and nothing deleted."""
    assert deletions(project) == []
    assert [record.completion_status for record in project.records] == list(outcomes)
    assert {"work/one.txt", "work/two.txt"} <= project.tree("ralph/toy").keys()
    assert project.git("branch", "--show-current") == "ralph/toy"
    return project.status() == []


def leaves_once(leaving: str, *, then: str = "true") -> str:
    """An agent that leaves the base in its first attempt at the second task."""
    once = f'mkdir "$BESIDE/once" 2>/dev/null; then echo half > half.txt; {leaving}; {then}; else'
    return f"if test $RALPH_TASK = two && {once}\nmkdir -p work; echo x > work/$RALPH_TASK.txt; fi\n{PROMISE}"


@pytest.mark.parametrize("workspace", ["in-place", "isolated"])
@pytest.mark.parametrize("leaving", sample(LEAVING, always=("committed", "back")))
def test_an_attempt_that_ends_elsewhere_has_no_part_in_a_commit(tmp_path: Path, leaving: str, workspace: str) -> None:
    project = make_project(tmp_path, tasks=[task("one"), task("two")], attempts=2, git={"workspace": workspace})
    project.agent(leaves_once(LEAVING[leaving]))
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "failed", "completed")
    away = project.records[1]
    assert away.tree == project.git("rev-parse", f"{away.base_commit}^{{tree}}")
    assert away.files_changed == ()
    assert "work/one.txt" not in project.tree(away.snapshot or "")


@pytest.mark.parametrize("leaving", sample(LEAVING, always=("committed",)))
def test_a_run_killed_with_its_agent_elsewhere_deletes_nothing_later(tmp_path: Path, leaving: str) -> None:
    project = make_project(tmp_path, tasks=[task("one"), task("two")], attempts=2)
    project.agent(leaves_once(LEAVING[leaving], then="kill -9 $PPID; sleep 5"))
    assert finish(project.start("run")).code == -9
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "interrupted", "completed")
    assert "work/one.txt" not in project.tree(project.records[1].snapshot or "")


def test_a_run_killed_after_head_was_put_back_knows_where_it_was(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=[task("one"), task("two")], attempts=2)
    project.agent(leaves_once("git switch -qf main", then="kill -9 $PPID; sleep 5"))
    assert finish(project.start("run")).code == -9
    base = project.git("rev-parse", "ralph/toy")
    repository = open_repository(project.root, dict(os.environ))
    assert departure.note(repository, 2, base) == project.git("rev-parse", "main")
    project.git("symbolic-ref", "HEAD", "refs/heads/ralph/toy")
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "interrupted", "completed")
    assert departure.noted(repository, 2) == ""


def test_a_run_interrupted_with_its_agent_elsewhere_deletes_nothing_later(tmp_path: Path) -> None:
    project = make_project(tmp_path, tasks=[task("one"), task("two")], attempts=2)
    project.agent(leaves_once(LEAVING["committed"], then="kill -INT $PPID; sleep 5"))
    ended = finish(project.start("run"))
    assert ended.code == 128 + signal.SIGINT, ended.err
    assert (project.root / "work/one.txt").exists(), "the tree is the base's, as HEAD is"
    assert project.status() == []
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "interrupted", "completed")


def test_what_a_person_wrote_elsewhere_after_a_death_is_in_the_snapshot(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=[task("one"), task("two")], attempts=2)
    killing = (
        'if test -e work/two.txt && mkdir "$PWD/../beside/gate"; then kill -9 $(cat "$PWD/../beside/pid"); sleep 5; fi'
    )
    project.configure(gates=[{"name": "tests", "kind": "test", "command": killing}])
    process = project.start("run")
    (project.beside / "pid").write_text(str(process.pid))
    assert finish(process).code == -9
    project.git("switch", "-qf", "main")
    (project.root / "notes.txt").write_text("a person's\n")
    ran = project.ralph("resume")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "interrupted", "completed")
    assert "notes.txt" in project.tree(project.records[1].snapshot or "")
    kept = project.git("log", "--format=%H", "-m", "--name-only", project.records[1].snapshot or "")
    assert "work/two.txt" in kept, "the agent's own work too"


def test_what_a_person_wrote_while_a_gate_ran_elsewhere_is_kept(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=[task("one"), task("two")])
    person = "git stash -qu; git switch -qf main; echo mine > notes.txt"
    leaving = f'if test -e work/two.txt && mkdir "$PWD/../beside/gate"; then {person}; fi'
    project.configure(gates=[{"name": "tests", "kind": "test", "command": leaving}])
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out
    assert "git show refs/ralph/held/iteration-2-" in " ".join(ran.out.split()).replace("- ", "-")
    held = project.git("for-each-ref", "--format=%(refname)", "refs/ralph/held").split()
    assert any("notes.txt" in project.tree(name) for name in held), held
    assert not (project.root / "notes.txt").exists()


def test_a_gate_that_ends_elsewhere_takes_nothing_out_of_the_commit(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, tasks=[task("one"), task("two")])
    leaving = 'if test -e work/two.txt && mkdir "$PWD/../beside/gate"; then git add -A; git commit -qm g; git switch -q main; fi'
    project.configure(gates=[{"name": "tests", "kind": "test", "command": leaving}])
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out
    assert is_whole(project, "completed", "completed")


def test_what_an_agent_deletes_is_deleted_also_where_it_commits_by_itself(tmp_path: Path) -> None:
    tasks = [task("one"), task("two"), task("three")]
    project = make_project(tmp_path, tasks=tasks, attempts=1)
    project.agent(
        'mkdir -p work; echo x > "work/$RALPH_TASK.txt"\ncase $RALPH_TASK in\n'
        "two) git rm -q docs/guide.md; git add -A; git commit -qm own;;\n"
        f"three) git rm -q work/one.txt; git add -A; git commit -q --amend -m other;;\nesac\n{PROMISE}"
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.err + ran.out
    assert sorted(deletions(project)) == ["docs/guide.md", "work/one.txt"]
    assert {"work/two.txt", "work/three.txt"} <= project.tree().keys()


def test_a_file_of_the_base_that_stands_again_is_no_untracked_one(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={"app.txt": "sound\n", "out/made.txt": "made\n"})
    project.commit("rules", **{".gitignore": "out/\n"})
    workspace = Workspace(open_repository(project.root, dict(os.environ)))
    (project.root / "app.txt").unlink()
    (project.root / "out/made.txt").unlink()
    kept = workspace.capture(workspace.open())
    project.write({"app.txt": "sound\n", "out/made.txt": "made\n"})
    again = Workspace(workspace.repository)
    opening = again.open(kept)
    assert again.capture(opening) == opening.tree
