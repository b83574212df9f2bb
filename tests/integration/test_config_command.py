import stat
from pathlib import Path

import pytest

from rulebook_ralph.config.template import CONFIG_SCHEMA_NAME, SCHEMA_HINT
from rulebook_ralph.process.tree import new_mark
from tests.harness import Project, make_project

WRITTEN = """\
# Mine.
limits:
  maxCostUsd: 5     # dollars
tools:
  executors:
    - {id: claude, type: claude}
    - id: second
      type: codex
defaults: {executor: claude}
verification:
  steps:
  - name: tests
    command: sh check.sh
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.environment.update(HOME=str(tmp_path / "home"), EDITOR="")
    project.folder.config.write_text(WRITTEN)
    return project


def text(project: Project) -> str:
    return project.folder.config.read_text("utf-8")


def test_values_are_set_with_all_else_as_it_was_and_taken_out_again(project: Project) -> None:
    ran = project.ralph("config", "set", "limits.maxCostUsd", "7")
    assert (ran.code, ran.out, ran.err) == (0, ".rulebook-ralph/config.yaml:3: limits.maxCostUsd: 7\n", "")
    assert text(project) == WRITTEN.replace("5  ", "7  ")
    assert project.ralph("config", "set", "tools.executors.second.model", "o3").code == 0
    assert project.ralph("config", "set", "verification.steps.0.timeout", "15m").code == 0
    assert project.ralph("config", "get", "tools.executors.second.model").out == "o3\n"
    assert project.ralph("config", "get", "verification.steps[0].timeout").out == "900\n"
    ran = project.ralph("config", "unset", "tools.executors.second.model")
    assert (ran.code, ran.out) == (0, ".rulebook-ralph/config.yaml: tools.executors[1].model is no longer set\n")
    ran = project.ralph("config", "unset", "limits.maxCostUsd")
    assert ran.out == ".rulebook-ralph/config.yaml: limits.maxCostUsd is no longer set; now null (built-in)\n"
    assert text(project) == WRITTEN.replace("  maxCostUsd: 5     # dollars\n", "") + "    timeout: 15m\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "limits.maxCost", "5"), "limits.maxCost: unknown key; did you mean `maxCostUsd`?"),
        (("set", "limits.maxCostUsd", "cheap"), "limits.maxCostUsd: expected a number or null, got a string"),
        (("set", "limits.maxCostUsd", "-1"), "limits.maxCostUsd: expected a number > 0 or null"),
        (("set", "tools.executors.1.id", "claude"), "tools.executors[1].id: 'claude' is used already by executors[0]"),
        (("set", "rules", "[a"), "rules: is no valid YAML"),
        (("set", "tools.executors.2.model", "o3"), "tools.executors[2]: `id` is missing"),
        (("unset", "verification.steps.0.command"), "verification.steps[0]: `command` is missing"),
        (("set", "defaults.executor", "nobody"), "defaults.executor: there is no agent 'nobody'"),
        (("set", "tools.executors.second.type", "codexx"), "did you mean codex?"),
        (("set", "defaults.quickReviewer", "nobody"), "there is no reviewer and no agent 'nobody'"),
        (("set", "judge.executor", "nobody"), "judge.executor: there is no agent 'nobody'"),
        (("unset", "rules"), "rules is not set in .rulebook-ralph/config.yaml"),
        (("get", "limits.maxCost"), "limits.maxCost: unknown key; did you mean `maxCostUsd`?"),
    ],
)
def test_what_is_not_valid_is_refused_before_anything_is_written(
    project: Project, arguments: tuple[str, ...], said: str
) -> None:
    before = project.folder.config.stat()
    ran = project.ralph("config", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said.removesuffix(" or null") in ran.err
    after = project.folder.config.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_was_wrong_before_keeps_nobody_from_mending_it_in_steps(project: Project) -> None:
    project.folder.config.write_text("defaults: {executor: nobody}\njudge: {executor: nobody}\n")
    assert project.ralph("config", "set", "limits.maxCostUsd", "5").code == 0
    assert project.ralph("config", "set", "defaults.executor", "claude").code == 0
    assert project.ralph("config", "set", "defaults.executor", "nobodi").code == 2


def test_the_whole_configuration_must_load(project: Project) -> None:
    assert project.ralph("config", "set", "--user", "rules", "[be brief]").code == 0
    ran = project.ralph("config", "set", "--user", "tools.executors", "[{id: second, type: claude}]")
    assert (ran.code, ran.err) == (0, "")
    assert "it does not hold here: .rulebook-ralph/config.yaml:5 says otherwise" in ran.out
    project.folder.config.write_text("tools: {+executors: [{id: third, type: codex}]}\n")
    ran = project.ralph("config", "set", "tools.+executors.0.id", "second")
    assert ran.code == 2
    assert "'second' is used already" in ran.err
    assert "config.yaml was not changed" in ran.err
    assert "third" in text(project)


def test_the_users_own_file(project: Project, tmp_path: Path) -> None:
    own = tmp_path / "home/.config/rulebook-ralph/config.yaml"
    assert project.ralph("config", "path").out == f"{own} (not there)\n{project.folder.config}\n"
    assert project.ralph("config", "set", "--user", "limits.maxCostUsd", "9").code == 0
    assert own.read_text() == f"{SCHEMA_HINT}limits:\n  maxCostUsd: 9\n"
    assert own.with_name(CONFIG_SCHEMA_NAME).exists()
    assert project.ralph("config", "path", "--user", cwd=tmp_path).out == f"{own}\n"
    kept = tmp_path / "dotfiles.yaml"
    own.rename(kept)
    kept.chmod(0o600)
    own.symlink_to(kept)
    assert project.ralph("config", "set", "--user", "limits.maxTokens", "9", cwd=tmp_path).code == 0
    assert "maxTokens: 9" in kept.read_text()
    assert own.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    ran = project.ralph("config", "set", "limits.maxTokens", "9", cwd=tmp_path)
    assert (ran.code, "there is no project here" in ran.err) == (2, True)


def test_where_each_value_is_from(project: Project) -> None:
    project.environment["RALPH_LIMITS__IDLE_TIMEOUT"] = "5m"
    origins = project.ralph("config", "show", "--origin", "--json").json["origins"]
    assert origins["limits.maxCostUsd"] == ".rulebook-ralph/config.yaml:3"
    assert origins["limits.idleTimeout"] == "RALPH_LIMITS__IDLE_TIMEOUT"
    assert origins["tools.executors[1].type"] == ".rulebook-ralph/config.yaml:8"
    assert origins["tools.executors[1].model"] == origins["rules"] == origins["git.rollback"] == "built-in"
    lines = project.ralph("config", "show", "--origin", "limits").out.splitlines()
    assert lines[0].split() == ["key", "value", "origin"]
    assert ["limits.idleTimeout", "300", "RALPH_LIMITS__IDLE_TIMEOUT"] in [line.split() for line in lines]
    assert "maxCostUsd: 5\n" in project.ralph("config", "show", "limits").out
    project.ralph("config", "set", "tools.executors.claude.env", "{MY_API_KEY: very-secret-indeed}")
    assert "very-secret" not in project.ralph("config", "show").out + project.ralph("config", "show", "--json").out
    assert project.ralph("config", "get", "tools.executors.claude.env.MY_API_KEY").out == "very-secret-indeed\n"


def test_agents_change_nothing(project: Project) -> None:
    project.environment[new_mark()] = "1"
    for arguments in (("set", "limits.maxCostUsd", "7"), ("unset", "--user", "rules"), ("edit",)):
        ran = project.ralph("config", *arguments)
        assert (ran.code, "inside an agent's process tree" in ran.err) == (2, True)
    assert text(project) == WRITTEN


def test_an_edit_that_is_wrong_is_kept_and_told(project: Project) -> None:
    editor = project.beside / "editor"
    project.environment["EDITOR"] = f"sh {editor}"
    editor.write_text('printf "limits:\\n  maxCostUsd: [\\n" > "$1"\n')
    ran = project.ralph("config", "edit")
    assert ran.code == 2
    assert "error: .rulebook-ralph/config.yaml:3:1: is no valid YAML" in ran.err
    assert text(project) == "limits:\n  maxCostUsd: [\n"
    assert "mend it: ralph config edit" in project.ralph("config", "set", "rules", "[a]").err
    editor.write_text('printf "limits:\\n  maxCost: 3\\n" > "$1"\n')
    assert "config.yaml:2: limits.maxCost: unknown key" in project.ralph("config", "edit").err
    editor.write_text('printf "limits:\\n  maxCostUsd: 3\\n" > "$1"\n')
    ran = project.ralph("config", "edit")
    assert (ran.code, ran.out) == (0, ".rulebook-ralph/config.yaml: no problems\n")
    project.environment["EDITOR"] = "no-such-editor"
    assert "no-such-editor: Editing failed" in project.ralph("config", "edit").err
    project.environment["EDITOR"] = "'"
    assert "set EDITOR" in project.ralph("config", "edit").err


def test_short_forms_become_maps_where_more_is_said(project: Project) -> None:
    for key, value in (("sandbox", "off"), ("parallel", "3"), ("sandbox.docker", "true"), ("parallel.workers", "4")):
        ran = project.ralph("config", "set", key, value)
        assert ran.code == 0, ran
    assert project.ralph("config", "get", "sandbox").out == "mode: off\ndocker: true\n".replace("off", '"off"')
    assert project.ralph("config", "get", "parallel").out == "workers: 4\n"
    assert text(project).startswith(WRITTEN)


def test_a_key_of_the_first_edition_is_refused_with_the_new_one(project: Project) -> None:
    ran = project.ralph("config", "set", "limits.maxTaskCostUsd", "3")
    assert (ran.code, "a task's own budget is `limits: {maxCostUsd: …}` in its `overrides`" in ran.err) == (2, True)
    assert text(project) == WRITTEN


def test_one_value_that_is_a_secret_is_said_to_be_left_out(project: Project) -> None:
    project.environment["MY_API_KEY"] = "very-secret-indeed"
    project.ralph("config", "set", "tools.executors.claude.env", "{OTHER_KEY: very-secret-indeed}")
    ran = project.ralph("config", "get", "tools.executors.claude.env.OTHER_KEY")
    assert (ran.code, ran.out) == (2, "[redacted]\n")
    assert "holds a secret" in ran.err


def test_a_wrong_edit_without_a_standard_input_is_told_and_asks_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = project.beside / "editor"
    project.environment["EDITOR"] = f"sh {editor}"
    editor.write_text('printf "limits:\\n  maxCostUsd: [\\n" > "$1"\n')
    monkeypatch.setattr("sys.stdin", None)  # what `<&-` makes of it
    ran = project.ralph("config", "edit")
    assert ran.code == 2
    assert "mend .rulebook-ralph/config.yaml" in ran.err
