"""What an agent in a session may write between two stops to be believed, or to get rid of its judge, and may not."""

import json
from pathlib import Path

import pytest

from rulebook_ralph.core.model import Task
from tests.harness import Project, make_project
from tests.integration.test_hook_stop import DONE, Session


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    project = make_project(tmp_path)
    project.tasks(Task(id="one", title="One"), Task(id="two", title="Two"))
    project.configure(attempts=3)
    begun = Session(project, monkeypatch)
    assert begun.begin().code == 0
    assert begun.stop("ready")["decision"] == "block"
    return begun


def test_a_record_that_says_settled_and_a_list_that_says_completed_are_not_believed(session: Session) -> None:
    project = session.project
    record = project.folder.iteration(1)
    record.write_text(record.read_text().replace('"executing"', '"settled"'))
    said = json.loads(project.folder.prd.read_text())
    for task in said["tasks"]:
        task["status"] = "completed"
    project.folder.prd.write_text(json.dumps(said))
    answer = session.stop(DONE)
    assert (answer["decision"], "no file differs" in answer["reason"]) == ("block", True)
    assert [task.status for task in project.prd.tasks] == ["in_iteration", "pending"]


def test_a_record_that_is_gone_ends_nothing(session: Session) -> None:
    session.project.folder.iteration(1).unlink()
    session.project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]


def test_where_what_was_kept_is_gone_the_loop_ends_and_frees_the_project(session: Session) -> None:
    (session.project.root / ".git/ralph/opening-1").unlink()
    assert "begin again: /ralph:implement" in session.stop(DONE)["systemMessage"]
    assert session.begin().code == 0


def test_a_second_beginning_is_refused_and_frees_nothing(session: Session) -> None:
    held = (session.project.root / ".git/ralph/lock").read_bytes()
    assert "goes on already" in session.begin().err
    assert (session.project.root / ".git/ralph/lock").read_bytes() == held != b""
    session.project.write({"work/one.txt": "1\n"})
    assert "# Your task: two" in session.stop(DONE)["reason"]


def test_tasks_that_nothing_tells_apart_go_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project: Project = make_project(tmp_path)
    project.tasks(*(Task(id=name, title=name, markers=("P",)) for name in ("a", "b", "c")))
    begun = Session(project, monkeypatch)
    begun.begin()
    assert "# Your task: a" in begun.stop("ready")["reason"]
    assert [task.status for task in project.prd.tasks] == ["in_iteration", "pending", "pending"]
