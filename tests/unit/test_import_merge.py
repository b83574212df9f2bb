"""`init` again: what a run or a person has set stays, new tasks come, vanished ones are said."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.prd_rules import problems_of
from rulebook_ralph.sources import checklist
from rulebook_ralph.sources.merge import Difference, merge


def task(task_id: str, **fields: object) -> Task:
    whole: dict[str, object] = {"id": task_id, "title": task_id, "source": f"rulebook/tasks/{task_id}", **fields}
    return msgspec.convert(whole, Task, strict=True)


def prd(*tasks: Task) -> Prd:
    return Prd(version=1, project="p", tasks=tasks)


def test_known_tasks_keep_every_field_and_new_ones_come_after_them() -> None:
    mine = task("b", title="Mine", status="blocked", priority=9, attempts={"coder": 3}, acceptanceCriteria=["x", "y"])
    before = prd(mine, task("z"))
    after = merge(before, [task("a", dependencies=["b"]), task("b", status="completed"), task("z"), task("c")])
    assert [one.id for one in after.prd.tasks] == ["b", "z", "a", "c"]
    assert after.prd.tasks[:2] == before.tasks
    assert after.added == ("a", "c")
    assert (after.vanished, after.differs, after.problems) == ((), (), ())


@given(st.lists(st.sampled_from("abcdefABC"), unique=True), st.lists(st.sampled_from("abcdefABC"), unique=True))
def test_a_second_merge_of_the_same_changes_nothing(known: list[str], read: list[str]) -> None:
    known = list({one.casefold(): one for one in known}.values())
    imported = [task(one) for one in read]
    once = merge(prd(*(task(one, notes="mine") for one in known)), imported)
    twice = merge(once.prd, imported)
    assert twice.prd is once.prd
    assert twice.added == ()
    ids = [one.id.casefold() for one in once.prd.tasks]
    assert len(ids) == len(set(ids))
    assert set(ids) == {one.casefold() for one in [*known, *read]}
    assert [one.id for one in once.prd.tasks if one.notes == "mine"] == known


def test_vanished_tasks_are_kept_and_listed_only_for_folders_that_were_read() -> None:
    before = prd(
        task("here"),
        task("gone"),
        task("broken"),
        task("made-by-hand", source=""),
        task("elsewhere", source="other/tasks/elsewhere"),
        task("nested", source="rulebook/tasks/archive/nested"),
    )
    after = merge(before, [task("here")], folders=["rulebook/tasks"], refused=["Broken"])
    assert after.vanished == ("gone",)
    assert after.prd is before
    assert merge(before, [task("here")], folders=[]).vanished == ()
    assert merge(before, [], folders=["rulebook/tasks"]).vanished == ("here", "gone", "broken")
    assert merge(before, [task("here")]).vanished == ("gone", "broken")


def test_ids_that_differ_only_in_case_are_a_problem() -> None:
    after = merge(prd(task("fix")), [task("Fix")])
    assert [one.id for one in after.prd.tasks] == ["fix"]
    assert after.problems == (
        "rulebook/tasks/Fix: its id equals that of the task fix but for upper and lower case: rename one of them",
    )


def test_a_dependency_on_a_task_that_did_not_come_is_left_out() -> None:
    after = merge(prd(task("fix")), [task("Fix"), task("b", dependencies=["Fix", "fix"])])
    assert after.prd.task("b").dependencies == ("fix",)
    assert after.problems[1] == "rulebook/tasks/b: depends on what is not in the PRD (Fix): left out"


def test_more_criteria_in_the_source_of_a_pending_task_are_said_and_not_taken() -> None:
    before = prd(
        task("grown", acceptanceCriteria=["a", "mine"]),
        task("done", status="completed", acceptanceCriteria=["a"]),
        task("shrunk", acceptanceCriteria=["a", "b"]),
    )
    imported = [
        task("grown", acceptanceCriteria=["a", "b", "c"]),
        task("done", acceptanceCriteria=["a", "b"]),
        task("shrunk", acceptanceCriteria=["c"]),
    ]
    after = merge(before, imported)
    assert after.differs == (Difference("grown", ("b", "c")),)
    assert after.prd is before


def plan(folder: Path, *lines: str) -> tuple[Task, ...]:
    (folder / "tasks.md").write_text("".join(f"- [ ] {line}\n" for line in lines))
    return checklist.read(folder / "tasks.md", "tasks.md")


BEFORE = ("1.1 One", "1.2 Two", "V1 [VERIFY] Look", "2.1 [P] A", "2.2 [P] B")


def test_items_inserted_into_a_plan_stand_in_its_order_and_what_follows_waits_for_them(tmp_path: Path) -> None:
    before = prd(task("first"), *plan(tmp_path, *BEFORE), task("last"))
    now = plan(
        tmp_path, "1.0 Zero", "1.1 One", "1.1.1 [FIX 1.1] Mend", "1.1.2 More", *BEFORE[1:], "2.3 [P] C", "3.1 Three"
    )
    after = merge(before, [*now, task("new")])
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
    assert merge(after.prd, [*now, task("new")]).prd is after.prd


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
