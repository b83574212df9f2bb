"""`ralph verify`: the verdict on the tree as it stands, for people and CI, with no agent."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rulebook_ralph.tasks.model import Json
from tests.harness import PROMISE, TESTS, Project, finish, make_project, picture, task, wait_for

THERE = {
    "name": "there",
    "method": "external",
    "config": {"command": "test -e work/one.txt || { echo nothing there; false; }"},
}
CLEAN = {"name": "clean", "method": "semantic", "config": {"negative_patterns": ["TODO"]}}
SAID = {"name": "said", "method": "string_match"}


def criteria(*parts: Json) -> dict[str, Json]:
    return {"coder": {"verificationMethod": "multi_stage", "verificationConfig": {"stages": list(parts)}}}


WHOLE = criteria(THERE, CLEAN, SAID)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, tasks=[task(completion=WHOLE), task("two")])


def verify(project: Project, *arguments: str, code: int = 0) -> str:
    """What the command prints; it writes nothing to the state folder, and leaves nothing behind."""
    before = picture(project.folder.path)
    ran = project.ralph("verify", *arguments)
    assert ran.code == code, ran
    assert picture(project.folder.path) == before
    assert not list((project.root / ".git" / "ralph").glob("verify*"))
    return ran.out + ran.err


def test_the_gates_and_the_criteria_of_a_task_that_is_worked_on_by_hand(project: Project) -> None:
    assert "verified: everything that was run holds" in verify(project)
    said = verify(project, "one", code=3)
    assert "✘ one (coder)\n    coder/there: exit code 1\n      nothing there\nnot verified: one (coder)\n" in said
    project.write({"work/one.txt": "TODO: all\n"})
    assert "coder/clean: found 'TODO' in work/one.txt:1" in verify(project, "one", code=3), "new files count"
    project.write({"work/one.txt": "one\n"})
    assert "✔ one (coder)\n" in verify(project, "one")
    project.write({"app.txt": "unsound\n"})
    said = verify(project, "one", code=3)
    assert "output of the gate tests:\n      app.txt: not sound\n" in said
    assert "not verified: gate tests\n" in said
    assert project.status() == [" M app.txt", "?? work/one.txt"]


def test_after_a_run_all_completed_tasks_are_verified_by_what_they_changed(project: Project) -> None:
    assert project.ralph("run").code == 0
    project.commit("later", **{"later.txt": "TODO: of another task\n"})
    project.write({"notes.txt": "TODO: not of any task\n"})
    said = verify(project)
    assert "✔ one (coder)\n- two (coder): not verified, only an agent's promise is asked for\n" in said
    project.write({"work/one.txt": "one\nTODO: the rest\n"})
    assert "coder/clean: found 'TODO' in work/one.txt:2" in verify(project, code=3), "its files as they stand now"
    (project.root / "work/one.txt").unlink()
    assert "not verified: one (coder)" in verify(project, code=3)


def test_the_object_for_programs(project: Project) -> None:
    report = json.loads(project.ralph("verify", "one", "two", "--json").out)
    assert report["success"] is False
    assert [(gate["step"], gate["passed"], gate["exitCode"]) for gate in report["gates"]] == [("tests", True, 0)]
    one, two = report["stages"]
    assert (one["taskId"], one["stage"], one["passed"], one["reason"]) == (
        "one",
        "coder",
        False,
        "coder/there: nothing there",
    )
    assert (two["passed"], two["checks"]) == (None, [])
    (there, whole) = one["checks"]
    assert (there["step"], there["method"], there["output"]) == ("coder/there", "external", "nothing there\n")
    assert (whole["step"], whole["method"], whole["passed"]) == ("coder", "multi_stage", False)


def test_what_cannot_be_verified_is_not_said_to_be(project: Project) -> None:
    assert "there is no task 'three'" in verify(project, "three", code=2)
    project.tasks(task(completion=criteria(CLEAN)), task("two"))
    assert "- one (coder): not verified, no change of this task is found" in verify(project, "one")
    project.configure(gates=[{**TESTS, "required": False, "command": "false"}])
    assert "not verified: nothing that was run passed" in verify(project, "two", code=3)
    project.configure(gates=[])
    assert "nothing to verify" in verify(project, "two", code=2)


def test_criteria_that_a_model_judges_fail_where_there_is_none(project: Project) -> None:
    judged = {"coder": {"verificationMethod": "semantic", "verificationConfig": {"checkFor": ["It works."]}}}
    project.tasks(task(completion=judged, status="completed"))
    project.configure(judge={"executor": "anthropic"})
    project.write({"work/one.txt": "one\n"})
    assert "- one (coder): not verified, a model judges it; run: ralph verify one" in verify(project)
    assert "coder: " in verify(project, "one", code=3)


def test_in_ci(project: Project, tmp_path: Path) -> None:
    """A shallow clone with a detached HEAD, where no agent is installed: what it cannot see it says."""
    project.configure(attempts=1, git={"stateCommit": "none"}, defaults={"executor": "script"})
    assert project.ralph("run", "--task", "one").code == 0
    project.git("add", "-f", ".rulebook-ralph/prd.json", ".rulebook-ralph/config.yaml")
    project.git("commit", "-q", "--amend", "--no-edit")
    for depth, seen in (("1", False), ("2", True)):
        clone = tmp_path / f"clone-{depth}"
        url = f"file://{project.root}"
        subprocess.run(["git", "clone", "-q", f"--depth={depth}", "-b", "ralph/toy", url, str(clone)], check=True)
        there = Project(clone, project.beside, environment={"PATH": os.defpath, "CI": "true"})
        there.git("checkout", "-q", "--detach")
        (clone / ".rulebook-ralph" / "config.yaml").write_text(
            "verification: {steps: [{name: t, command: sh check.sh}]}\n"
        )
        there.git("commit", "-q", "-m", "configured", "--only", ".rulebook-ralph/config.yaml")
        said = verify(there, "--trust-commands")
        assert "✔ one (coder)" in said
        assert ("no change of this task is found" not in said) == seen
        assert there.git("status", "--porcelain") == ""


def test_while_a_run_goes_on(project: Project) -> None:
    project.agent(
        'if test "$RALPH_TASK" = one; then mkdir work; echo TODO > work/one.txt; touch "$BESIDE/started"\n'
        'while test ! -e "$BESIDE/go"; do sleep 0.01; done; echo one > work/one.txt; else echo two > two.txt; fi\n'
        + PROMISE
    )
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    assert "nothing there" in verify(project, "one", code=3), "the agent works elsewhere"
    (project.beside / "go").touch()
    ran = finish(process)
    assert ran.code == 0, ran.out
    assert len(project.records) == 2
