"""`ralph demo`: what it shows is what happened, and no model is needed for it."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import isolate
from tests.harness import Project, Ran, finish, wait_for

READ, WRITE, TELL = "phase1_read-numerals", "phase2_write-numerals", "phase3_tell-the-time"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, folder / "home")
        ran = Project(folder, folder).ralph("demo", "--dir", "sundial")
    return Project(folder / "sundial", folder, name="sundial"), ran


def evidence(project: Project, number: int) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(project.folder.iteration(number).read_text())
    told: dict[str, Any] = record.get("evidence", {})
    return told


def test_three_tasks_in_five_iterations_one_of_them_a_lie(shown: tuple[Project, Ran]) -> None:
    project, ran = shown
    assert ran.code == 0, ran.out + ran.err
    statuses = [(each.task_id, each.completion_status) for each in project.records]
    assert statuses == [
        (READ, "completed"),
        (WRITE, "failed"),
        (WRITE, "failed"),
        (WRITE, "completed"),
        (TELL, "completed"),
    ]
    lie, broken = project.records[1:3]
    assert lie.verdict
    assert lie.verdict.reason == "the agent said it was done, but changed nothing"
    assert "test_seven_letters" in broken.feedback
    assert "MCMDCDCXCLXLXIXVIVI" in broken.feedback, "the output that tells why"


@pytest.mark.parametrize(("number", "proof"), [(1, "test_plain"), (4, "test_subtractive_pairs"), (5, "test_evening")])
def test_each_task_is_proven_by_tests_that_were_red(shown: tuple[Project, Ran], number: int, proof: str) -> None:
    project, _ = shown
    told = evidence(project, number)
    assert any(name.endswith(proof) for name in told["turned"])
    assert not told.get("asked")


def test_one_commit_for_each_task_and_one_for_the_state(shown: tuple[Project, Ran]) -> None:
    project, _ = shown
    assert project.subjects() == ["Read Roman numerals", "Write Roman numerals", "Tell the time", "ralph: state"]
    assert set(project.task_commits()) == {READ, WRITE, TELL}
    boxes = [project.root.joinpath("rulebook", "tasks", task, "tasks.md").read_text() for task in (READ, WRITE, TELL)]
    assert not any("- [ ]" in text for text in boxes)
    assert project.git("status", "--porcelain") == "", "also what editors complete config.yaml with is committed"


def test_the_project_works_then(shown: tuple[Project, Ran]) -> None:
    project, _ = shown
    done = subprocess.run(
        [sys.executable, "-m", "sundial", "19:45"], cwd=project.root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "XIX · XLV\n"


def test_what_it_says(shown: tuple[Project, Ran]) -> None:
    project, ran = shown
    assert "not accepted, trying again (the agent said it was done, but changed nothing)" in ran.out
    assert "gate tests (the base's code, new checks): red" in ran.out
    assert "all complete: 3 completed · 5 iterations" in ran.out
    assert f"cd {project.root}" in ran.out
    assert "five iterations; the lie is number 2" in ran.out


def test_a_demo_that_is_ended_early_tells_of_nothing_that_did_not_happen(tmp_path: Path) -> None:
    process = Project(tmp_path, tmp_path).start("demo", "--dir", "sundial")
    project = Project(tmp_path / "sundial", tmp_path, name="sundial")
    wait_for(lambda: project.folder.iteration(1).exists(), "the first iteration")
    process.send_signal(signal.SIGINT)
    ran = finish(process)
    assert ran.code == 130, ran
    assert "ralph history" in ran.out
    assert "five" not in ran.out
    assert "ralph show 4" not in ran.out


@pytest.mark.thorough
def test_nothing_is_left_where_nothing_is_to_be_kept(tmp_path: Path) -> None:
    ran = Project(tmp_path, tmp_path).ralph("demo", "--dir", "here", "--no-keep")
    assert (ran.code, "all complete: 3 completed" in ran.out) == (0, True)
    assert not (tmp_path / "here").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    ran = Project(tmp_path, tmp_path).ralph("demo", "--dir", ".")
    assert ran.code == 2
    assert "exists already" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
