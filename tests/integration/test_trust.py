"""`ralph trust`: commands that came with a clone, a pull or an import run only after a person agreed; one's own do."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph import config
from rulebook_ralph.commands import held_versions
from rulebook_ralph.core.configured_commands import commands_of_config
from rulebook_ralph.process_table import MARK
from rulebook_ralph.state import trust_record
from rulebook_ralph.workspace.git import Git
from rulebook_ralph.workspace.repository import Repository
from tests.harness import HONEST, TESTS, Project, finish, make_project, task, wait_for
from tests.terminal import at_terminal

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


def test_a_criterion_is_found_however_the_list_is_written(project: Project) -> None:
    external = {"verificationMethod": "external", "verificationConfig": {"command": "true"}}
    project.tasks(task(completion={"coder": external}))
    text = project.folder.prd.read_text("utf-8")
    for written in (text, f"\ufeff{text}", text.replace('"completion"', '"\\u0063ompletion"')):
        project.folder.prd.write_text(written, "utf-8")
        listed = project.ralph("trust", "--yes", "--json").json["commands"]
        assert "criterion one (coder)" in [each["place"] for each in listed], written


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
    without_record(project)
    external = {"verification_method": "external", "verification_config": {"command": "echo brought"}}
    tasks = [{"id": "a", "title": "A", "completion": {"coder": external}}]
    (project.root / "tasks.yaml").write_text(json.dumps(tasks))
    made = project.ralph("init", "--from", "tasks.yaml")
    assert made.code == 0
    assert "1 command" in made.out
    assert "ralph trust" in made.out
    said = project.ralph("verify", "a").err
    assert "criterion a (coder): echo brought" in said
    assert "make" not in said
    assert project.ralph("trust", "--yes").code == 0
    assert project.ralph("verify", "a").code == 0


def test_an_agent_cannot_agree(tmp_path: Path) -> None:
    """With an emptied environment neither."""
    trust = f"{sys.executable} -c 'from rulebook_ralph.cli import main; import sys; main(sys.argv[1:])' trust --yes"
    project = make_project(
        tmp_path, agent=f'env -i PATH="$PATH" HOME="$HOME" {trust} > "$BESIDE/said" 2>&1 || :\n' + HONEST
    )
    project.ralph("run")
    assert "agent's process tree" in (project.beside / "said").read_text()
    project.environment[f"{MARK}1"] = "1"
    ran = project.ralph("trust", "--yes")
    assert ran.code == 2
    assert "agent's process tree" in ran.err


def without_record(project: Project) -> Project:
    app = project.app()[0]
    folder = trust_record.trust_folder(app.environment, app.home)
    trust_record.record_file(folder, project.root.resolve() / ".git").unlink(missing_ok=True)
    return project


def test_what_was_written_by_hand_is_ones_own_until_a_commit_holds_it(project: Project) -> None:
    assert without_record(project).ralph("verify").code == 0
    project.commit("state")
    assert project.ralph("verify").code == 0, "it is remembered"
    assert "nobody here has agreed" in without_record(project).ralph("verify").err


def test_an_import_into_a_list_written_by_hand_waits_alone(project: Project) -> None:
    external = {"verification_method": "external", "verification_config": {"command": "echo brought"}}
    (project.root / "tasks.yaml").write_text(json.dumps([{"id": "a", "title": "A", "completion": {"coder": external}}]))
    assert without_record(project).ralph("init", "--from", "tasks.yaml").code == 0
    said = project.ralph("verify", "a").err
    assert "1 command that" in said
    assert "echo brought" in said


def test_with_a_version_that_cannot_be_read_only_what_stands_in_it_is_strange(project: Project) -> None:
    project.git("switch", "-q", "-c", "side")
    broken = 'gates: [\n  "touch \\u0041 \\"$HERE\\"", {{{\n'
    project.folder.config.rename(project.beside / "kept")
    project.commit("broken", **{".rulebook-ralph/config.yaml": broken})
    (project.beside / "kept").replace(project.folder.config)
    project.configure(gates=[TESTS, {"name": "own", "command": "echo own > /dev/null"}])
    assert project.ralph("verify").code == 0
    project.configure(gates=[TESTS, {"name": "evil", "command": 'touch A "$HERE"'}])
    assert "gate evil" in project.ralph("verify").err


def test_a_version_larger_than_ralph_would_read_is_not_read(project: Project) -> None:
    text = project.folder.config.read_text()
    project.configure(gates=[TESTS, {"name": "big", "command": "echo big"}])
    project.commit("large", **{".rulebook-ralph/config.yaml": project.folder.config.read_text() + " " * 2**20})
    project.folder.config.write_text(text)
    project.configure(gates=[TESTS, {"name": "big", "command": "echo big"}])
    assert project.ralph("verify").code == 0


def test_where_case_is_ignored_another_spelling_holds_it_too(project: Project) -> None:
    """`open_repository` asks the disk whether it is; here as if it were."""
    head = project.commit("evil", **{".Rulebook-Ralph/Config.yaml": project.folder.config.read_text()})
    wanted = {each.digest: each for each in commands_of_config(config.parse(project.folder.config.read_bytes()))}
    git = project.root / ".git"
    repository = Repository(Git.at(project.root, os.environ), project.root, git, git)
    assert not held_versions.hold_state(repository, (head,))
    assert not held_versions.digests_held(repository, (head,), wanted)
    project.git("config", "core.ignoreCase", "true")
    assert held_versions.hold_state(repository, (head,))
    assert held_versions.digests_held(repository, (head,), wanted) == wanted.keys()


@pytest.mark.parametrize("arguments", [("trust",), ("prune", "--keep", "1")])
def test_json_asks_nothing_at_a_terminal(project: Project, arguments: tuple[str, ...]) -> None:
    if arguments[0] == "prune":
        project.tasks(task("one"), task("two"))
        assert project.ralph("run").code == 0
    else:
        project.commit("state")
        without_record(project)
    code, shown = at_terminal(project, *arguments, "--json")
    assert (code, "give --yes" in shown, "[y/N]" in shown) == (2, True, False)
