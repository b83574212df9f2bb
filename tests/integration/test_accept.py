"""`ralph accept`: what was held is shown, applied at rest and during a run, forgotten, and refused to agents."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import HONEST, Project, finish, make_project, task, wait_for
from tests.terminal import at_terminal

CLI = f"{sys.executable} -c 'from rulebook_ralph.cli import main; import sys; main(sys.argv[1:])'"
WAIT = """
if mkdir "$BESIDE/at-$RALPH_TASK" 2>/dev/null; then
  touch "$BESIDE/started-$RALPH_TASK"
  while test ! -e "$BESIDE/go-$RALPH_TASK"; do sleep 0.01; done
fi
"""


def held(project: Project, number: int = 1) -> Path:
    return project.root / ".git" / "ralph" / "held" / f"iteration-{number}"


def hold(project: Project, name: str, other: str, base: str | None, *, number: int = 1) -> Path:
    """As a run leaves it."""
    folder = held(project, number)
    for path, text in ((folder / name, other), (folder.with_name(f"{folder.name}.base") / name, base)):
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder / name


def edited(project: Project, **words: Any) -> str:
    """The list with other words of the first task."""
    prd = json.loads(project.folder.prd.read_text())
    prd["tasks"][0].update(words)
    return json.dumps(prd)


def with_gate(project: Project) -> str:
    config = json.loads(project.folder.config.read_text())
    config["verification"]["steps"].append({"name": "late", "kind": "lint", "command": "test -e work"})
    return json.dumps(config, indent=1)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, tasks=[task("one"), task("two")])


def test_what_a_person_edited_during_a_run_counts_after_all(tmp_path: Path) -> None:
    """The list at once, the configuration with the next task; the agent cannot do it, nor undo it."""
    asked = f"""
{CLI} accept --yes > "$BESIDE/said-1" 2>&1 && exit 1
env -i PATH="$PATH" HOME="$HOME" {CLI} accept --discard --yes > "$BESIDE/said-2" 2>&1 && exit 1
"""
    meddle = f'if test "$RALPH_TASK" = two; then echo "a: b" > .rulebook-ralph/config.yaml; {asked} fi\n'
    project = make_project(tmp_path, agent=meddle + WAIT + HONEST, tasks=[task("one"), task("two"), task("three")])
    before = project.folder.config.read_text()
    after = with_gate(project)
    process = project.start("run")
    wait_for((project.beside / "started-one").exists, "the first agent")
    prd = json.loads(project.folder.prd.read_text())
    prd["tasks"][2]["acceptanceCriteria"] = ["it is there"]
    project.folder.prd.write_text(json.dumps(prd))
    project.folder.config.write_text(after)
    (project.beside / "go-one").touch()
    wait_for((project.beside / "started-two").exists, "the second agent")

    assert project.task("three").acceptance_criteria == ()
    status = project.ralph("status")
    assert "held: 2 edits made while an agent worked; see: ralph accept" in status.out
    assert project.ralph("status", "--json").json["held"] == 2
    shown = project.ralph("accept")
    assert shown.code == 0
    assert 'three: acceptanceCriteria: [] → ["it is there"]' in shown.out
    assert '+    "name": "late",' in shown.out
    assert "nothing was changed; ralph accept --yes applies it" in shown.out
    ran = project.ralph("accept", "--yes")
    assert ran.code == 0, ran
    assert "prd.json: taken over: three" in ran.out
    assert "config.yaml: taken over, from the next iteration on" in ran.out
    assert project.task("three").acceptance_criteria == ("it is there",)
    assert project.folder.config.read_text() == after
    assert not held(project).exists()
    (project.beside / "go-two").touch()
    wait_for((project.beside / "started-three").exists, "the third agent")
    assert project.folder.config.read_text() == after, "put back to what was accepted"
    (project.beside / "go-three").touch()

    ran = finish(process)
    assert ran.code == 0, ran.out
    assert "ralph accept: taken over: three" in ran.out
    assert before != after
    gates = [[check.step for check in record.checks if check.method == "gate"] for record in project.records]
    assert gates == [["tests"], ["tests"], ["tests", "late"]]
    for number in (1, 2):
        assert "inside an agent's process tree" in (project.beside / f"said-{number}").read_text()
    assert project.git("show", "HEAD:.rulebook-ralph/config.yaml") == after
    assert f"held: {held(project, 2) / 'config.yaml'}; if it was yours: ralph accept" in ran.out


def test_what_was_accepted_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=WAIT + HONEST)
    before, after = project.folder.config.read_text(), with_gate(project)
    hold(project, "config.yaml", after, before)
    process = project.start("run")
    wait_for((project.beside / "started-one").exists, "the agent")
    assert project.ralph("accept", "--yes").code == 0
    process.send_signal(signal.SIGKILL)
    finish(process)
    hold(project, "prd.json", edited(project, priority=3), project.folder.prd.read_text())
    ran = project.ralph("accept", "--yes")
    assert ran.code == 2
    assert "run 'ralph resume' first" in ran.err
    project.folder.config.write_text(before)
    (project.beside / "go-one").touch()
    assert project.ralph("resume").code == 0
    assert project.folder.config.read_text() == after
    assert held(project).joinpath("config.yaml").read_text() == before
    assert "config.yaml" in project.ralph("accept").out


def test_at_rest_edits_are_merged_into_what_changed_since(project: Project) -> None:
    base = project.folder.prd.read_text()
    hold(project, "prd.json", edited(project, title="Mine", status="completed"), base)
    hold(project, "prd.json", edited(project, notes="later"), base, number=2)
    hold(project, "templates/coder.md.j2", "{{ promise }}\n", None, number=2)
    assert project.ralph("task", "edit", "one", "--priority", "4").code == 0
    ran = project.ralph("accept", "1", "--yes", "--json")
    assert ran.code == 0
    (only,) = ran.json["held"]
    assert only["changes"] == ['one: status: "pending" → "completed"', 'one: title: "Do one" → "Mine"']
    assert ran.json["accepted"] == [only["path"]]
    assert project.ralph("accept", "--yes").code == 0
    one = project.task("one")
    assert (one.title, one.status, one.notes, one.priority) == ("Mine", "completed", "later", 4)
    assert (project.folder.templates / "coder.md.j2").read_text() == "{{ promise }}\n"
    assert project.ralph("validate").code == 0
    assert project.ralph("accept").out == "no edit is held\n"


def test_a_file_that_was_changed_since_is_merged_by_hand_with_the_command_that_is_named(project: Project) -> None:
    before = project.folder.config.read_text()
    path = hold(project, "config.yaml", with_gate(project), before)
    project.folder.config.write_text(before.replace('"defaults": {', '"defaults": {"maxIterations": 7,'))
    changed = project.folder.config.read_text()
    ran = project.ralph("accept", "--yes")
    assert ran.code == 2
    assert "changed since that edit began" in ran.out
    assert project.folder.config.read_text() == changed
    assert path.exists()
    command = ran.out[ran.out.index("git merge-file") :].partition(";")[0]
    subprocess.run(["/bin/sh", "-c", command], check=True)
    merged = json.loads(project.folder.config.read_text())
    assert merged["defaults"]["maxIterations"] == 7
    assert merged["verification"]["steps"][1]["name"] == "late"
    assert "1 edit forgotten" in project.ralph("accept", "--discard", "--yes", "1").out
    assert not path.exists()


def test_one_that_cannot_be_read_says_where_and_is_taken_over_when_it_is_mended(project: Project) -> None:
    base, config = project.folder.prd.read_text(), project.folder.config.read_text()
    prd = hold(project, "prd.json", edited(project, priority=2).replace('"priority": 2', '"priority": ~2'), base)
    other = hold(project, "config.yaml", config.replace('"defaults"', '"defalts"'), config)
    ran = project.ralph("accept", "--yes")
    assert ran.code == 2
    assert f"{prd}:1:" in ran.out
    assert f"{other}:" in ran.out
    assert "did you mean" in ran.out
    assert ran.out.count("mend that file, then accept again") == 2
    assert (project.folder.prd.read_text(), project.folder.config.read_text()) == (base, config)
    prd.write_text(prd.read_text().replace("~", ""))
    other.write_text(config.replace('"test"', '"lint"'))
    ran = project.ralph("accept", "--yes")
    assert ran.code == 0, ran
    assert project.task("one").priority == 2
    assert '"lint"' in project.folder.config.read_text()


@pytest.mark.parametrize(("typed", "title"), [("y\n", "Mine"), ("\n", "Do one")])
def test_at_a_terminal_it_asks_once(project: Project, typed: str, title: str) -> None:
    hold(project, "prd.json", edited(project, title="Mine"), project.folder.prd.read_text())
    code, shown = at_terminal(project, "accept", typed=typed)
    assert (code, shown.count("Apply this?")) == (0, 1)
    assert project.task("one").title == title
    assert held(project).exists() == (title == "Do one")


def test_what_cannot_be_shown_whole_is_not_applied(project: Project) -> None:
    before = project.folder.config.read_text()
    listed = project.folder.prd.read_text()
    prd = hold(project, "prd.json", edited(project, metadata={f"k{n}": n for n in range(2001)}), listed)
    template = hold(project, "templates/long.md", "line\n" * 5000, None)
    config = hold(project, "config.yaml", before + f"\n# {'x' * 1000}{' ' * 450}seen\n", before)
    ran = project.ralph("accept", "--yes")
    assert ran.code == 2
    assert project.folder.prd.read_text() == listed
    assert not (project.folder.templates / "long.md").exists()
    assert ran.out.count("too long to be shown whole") == 2
    assert f"git merge-file {project.folder.prd} " in ran.out
    assert f"({template}); merge it by hand" in ran.out
    assert f"+# {'x' * 1000}␣\u00d7450seen" in ran.out
    assert (prd.exists(), config.exists()) == (True, False)
