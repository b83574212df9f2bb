"""`ralph init --from FILE.yaml`: tasks with criteria come in whole or not at all, and a second time resets nothing."""

from pathlib import Path

import pytest

from tests.harness import Project, make_project

TASKS = """\
- id: read
  title: Read numerals
  completion:
    outcome: Numerals are read
    acceptance_criteria: [XIV gives 14]
    coder: {promise: READ_DONE, verification_method: external, verification_config: {command: sh check.sh}}
- id: write
  title: Write numerals
  depends_on: [read]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.folder.prd.unlink()
    (project.root / "plan.yaml").write_text(TASKS)
    return project


def test_tasks_come_in_once_and_what_was_set_since_stays(project: Project) -> None:
    (project.root / "docs").mkdir(exist_ok=True)
    first = project.ralph("init", "--from", "../plan.yaml", cwd=project.root / "docs")
    assert first.code == 0, first.err
    assert "1 task has no acceptance criteria: write; the gates and the promise decide" in first.out
    read = project.task("read")
    assert (read.source, project.task("write").dependencies) == ("plan.yaml", ("read",))
    assert read.completion["coder"]["verificationConfig"] == {"command": "sh check.sh"}
    project.folder.prd.write_text(project.folder.prd.read_text().replace("READ_DONE", "MINE"))
    before = project.folder.prd.read_bytes()
    again = project.ralph("init", "--from", "plan.yaml", "--from", "plan.yaml")
    assert "read: its source has other criteria for coder; prd.json is kept as it is" in again.out
    assert project.folder.prd.read_bytes() == before
    assert project.ralph("validate").code == 0


def test_every_problem_is_shown_and_nothing_is_written(project: Project) -> None:
    (project.root / "plan.yaml").write_text(TASKS.replace("promise:", "promis:").replace("[read]", "[raed]"))
    refused = project.ralph("init", "--from", "plan.yaml", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines() == [
        "error: plan.yaml:9: $[1].depends_on[0]: there is no task 'raed'",
        "error: plan.yaml:6: $[0].completion.coder.promis: unknown key; did you mean `promise`? (and 1 more)",
    ]
    assert not project.folder.prd.exists()
    assert f"read with: ralph init --from {project.root / 'plan.yaml'}" in project.ralph("init", "plan.yaml").err


def test_strict_refuses_tasks_without_criteria(project: Project) -> None:
    refused = project.ralph("init", "--from", "plan.yaml", "--strict")
    assert (refused.code, project.folder.prd.exists()) == (2, False)
    assert "1 task without criteria: write; each needs an outcome and acceptanceCriteria" in refused.err
    (project.root / "plan.yaml").write_text(TASKS.partition("- id: write")[0])
    assert project.ralph("init", "--from", "plan.yaml", "--strict").code == 0
