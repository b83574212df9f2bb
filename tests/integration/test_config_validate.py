"""`ralph validate` and `ralph doctor` find what a run refuses although each file by itself is well formed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import Project, make_project, task


def bad_project(project: Project) -> None:
    project.folder.prd.write_text(project.folder.prd.read_text().replace('"toy"', '"a..b"'))


def bad_override(project: Project) -> None:
    project.tasks(task("one"), task("two", overrides={"executor": "nobody"}))


def bad_default(project: Project) -> None:
    project.environment["RALPH_DEFAULTS__EXECUTOR"] = "nobody"


def bad_fallback(project: Project) -> None:
    text = project.folder.config.read_text()
    project.folder.config.write_text(text.replace('"type": "command"', '"type": "command", "fallback": "nobody"'))


def bad_type(project: Project) -> None:
    project.folder.config.write_text("tools: {executors: [{id: a, type: claude}, {id: b, type: claud}]}\n")


def asks_too_much(project: Project) -> None:
    project.tasks(task("one", overrides={"stopCriteria": {"requireLint": True}}))


def bad_variable(project: Project) -> None:
    project.environment["RALPH_LIMITS_MAX_COST_USD"] = "5"


def bad_branch(project: Project) -> None:
    project.folder.prd.write_text(
        project.folder.prd.read_text().replace('"description"', '"branch": "a..b", "description"', 1)
    )


def bad_template(project: Project) -> None:
    project.folder.templates.mkdir()
    (project.folder.templates / "coder.md.j2").write_text("{{ promise }} {{ nothing_of_the_kind }}\n")


def old_key(project: Project) -> None:
    project.folder.config.write_text("git:\n  workspace: isolated\n")


CASES: dict[Callable[[Project], None], str] = {
    bad_branch: "$.branch: 'a..b' is no name for a branch",
    old_key: "config.yaml:2: git.workspace: is gone: agents always work in clones",
    bad_project: "$.project",
    bad_override: "$.tasks[1].overrides.executor: there is no agent 'nobody'",
    bad_default: "defaults.executor: there is no agent 'nobody'",
    bad_fallback: "tools.executors[0].fallback: there is no agent 'nobody'",
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


def test_a_type_that_nobody_uses_is_looked_at_too_and_no_fault_is_told_twice(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    bad_type(project)
    found = project.ralph("validate").out
    assert "tools.executors[1]: agent b: unknown type 'claud'" in found
    project.folder.config.write_text("tools: {executors: [{id: b, type: claud}]}\ndefaults: {executor: b}\n")
    project.tasks(task("one", overrides={"reviewer": "nobody"}))
    lines = project.ralph("validate").out.splitlines()
    assert len(lines) == len(set(lines)) == 3, lines


def test_one_look_tells_of_every_file_and_section(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    bad_default(project)
    project.tasks(task("one", priority=0))
    found = project.ralph("validate").out
    assert "priority: expected 1" in found
    assert "there is no agent 'nobody'" in found
    project.folder.config.write_text("limits: {maxCost: 3}\nverification: {steps: [{name: tests, command: ''}]}\n")
    found = project.ralph("validate").out
    for told in ("priority: expected 1", "limits.maxCost", "verification.steps[0].command: must not be empty"):
        assert told in found


def test_a_run_that_a_misshapen_list_stops_says_where_the_rest_is_told(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    text = project.folder.prd.read_text()
    project.folder.prd.write_text(text.replace('"priority": 1', '"priority": "high"', 1))
    refused = project.ralph("run")
    assert refused.code == 2
    assert "$.tasks[0].priority: " in refused.err
    assert refused.err.rstrip().endswith("for all that is wrong: ralph validate")


def test_a_broken_template_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    bad_template(project)
    found = project.ralph("validate")
    assert found.code == 2
    assert "templates/coder.md.j2:1: 'nothing_of_the_kind' is undefined" in found.out


def test_all_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert project.ralph("validate").out == "no problems\n"
    project.folder.config.write_text("limits:\n  maxCost: 3\nrules: 1\n")
    found = project.ralph("validate", "--json")
    assert (found.code, found.json["valid"]) == (2, False)
    assert [(each["line"], each["path"]) for each in found.json["problems"]] == [(2, "limits.maxCost"), (3, "rules")]


def test_the_configuration_of_the_document_holds_as_it_is_printed(tmp_path: Path) -> None:
    """Its names, without kinds; models of Claude's are asked by the agent of that type."""
    project = make_project(tmp_path)
    for name in ("opencode", "claude", "pnpm"):
        project.beside.joinpath(name).write_text("#!/bin/sh\necho 1.0.0\n")
        project.beside.joinpath(name).chmod(0o755)
    project.environment.update(PATH=f"{project.beside}:{os.environ['PATH']}", CLAUDE_CODE_OAUTH_TOKEN="x")
    printed = Path(__file__).parents[1] / "data" / "documents" / "config-review-rollback.yaml"
    project.folder.config.write_bytes(printed.read_bytes())
    assert project.ralph("validate").out == "no problems\n"
    steps = project.ralph("config", "show", "--json", "verification.steps").json["config"]
    assert [step["kind"] for step in steps] == ["typecheck", "lint", "test"]
    doctor = project.ralph("doctor")
    assert doctor.code == 0, doctor.out
    for text in (
        "opencode, for coder: 1.0.0",
        "the quick reviewer sonnet-quick: agent claude-code",
        "final reviewer opus",
    ):
        assert text in doctor.out
    plan = project.ralph("run", "--dry-run")
    assert (plan.code, "opencode" in plan.out) == (0, True), plan.err
