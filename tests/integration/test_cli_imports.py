"""`ralph init` with task files: a preview, what was read before, and criteria that changed in the source."""

from pathlib import Path

from rulebook_ralph.errors import ExitCode
from tests.harness import FILES, HONEST, Project, make_project

DATA = Path(__file__).parents[1] / "data" / "imports"


def bare(tmp_path: Path) -> Project:
    files = {name: (DATA / name).read_text() for name in ("prd.json", "search.md")}
    project = make_project(tmp_path, files=files)
    for path in (project.folder.prd, project.folder.progress, project.folder.config):
        path.unlink()
    return project


def test_a_preview_shows_every_task_and_writes_nothing(tmp_path: Path) -> None:
    project = bare(tmp_path)
    ran = project.ralph("init", "--from", "prd.json", "--from", "search.md", "--dry-run")
    assert ran.code == 0, ran
    for words in (
        "project My-Notes (Notes with tags), on branch ralph/tags: 5 tasks",
        "US-002",
        "Search command",
        "3 crit",
    ):
        assert words in ran.out
    assert "nothing was written" in ran.out
    assert not project.folder.prd.exists()
    assert not project.folder.config.exists()


def test_without_a_source_files_that_usually_hold_tasks_are_named(tmp_path: Path) -> None:
    project = bare(tmp_path)
    assert "prd.json may hold some: ralph init --from prd.json --dry-run" in project.ralph("init").out
    assert "5 new" in project.ralph("init", "--from", "prd.json", "--from", "search.md").out
    assert (project.prd.branch, project.prd.description) == ("ralph/tags", "Notes with tags")


def test_what_was_read_is_read_again_and_changed_criteria_are_taken_over_when_asked(tmp_path: Path) -> None:
    project = bare(tmp_path)
    assert project.ralph("init", "--from", "prd.json", "--from", "search.md").code == 0
    prd = project.prd
    assert (prd.project, prd.branch, prd.description, len(prd.tasks)) == (
        "My-Notes",
        "ralph/tags",
        "Notes with tags",
        5,
    )
    plan = project.root / "search.md"
    plan.write_text(
        plan.read_text().replace("add `search` with `--limit`", "add `search` with `--most`") + "### Task 9: New\n"
    )
    again = project.ralph("init")
    assert again.code == 0, again
    assert "6 tasks, 2 completed already, 1 new" in again.out
    assert "T2: its source lists 1 other criterion" in again.out
    assert "--update takes over" in again.out
    assert "`--limit`" in project.prd.task("T2").acceptance_criteria[0]
    assert "taken over from the source: T2" in project.ralph("init", "--update").out
    assert "`--most`" in project.prd.task("T2").acceptance_criteria[0]
    assert "its source" not in project.ralph("init").out


def test_a_file_that_cannot_be_taken_changes_nothing(tmp_path: Path) -> None:
    project = bare(tmp_path)
    (project.root / "prd.json").write_text('{"userStories": [{"id": "a", "title": "A", "pases": true}, {"id": "b"}]}')
    ran = project.ralph("init", "--from", "prd.json")
    assert ran.code == ExitCode.INVALID
    assert "unknown key; did you mean `passes`?" in ran.err
    assert "`title` is missing" in ran.err
    (project.root / "prd.json").write_text('{"branchName": "-x", "userStories": [{"id": "a", "title": "A"}]}')
    ran = project.ralph("init", "--from", "prd.json")
    assert (ran.code, "'-x', which the file names, is no name for a branch" in ran.err) == (ExitCode.INVALID, True)
    assert not project.folder.prd.exists()


def test_validate_tells_keys_that_were_probably_meant_as_others(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    text = project.folder.prd.read_text()
    project.folder.prd.write_text(text.replace('"priority":', '"priorty": 2,\n      "priority":', 1))
    ran = project.ralph("validate")
    assert (ran.code, "no problems" in ran.out) == (0, True)
    assert "$.tasks[0].priorty: has no meaning here; did you mean `priority`?" in ran.out


PLAN = """\
# Plan: Two files

## Validation Commands
- `test -d work`

### Task 1: First
- [ ] it is there
  - [ ] and whole

### Task 2: Second
- [ ] it is there too
"""


def test_a_plan_is_worked_through_and_its_boxes_are_ticked_in_each_tasks_commit(tmp_path: Path) -> None:
    project = make_project(tmp_path, files={**FILES, "plan.md": PLAN})
    project.folder.prd.unlink()
    assert project.ralph("init", "--from", "plan.md").code == 0
    assert project.ralph("run", "--task", "T1").code == 0
    branch = project.prd.work_branch
    assert [task.description for task in project.prd.tasks] == ["", ""], "the commands' heading is no part of the work"
    assert project.git("show", f"{branch}:plan.md") == PLAN.replace("[ ]", "[x]", 2).strip()
    assert project.ralph("run").code == 0
    assert "[ ]" not in project.git("show", f"{branch}:plan.md")
    again = project.ralph("init")
    assert "2 tasks, 2 completed already, 0 new" in again.out


def test_boxes_side_by_side_are_not_in_each_others_way(tmp_path: Path) -> None:
    lines = "".join(f"- [ ] [P] Make {name}\n" for name in ("one", "two", "three"))
    project = make_project(tmp_path, files={**FILES, "todo.md": lines})
    project.folder.prd.unlink()
    assert project.ralph("init", "--from", "todo.md").code == 0
    project.agent(
        'touch "$BESIDE/$RALPH_TASK"; n=0; until test "$(ls "$BESIDE" | grep -c make)" = 3 || test $n -gt 200; do n=$((n + 1)); sleep 0.02; done\n'
        + HONEST
    )
    assert project.ralph("run", "--parallel", "3").code == 0
    assert len(project.records) == 3
    assert project.git("show", f"{project.prd.work_branch}:todo.md") == lines.replace("[ ]", "[x]").strip()
