"""A run that dies while its agent has HEAD elsewhere goes on by itself, and what git's refs were is put back."""

import os

import pytest

from tests.harness import PROMISE, Project, finish, make_project, task
from tests.sampling import sample

AWAY = {
    "another": "git switch -qf main; echo elsewhere > app.txt",
    "detached": "git checkout -q --detach; echo half > half.txt",
    "new": "git switch -qc side; echo half > half.txt; git add half.txt; git commit -qm half",
}


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
