"""What completes a stage: promise, command, several verifications in order; and what the agent is told of a failure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.tasks.criteria import Criteria, External, MultiStage, Part, StringMatch
from rulebook_ralph.tasks.model import Stage
from rulebook_ralph.tasks.results import Verified
from rulebook_ralph.verify import criteria as verify
from tests.unit.verify_models.support import Toy, attempt, project

FILES = {"app.py": "x = 3\n"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return project(tmp_path_factory.mktemp("criteria"))


def verified(toy: Toy, verification: Any, **values: Any) -> Verified:
    return verify.verify(*attempt(toy, FILES, criteria=Criteria(promise="DONE", verification=verification), **values))


def part(name: str, command: str, **values: Any) -> Part:
    return Part(name=name, method="external", config={"command": command}, **values)


def test_the_promise_alone_holds_and_proves_nothing(toy: Toy) -> None:
    found = verified(toy, StringMatch())
    assert (found.passed, found.proven, found.results) == (True, False, ())
    missing = verified(toy, StringMatch(), said="I am done.")
    assert not missing.passed
    assert "the promise DONE was not given" in missing.reason
    other = verified(toy, StringMatch(), said="<promise>MADE</promise>")
    assert "another promise than DONE was given: MADE" in other.reason


def test_a_command_decides_and_its_output_is_told(toy: Toy) -> None:
    assert verified(toy, External(command="true")).proven
    failed = verified(
        toy, External(command="make check", working_dir="src", output_contains="ok", output_not_contains="bad")
    )
    assert failed.reason == "coder: E it does not add"
    assert failed.feedback.splitlines() == [
        "The check 'coder' failed.",
        "Command: make check",
        "Folder: src",
        "Expected: exit code 0, output that contains 'ok', output without 'bad'",
        "Result: exit code 1",
        "Output:",
        "E it does not add",
    ]


def test_criteria_of_earlier_stages_hold_too_but_their_promise_was_given_then(toy: Toy) -> None:
    earlier: list[tuple[Stage, Criteria]] = [
        ("coder", Criteria(promise="IMPLEMENTED", verification=External(command="true earlier")))
    ]
    whole = verify.verify(*attempt(toy, FILES, stage="qa", earlier=earlier))
    assert (whole.passed, whole.proven) == (True, True)
    assert [result.step for result in whole.results] == ["coder"]
    broken: list[tuple[Stage, Criteria]] = [
        ("coder", Criteria(promise="IMPLEMENTED", verification=External(command="false")))
    ]
    assert not verify.verify(*attempt(toy, FILES, stage="qa", earlier=broken)).passed
    case, examination = attempt(toy, FILES, stage="qa", earlier=earlier, said="no promise")
    assert not verify.verify(case, examination).passed
    assert examination.verifiers.gates.commands == [], "nothing more is run for work that does not hold by itself"


def test_parts_run_in_order_up_to_the_first_required_failure(toy: Toy) -> None:
    stages = (part("a", "true"), part("b", "false b"), part("c", "true"), part("d", "true", needs=("b",)))
    found = verified(toy, MultiStage(stages=stages))
    assert [(result.step, result.passed) for result in found.results] == [
        ("coder/a", True),
        ("coder/b", False),
        ("coder", False),
    ]
    assert found.reason == "coder/b: E it does not add"
    every = verified(toy, MultiStage(stages=stages, require_all=False))
    assert [result.step for result in every.results] == ["coder/a", "coder/b", "coder/c", "coder/d", "coder"]
    assert "coder/d: not run: it needs 'b', which did not pass" in every.reason


def test_an_optional_part_is_a_warning_but_one_must_pass(toy: Toy) -> None:
    stages = (part("soft", "false", required=False), part("hard", "true"))
    found = verified(toy, MultiStage(stages=stages))
    assert (found.passed, found.warnings) == (True, ("failed, but is optional: coder/soft: E it does not add",))
    none = verified(toy, MultiStage(stages=stages[:1]))
    assert not none.passed
    assert "none of its parts passed" in none.reason


def test_parts_within_parts_are_known_by_their_path(toy: Toy) -> None:
    inner = {"stages": [{"name": "unit", "method": "external", "config": {"command": "false"}}]}
    found = verified(toy, MultiStage(stages=(Part(name="all", method="multi_stage", config=inner),)))
    assert found.reason == "coder/all/unit: E it does not add"


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sets(st.integers(0, 4), max_size=2)), min_size=1, max_size=5),
    st.booleans(),
    st.booleans(),
)
def test_the_order_of_running_changes_nothing_about_the_verdict(
    toy: Toy, drawn: list[tuple[bool, bool, set[int]]], require_all: bool, parallel: bool
) -> None:
    stages = tuple(
        part(
            f"p{n}",
            "true" if passes else "false",
            required=required,
            needs=tuple(f"p{each}" for each in needs if each < n),
        )
        for n, (passes, required, needs) in enumerate(drawn)
    )
    found = verified(toy, MultiStage(stages=stages, require_all=require_all, parallel=parallel))
    passed: dict[str, bool] = {}
    for each in stages:
        passed[each.name] = each.config["command"] == "true" and all(passed[name] for name in each.needs)
    wanted = all(passed[each.name] for each in stages if each.required) and any(passed.values())
    assert found.passed is wanted
