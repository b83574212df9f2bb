"""Tests that were red before the work turn green by the program, not by what was done to them."""

from collections.abc import Sequence
from typing import Any

import pytest

from rulebook_ralph.checks.integrity.earlier_tests import EarlierTests, code_of_tests
from rulebook_ralph.core.evidence import SKIP, CheckResult, Verdict, Verified
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Integrity as Settings
from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.loop.evidence import Gates
from rulebook_ralph.loop.rules.earlier_tests import EarlierTestsOfCriteria, EarlierTestsOfGates
from rulebook_ralph.loop.rules.integrity import Integrity
from tests.integrity_case import changed

STEP = VerificationStep(name="tests", kind="test", command="python3 -m pytest -q")
OLD = {
    "calc.py": "def sub(a, b):\n    return a + b\n",
    "tests/test_sub.py": "def test_sub():\n    assert sub(3, 1) == 2\n",
}
NEW = {**OLD, "tests/test_sub.py": OLD["tests/test_sub.py"].replace("== 2", "== 4")}


def gate(output: str, *, passed: bool = False) -> CheckResult:
    return CheckResult(step="tests", kind="test", command=STEP.command, passed=passed, output=output)


GREEN, RED = gate("4 passed in 0.1s", passed=True), gate("2 failed, 2 passed in 0.1s")


def judged(
    before: dict[str, str], after: dict[str, str], *earlier: CheckResult | None, now: CheckResult = GREEN, **values: Any
) -> tuple[Verdict, list[EarlierTests]]:
    """The verdict, and what was asked for; `earlier`: what the gates say of the base's tests."""
    asked: list[EarlierTests] = []

    def run_gates_with(wanted: EarlierTests) -> Sequence[CheckResult] | None:
        asked.append(wanted)
        return None if None in earlier else [each for each in earlier if each]

    settings: dict[str, Any] = {"steps": (STEP,), "excused": frozenset(("tests",)), **values}
    given = changed(
        before,
        after,
        run_gates=lambda: Gates((now,)),
        run_gates_with=run_gates_with,
        tests_on_base={"tests": 4},
        failing_on_base={"tests": 2},
        **settings,
    )
    return (EarlierTestsOfGates().run(given) if EarlierTestsOfGates().should_run(given) else SKIP), asked


def test_what_only_the_changed_tests_pass_is_refused() -> None:
    verdict, asked = judged(OLD, NEW, RED)
    assert asked == [EarlierTests(("tests/test_sub.py",), ())]
    assert verdict.action == "continue"
    assert verdict.reason == "with the tests as they were before the work, 'tests' is as red as it was"
    assert "tests/test_sub.py" in verdict.feedback
    assert "2 failed" in verdict.feedback
    assert judged(OLD, NEW, gate("1 failed, 3 passed in 0.1s"))[0] == SKIP
    assert judged(OLD, NEW, GREEN)[0] == SKIP
    assert judged(OLD, NEW, None)[0] == SKIP, "without a clean checkout nothing can be run beside the user's tree"


@pytest.mark.parametrize(
    "values",
    [
        {"excused": frozenset()},
        {"now": RED},
        {"trust_agent": True},
        {"integrity": Settings(enabled=False)},
        {"integrity": Settings(allow=("tests/**",))},
        {"task": Task(id="one", title="Correct tests/test_sub.py")},
    ],
)
def test_it_is_not_asked_without_need(values: dict[str, Any]) -> None:
    assert judged(OLD, NEW, RED, **values) == (SKIP, [])


def test_which_files_are_of_tests() -> None:
    before = OLD | {
        "tests/helper.py": "A = 1\n",
        "src/lib.rs": "#[test]\nfn a() {}\n",
        "src/main/A.java": "class A {}\n",
        "src/test/ATest.java": "class ATest {}\n",
    }
    after = {path: f"{text}// {path}\n" for path, text in before.items()} | {
        "tests/test_new.py": "def test_new():\n    assert f()\n",
        "tests/conftest.py": "A = 1\n",
    }
    (asked,) = judged(before, after, GREEN)[1]
    assert set(asked.restored) == {"tests/test_sub.py", "tests/helper.py", "src/test/ATest.java"}
    assert asked.removed == ("tests/test_new.py",)


def test_new_tests_alone_ask_for_nothing() -> None:
    assert judged(OLD, OLD | {"tests/test_new.py": "def test_new():\n    assert f()\n"}, RED) == (SKIP, [])


def test_a_test_that_moved_stands_where_it_was() -> None:
    moved = {"calc.py": OLD["calc.py"], "tests/unit/test_sub.py": OLD["tests/test_sub.py"]}
    (asked,) = judged(OLD, moved, GREEN)[1]
    assert asked == EarlierTests(("tests/test_sub.py",), ("tests/unit/test_sub.py",))


def test_tests_that_were_green_may_change_with_the_program() -> None:
    earlier = EarlierTests(("tests/test_a.py", "tests/test_b.py", "tests/helper.txt"))
    assert earlier.named_in("FAILED tests/test_b.py::test_b").restored == ("tests/test_b.py", "tests/helper.txt")
    assert earlier.named_in("2 failed") == earlier


def test_configuration_for_a_gate_that_ran_some_tests_counts_though_it_was_red() -> None:
    added = OLD | {"pytest.ini": "[pytest]\naddopts = -k 'not sub'\n"}
    red: dict[str, Any] = {"steps": (STEP,), "excused": frozenset(("tests",))}
    some = changed(OLD, added, tests_on_base={"tests": 4}, failing_on_base={"tests": 2}, **red)
    assert "pytest.ini" in Integrity().run(some).reason
    none = changed(OLD, added, tests_on_base={"tests": 0}, failing_on_base={"tests": 1}, **red)
    assert Integrity().run(none) == SKIP


@pytest.mark.parametrize(
    "path", ["__future__.py", "_hypothesis_pytestplugin.py", "pytest_asyncio/__init__.py", "readline.py"]
)
def test_modules_that_pytest_loads_by_itself_are_not_to_be_replaced(path: str) -> None:
    assert "would load it" in Integrity().run(changed(OLD, OLD | {path: "A = 1\n"}, steps=(STEP,))).reason


def test_which_touched_files_are_tests() -> None:
    paths = ["calc.py", "tests/test_a.py", "tests/out.txt", "tests/conftest.py", "src/lib.rs", "a.test.js", "test_a.sh"]
    assert code_of_tests(paths) == ["tests/test_a.py", "tests/conftest.py", "a.test.js"]


CONFIGURED = VerificationStep(name="tests", kind="test", command="python3 -m pytest -c set/own.ini -q acceptance")
PROJECT = {
    "calc.py": OLD["calc.py"],
    "acceptance/test_a.py": OLD["tests/test_sub.py"],
    "set/own.ini": "[pytest]\n",
    "set/app.ini": "[app]\n",
    "package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "^29"}}',
}


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("set/own.ini", "[pytest]\naddopts = --co\n", "is given it"),
        ("set/app.ini", "[app]\na = 1\n", ""),
        ("acceptance/calc.py", "def sub(a, b):\n    return a - b\n", "which has the same name"),
        ("acceptance/more.py", "def sub(a, b):\n    return a - b\n", ""),
        ("package.json", PROJECT["package.json"].replace("^29", "file:./jest"), 'where "jest" comes from'),
        ("package.json", PROJECT["package.json"].replace("^29", "^30"), ""),
        ("package.json", PROJECT["package.json"].replace('{"jest"', '{"@a/b": "file:../b", "jest"'), ""),
    ],
)
def test_what_gates_are_given_besides(path: str, text: str, told: str) -> None:
    npm = VerificationStep(name="npm", kind="test", command="npm test")
    verdict = Integrity().run(changed(PROJECT, PROJECT | {path: text}, steps=(CONFIGURED, npm)))
    assert (told in verdict.reason) if told else verdict == SKIP


EXTERNAL = CheckResult(step="coder", method="external", command="pytest acceptance", passed=True)
STILL_RED = CheckResult(
    step="coder", method="external", command="pytest acceptance", passed=False, reason="exit code 1", output="1 failed"
)


@pytest.mark.parametrize(
    ("after", "check", "earlier", "told"),
    [
        (NEW, EXTERNAL, (STILL_RED,), "'coder' does not hold (exit code 1)"),
        (NEW, EXTERNAL, (EXTERNAL,), ""),
        (NEW, EXTERNAL, (), ""),
        (NEW, EXTERNAL, None, ""),
        (NEW, None, (STILL_RED,), ""),
        (OLD | {"calc.py": "A = 1\n"}, EXTERNAL, (STILL_RED,), ""),
    ],
)
def test_a_criterion_holds_with_the_tests_of_the_base(
    after: dict[str, str], check: CheckResult | None, earlier: tuple[CheckResult, ...] | None, told: str
) -> None:
    verified = Verified(passed=True, results=(check,) if check else ())
    given = changed(OLD, after, run_criteria=lambda: verified, run_criteria_with=lambda _: earlier)
    verdict = EarlierTestsOfCriteria().run(given)
    assert (told in verdict.reason and "tests/test_sub.py" in verdict.feedback) if told else verdict == SKIP
    assert not EarlierTestsOfCriteria().should_run(changed(OLD, after, judging=(STEP,), trust_agent=True))
    assert not EarlierTestsOfCriteria().should_run(changed(OLD, after))
    assert EarlierTestsOfCriteria().should_run(changed(OLD, after, judging=(STEP,)))


def test_of_criteria_only_tests_that_are_named_are_put_back() -> None:
    earlier = EarlierTests(("tests/test_a.py", "tests/helper.txt"), ("tests/test_new.py", "tests/unit/test_a.py"))
    wanted = EarlierTests(("tests/test_a.py", "tests/helper.txt"), ("tests/unit/test_a.py",))
    assert earlier.failed_in("FAILED tests/test_a.py::test_a") == wanted
    assert earlier.failed_in("2 failed") == EarlierTests()
