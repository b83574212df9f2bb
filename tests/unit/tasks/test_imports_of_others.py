"""Files of other tools, title by title (tests/data/imports)."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.importers import task_files
from rulebook_ralph.tasks.importers.merge import merge
from rulebook_ralph.tasks.importers.source import RefusedTasksError, SourceReading
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of

DATA = Path(__file__).parents[2] / "data" / "imports"


def read(name: str, *, known: tuple[Task, ...] = (), root: Path = DATA) -> SourceReading:
    return task_files.read_all([root / name], root=root, known=known, read=())


def told(reading: SourceReading) -> list[str]:
    return [str(problem) for problem in reading.problems]


def rows(reading: SourceReading) -> list[tuple[str, str, str, int]]:
    return [(task.id, task.title, task.status, len(task.acceptance_criteria)) for task in reading.tasks]


def test_a_prd_in_prose_gives_its_stories_with_their_criteria() -> None:
    reading = read("prd-notes.md")
    assert reading.description == "Notes with tags"
    assert rows(reading) == [
        ("US-001", "Store tags of a note", "pending", 3),
        ("US-002", "Show tags on the note card", "completed", 2),
        ("US-003", "Filter by tag", "pending", 2),
    ]
    first, second, third = reading.tasks
    assert first.description.startswith("As a developer, I need tags to be stored so that they persist.")
    assert first.acceptance_criteria[0] == "A tags column: a list of strings (default empty)"
    assert second.acceptance_criteria[1] == "[UI stories only] Verify in browser"
    assert third.description.startswith("As a user, I want to see only notes with a tag.")
    assert [task.relevant_files for task in reading.tasks] == [("prd-notes.md",)] * 3
    assert [task.dependencies for task in reading.tasks] == [(), ("US-001",), ("US-001", "US-002")]
    assert told(reading) == ["prd-notes.md:44: 1 box below none of the tasks' headings: left out"]


def test_user_stories_bring_project_description_and_branch() -> None:
    reading = read("prd.json")
    assert (reading.project, reading.description, reading.branch) == ("My Notes", "Notes with tags", "ralph/tags")
    assert rows(reading) == [
        ("US-001", "Store tags of a note", "completed", 2),
        ("US-002", "Show tags on the note card", "pending", 2),
    ]
    assert [(task.priority, task.notes) for task in reading.tasks] == [(1, ""), (2, "small badges")]
    assert told(reading) == []


def test_a_ralphex_plan_gives_its_tasks_and_its_commands_are_run_for_each() -> None:
    reading = read("search.md")
    assert reading.description == "Add search"
    assert rows(reading) == [
        ("T1", "Index notes", "completed", 2),
        ("T2", "Search command", "pending", 3),
        ("T2a", "Update documentation", "pending", 1),
    ]
    first, second, _ = reading.tasks
    assert first.relevant_files == ("pkg/notes/store.go", "pkg/notes/index.go", "search.md")
    assert second.relevant_files == ("cmd/notes/main.go", "search.md")
    assert second.acceptance_criteria[2] == "run `go test ./...` - must pass"
    assert {task.completion["coder"]["verificationConfig"]["command"] for task in reading.tasks} == {
        "set -e\ngo test ./...\ngolangci-lint run"
    }
    assert told(reading) == []


def test_a_fix_plan_is_worked_on_by_its_priorities() -> None:
    reading = read("fix_plan.md")
    assert {task.id: (task.priority, task.dependencies[-1:]) for task in reading.tasks} == {
        "faster-start": (3, ("add-error-handling",)),
        "set-up-the-basic-project": (1, ()),
        "define-core-data-structures": (1, ("set-up-the-basic-project",)),
        "add-error-handling": (2, ("project-initialization",)),
        "nice-to-have-colours": (9, ("faster-start",)),
        "project-initialization": (1, ("define-core-data-structures",)),
    }
    assert reading.tasks[2].acceptance_criteria == ("a note has a title", "a note has tags")
    assert {task.relevant_files for task in reading.tasks} == {("fix_plan.md",)}  # for its notes


def test_an_item_is_known_again_by_its_words_and_a_new_one_never_taken_for_a_completed_one(tmp_path: Path) -> None:
    shutil.copy(DATA / "fix_plan.md", tmp_path)
    before = merge(Prd(version=1, project="p"), read("fix_plan.md", root=tmp_path).tasks).prd
    text = (tmp_path / "fix_plan.md").read_text()
    twin = text.replace(
        "- [ ] Set up the basic project structure and build\n", "- [ ] Set up the basic project tests\n"
    )
    (tmp_path / "fix_plan.md").write_text(twin)
    after = merge(before, read("fix_plan.md", known=before.tasks, root=tmp_path).tasks)
    assert [after.prd.task(task_id).title for task_id in after.added] == ["Set up the basic project tests"]
    assert task_files.ticked(twin.encode(), before.task("set-up-the-basic-project")) is None
    (tmp_path / "fix_plan.md").write_text(text.replace("- [ ] Add", "- [ ] Add error handling everywhere\n- [ ] Add"))
    again = merge(before, read("fix_plan.md", known=before.tasks, root=tmp_path).tasks)
    assert again.added == ("add-error-handling-everywhere",)


def test_an_item_with_a_number_is_not_the_second_of_two_alike(tmp_path: Path) -> None:
    (tmp_path / "todo.md").write_text("# A\n- [ ] Write tests\n# B\n- [x] Write tests\n")
    before = merge(Prd(version=1, project="p"), read("todo.md", root=tmp_path).tasks).prd
    assert before.tasks[0].id == "write-tests"
    (tmp_path / "todo.md").write_text("# A\n- [ ] Write tests\n# B\n- [ ] Write tests 2\n")
    after = merge(before, read("todo.md", known=before.tasks, root=tmp_path).tasks)
    assert [after.prd.task(task_id).title for task_id in after.added] == ["Write tests 2"]


def test_an_item_put_between_two_of_its_title_takes_the_id_of_neither(tmp_path: Path) -> None:
    sections = {name: f"## {name}\n- [x] Write tests\n" for name in ("Alpha", "Beta", "Gamma")}
    (tmp_path / "todo.md").write_text(sections["Alpha"] + sections["Gamma"])
    before = merge(Prd(version=1, project="p"), read("todo.md", root=tmp_path).tasks).prd
    (tmp_path / "todo.md").write_text("".join(sections.values()).replace("Beta\n- [x]", "Beta\n- [ ]"))
    after = merge(before, read("todo.md", known=before.tasks, root=tmp_path).tasks)
    assert [after.prd.task(task_id).status for task_id in after.added] == ["pending"]


ODD_DIGIT = chr(0x660)
LINES = (
    *("### Task 1: A", "### Task 2.5: B", "### Task 1..2: no", f"### Task 2{ODD_DIGIT}: no", "## US-001: C", "prose"),
    *("### [x] Story 3", "#### Acceptance Criteria", "## Validation Commands", "## Priority 2", "# PRD: X", "", "```"),
    *("- [ ] a", "- [x] b", "  - [ ] c", "- [ ] 1.1 [P] d", f"- [ ] 1.{ODD_DIGIT} e", "- `make`", "- **Verify**: `x`"),
    *("**Files:** `a.py`", "<!--", "-->"),
)


@given(st.lists(st.sampled_from(LINES), max_size=14))
def test_any_plan_is_refused_or_read_whole_and_each_of_its_tasks_found_again(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plan.md").write_text("\n".join(lines))
        try:
            reading = read("plan.md", root=Path(folder))
        except RefusedTasksError:
            return
    assert problems_of(Prd(version=1, project="p", tasks=reading.tasks)) == ()
    for task in reading.tasks:
        assert task_files.ticked("\n".join(lines).encode(), task) is not None
