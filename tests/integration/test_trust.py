"""`ralph trust`: commands that came with a clone, a pull or an import run only after a person agreed; one's own do."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.process_table import MARK
from tests.harness import TESTS, Project, finish, make_project, task, wait_for

EVIL: dict[str, Any] = {"name": "evil", "command": "touch $BESIDE_FILE"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture
def origin(tmp_path: Path) -> Project:
    """Somebody else's repository, with the state committed."""
    project = make_project(tmp_path / "theirs")
    project.commit("state")
    return project


def clone_of(origin: Project, folder: Path) -> Project:
    subprocess.run(["git", "clone", "-q", str(origin.root), str(folder)], check=True)
    origin.git("config", "receive.denyCurrentBranch", "ignore")
    ran = folder.parent / "ran"
    return Project(folder, origin.beside, environment={"BESIDE_FILE": str(ran)})


def has_run(clone: Project) -> bool:
    return Path(clone.environment["BESIDE_FILE"]).exists() or (clone.root / "work").exists()


def refused(clone: Project, *arguments: str, says: str = "nobody here has agreed to") -> None:
    ran = clone.ralph(*arguments)
    assert ran.code == 2, ran
    lines = ran.err.strip().splitlines()
    assert len(lines) == 1
    assert says in lines[0]
    assert "ralph trust" in lines[0]
    assert not has_run(clone)


def test_a_clone_runs_nothing_until_somebody_agreed(origin: Project, tmp_path: Path) -> None:
    origin.tasks(
        task(completion={"tester": {"verificationMethod": "external", "verificationConfig": {"command": "a\x1b[2Jb"}}})
    )
    origin.configure(gates=[TESTS, EVIL], hooks=[{"name": "h", "command": "true"}])
    origin.commit("evil")
    clone = clone_of(origin, tmp_path / "clone")
    for command in ("run", "resume", "verify", "agents"):
        refused(clone, command, says="gate evil: touch $BESIDE_FILE" if command != "agents" else "nobody here")
    doctor = clone.ralph("doctor")
    assert doctor.code == 2
    assert "ralph trust" in doctor.out
    assert not has_run(clone)
    shown = clone.ralph("trust")
    assert shown.code == 2
    assert "--yes" in shown.err
    for told in (
        "gate tests: sh check.sh",
        "gate evil: touch",
        "hook h: true",
        "agent script: sh /",
        "criterion one (tester): a\\x1b[2Jb",
    ):
        assert f"new     {told}" in shown.out
    assert "\x1b" not in shown.out
    refused(clone, "run")
    assert clone.ralph("trust", "--yes").code == 0
    assert "agreed  gate evil" in clone.ralph("trust").out
    assert clone.ralph("verify").code == 0
    assert has_run(clone)


def test_ci_says_so_each_time(origin: Project, tmp_path: Path) -> None:
    clone = clone_of(origin, tmp_path / "clone")
    assert clone.ralph("verify", "--trust-commands").code == 0
    refused(clone, "verify")
    assert clone.ralph("run", "--trust-commands").code == 0


@pytest.mark.parametrize("how", ["pull", "squash", "fetched and taken", "another branch"])
def test_what_a_pull_brings_is_asked_for_again(origin: Project, tmp_path: Path, how: str) -> None:
    clone = clone_of(origin, tmp_path / "clone")
    assert clone.ralph("trust", "--yes").code == 0
    origin.configure(gates=[TESTS, EVIL])
    origin.git("switch", "-q", "-c", "side")
    origin.commit("evil")
    if how == "pull":
        clone.git("pull", "-q", "origin", "side")
    if how == "squash":
        clone.git("pull", "-q", "--squash", str(origin.root), "side")
    if how == "fetched and taken":
        clone.git("fetch", "-q")
        clone.git("checkout", "origin/side", "--", ".rulebook-ralph/config.yaml")
        clone.git("reset", "-q")
    if how == "another branch":
        clone.git("fetch", "-q")
        clone.git("switch", "-q", "side")
    refused(clone, "verify", says="gate evil: touch")
    assert "sh check.sh" not in clone.ralph("verify").err, "what was agreed to stays so"
    clone.ralph("task", "note", "one", "x")
    refused(clone, "run", says="gate evil")


def test_a_pulled_criterion_is_asked_for_also_after_the_file_was_written_again(origin: Project, tmp_path: Path) -> None:
    clone = clone_of(origin, tmp_path / "clone")
    assert clone.ralph("trust", "--yes").code == 0
    evil = {"verificationMethod": "external", "verificationConfig": {"command": "touch $BESIDE_FILE"}}
    origin.tasks(task(status="completed", completion={"coder": evil}))
    origin.commit("evil")
    clone.git("pull", "-q")
    assert clone.ralph("task", "note", "one", "mine").code == 0
    assert clone.ralph("task", "edit", "one", "--title", "Mine").code == 0
    refused(clone, "verify", says="criterion one (coder): touch")
    refused(clone, "run")


def test_who_edits_their_own_is_not_asked(project: Project) -> None:
    assert project.ralph("verify").code == 0
    project.configure(gates=[TESTS, {"name": "more", "command": "true"}])
    assert project.ralph("verify").code == 0
    project.commit("configured")
    assert project.ralph("run").code == 0
    assert project.ralph("task", "add", "two", "Two", "--coder-verify-cmd", "test -e work/two.txt").code == 0
    assert project.ralph("run").code == 0
    assert project.ralph("trust").code == 0


def test_what_is_added_while_a_run_goes_on_is_ones_own(project: Project) -> None:
    """By then it stands in a commit of Ralph's."""
    project.agent(
        'if test "$RALPH_TASK" = one; then touch "$BESIDE/started"; while test ! -e "$BESIDE/go"; do sleep 0.02; done; fi\n'
        'mkdir -p work; echo x > "work/$RALPH_TASK"; echo "<promise>$RALPH_PROMISE</promise>"\n'
    )
    running = project.start("run")
    wait_for((project.beside / "started").exists, "the agent")
    assert project.ralph("task", "add", "two", "Two", "--coder-verify-cmd", "test -e work/two").code == 0
    (project.beside / "go").touch()
    assert finish(running).code == 0
    assert project.task("two").status == "completed"
    assert project.ralph("verify").code == 0


def test_what_an_import_brings_waits_and_found_gates_do_not(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={"Makefile": "test:\n\ttrue\n", "app.txt": "sound\n"})
    shutil.rmtree(project.folder.path)
    for record in (Path(project.app()[0].home) / ".local").rglob("*.json"):
        record.unlink()
    external = {"verification_method": "external", "verification_config": {"command": "echo brought"}}
    tasks = [{"id": "a", "title": "A", "completion": {"coder": external}}]
    (project.root / "tasks.yaml").write_text(json.dumps(tasks))
    made = project.ralph("init", "--from", "tasks.yaml")
    assert made.code == 0
    assert "1 command" in made.err
    assert "ralph trust" in made.err
    said = project.ralph("verify", "a").err
    assert "criterion a (coder): echo brought" in said
    assert "make" not in said
    assert project.ralph("trust", "--yes").code == 0
    assert project.ralph("verify", "a").code == 0


def test_an_agent_cannot_agree(project: Project) -> None:
    project.environment[f"{MARK}1"] = "1"
    ran = project.ralph("trust", "--yes")
    assert ran.code == 2
    assert "agent's process tree" in ran.err
