"""Gates and commit hooks run code that the agent wrote: what it does beside the tree never counts."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness import CHECK, FILES, HONEST, PROMISE, TESTS, make_project, picture, task
from tests.sampling import sample

PLANT = "git config user.name Evil; git tag evil; git branch evil; mkdir -p .git/hooks; echo 'exit 1' > .git/hooks/pre-commit\n"
WRITE = "mkdir -p .rulebook-ralph; echo '{}' > .rulebook-ralph/prd.json; echo '{}' > .rulebook-ralph/config.yaml\n"


@pytest.mark.parametrize("code", sample([WRITE, PLANT, WRITE + PLANT + "rm -rf .rulebook-ralph .git work\n"], 2))
def test_what_a_gate_does_to_state_and_git_is_its_own_affair(code: str, tmp_path: Path) -> None:
    """The agent does its first task, and plants code in what the gate's script loads that goes for the others."""
    agent = f"test $RALPH_TASK = one || {{ echo done; {PROMISE.strip()}; exit; }}\n"
    agent += f"cat >> lib.sh <<'END'\n{code}exit 0\nEND\n" + HONEST
    files = {**FILES, "lib.sh": "true\n", "check.sh": f". ./lib.sh\n{CHECK}"}
    project = make_project(
        tmp_path,
        agent=agent,
        files=files,
        tasks=[task("one"), task("two")],
        attempts=1,
        integrity={"changed": "allow", "unproven": "allow"},
    )
    before = picture(project.root / ".git", without=lambda path: not path.startswith(("config", "hooks")))
    config = project.folder.config.read_text()
    assert project.ralph("run", "--no-retry-blocked").code == 3
    assert project.task("one").status == "completed"
    assert project.task("two").status != "completed", "work that is not there is not done"
    assert project.task_commits().keys() == {"one"}
    assert project.folder.config.read_text() == config
    assert picture(project.root / ".git", without=lambda path: not path.startswith(("config", "hooks"))) == before
    assert project.git("log", "-1", "--format=%an") == "Test"
    assert project.git("tag") == ""
    assert project.refs("refs/heads").keys() == {"refs/heads/main", "refs/heads/ralph/toy"}
    assert project.status() == []


def test_a_gate_that_commits_neither_ends_the_run_nor_moves_the_branch(tmp_path: Path) -> None:
    commits = {"name": "commits", "command": "git add -A && git -c core.hooksPath=/dev/null commit -q -m gate; true"}
    project = make_project(tmp_path, agent=HONEST, gates=[TESTS, commits], attempts=2)
    assert project.ralph("run").code == 0
    assert "gate" not in project.subjects()
    assert project.status() == []


def test_what_a_gate_takes_away_is_in_the_work_all_the_same(tmp_path: Path) -> None:
    """The next gate finds the tree as the last one left it; what lands is what was captured."""
    tidy: dict[str, Any] = {"name": "tidy", "command": "git checkout -q -- .; rm -rf work"}
    project = make_project(tmp_path, agent=HONEST, gates=[TESTS, tidy], attempts=1)
    assert project.ralph("run").code == 0
    assert project.changed(project.task_commits()["one"]) == ["work/one.txt"]


def test_what_a_commit_hook_makes_of_the_tree_is_not_part_of_the_work(tmp_path: Path) -> None:
    """The repository's own hook runs the agent's code: it must not get a protected file changed."""
    agent = "cat > lib.sh <<'END'\ntest -z \"$GIT_INDEX_FILE\" || echo other > LICENSE\nEND\n" + HONEST
    project = make_project(
        tmp_path, agent=agent, files={**FILES, "lib.sh": "true\n", "LICENSE": "ours\n"}, attempts=1, protect=["LICENSE"]
    )
    hook = project.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n. ./lib.sh\ngit add LICENSE\n")
    hook.chmod(0o755)
    project.ralph("run", "--no-retry-blocked")
    assert project.git("show", "HEAD:LICENSE") == "ours"
    assert (project.root / "LICENSE").read_text() == "ours\n"
