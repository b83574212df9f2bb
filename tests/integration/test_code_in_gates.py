"""Gates and commit hooks run code that the agent wrote: what it does beside the tree never counts."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness import CHECK, FILES, HONEST, PROMISE, TESTS, make_project, task

TICK = 'sed -i \'s/"pending"/"completed"/\' .rulebook-ralph/prd.json\n'
PLANT = "git config user.name Evil; git tag evil; git branch evil; echo 'exit 1' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n"
WEAKEN = "sed -i 's/sh check.sh/true/' .rulebook-ralph/config.yaml\n"


@pytest.mark.parametrize("code", [TICK, PLANT, WEAKEN, TICK + PLANT + "rm -rf .rulebook-ralph\n"])
def test_what_a_gate_does_to_state_and_git_is_put_back(code: str, tmp_path: Path) -> None:
    """The agent does its first task, and plants code in what the gate's script loads that goes for the others."""
    agent = f"test $RALPH_TASK = one || {{ echo done; {PROMISE.strip()}; exit; }}\n"
    agent += f"cat >> lib.sh <<'END'\n{code}exit 0\nEND\n" + HONEST
    files = {**FILES, "lib.sh": "true\n", "check.sh": f". ./lib.sh\n{CHECK}"}
    project = make_project(
        tmp_path,
        agent=agent,
        files=files,
        tasks=[task("one"), task("two"), task("three")],
        attempts=1,
        integrity={"allow": ["lib.sh"]},
    )
    config, branches = project.folder.config.read_text(), project.git("branch", "--list", "main")
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert [each.status for each in project.prd.tasks] == ["completed", "blocked", "blocked"]
    assert project.task_commits().keys() == {"one"}
    assert project.folder.config.read_text() == config
    assert project.git("log", "-1", "--format=%an") == "Test"
    assert project.git("tag") == ""
    assert project.git("branch", "--list", "evil") == ""
    assert project.git("branch", "--list", "main").strip("* ") == branches.strip("* ")
    assert not (project.root / ".git/hooks/pre-commit").exists()
    assert project.git("config", "--get", "user.name", check=False) != "Evil"


@pytest.mark.parametrize("undo", ["git checkout -q -- .; rm -rf work; true", "rm -rf work; true"])
def test_a_change_that_the_gates_take_away_completes_nothing(undo: str, tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=HONEST, gates=[TESTS, {"name": "tidy", "command": undo}], attempts=1)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert project.task_commits() == {}
    assert "nothing differs" in project.last.feedback


def test_a_gate_that_commits_neither_ends_the_run_nor_moves_the_branch(tmp_path: Path) -> None:
    commits = {"name": "commits", "command": "git add -A && git -c core.hooksPath=/dev/null commit -q -m gate; true"}
    project = make_project(tmp_path, agent=HONEST, gates=[TESTS, commits], attempts=2)
    assert project.ralph("run").code == 0
    assert "gate" not in project.subjects()
    assert project.status() == []


def test_what_only_a_warning_passed_is_no_evidence(tmp_path: Path) -> None:
    gates: list[dict[str, Any]] = [
        {"name": "tests", "kind": "test", "command": "false"},
        {"name": "lint", "command": "true", "required": False},
    ]
    project = make_project(tmp_path, agent=HONEST, gates=gates, attempts=1)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert "no gate passed" in project.last.feedback or "Every gate is red" in project.last.feedback


def test_what_a_commit_hook_makes_of_the_tree_is_inspected_too(tmp_path: Path) -> None:
    """The repository's own hook runs the agent's code: it must not get past the last look at protected files."""
    agent = "cat > lib.sh <<'END'\ntest -z \"$GIT_INDEX_FILE\" || echo other > LICENSE\nEND\n" + HONEST
    project = make_project(
        tmp_path, agent=agent, files={**FILES, "lib.sh": "true\n", "LICENSE": "ours\n"}, attempts=1, protect=["LICENSE"]
    )
    hook = project.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n. ./lib.sh\n")
    hook.chmod(0o755)
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert project.task_commits() == {}
    assert "LICENSE" in project.last.feedback
