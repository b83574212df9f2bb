"""`ralph plan` and `ralph review` with an agent that answers what it is told to, and the plugin's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.errors import ExitCode
from tests.harness import Project, make_project, task

PLANNED: dict[str, Any] = {
    "id": "greet",
    "title": "Greet",
    "description": "Say hello.",
    "priority": 1,
    "dependencies": [],
    "acceptanceCriteria": ["it greets"],
    "outcome": "People are greeted.",
    "relevantFiles": ["app.txt"],
    "completion": {
        "coder": {
            "promise": "DONE",
            "verificationMethod": "external",
            "verificationConfig": {"command": "grep hello app.txt"},
        }
    },
}


def answering(tmp_path: Path, answer: object, **settings: Any) -> Project:
    """A project whose agent answers every question with that object."""
    project = make_project(tmp_path, tasks=[task("one")], **settings)
    (project.beside / "answer.json").write_text(json.dumps(answer))
    project.agent('cat "$BESIDE/answer.json"\n')
    return project


def test_a_plan_is_shown_whole_and_added_once_agreed(tmp_path: Path) -> None:
    project = answering(tmp_path, {"questions": [], "tasks": [PLANNED]})
    ran = project.ralph("plan", "greet people", "--planner", "script")
    assert ran.code == ExitCode.INVALID
    assert "nothing was added, as nobody can be asked" in ran.err
    for line in (
        "+ greet: Greet",
        "+   - it greets",
        "+   coder: runs: grep hello app.txt",
        "+   reads first: app.txt",
    ):
        assert line in ran.out
    assert [each.id for each in project.prd.tasks] == ["one"]
    looked = project.ralph("plan", "greet people", "--planner", "script", "--json")
    assert (looked.json["added"], looked.json["tasks"][0]["id"]) == (False, "greet")
    assert project.ralph("plan", "greet people", "--planner", "script", "--yes").code == 0
    assert [each.id for each in project.prd.tasks] == ["one", "greet"]


def test_what_is_no_plan_adds_nothing(tmp_path: Path) -> None:
    project = answering(tmp_path, {"questions": [], "tasks": [PLANNED | {"id": "one"}]})
    ran = project.ralph("plan", "greet", "--planner", "script", "--yes")
    assert ran.code == ExitCode.AGENT
    assert "is the id of a task that is there already" in ran.err
    assert project.ralph("plan", "greet", "--planner", "nobody").code == ExitCode.INVALID
    assert "there is no file wish.md" in project.ralph("plan", "wish.md", "--planner", "script").err
    assert "says nothing" in project.ralph("plan", " ", "--planner", "script").err
    project.environment["RALPH_MARK_1_00"] = "1"
    assert "inside an agent's process tree" in project.ralph("plan", "greet", "--planner", "script").err


SHIP = {"decision": "SHIP", "issues": []}
REVISE = {
    "decision": "REVISE",
    "issues": [
        {
            "file": "app.txt",
            "lines": [1, 2],
            "type": "logic_bug",
            "severity": "high",
            "description": "@team <b>wrong</b>",
            "suggestion": "mend it",
            "agentPrompt": "mend it",
        }
    ],
}


@pytest.mark.parametrize(("answer", "code"), [(SHIP, 0), (REVISE, 3), ("nonsense", 5)])
def test_a_review_of_the_branch(tmp_path: Path, answer: object, code: int) -> None:
    project = answering(tmp_path, answer, judge={"executor": "script"})
    project.git("switch", "-q", "-c", "work")
    assert "there is nothing to review" in project.ralph("review").out
    project.write({"app.txt": "sound\nhello\n"})
    ran = project.ralph("review")
    assert ran.code == code, ran
    assert "what is not committed yet is reviewed, too" in ran.out
    if answer == REVISE:
        assert "high   app.txt:1-2 (logic_bug)" in ran.out
        assert project.ralph("review", "--json").json["decision"] == "REVISE"
        markdown = project.ralph("review", "--markdown").out
        assert "@team" not in markdown
        assert "<b>" not in markdown
        (run,) = project.ralph("review", "--sarif").json["runs"]
        assert [each["level"] for each in run["results"]] == ["error"]
    assert "there is no commit 'nowhere'" in project.ralph("review", "--base", "nowhere").err


def test_the_plugin_is_written_brought_up_to_date_and_removed(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    folder = project.root / ".claude" / "skills" / "ralph"
    assert project.ralph("plugin", "install").code == 0
    assert "up to date" in project.ralph("plugin", "install").out
    manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
    assert manifest["name"] == "ralph"
    edited = folder / "commands" / "next.md"
    edited.write_text("mine")
    ran = project.ralph("plugin", "uninstall")
    assert (ran.code, edited.read_text()) == (ExitCode.INVALID, "mine")
    assert "commands/next.md" in ran.err
    assert project.ralph("plugin", "uninstall", "--force").code == 0
    assert not folder.exists()
    assert project.ralph("plugin", "uninstall").code == ExitCode.INVALID
