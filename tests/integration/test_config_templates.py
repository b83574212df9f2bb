"""`ralph templates`: what prompts are made of, and how to have them otherwise."""

from dataclasses import replace
from pathlib import Path

from rulebook_ralph.process.tree import new_mark
from tests.harness import make_project


def test_the_commands_list_show_and_copy(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    listed = project.ralph("templates", "list", "--json").json
    assert {each["overridden"] for each in listed["templates"]} == {False}
    built_in = project.ralph("templates", "show", "qa").out
    assert "quality assurance" in built_in
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
    marked = {new_mark(): "1"} | project.environment
    inside = replace(project, environment=marked).ralph("templates", "copy", "coder")
    assert (inside.code, "inside an agent's process tree" in inside.err) == (2, True)
    for name in ("../config.yaml", "coder.txt", "/etc/passwd", "codr", "builtin/../x", ""):
        refused = project.ralph("templates", "copy", name)
        assert refused.code == 2, name
        assert "there is no template" in refused.err
