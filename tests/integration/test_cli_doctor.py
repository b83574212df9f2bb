"""`ralph doctor` on real projects: what it finds, that it changes nothing, that nothing hostile stops it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.run import lock
from rulebook_ralph.tasks.model import STATE_FOLDER
from tests.harness import TESTS, Project, Ran, make_project, picture, task

SECRET = "sk-very-secret-0123456789"
CLAUDE = "#!/bin/sh\necho '2.1.330 (Claude Code)'\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """On a PATH with a claude that tells its version, and with a key for it."""
    made = make_project(tmp_path, tasks=[task(acceptance_criteria=("it holds",))])
    program = made.beside / "claude"
    program.write_text(CLAUDE)
    program.chmod(0o755)
    made.environment.update(PATH=f"{made.beside}:{os.environ['PATH']}", ANTHROPIC_API_KEY=SECRET)
    made.configure(gates=[TESTS], defaults={"executor": "claude"}, limits={"maxCostUsd": 5})
    return made


def seen(project: Project) -> dict[str, tuple[int, bytes]]:
    """The user's files; what git keeps of a tree that was looked at is nobody's."""
    return picture(project.root, without=lambda path: path.startswith((".git/objects", ".git/refs/ralph")))


def matters(ran: Ran, state: str = "") -> list[str]:
    assert ran.err == ""
    told: list[dict[str, Any]] = ran.json["diagnoses"]
    return [f"{each['group']}: {each['text']}; {each['advice']}" for each in told if state in ("", each["state"])]


def test_a_project_that_is_ready(project: Project) -> None:
    before = seen(project), picture(project.beside)
    ran = project.ralph("doctor")
    assert (ran.code, ran.err) == (0, ""), ran.out
    lines = ran.out.splitlines()
    assert [line for line in lines if line and line[0].isalpha()] == [
        *("git", "Ralph", "agents", "lock", "system", "gates"),
        "no problems",
    ]
    assert "  ok       claude, for coder: 2.1.330, permissions full" in lines
    assert "  ok       claude: key or login in ANTHROPIC_API_KEY" in lines
    assert "  ok       the run creates branch ralph/toy" in lines
    assert any(line.startswith("  ok       tests: passed, ") for line in lines)
    assert SECRET not in ran.out
    after = seen(project), picture(project.beside)
    assert after == before, "nothing of the user's is changed"


def test_all_that_is_wrong_is_told_at_once_with_what_to_do(project: Project) -> None:
    project.tasks(task("one"), task("two", overrides={"executor": "second"}), branch="no..branch")
    second = {
        "id": "second",
        "type": "codex",
        "command": f"sh {project.beside}/claude",
        "env": {"HOME": "/nonexistent"},
    }
    gates = [{"name": "gone", "kind": "test", "command": "no-such-program"}, {"name": "red", "command": "exit 4"}]
    project.configure(gates=gates, tools={"executors": [second]}, defaults={"executor": "missing"})
    project.write({"app.txt": "changed\n"})
    private = project.root / ".git" / "ralph"
    private.mkdir()
    (private / "lock").write_text('{"pid": 999999999, "since": "2026-01-01T00:00:00Z", "command": "run"}')
    before = seen(project)
    ran = project.ralph("doctor", "--json")
    assert (ran.code, ran.json["exitCode"], ran.json["success"]) == (2, 2, False)
    wrong, warnings = "\n".join(matters(ran, "error")), "\n".join(matters(ran, "warning"))
    for text in (
        "git: 'no..branch' is no name for a branch; set branch",
        "agents: there is no agent 'missing'",
        "agents: second: no key and no login was found; log in with: codex login",
        "gates: gone: failed (exit code 127)",
        "gates: no required gate passes",
    ):
        assert text in wrong, wrong
    for text in (
        "Ralph: without criteria of their own",
        "lock: the last run died",
        "gates: red: failed (exit code 4)",
    ):
        assert text in warnings, warnings
    assert seen(project) == before
    assert SECRET not in ran.out


def test_an_agent_alone_that_cannot_work_gives_its_own_exit_code(project: Project) -> None:
    project.environment.pop("ANTHROPIC_API_KEY")
    ran = project.ralph("doctor", "--json", "--no-gates")
    assert ran.code == 5
    assert [told.split(";")[0] for told in matters(ran, "error")] == ["agents: claude: no key and no login was found"]
    assert matters(ran, "unknown") == ["gates: not run, as asked for: tests; "]


def test_an_agent_may_be_absent_as_long_as_one_that_stands_in_for_it_can_work(project: Project) -> None:
    absent = {"id": "first", "type": "codex", "command": "no-such-codex", "fallback": "second"}
    second = {"id": "second", "type": "claude"}
    project.configure(tools={"executors": [absent, second]}, defaults={"executor": "first"})
    ran = project.ralph("doctor", "--json", "--no-gates")
    assert ran.code == 0
    (told,) = matters(ran, "warning")
    assert "no-such-codex was not found on PATH; its fallback second would work instead" in told
    project.environment.pop("ANTHROPIC_API_KEY")
    ran = project.ralph("doctor", "--json", "--no-gates")
    assert (ran.code, len(matters(ran, "error")), len(matters(ran, "warning"))) == (5, 1, 2)


def test_no_gate_is_run_while_a_run_is_at_work(project: Project) -> None:
    project.configure(
        gates=[{"name": "marks", "command": f"touch {project.beside}/ran"}], defaults={"executor": "claude"}
    )
    with lock.hold(project.root / ".git" / "ralph", "run", since="2026-01-01T00:00:00Z"):
        ran = project.ralph("doctor", "--json")
    assert ran.code == 0
    assert f"lock: a run is at work: process {os.getpid()}" in matters(ran, "warning")[0]
    assert not (project.beside / "ran").exists()


def test_outside_a_repository_and_before_init(tmp_path: Path, project: Project) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    ran = project.ralph("doctor", "--json", cwd=outside)
    assert ran.code == 2
    told = "\n".join(matters(ran, "error"))
    assert "is not in a git repository; run 'git init'" in told
    assert not list(outside.iterdir())
    (project.root / STATE_FOLDER).rename(tmp_path / "aside")
    ran = project.ralph("doctor", "--json")
    assert any(told.startswith("Ralph: no task list yet") for told in matters(ran, "ok"))
    nothing = project.environment | {"PATH": str(project.beside)}
    ran = Project(project.root, project.beside, environment=nothing).ralph("doctor", "--json")
    assert matters(ran, "error")[0] == "git: git is not installed or not on PATH; install git"


def test_one_cause_is_one_error(tmp_path: Path, project: Project) -> None:
    bare = tmp_path / "bare"
    subprocess.run(["git", "init", "-q", str(bare)], check=True)
    ran = project.ralph("doctor", "--json", cwd=bare)
    assert [each["text"] for each in ran.json["diagnoses"] if each["state"] == "error"] == [
        f"{bare} has no commit yet"
    ], ran.out


def test_a_judge_that_cannot_be_asked_is_none(project: Project) -> None:
    agents = [{"id": "claude", "type": "claude"}, {"id": "second", "type": "codex", "command": "no-such-codex"}]
    project.configure(gates=[TESTS], tools={"executors": agents}, defaults={"executor": "claude"})
    ran = project.ralph("doctor", "--json", "--no-gates")
    assert "agents: the judging model: claude-haiku-5-5, by the Anthropic API; " in matters(ran, "ok")
    for executor, text in (
        ("second", "no-such-codex was not found on PATH"),
        ("claude", "no key and no login was found"),
    ):
        project.environment.pop("ANTHROPIC_API_KEY", None)
        project.environment["RALPH_JUDGE__EXECUTOR"] = executor
        told = matters(project.ralph("doctor", "--json", "--no-gates"), "warning")
        assert any(each.startswith("agents: no judging model") and text in each for each in told), told


def test_a_limit_of_cost_needs_the_price_of_the_model_that_is_used(project: Project) -> None:
    codex = {"id": "codex", "type": "codex", "command": f"sh {project.beside}/claude"}
    project.environment["CODEX_API_KEY"] = SECRET
    project.configure(
        gates=[TESTS], tools={"executors": [codex]}, limits={"maxCostUsd": 5}, defaults={"executor": "codex"}
    )
    for model, problem in (("", "name its model"), ("gpt-99", "the price of gpt-99 is not known"), ("gpt-5.5", "")):
        project.environment["RALPH_DEFAULTS__MODEL"] = model
        told = "\n".join(matters(project.ralph("doctor", "--json", "--no-gates"), "error"))
        assert (problem in told) if problem else not told, told
        if problem:
            ran = project.ralph("run", *(("--model", model) if model else ()))
            assert (ran.code, problem in ran.err) == (2, True)


def test_without_a_required_gate_the_tasks_decide(project: Project) -> None:
    project.configure(gates=[{"name": "a", "command": "true", "required": False}], defaults={"executor": "claude"})
    by = {"coder": {"verificationMethod": "external", "verificationConfig": {"command": "true"}}}
    project.tasks(task("one", completion=by))
    told = matters(project.ralph("doctor", "--json"), "ok")
    assert "gates: no required gate; the criteria of each open task decide; " in told
    project.tasks(task("one", completion=by), task("two"))
    ran = project.ralph("doctor", "--json")
    assert (ran.code, project.ralph("run").code) == (2, 2)
    assert any(each.startswith("gates: no required gate, and no criteria that") for each in matters(ran, "error"))
    project.tasks()
    assert any(each.startswith("gates: no required gate is") for each in matters(project.ralph("doctor", "--json")))


def test_a_setup_that_fails_is_told_once_with_what_it_said(project: Project) -> None:
    project.configure(
        gates=[TESTS], workspace={"setup": "echo no such package; false"}, defaults={"executor": "claude"}
    )
    ran = project.ralph("doctor")
    assert ran.code == 3
    lines = ran.out[ran.out.index("\ngates") :].splitlines()
    assert [line.split()[0] for line in lines if line] == ["gates", "ok", "error", "|", "1"], lines
    assert lines[-2].strip() == "| no such package"


def test_what_is_installed_in_the_tree_is_no_part_of_it(project: Project) -> None:
    project.write({".venv/bin/python": "", "node_modules/a/index.js": "", "pkg/node_modules/b": ""})
    project.configure(gates=[{"name": "look", "kind": "test", "command": "test ! -e .venv && test ! -e node_modules"}])
    assert project.ralph("verify").code == 0
    project.configure(gates=[{"name": "named", "kind": "test", "command": "test -e .venv/bin/python"}])
    assert project.ralph("verify").code == 0, "a folder that a gate names is linked"


def test_hostile_files_give_lines(project: Project) -> None:
    state, private = project.root / STATE_FOLDER, project.root / ".git" / "ralph"
    config, history = state / "config.yaml", state / "history"
    deep, no_text = b'{"x": ' + b"[" * 100_000, b'{"host": "\xff"}'
    contents = (b"", b": [", b"\xff\xfe\0" * 999, deep, no_text, b"[1, 2]", b'{"version": 99}', None)
    private.mkdir(exist_ok=True)
    for content in contents:
        for path in (
            state / "prd.json",
            config,
            history / "iteration-1.json",
            state / "progress.txt",
            private / "lock",
        ):
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
            if content is None:
                path.mkdir()
            elif content is not deep or path != config:  # takes YAML seconds; test_layers.py
                path.write_bytes(content)
        ran = project.ralph("doctor", "--json", "--no-gates")
        assert ran.code in (2, 5), (content, ran)
        assert json.loads(ran.out)["diagnoses"][-1]["group"] == "gates"
        assert any(told.startswith("Ralph: ") for told in matters(ran, "error"))
        assert "Error" not in ran.out
