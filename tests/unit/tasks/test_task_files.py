"""Files of tasks of several kinds in one list: ids stay unique, and what they were over every further import."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.importers import checklist, task_files
from rulebook_ralph.tasks.importers.merge import id_in_source, merge, told_apart
from rulebook_ralph.tasks.importers.source import RefusedTasksError
from rulebook_ralph.tasks.model import PRD_VERSION, Prd, Task
from rulebook_ralph.tasks.prd_file import problems_of


def prd(*tasks: Task) -> Prd:
    return Prd(version=PRD_VERSION, project="p", tasks=tasks)


def story(story_id: str = "US-001", **fields: Any) -> dict[str, Any]:
    return {"id": story_id, "title": "Add it", "acceptanceCriteria": ["it  is there"], "priority": 2, **fields}


def stories(folder: Path, *found: dict[str, Any]) -> tuple[Task, ...]:
    (folder / "prd.json").write_text(json.dumps({"project": "X", "branchName": "y", "userStories": found}))
    return task_files.read_all([folder / "prd.json"], root=folder, known=(), read=()).tasks


def test_stories_say_what_they_wait_for_and_count_priorities_from_none(tmp_path: Path) -> None:
    first, second = stories(tmp_path, story(), story("US-2", priority=0, dependsOn=["US-001"]))
    assert (first.priority, first.acceptance_criteria) == (2, ("it is there",))
    assert (second.priority, second.dependencies) == (1, ("US-001",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([story("../x")], r"prd.json:1: \$.userStories\[0\].id: "),
        ([story("a"), story("A")], r"\$.userStories\[1\].id: 'A' is the id of a task"),
        ([story(passes="no")], r"\$.userStories\[0\].passes: expected true or false, got 'no'"),
        ([story(dependsOn=["b"])], r"\$.userStories\[0\].dependsOn\[0\]: there is no task 'b'"),
        ([story("a", dependsOn=["b"]), story("b", dependsOn=["a"])], r"dependency cycle"),
        ([story(title=" ")], r"title: must not be empty"),
        ([], r"\$: has no task"),
    ],
)
def test_stories_that_cannot_be_taken_are_named(tmp_path: Path, found: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(RalphError, match=message):
        stories(tmp_path, *found)


def test_ids_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    (tmp_path / "prd.json").write_text(json.dumps({"userStories": [story("a" * 100)]}))
    taken = Task(id="a" * 100, title="Other")
    with pytest.raises(RefusedTasksError, match=r"prd\.json: has ids that are in use already"):
        task_files.read_all([tmp_path / "prd.json"], root=tmp_path, known=[taken], read=())


def test_a_title_edited_in_the_list_makes_no_task_of_its_source_anew(tmp_path: Path) -> None:
    (tmp_path / "todo.md").write_text("- [ ] Median of all\n- [ ] Half\n")
    first, *others = task_files.read_all([tmp_path / "todo.md"], root=tmp_path, known=(), read=()).tasks
    edited = [msgspec.structs.replace(first, title="Median"), *others]
    (tmp_path / "todo.md").write_text("- [ ] Median of all\n- [ ] Half\n- [ ] New\n")
    again = task_files.read_all([tmp_path / "todo.md"], root=tmp_path, known=edited, read=())
    assert [task.id for task in again.tasks] == ["median-of-all", "half", "new"]


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
    with pytest.raises(RalphError, match=r"there is no file .*nofile"):
        task_files.read_all([tmp_path / "nofile"], root=tmp_path, known=(), read=())
    (tmp_path / "plan.txt").touch()
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


# A second import


def rulebook_task(task_id: str, **fields: object) -> Task:
    whole: dict[str, object] = {"id": task_id, "title": task_id, "source": f"rulebook/tasks/{task_id}", **fields}
    return msgspec.convert(whole, Task, strict=True)


def test_known_tasks_keep_every_field_and_new_ones_come_after_them() -> None:
    mine = rulebook_task(
        "b", title="Mine", status="blocked", priority=9, attempts={"coder": 3}, acceptanceCriteria=["x", "y"]
    )
    before = prd(mine, rulebook_task("z"))
    after = merge(
        before,
        [
            rulebook_task("a", dependencies=["b"]),
            rulebook_task("b", status="completed"),
            rulebook_task("z"),
            rulebook_task("c"),
        ],
    )
    assert [one.id for one in after.prd.tasks] == ["b", "z", "a", "c"]
    assert after.prd.tasks[:2] == before.tasks
    assert after.added == ("a", "c")
    assert (after.vanished, after.differs, after.problems) == ((), (), ())


@given(st.lists(st.sampled_from("abcdefABC"), unique=True), st.lists(st.sampled_from("abcdefABC"), unique=True))
def test_a_second_merge_of_the_same_changes_nothing(known: list[str], read: list[str]) -> None:
    known = list({one.casefold(): one for one in known}.values())
    imported = [rulebook_task(one) for one in read]
    once = merge(prd(*(rulebook_task(one, notes="mine") for one in known)), imported)
    twice = merge(once.prd, imported)
    assert twice.prd is once.prd
    assert twice.added == ()
    ids = [one.id.casefold() for one in once.prd.tasks]
    assert len(ids) == len(set(ids))
    assert set(ids) == {one.casefold() for one in [*known, *read]}
    assert [one.id for one in once.prd.tasks if one.notes == "mine"] == known


def test_vanished_tasks_are_kept_and_listed_only_for_folders_that_were_read() -> None:
    before = prd(
        rulebook_task("here"),
        rulebook_task("gone"),
        rulebook_task("broken"),
        rulebook_task("made-by-hand", source=""),
        rulebook_task("elsewhere", source="other/tasks/elsewhere"),
        rulebook_task("nested", source="rulebook/tasks/archive/nested"),
    )
    after = merge(before, [rulebook_task("here")], folders=["rulebook/tasks"], refused=["Broken"])
    assert after.vanished == ("gone",)
    assert after.prd is before
    assert merge(before, [rulebook_task("here")], folders=[]).vanished == ()
    assert merge(before, [], folders=["rulebook/tasks"]).vanished == ("here", "gone", "broken")


def test_ids_that_differ_only_in_case_are_a_problem() -> None:
    after = merge(prd(rulebook_task("fix")), [rulebook_task("Fix")])
    assert [one.id for one in after.prd.tasks] == ["fix"]
    assert after.problems == (
        "rulebook/tasks/Fix: its id equals that of the task fix but for upper and lower case: rename one of them",
    )


def test_a_dependency_on_a_task_that_did_not_come_is_left_out() -> None:
    after = merge(prd(rulebook_task("fix")), [rulebook_task("Fix"), rulebook_task("b", dependencies=["Fix", "fix"])])
    assert after.prd.task("b").dependencies == ("fix",)
    assert after.problems[1] == "rulebook/tasks/b: depends on what is not in the PRD (Fix): left out"


def test_more_criteria_in_the_source_of_a_pending_task_are_said_and_not_taken() -> None:
    before = prd(
        rulebook_task("grown", acceptanceCriteria=["a", "mine"]),
        rulebook_task("done", status="completed", acceptanceCriteria=["a"]),
        rulebook_task("shrunk", acceptanceCriteria=["a", "b"], attempts={"coder": 2}),
    )
    imported = [
        rulebook_task("grown", acceptanceCriteria=["a", "b", "c"]),
        rulebook_task("done", acceptanceCriteria=["a", "b"]),
        rulebook_task("shrunk", acceptanceCriteria=["c"], completion={"qa": {"promise": "X"}}),
    ]
    after = merge(before, imported)
    assert after.differs == (
        "grown: its source lists 2 other criteria",
        "shrunk: its source lists 1 other criterion and has other criteria for qa",
    )
    assert after.prd is before
    updated = merge(before, imported, update=True)
    assert (updated.differs, updated.updated) == ((), ("grown", "shrunk"))
    assert [one.acceptance_criteria for one in updated.prd.tasks] == [("a", "b", "c"), ("a",), ("c",)]
    assert (updated.prd.tasks[2].completion, updated.prd.tasks[2].attempts) == ({"qa": {"promise": "X"}}, {"coder": 2})


def plan(folder: Path, *lines: str) -> tuple[Task, ...]:
    (folder / "tasks.md").write_text("".join(f"- [ ] {line}\n" for line in lines))
    return checklist.read(folder / "tasks.md", "tasks.md").tasks


BEFORE = ("1.1 One", "1.2 Two", "V1 [VERIFY] Look", "2.1 [P] A", "2.2 [P] B")


def test_items_inserted_into_a_plan_stand_in_its_order_and_what_follows_waits_for_them(tmp_path: Path) -> None:
    before = prd(rulebook_task("first"), *plan(tmp_path, *BEFORE), rulebook_task("last"))
    now = plan(tmp_path, "1.0 Zero", "1.1 One", "1.1.1 Mend", "1.1.2 More", *BEFORE[1:], "2.3 [P] C", "3.1 Three")
    after = merge(before, [*now, rulebook_task("new")])
    assert after.added == ("1.0", "1.1.1", "1.1.2", "2.3", "3.1", "new")
    assert [one.id for one in after.prd.tasks] == ["first", *(one.id for one in now), "last", "new"]
    assert {one.id: one.dependencies for one in after.prd.tasks if one.source == "tasks.md"} == {
        "1.0": (),
        "1.1": ("1.0",),
        "1.1.1": ("1.1",),
        "1.1.2": ("1.1.1",),
        "1.2": ("1.1", "1.1.2"),
        "V1": ("1.2",),
        "2.1": ("V1",),
        "2.2": ("V1",),
        "2.3": ("V1",),
        "3.1": ("2.1", "2.2", "2.3"),
    }
    assert problems_of(after.prd) == ()
    assert merge(after.prd, [*now, rulebook_task("new")]).prd is after.prd


def test_begun_and_completed_tasks_stay_as_they_are_and_what_follows_them_waits_in_their_stead(tmp_path: Path) -> None:
    one, two, look, *more = plan(tmp_path, *BEFORE)
    now = plan(tmp_path, "1.1 One", "1.1.1 Mend", *BEFORE[1:])
    for change in ({"status": "completed"}, {"status": "blocked"}, {"attempts": {"coder": 1}}):
        begun = msgspec.convert(msgspec.to_builtins(two) | change, Task)
        after = merge(prd(one, begun, look, *more), now).prd
        assert after.task("1.2") == begun
        assert after.task("V1").dependencies == ("1.2", "1.1.1")
        assert after.task("2.1").dependencies == ("V1",)


def test_dependencies_that_a_person_set_stay_and_no_cycle_is_made_of_them(tmp_path: Path) -> None:
    one, two, look, *more = plan(tmp_path, *BEFORE)
    mine = prd(
        msgspec.structs.replace(one, dependencies=("1.2",)),
        msgspec.structs.replace(two, dependencies=()),
        msgspec.structs.replace(look, dependencies=()),
        *more,
    )
    after = merge(mine, plan(tmp_path, "1.1 One", "1.1.1 Mend", *BEFORE[1:], "V2 [VERIFY] Again")).prd
    found = {one.id: one.dependencies for one in after.tasks}
    assert (found["1.1"], found["1.2"], found["V1"]) == (("1.2",), (), ())
    assert (found["1.1.1"], found["V2"]) == (("1.1",), ("2.1", "2.2"))
    assert problems_of(after) == ()
