"""Files of tasks of several kinds in one list: ids stay unique, and what they were over every further import."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import PRD_VERSION, Prd, Task
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.errors import RalphError
from rulebook_ralph.sources import task_files
from rulebook_ralph.sources.merge import merge
from rulebook_ralph.sources.source import RefusedTasksError
from rulebook_ralph.sources.told_apart import id_in_source, told_apart


def prd(*tasks: Task) -> Prd:
    return Prd(version=PRD_VERSION, project="p", tasks=tasks)


def story(story_id: str = "US-001", **fields: Any) -> dict[str, Any]:
    return {"id": story_id, "title": "Add it", "acceptanceCriteria": ["it  is there"], "priority": 2, **fields}


def stories(folder: Path, *found: dict[str, Any]) -> tuple[Task, ...]:
    (folder / "prd.json").write_text(json.dumps({"project": "X", "branchName": "y", "userStories": found}))
    return task_files.read_all([folder / "prd.json"], root=folder, known=(), read=()).tasks


def test_user_stories_become_tasks(tmp_path: Path) -> None:
    first, second = stories(tmp_path, story(notes="n", passes=True), story("US-2", priority=0, dependsOn=["US-001"]))
    assert (first.id, first.priority, first.status, first.notes) == ("US-001", 2, "completed", "n")
    assert (first.acceptance_criteria, first.source) == (("it is there",), "prd.json")
    assert (second.priority, second.status, second.dependencies) == (1, "pending", ("US-001",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([story("../x")], r"prd.json: \$.userStories\[0\].id: must start with a letter or digit"),
        ([story("a"), story("A")], r"\$.userStories\[1\].id: 'A' is used already by tasks\[0\]"),
        ([story(passes="no")], r"prd.json: is no list of user stories: Expected `bool`, got `str`"),
        ([story(dependsOn=["b"])], r"\$.userStories\[0\].dependsOn\[0\]: there is no task 'b'"),
        ([story("a", dependsOn=["b"]), story("b", dependsOn=["a"])], r"dependency cycle"),
        ([story(title=" ")], r"title: must not be empty"),
        ([], r"\$.userStories: has no story"),
    ],
)
def test_stories_that_cannot_be_taken_are_named(tmp_path: Path, found: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(RalphError, match=message):
        stories(tmp_path, *found)


def test_one_kind_of_file_beside_the_other(tmp_path: Path) -> None:
    for name in ("auth/tasks.md", "b.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("- [ ] 1.1 One\n- [x] 1.2 Two\n")
    (tmp_path / "c.yaml").write_text("id: '1.2'\ntitle: c\ndependsOn: [mine]\n")
    mine = Task(id="mine", title="Mine")
    paths = [tmp_path / name for name in ("auth/tasks.md", "b.md", "c.yaml", "b.md")]
    read = task_files.read_all(paths, root=tmp_path, known=[mine], read=())
    assert [task.id for task in read.tasks] == ["1.2", "auth-1.1", "auth-1.2", "b-1.1", "b-1.2"]
    assert read.tasks[2].dependencies == ("auth-1.1",)
    assert read.folders == ("c.yaml", "auth/tasks.md", "b.md")
    (tmp_path / "b.md").write_text("nothing\n")
    with pytest.raises(RefusedTasksError) as refused:
        task_files.read_all([tmp_path / "b.md", tmp_path / "gone.json"], root=tmp_path, known=(), read=())
    assert [problem.file for problem in refused.value.problems] == ["b.md", "gone.json"]
    with pytest.raises(RalphError, match=r"plan\.txt is none of the files .* \.yaml, \.yml, \.md, \.markdown, \.json"):
        task_files.read_all([tmp_path / "plan.txt"], root=tmp_path, known=(), read=())


SOURCES = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "x/tasks.md", "y/tasks.md", "X.md"]),
    st.lists(st.sampled_from(["1.1", "1.2", "V1", "v1x", "a-1.1"]), unique=True, min_size=1, max_size=4),
    min_size=1,
)


@given(SOURCES, SOURCES, st.randoms(use_true_random=False))
def test_ids_are_unique_and_stay(first: dict[str, list[str]], more: dict[str, list[str]], chance: Any) -> None:
    """Whatever is imported again, in whatever order and with whatever besides."""

    def imported(files: dict[str, list[str]], known: Prd) -> Prd:
        tasks = [Task(id=each, title=each, source=source) for source, ids in files.items() for each in ids]
        return merge(known, told_apart(tasks, known.tasks, ())).prd

    once = imported(first, prd())
    order = list(first)
    chance.shuffle(order)
    assert imported({source: first[source] for source in order}, once) is once
    both = imported(more, once)
    assert tuple(task for task in both.tasks if task in once.tasks) == once.tasks
    assert problems_of(both) == ()
    wanted = {(source, each) for files in (first, more) for source, ids in files.items() for each in ids}
    assert sorted((task.source, id_in_source(task)) for task in both.tasks) == sorted(wanted)


def test_a_box_ticked_after_the_import_is_told_and_changes_nothing() -> None:
    known = prd(
        Task(id="1.1", title="One", source="a.md"), Task(id="1.2", title="Two", source="a.md", status="completed")
    )
    now = [Task(id=each, title=each, source="a.md", status="completed") for each in ("1.1", "1.2", "1.3")]
    merged = merge(known, now)
    assert (merged.ticked, merged.added) == (("1.1",), ("1.3",))
    assert merged.prd.tasks[:2] == known.tasks
