"""`ralph validate` and `ralph doctor` find what a run refuses although each file by itself is well formed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import Project, make_project, task


def ralph_branch(project: Project) -> None:
    project.git("branch", "ralph")


def bad_project(project: Project) -> None:
    project.folder.prd.write_text(project.folder.prd.read_text().replace('"toy"', '"a..b"'))


def bad_override(project: Project) -> None:
    project.tasks(task("one"), task("two", overrides={"executor": "nobody"}))


def bad_default(project: Project) -> None:
    project.environment["RALPH_DEFAULTS__EXECUTOR"] = "nobody"


def bad_fallback(project: Project) -> None:
    text = project.folder.config.read_text()
    project.folder.config.write_text(text.replace('"type": "command"', '"type": "command", "fallback": "nobody"'))


def asks_too_much(project: Project) -> None:
    project.tasks(task("one", overrides={"stopCriteria": {"requireLint": True}}))


def bad_variable(project: Project) -> None:
    project.environment["RALPH_LIMITS_MAX_COST_USD"] = "5"


CASES: dict[Callable[[Project], None], str] = {
    ralph_branch: "git branch -m ralph NEW-NAME",
    bad_project: "$.project",
    bad_override: "$.tasks[1].overrides.executor: agent nobody",
    bad_default: "defaults.executor: agent nobody",
    bad_fallback: "tools.executors[0].fallback: agent nobody",
    asks_too_much: "$.tasks[0]: can never be completed",
    bad_variable: "RALPH_LIMITS__MAX_COST_USD",
}


@pytest.mark.parametrize("spoil", CASES)
def test_what_a_run_refuses_is_found(tmp_path: Path, spoil: Callable[[Project], None]) -> None:
    project = make_project(tmp_path)
    spoil(project)
    found = project.ralph("validate")
    assert (found.code, CASES[spoil] in found.out) == (2, True), found.out + found.err
    refused = project.ralph("run")
    assert (refused.code, project.records) == (2, []), refused.out + refused.err
    assert project.ralph("doctor", "--no-gates").code == 2


def test_status_refuses_ids_that_are_there_twice(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.tasks(task("one"), task("One"))
    refused = project.ralph("status")
    assert (refused.code, "is used already by tasks[0]" in refused.err) == (2, True), refused.out
