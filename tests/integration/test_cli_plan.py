"""`ralph plan` and `ralph review` with an agent that answers what it is told to."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.cli.wish import as_task
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import ExitCode
from rulebook_ralph.tasks.criteria import ACCEPTANCE_CRITERIA
from rulebook_ralph.tasks.model import Prd
from tests.harness import Project, make_project, task
from tests.terminal import at_terminal

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
    for nothing in ("", " "):
        assert "the text says nothing" in project.ralph("plan", nothing, "--planner", "script").err
    project.environment["RALPH_MARK_1_00"] = "1"
    assert "inside an agent's process tree" in project.ralph("plan", "greet", "--planner", "script").err


def test_who_may_plan_is_told_so_that_it_can_be_set(tmp_path: Path) -> None:
    project = answering(tmp_path, {"questions": [], "tasks": [PLANNED]})
    refused = project.ralph("plan", "greet people", "--yes")
    assert "agent script cannot be asked unless defaults.planner names it" in refused.err
    assert project.ralph("config", "set", "defaults.planner", "script").code == 0
    assert project.ralph("plan", "greet people", "--yes").code == 0


def bare(tmp_path: Path) -> Project:
    """A repository that Ralph was never in; the agent is the user's own setting."""
    project = make_project(tmp_path)
    config = json.loads(project.folder.config.read_text())
    shutil.rmtree(project.folder.path)
    folder = tmp_path / "config" / "rulebook-ralph"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(json.dumps(config))
    project.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    return project


def test_without_a_task_list_run_says_how_to_begin_and_init_makes_one(tmp_path: Path) -> None:
    project = bare(tmp_path)
    ran = project.ralph("run")
    assert ran.code == ExitCode.INVALID
    for way in ("ralph run -p ", "ralph init --from FILE", "ralph plan "):
        assert way in ran.err
    assert not project.folder.path.exists()
    assert project.ralph("init").code == 0
    assert project.prd.tasks == ()


def test_a_wish_that_git_would_not_commit_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = bare(tmp_path)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
        monkeypatch.delenv(name, raising=False)
    project.git("config", "user.useConfigOnly", "true")
    ran = project.ralph("run", "-p", "Greet people")
    assert (ran.code, ran.out) == (ExitCode.INVALID, "")
    assert "git does not know who commits" in ran.err
    assert not project.folder.path.exists()


def test_a_wish_is_worked_on_in_any_repository_alone(tmp_path: Path) -> None:
    project = bare(tmp_path)
    rehearsed = project.ralph("run", "-p", "Greet people", "--dry-run")
    assert "greet-people: Greet people" in rehearsed.out
    assert not project.folder.path.exists()
    ran = project.ralph("run", "-p", "Greet people", "--json")
    assert (ran.code, ran.json["success"]) == (0, True), ran.err
    (done,) = project.prd.tasks
    assert (done.id, done.status, done.acceptance_criteria) == ("greet-people", "completed", ("Greet people",))
    project.tasks(*project.prd.tasks, task("waiting"))
    wish = tmp_path / "wish.md"
    wish.write_text("# Greet the moon\n\nSoftly.\n")
    assert project.ralph("run", "-p", f"@{wish}").code == 0
    found = {each.id: each for each in project.prd.tasks}
    assert found["waiting"].status == "pending", "only what was asked for"
    assert (found["greet-the-moon"].status, found["greet-the-moon"].description) == (
        "completed",
        "# Greet the moon\n\nSoftly.",
    )
    assert "there is no file none.md" in project.ralph("run", "-p", "@none.md").err
    assert "there is no file xxx" in project.ralph("run", "-p", f"@{'x' * 5000}").err
    assert "says nothing" in project.ralph("run", "-p", " ").err


def test_a_wish_that_is_given_again_goes_on_with_its_task(tmp_path: Path) -> None:
    project = bare(tmp_path)
    project.agent("echo nothing\n")
    for _ in range(2):
        assert project.ralph("run", "-p", "Greet people", "--max-iterations", "1").code == ExitCode.LIMITED
    assert [each.id for each in project.prd.tasks] == ["greet-people"]


def test_a_wish_without_any_gate_is_judged_by_a_model(tmp_path: Path) -> None:
    wished = as_task("Greet people", Prd(version=1, project="toy"), Config())
    assert wished["completion"]["coder"]["verificationConfig"] == {"checkFor": [ACCEPTANCE_CRITERIA]}


def test_a_plan_needs_no_list_and_goes_on_into_the_run(tmp_path: Path) -> None:
    project = bare(tmp_path)
    (project.beside / "answer.json").write_text(json.dumps({"questions": [], "tasks": [PLANNED]}))
    project.agent(
        'if test -z "$RALPH_TASK"; then grep -q sound app.txt; pwd > "$BESIDE/where"; cat "$BESIDE/answer.json"\n'
        'else echo hello >> app.txt; echo "<promise>$RALPH_PROMISE</promise>"; fi\n'
    )
    ran = project.ralph("plan", "greet people", "--planner", "script", "--yes", "--run")
    assert ran.code == 0, ran.out + ran.err
    assert [(each.id, each.status) for each in project.prd.tasks] == [("greet", "completed")]
    assert (project.beside / "where").exists(), "the planner read the code"


def test_a_plan_is_revised_as_a_person_says(tmp_path: Path) -> None:
    project = answering(tmp_path, {"questions": [], "tasks": [PLANNED]})
    other = {"questions": [], "tasks": [PLANNED | {"id": "wave"}]}
    (project.beside / "other.json").write_text(json.dumps(other))
    project.agent('if grep -q "wave instead"; then cat "$BESIDE/other.json"; else cat "$BESIDE/answer.json"; fi\n')
    typed = "perhaps\nrevise: wave instead\nyes\n"
    code, shown = at_terminal(project, "plan", "greet", "--planner", "script", typed=typed)
    assert code == 0, shown
    assert "Answer yes, no, or" in shown
    assert [each.id for each in project.prd.tasks] == ["one", "wave"]


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
