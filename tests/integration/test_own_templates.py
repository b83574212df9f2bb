"""A person's templates in real runs and commands: what prompts are made of, and what an agent cannot do to them."""

from dataclasses import replace
from pathlib import Path

from rulebook_ralph.process_table import MARK
from tests.harness import HONEST, make_project, task

OWN = '{% extends "builtin/coder.md.j2" %}\n{% block role %}You are a bricklayer.\n{% endblock %}\n'
TAMPERS = "mkdir -p .rulebook-ralph/templates\necho 'Forged.' > .rulebook-ralph/templates/coder.md.j2\n"


def test_a_run_uses_them_and_an_agent_cannot_change_them(tmp_path: Path) -> None:
    project = make_project(tmp_path, agent=TAMPERS + HONEST, tasks=[task("one"), task("two")])
    assert project.ralph("templates", "copy", "coder").code == 0
    own = project.folder.templates / "coder.md.j2"
    own.write_text(OWN)
    assert "You are a bricklayer." in project.ralph("run", "--dry-run").out
    ran = project.ralph("run")
    assert ran.code == 0
    assert "templates were edited" not in ran.out + ran.err
    assert own.read_text() == OWN
    for number in (1, 2):
        prompt = project.ralph("show", str(number), "--prompt").out
        assert "You are a bricklayer." in prompt
        assert "Forged." not in prompt
    assert len(list(project.root.glob(".git/ralph/held/iteration-?/templates/coder.md.j2"))) == 2


def test_a_broken_one_is_found_before_the_first_agent(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.folder.templates.mkdir()
    (project.folder.templates / "frame.md.j2").write_text("{{ promise }}\n\n{{ nothing_of_the_kind }}\n")
    told = ".rulebook-ralph/templates/frame.md.j2:3: 'nothing_of_the_kind' is undefined"
    for arguments in (("run",), ("run", "--dry-run")):
        ran = project.ralph(*arguments)
        assert ran.code == 2
        assert told in ran.err
    assert project.records == []
    assert told in project.ralph("validate").out
    assert project.ralph("validate").code == 2
    assert told in project.ralph("doctor", "--no-gates").out


def test_one_that_holds_a_secret_is_refused_as_it_would_be_committed(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.environment["HOUSE_PASSWORD"] = "correct-horse-battery"
    project.folder.templates.mkdir()
    (project.folder.templates / "coder.md.j2").write_text("{{ promise }}\nLog in: correct-horse-battery\n")
    ran = project.ralph("run")
    assert (ran.code, project.records) == (2, [])
    assert "templates/coder.md.j2:2: holds a secret" in ran.err
    assert "correct-horse" not in ran.out + ran.err


def test_the_commands_list_show_and_copy(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    listed = project.ralph("templates", "list", "--json").json
    assert {each["overridden"] for each in listed["templates"]} == {False}
    built_in = project.ralph("templates", "show", "qa").out
    assert "You are the quality assurance." in built_in
    copied = project.ralph("templates", "copy", "qa.md.j2")
    assert (copied.code, (project.folder.templates / "qa.md.j2").read_text()) == (0, built_in)
    (project.folder.templates / "qa.md.j2").write_text("Mine {{ promise }}\n")
    again = project.ralph("templates", "copy", "qa")
    assert (again.code, "--force" in again.err) == (2, True)
    assert project.ralph("templates", "show", "qa").out == "Mine {{ promise }}\n"
    assert project.ralph("templates", "show", "qa", "--built-in").out == built_in
    assert "overridden" in project.ralph("templates", "list").out
    assert project.ralph("templates", "copy", "qa", "--force").code == 0
    assert project.ralph("templates", "show", "qa").out == built_in
    marked = {f"{MARK}x": "1"} | project.environment
    inside = replace(project, environment=marked).ralph("templates", "copy", "coder")
    assert (inside.code, "inside an agent's process tree" in inside.err) == (2, True)
    for name in ("../config.yaml", "coder.txt", "/etc/passwd", "codr", "builtin/../x", ""):
        refused = project.ralph("templates", "copy", name)
        assert refused.code == 2, name
        assert "there is no template" in refused.err
