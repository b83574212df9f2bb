"""Edits of the task list as values: what they make of a PRD, and that no sequence of them makes it invalid."""

from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import edits, prd_file
from rulebook_ralph.tasks.edits import WORDS, Add, Edit, EditRefusedError, Move, TaskChange, apply, words_of
from rulebook_ralph.tasks.lifecycle import TRANSITIONS
from rulebook_ralph.tasks.model import LOOP_FIELDS, Prd, Status, Task
from rulebook_ralph.tasks.prd_file import problems_of
from rulebook_ralph.tasks.text import Fault
from tests.cases import each_of

AT = "2026-01-02T00:00:00.000Z"
FACTS: dict[str, Any] = {
    "stage": "reviewer",
    "attempts": {"coder": 2},
    "iteration_number": 7,
    "settled_iteration": 7,
    "started_at": AT,
    "cost_usd": 1.5,
    "tokens": 900,
}


def prd(*tasks: Task) -> Prd:
    return Prd(version=1, project="p", tasks=tasks)


def task(task_id: str, status: Status = "pending", **more: Any) -> Task:
    return Task(id=task_id, title=f"Do {task_id}", status=status, **more)


def refusal(before: Prd, edit: Edit, **more: Any) -> tuple[Fault, ...]:
    with pytest.raises(EditRefusedError) as caught:
        apply(before, edit, at=AT, **more)
    return caught.value.faults


def told(before: Prd, edit: Edit, **more: Any) -> str:
    (fault,) = refusal(before, edit, **more)
    return fault.message


# Adding


def test_a_task_is_added_at_the_end_pending_and_with_criteria_in_one_form() -> None:
    criteria = {
        "coder": {"verification_method": "external", "verification_config": {"command": "make", "timeout": "2m"}}
    }
    words = {"title": "New", "dependencies": ["a"], "completion": criteria, "notes": "n"}
    applied = apply(prd(task("a")), Add(tasks=({"id": "b", **words},)), at=AT)
    added = applied.prd.tasks[-1]
    assert (added.id, added.status, added.dependencies, added.notes) == ("b", "pending", ("a",), "n")
    config = {"command": "make", "timeout": 120}
    assert added.completion == {"coder": {"verificationMethod": "external", "verificationConfig": config}}
    assert (applied.prd.updated_at, applied.answer) == (AT, "b: added")


@each_of(
    ("task_id", "words", "path", "says"),
    [
        ("A", {}, ("id",), "there already"),
        ("a b", {}, ("id",), "may hold only letters"),
        ("b", {"title": " "}, ("title",), "must not be empty"),
        ("b", {"priority": "1"}, ("priority",), "expected a whole number"),
        ("b", {"priority": 0}, ("priority",), "expected 1 (the highest) or more"),
        ("b", {"dependencies": ["b"]}, ("dependencies", 0), "depends on itself"),
        ("b", {"dependencies": ["alpha", "alfa"]}, ("dependencies", 1), "did you mean 'alpha'?"),
        ("b", {"acceptanceCriteria": ["x", ""]}, ("acceptanceCriteria", 1), "must not be empty"),
        ("b", {"relevantFiles": [3]}, ("relevantFiles", 0), "expected a string"),
        ("b", {"completion": {"coda": {}}}, ("completion", "coda"), "did you mean `coder`?"),
        ("b", {"completion": {"qa": {"promise": "<x>"}}}, ("completion", "qa", "promise"), "without < and >"),
        ("b", {"overrides": {"stages": ["qa", "coder"]}}, ("overrides", "stages"), "in the order"),
        ("b", {"acceptance_criteria": []}, ("acceptance_criteria",), "did you mean `acceptanceCriteria`?"),
        ("b", {"status": "completed"}, ("status",), "ralph task unblock, reopen or done"),
        ("b", {"attempts": {}}, ("attempts",), "the loop's own"),
        ("b", {"$extra": {}}, ("$extra",), "unknown key"),
    ],
)
def test_what_is_wrong_with_a_new_task_is_told_with_its_place(
    task_id: str, words: dict[str, Any], path: tuple[str | int, ...], says: str
) -> None:
    before = prd(task("a"), task("alpha"))
    (fault,) = refusal(before, Add(tasks=({"id": task_id, "title": "New", **words},)))
    assert fault.path == ("tasks", 0, *path)
    assert says in fault.message


def test_all_faults_are_told_at_once() -> None:
    words = {"title": "", "dependencies": ["none"], "completion": {"qa": {"verificationMethod": "external"}}}
    faults = refusal(prd(), Add(tasks=({"id": "x/y", **words},)))
    assert {fault.path[2] for fault in faults} == {"id", "title", "completion", "dependencies"}


# Changing


def test_only_what_is_given_changes_and_the_loops_facts_and_unknown_keys_stay() -> None:
    before = task("a", "blocked", outcome="o", extra={"team": "core"}, blocked_reason="r", **FACTS)
    after = apply(prd(before), TaskChange(task_id="a", merge={"title": "T"}, note="look"), at=AT).prd.tasks[0]
    assert after == replace(before, title="T", notes="look")
    twice = apply(prd(after), TaskChange(task_id="a", note=" again\n"), at=AT)
    assert (twice.prd.tasks[0].notes, twice.answer) == ("look\nagain", "a: changed notes")


def test_criteria_are_merged_key_by_key_and_another_method_begins_anew() -> None:
    held = {
        "coder": {
            "promise": "P",
            "verification_method": "external",
            "verification_config": {"command": "make", "timeout": 9},
        }
    }
    before = prd(task("a", completion=held))
    merge: dict[str, Any] = {"completion": {"coder": {"verification_config": {"output_contains": "ok"}}}}
    config = apply(before, TaskChange(task_id="a", merge=merge), at=AT).prd.tasks[0].completion["coder"]
    assert config["verificationConfig"] == {"command": "make", "timeout": 9, "outputContains": "ok"}
    merge = {"completion": {"coder": {"verificationMethod": "semantic", "verificationConfig": {"checkFor": ["x"]}}}}
    assert apply(before, TaskChange(task_id="a", merge=merge), at=AT).prd.tasks[0].completion == {
        "coder": {"promise": "P", "verificationMethod": "semantic", "verificationConfig": {"checkFor": ["x"]}}
    }


def test_what_stands_instead_counts_before_the_rest_is_laid_over() -> None:
    before = prd(
        task("b"), task("a", dependencies=("b",), completion={"coder": {"promise": "P"}, "qa": {"promise": "Q"}})
    )
    instead = {"dependencies": None, "completion": {"qa": {"promise": "Q"}}, "outcome": None}
    merge = {"completion": {"coder": {"description": "d"}}}
    after = apply(before, TaskChange(task_id="a", instead=instead, merge=merge), at=AT).prd.tasks[1]
    assert after.dependencies == ()
    assert after.completion == {"coder": {"description": "d"}, "qa": {"promise": "Q"}}
    assert [f.path for f in refusal(before, TaskChange(task_id="a", instead={"title": None}))] == [("title",)]


def test_an_edit_that_says_nothing_new_changes_nothing() -> None:
    before = prd(task("a", completion={"coder": {"promise": "P"}}))
    applied = apply(before, TaskChange(task_id="a", merge={"title": "Do a", "completion": {}}), at=AT)
    assert applied.prd is before
    assert applied.answer == "a: nothing changed"


def test_a_cycle_is_told_of_the_edited_task() -> None:
    before = prd(task("a", dependencies=("b",)), task("b"))
    (fault,) = refusal(before, TaskChange(task_id="b", merge={"dependencies": ["a"]}))
    assert fault == Fault(("dependencies",), "dependency cycle: a -> b -> a")


# While a run goes on


def test_a_task_at_work_keeps_its_status_place_and_order_but_not_its_words() -> None:
    before = prd(task("dep", "completed"), task("a", "in_iteration", dependencies=("dep",)), task("b"))
    statuses: list[Edit] = [
        Move(task_id="a", to="unblock"),
        Move(task_id="a", to="reopen", reason="r"),
        Move(task_id="a", to="done", reason="r"),
        Move(task_id="a", to="remove"),
    ]
    for edit in statuses:
        assert told(before, edit) == "a is being worked on; wait until its attempt has ended, or stop the run"
    for merge in ({"dependencies": ["b"]}, {"overrides": {"stages": ["coder"]}}):
        assert "cannot change while the task is being worked on" in told(before, TaskChange(task_id="a", merge=merge))
    assert "a, which is being worked on, depends on dep" in told(before, Move(task_id="dep", to="reopen", reason="r"))
    applied = apply(
        before, TaskChange(task_id="a", merge={"acceptanceCriteria": ["x"], "priority": 3}, note="n"), at=AT
    )
    assert applied.answer.endswith("; the attempt now running is judged by what it started with")
    assert applied.prd.tasks[1].status == "in_iteration"
    assert apply(before, Move(task_id="b", to="remove"), at=AT).answer == "b: removed"


def test_a_task_that_an_ended_run_left_in_iteration_can_be_done_or_removed() -> None:
    before = prd(task("a", "in_iteration", **FACTS))
    assert apply(before, Move(task_id="a", to="done", reason="r"), at=AT, at_work=()).prd.tasks[0].status == "completed"
    assert apply(before, Move(task_id="a", to="remove"), at=AT, at_work=()).prd.tasks == ()
    assert (
        told(before, Move(task_id="a", to="unblock"), at_work=())
        == "a is in_iteration; only a blocked task can be unblocked"
    )


# Status


def test_unblocking_and_reopening_begin_anew() -> None:
    blocked = task("a", "blocked", blocked_reason="stuck", **FACTS)
    free = apply(prd(blocked), Move(task_id="a", to="unblock", reason="use v2"), at=AT).prd.tasks[0]
    assert (free.status, free.attempts, free.stage, free.blocked_reason) == ("pending", {}, None, None)
    assert (free.notes, free.cost_usd, free.settled_iteration) == ("use v2", 1.5, 7)
    completed = task("a", "completed", completed_at=AT, summary="made it", **FACTS)
    again = apply(prd(completed), Move(task_id="a", to="reopen", reason="no\n tests"), at=AT).prd.tasks[0]
    assert (again.status, again.attempts, again.stage, again.completed_at) == ("pending", {}, None, None)
    assert again.notes == "Reopened: no tests"


def test_done_says_why() -> None:
    for before in (task("a"), task("a", "blocked", blocked_reason="stuck")):
        after = apply(prd(before), Move(task_id="a", to="done", reason="in v1 already"), at=AT).prd.tasks[0]
        assert (after.status, after.completed_at, after.blocked_reason) == ("completed", AT, None)
        assert (after.summary, after.notes) == ("in v1 already", "Done without an agent: in v1 already")
    assert refusal(prd(task("a")), Move(task_id="a", to="done", reason=" ")) == (
        Fault(("reason",), "must not be empty"),
    )
    assert "is completed; only" in told(prd(task("a", "completed")), Move(task_id="a", to="done", reason="r"))


def test_a_task_that_others_depend_on_is_not_removed() -> None:
    before = prd(task("a"), task("b", dependencies=("a",)), task("c", dependencies=("a",)))
    assert told(before, Move(task_id="a", to="remove")) == "b, c depend on a; change that first"
    assert [each.id for each in apply(before, Move(task_id="b", to="remove"), at=AT).prd.tasks] == ["a", "c"]


@pytest.mark.parametrize(
    "edit", [TaskChange(task_id="Tsk"), Move(task_id="tsk", to="unblock"), Move(task_id="TSK", to="remove")]
)
def test_an_unknown_id_suggests_the_nearest(edit: Edit) -> None:
    assert "did you mean 'Task'?" in told(prd(task("Task"), task("other")), edit)
    assert "'ralph task list' has all" in told(prd(), edit)


# Over the wire


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"edit":"drop"}', b'{"edit":"remove"}', b"\xff", b"[" * 100_000])
def test_what_is_no_edit_is_refused_in_a_line(data: bytes) -> None:
    with pytest.raises(RalphError, match="is no edit"):
        edits.decode(data)


# Properties

IDS = ("a", "b", "c", "C", "no/id")
_ids = st.sampled_from(IDS)
_plain = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", "x", "a", "coder", "external", "$extra"])
_json = st.recursive(
    _plain,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["promise", "verificationMethod", "verificationConfig", "command", "coder", "qa", "stages"]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=4,
)
_sound = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("t"),
        "priority": st.integers(1, 3),
        "dependencies": st.lists(_ids, max_size=2),
        "completion": st.dictionaries(
            st.sampled_from(["coder", "qa"]),
            st.sampled_from(
                [{"promise": "P"}, {"verification_method": "external", "verification_config": {"command": "x"}}]
            ),
            max_size=2,
        ),
        "overrides": st.fixed_dictionaries({"stages": st.sampled_from([["coder"], ["coder", "qa"], ["qa", "coder"]])}),
    },
)
_words = _sound | st.dictionaries(
    st.sampled_from([*WORDS, "id", "status", "attempts", "$extra", "odd"]), _json, max_size=3
)
_edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(lambda i, w: Add(tasks=({"id": i, "title": "t", **w},)), _ids, _words),
    st.builds(
        lambda i, c, m, n: TaskChange(task_id=i, instead=c, merge=m, note=n),
        _ids,
        st.dictionaries(st.sampled_from(["title", "dependencies", "completion"]), st.none()) | _words,
        _words,
        st.sampled_from(["", "n"]),
    ),
    st.builds(
        lambda i, t: Move(task_id=i, to=t, reason="r"), _ids, st.sampled_from(["unblock", "reopen", "done", "remove"])
    ),
)
_statuses = st.sampled_from(cast("tuple[Status, ...]", get_args(Status)))
_prds = st.tuples(_statuses, _statuses, _statuses).map(
    lambda s: prd(task("a", s[0]), task("b", s[1], dependencies=("a",)), task("c", s[2], extra={"odd": 1}, **FACTS))
)
REACHABLE = {(source, target) for _, source, target in TRANSITIONS} | {("in_iteration", "completed")}


@given(_prds, st.lists(_edits, max_size=12), st.booleans())
def test_no_sequence_of_edits_leaves_the_rules_or_the_diagram(before: Prd, sequence: list[Edit], running: bool) -> None:
    for edit in sequence:
        sent = edits.decode(msgspec.json.encode(edit))
        try:
            after = apply(before, sent, at=AT, at_work=None if running else ()).prd
        except EditRefusedError:
            continue
        assert problems_of(after) == ()
        assert prd_file.decode_prd(prd_file.encode_prd(after)) == after
        were = {each.id: each for each in before.tasks}
        for each in after.tasks:
            was = were.get(each.id)
            if was is None:
                assert each.status == "pending"
                continue
            assert was.status == each.status or (was.status, each.status) in REACHABLE
            if running and was.status == "in_iteration":
                assert (each.status, each.dependencies) == (was.status, was.dependencies)
            if isinstance(edit, TaskChange):
                assert [getattr(each, name) for name in LOOP_FIELDS] == [getattr(was, name) for name in LOOP_FIELDS]
        before = after


@given(_prds)
def test_the_words_of_a_task_say_nothing_of_the_loop(any_prd: Prd) -> None:
    for each in any_prd.tasks:
        assert set(words_of(each)) <= {*WORDS, "odd"}
