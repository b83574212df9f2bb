"""`ralph task` and a person's editor while an agent works in the real loop, and what outlives a run that is killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from rulebook_ralph.state import guard
from tests.harness import HONEST, Project, finish, make_project, task, wait_for

WAIT = 'if mkdir "$BESIDE/halted" 2>/dev/null; then touch "$BESIDE/started"; while test ! -e "$BESIDE/go"; do sleep 0.01; done; fi\n'
CLI = f"{sys.executable} -c 'from rulebook_ralph.cli import main; import sys; main(sys.argv[1:])'"


def running(project: Project) -> subprocess.Popen[str]:
    process = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    return process


def go_on(project: Project) -> None:
    (project.beside / "go").touch()


def edit(project: Project, *arguments: str, code: int = 0) -> str:
    ran = project.ralph("task", *arguments)
    assert ran.code == code, ran
    return ran.out + ran.err


def test_edits_are_in_the_file_at_once_outlive_the_agent_and_are_worked_on_in_the_same_run(tmp_path: Path) -> None:
    """Also where the agent wrote into the task list, and where only one attempt was foreseen for the run."""
    tasks = [task("one"), task("two", title="Old words"), task("done-before"), task("gone")]
    meddle = 'sed -i \'s/Old words/The agent says so/; s/"pending"/"completed"/\' .rulebook-ralph/prd.json\n'
    project = make_project(tmp_path, agent=meddle + WAIT + HONEST, tasks=tasks, attempts=1)
    process = running(project)
    assert "The agent says so" in project.folder.prd.read_text()
    assert edit(project, "add", "three", "Third", "--depends", "two") == "three: added\n"
    assert project.task("three").dependencies == ("two",)
    assert project.task("two").title == "Old words", "what the agent had written is put back first"
    assert edit(project, "edit", "two", "--title", "New words").startswith("two: changed title")
    assert edit(project, "note", "two", "mind the gap").startswith("two: changed notes")
    assert edit(project, "done", "done-before", "--reason", "it was there") == "done-before: completed, on your word\n"
    assert edit(project, "remove", "gone") == "gone: removed\n"
    assert edit(project, "add", "four", "Fourth") == "four: added\n"
    assert "one is being worked on" in edit(project, "done", "one", "--reason", "no", code=2)
    assert "one is being worked on" in edit(project, "remove", "one", code=2)
    go_on(project)
    ran = finish(process)
    assert ran.code == 0, ran.out + ran.err
    assert [record.task_id for record in project.records] == ["one", "two", "three", "four"]
    assert {each.id: each.status for each in project.prd.tasks} == dict.fromkeys(
        ["one", "two", "done-before", "three", "four"], "completed"
    )
    assert project.subjects().count("New words") == 1
    assert project.task("two").notes == "mind the gap"
    assert "ralph task: three: added" in ran.out
    assert project.ralph("validate").code == 0


def test_a_task_that_is_added_to_the_last_one_is_worked_on(tmp_path: Path) -> None:
    """The limit of iterations that follows from the list grows with it."""
    project = make_project(tmp_path, agent=WAIT + HONEST, attempts=1)
    process = running(project)
    edit(project, "add", "two", "Second")
    go_on(project)
    ran = finish(process)
    assert ran.code == 0, ran.out
    assert "iteration 2 of 2" in ran.out


def test_the_agent_is_told_of_what_it_wrote_though_an_edit_came_between(tmp_path: Path) -> None:
    script = (
        "test -e \"$BESIDE/halted\" || sed -i 's/Do one/Do it my way/' .rulebook-ralph/prd.json\n" + WAIT + "exit 1\n"
    )
    project = make_project(tmp_path, agent=script, attempts=2)
    process = running(project)
    edit(project, "note", "one", "slowly")
    go_on(project)
    assert finish(process).code == 3
    assert "The folder .rulebook-ralph/ was changed (prd.json); it was put back" in project.records[0].feedback
    assert "was changed" not in project.records[1].feedback
    assert project.task().title == "Do one"


def test_an_edit_outlives_a_run_that_is_killed_right_after(tmp_path: Path) -> None:
    """What the agent wrote before it and after it does not."""
    meddle = "sed -i 's/Do one/Do it my way/' .rulebook-ralph/prd.json\n"
    project = make_project(tmp_path, agent=meddle + WAIT + HONEST)
    process = running(project)
    edit(project, "add", "two", "Second")
    prd = json.loads(project.folder.prd.read_text())
    prd["tasks"][0]["status"] = "completed"
    project.folder.prd.write_text(json.dumps(prd))
    process.send_signal(signal.SIGKILL)
    finish(process)
    assert "run 'ralph resume' first" in edit(project, "note", "two", "more", code=2)
    assert project.ralph("resume").code == 0
    assert [record.task_id for record in project.records] == ["one", "one", "two"]
    assert project.task_commits().keys() == {"one", "two"}
    assert project.task().title == "Do one"
    assert project.ralph("validate").code == 0


def test_an_agent_may_not_use_it(tmp_path: Path) -> None:
    """Neither in its own process tree, nor with an environment that it emptied, nor from a daemon of its own."""
    asked = f"""
{CLI} task done two --reason mine > "$BESIDE/said-1" 2>&1 && exit 1
env -i PATH="$PATH" HOME="$HOME" {CLI} task done two --reason mine > "$BESIDE/said-2" 2>&1 && exit 1
setsid env -i PATH="$PATH" HOME="$HOME" {CLI} task add three T > "$BESIDE/said-3" 2>&1 & wait
"""
    project = make_project(tmp_path, agent=asked + HONEST, tasks=[task("one"), task("two")])
    assert project.ralph("run", "--task", "one").code == 0
    for number in (1, 2, 3):
        said = (project.beside / f"said-{number}").read_text()
        assert said.startswith("error: "), said
        assert "an agent" in said
    assert project.task("two").status == "pending"
    assert len(project.prd.tasks) == 2


def test_an_edit_in_an_editor_at_the_same_time_is_kept_aside(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=WAIT + HONEST, tasks=[task("one"), task("two")])
    process = running(project)
    project.folder.prd.write_text(project.folder.prd.read_text().replace("Do two", "Do it as I say"))
    edit(project, "note", "two", "slowly")
    project.folder.prd.write_text(project.folder.prd.read_text().replace("slowly", "quickly"))
    go_on(project)
    ran = finish(process)
    assert ran.code == 0
    assert (project.task("two").title, project.task("two").notes) == ("Do two", "slowly")
    held = sorted((project.root / ".git" / "ralph" / "held").glob("iteration-1/prd.json*"))
    kept = [path.read_text() for path in held]
    assert any("Do it as I say" in text for text in kept), "the first edit is not lost"
    assert any("quickly" in text for text in kept), "nor is the second"
    assert "2 edits made while an agent worked are held: " in ran.out
    assert all(str(path) in ran.out for path in held)


def test_what_an_agent_writes_right_after_an_edit_is_not_taken_for_the_edit(tmp_path: Path) -> None:
    """However fast it is: Ralph writes, the agent writes, Ralph looks."""
    project = make_project(tmp_path)
    edited = project.folder.prd.read_bytes().replace(b"Do one", b"Do two")
    remembered = guard.remember(project.folder)
    project.folder.prd.write_bytes(edited.replace(b"pending", b"completed"))
    (restored,) = remembered.with_file("prd.json", edited).restore(lambda _: None)
    assert restored.name == "prd.json"
    assert project.folder.prd.read_bytes() == edited
    assert remembered.with_file("prd.json", edited).restore(lambda _: None) == ()
