"""Honest work, judged on real repositories: what is accepted without a question, what is asked, and what it costs."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.config.settings import Integrity, VerificationStep
from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.model import Task
from tests.conftest import isolate
from tests.judging import NO, PYTEST, UNITTEST, VERBOSE, YES, Court
from tests.sampling import sample

CALC = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return 2 * a\n\n\ndef half(a):\n    return a // 2\n"
HEAD = "import unittest\n\n\nclass Test(unittest.TestCase):\n"
TESTS = (
    f"from calc import add, double\n{HEAD}    def test_add(self):\n        assert add(1, 2) == 3\n\n"
    "    def test_double(self):\n        assert double(4) == 8\n"
)
MANIFEST = '[project]\nname = "calc"\ndependencies = []\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n'
FILES = {"calc.py": CALC, "test_calc.py": TESTS, "pyproject.toml": MANIFEST}
T = "test_calc.py"
OF_ONE_MORE = "\n    def test_half(self):\n        from calc import half\n        assert half(3) == 1.5\n"
HALF = CALC.replace("a // 2", "a / 2")
OF_HALF = f"from calc import half\n{HEAD}    def test_half(self):\n        assert half(3) == 1.5\n"
BROKEN = CALC.replace("a + b", "a - b")

Made = Callable[..., Court]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    """Of those that only judge: base and canaries are run once."""
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        made = Court(tmp_path_factory.mktemp("shared"), FILES, gates=(VERBOSE,))
    yield made
    made.clones.close()


@pytest.fixture
def court(tmp_path: Path) -> Iterator[Made]:
    """Makes projects, and lets go of their clones."""
    made: list[Court] = []

    def make(files: dict[str, str] = FILES, **settings: Any) -> Court:
        made.append(Court(tmp_path / f"p{len(made)}", files, **{"gates": (VERBOSE,), **settings}))
        return made[-1]

    yield make
    for each in made:
        each.clones.close()


def test_a_mended_fault_with_its_test_needs_no_question(shared: Court) -> None:
    model = NO()
    judgement = shared.judge({"calc.py": HALF, "test_half.py": OF_HALF}, model)
    assert judgement.verdict.action == "complete", judgement
    assert model.asked == []
    assert judgement.evidence is not None
    assert judgement.evidence.turned == ("test_half.Test.test_half",)
    assert judgement.evidence.judged_by == ""
    assert [(each.path, each.change) for each in judgement.changed_checks] == [("test_half.py", "added")]


def test_a_test_that_is_added_to_an_old_file_needs_no_question(shared: Court) -> None:
    more = TESTS + OF_ONE_MORE
    model = NO()
    assert shared.judge({"calc.py": HALF, T: more}, model).verdict.action == "complete"
    assert model.asked == []


def test_new_code_with_a_test_that_imports_it_is_asked_and_completes(shared: Court) -> None:
    """On the base's code the test cannot be imported: that tells nothing but that a name is new."""
    model = YES()
    changed = {
        "calc.py": CALC + "\n\ndef mul(a, b):\n    return a * b\n",
        "test_mul.py": OF_HALF.replace("half(3) == 1.5", "mul(3, 2) == 6").replace("half", "mul"),
    }
    judgement = shared.judge(changed, model)
    assert judgement.verdict.action == "complete"
    assert [item["kind"] for item in model.asked[0]["items"]] == ["unproven"]
    assert judgement.evidence is not None
    assert judgement.evidence.judged_by == "model"
    assert [each.answer for each in judgement.evidence.asked] == ["yes"]


def test_each_acceptance_criterion_is_an_item_of_one_question(shared: Court) -> None:
    model = YES()
    task = Task(id="t", title="Documents", kind="docs", acceptance_criteria=("it says how", "it says why"))
    assert shared.judge({"README.md": "how and why\n"}, model, task=task).verdict.action == "complete"
    (asked,) = model.asked
    assert [item["question"].rpartition(": ")[2] for item in asked["items"]] == ["it says how", "it says why"]


def test_a_change_of_behaviour_that_the_task_asks_for_is_asked_once(shared: Court) -> None:
    model = YES()
    changed = {"calc.py": CALC.replace("2 * a", "a * 3"), T: TESTS.replace("== 8", "== 12")}
    judgement = shared.judge(changed, model)
    assert judgement.verdict.action == "complete"
    assert judgement.evidence is not None
    assert judgement.evidence.broken == ("test_calc.Test.test_double",)
    (item,) = model.asked[0]["items"]
    assert (item["kind"], item["tests"], item["files"]) == ("changed", ["test_calc.Test.test_double"], [T])
    assert "AssertionError" in item["output"]


def test_a_task_may_name_what_it_changes(shared: Court) -> None:
    changed = {"calc.py": CALC.replace("2 * a", "a * 3"), T: TESTS.replace("== 8", "== 12")}
    model = NO()
    task = Task(id="t", title="Three times", may_change=("test_calc.py",))
    judgement = shared.judge(changed, model, task=task)
    assert judgement.verdict.action == "complete", judgement
    assert model.asked == []


def test_a_refactoring_is_asked_and_its_tests_hold(shared: Court) -> None:
    model = YES()
    task = Task(id="t", title="Tidy", kind="refactor")
    judgement = shared.judge({"calc.py": CALC.replace("2 * a", "a + a")}, model, task=task)
    assert judgement.verdict.action == "complete"
    assert [item["kind"] for item in model.asked[0]["items"]] == ["unproven"]


def test_a_command_of_the_criteria_that_turned_green_is_proof(shared: Court) -> None:
    criteria = External(command="grep -q works feature.txt")
    model = NO()
    assert shared.judge({"feature.txt": "works\n"}, model, criteria=criteria).verdict.action == "complete"
    assert model.asked == []


SHOW = "import sys\nfrom calc import half\nprint(half(int(sys.argv[1])))\n"
RUNS = External(command=f"{sys.executable} show.py 3 | grep -qx 1.5")


def test_a_program_that_a_criterion_looks_at_is_product(court: Made) -> None:
    """One that is made by the task, or that tests know, is what is judged; what judges alone stays a check."""
    model = NO()
    made = court(gates=(UNITTEST,)).judge({"calc.py": HALF, "show.py": SHOW}, model, criteria=RUNS)
    assert (made.verdict.action, made.changed_checks) == ("complete", ())
    known = {**FILES, "show.py": "print(1)\n", "test_show.py": "import os\nassert os.path.exists('show.py')\n"}
    judged = court(known, gates=(UNITTEST,)).judge({"calc.py": HALF, "show.py": SHOW}, model, criteria=RUNS)
    assert (judged.verdict.action, judged.changed_checks) == ("complete", ())
    assert model.asked == []
    alone = court({**FILES, "show.py": "print(1)\n"}, gates=(UNITTEST,))
    refused = alone.judge({"show.py": "print(1.5)\n"}, model, criteria=RUNS)
    assert (refused.verdict.action, [each.path for each in refused.changed_checks]) == ("continue", ["show.py"])


def test_a_command_whose_script_was_changed_is_none(court: Made) -> None:
    judged = court({**FILES, "verify.sh": "grep -q works feature.txt\n"})
    criteria = External(command="sh verify.sh")
    for script in ("exit 0\n", "test -f new.txt\n"):
        model = NO()
        judgement = judged.judge({"verify.sh": script, "new.txt": "x\n"}, model, criteria=criteria)
        assert judgement.verdict.hook == "evidence", judgement
        assert "changed" in [item["kind"] for item in model.asked[0]["items"]]


def test_a_dependency_is_no_check(shared: Court) -> None:
    """Of a manifest only the tables that gates read are."""
    changed = {"calc.py": HALF, "test_half.py": OF_HALF, "pyproject.toml": MANIFEST.replace("[]", '["six"]')}
    judgement = shared.judge(changed, NO())
    assert judgement.verdict.action == "complete"
    assert [each.path for each in judgement.changed_checks] == ["test_half.py"]


def test_files_that_no_gate_reads_are_no_checks(shared: Court) -> None:
    changed = {
        ".github/workflows/ci.yml": "on: push\n",
        ".pre-commit-config.yaml": "repos: []\n",
        ".coveragerc": "[run]\n",
    }
    judgement = shared.judge({**changed, "calc.py": HALF}, YES())
    assert judgement.changed_checks == ()


def test_what_a_required_gate_that_is_no_test_reads_is_asked(court: Made) -> None:
    lint = VerificationStep(name="lint", kind="lint", command="sh lint.sh")
    judged = court({**FILES, "lint.sh": "! grep -n TODO calc.py\n"}, gates=(VERBOSE, lint))
    model = NO()
    judgement = judged.judge({"calc.py": HALF + "# TODO\n", "lint.sh": "true\n", "test_half.py": OF_HALF}, model)
    assert judgement.verdict.hook == "evidence"
    assert "lint" in model.asked[0]["items"][0]["question"]


# What it costs


def test_cost(court: Made) -> None:
    """One run where no check file is touched, three otherwise, and once more, alone, where a red decides."""
    judged = court()
    judged.judge({"calc.py": CALC + "# tidy\n"}, YES())  # with the baseline and the canaries
    runs = [judged.runs()]
    for changed in _ATTEMPTS:
        judged.judge(changed, YES())
        runs.append(judged.runs())
    assert [after - before for before, after in itertools.pairwise(runs)] == [1, 3, 4, 0]


_ATTEMPTS: list[dict[str, str | None]] = [
    {"calc.py": CALC + "# tidied\n"},
    {"calc.py": CALC + "# more\n", "test_more.py": f"{HEAD}    def test_more(self):\n        assert True\n"},
    {"calc.py": HALF, "test_half.py": OF_HALF},
    {"calc.py": HALF, "test_half.py": OF_HALF},
]


def test_only_the_gates_where_so_configured(court: Made) -> None:
    judged = court(verification={"proof": "gate"})
    model = NO()
    assert judged.judge({"calc.py": BROKEN, T: TESTS.replace("== 3", "== -1")}, model).verdict.action == "complete"
    assert judged.judge({"calc.py": BROKEN}, model).verdict.hook == "gates"
    assert model.asked == []


def test_runs_beside_each_other_give_the_same(court: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    judged = court(verification={"parallel": True})
    judgement = judged.judge({"calc.py": HALF, "test_half.py": OF_HALF}, NO())
    assert judgement.verdict.action == "complete"
    assert judged.clones.names("gate-") == ("gate-1", "gate-2")


def test_an_earlier_stage_is_asked_nothing(shared: Court) -> None:
    model = NO()
    assert shared.judge({"NOTES.md": "x\n"}, model, last_stage=False).verdict.action == "complete"
    assert model.asked == []


def test_a_task_that_verifies_proves_nothing_new(shared: Court) -> None:
    model = NO()
    assert shared.judge({}, model, implements=False).verdict.action == "complete"
    assert model.asked == []
    weakened = shared.judge(
        {T: TESTS.replace("== 3", "> 0"), "calc.py": CALC.replace("a + b", "5")}, model, implements=False
    )
    assert weakened.verdict.hook == "evidence"


# One task after another


def test_assertions_weakened_by_one_task_are_not_used_by_the_next(court: Made) -> None:
    judged = court()
    first = {"calc.py": HALF, "test_half.py": OF_HALF, T: TESTS.replace("add(1, 2) == 3", "add(1, 2)")}
    judgement = judged.judge(first, NO())
    assert judgement.verdict.action == "complete"
    judged.land(first, judgement)
    assert judged.checks_base != judged.base
    model = NO()
    second = {"calc.py": HALF.replace("a + b", "a - b").replace("2 * a", "a * 2")}
    refused = judged.judge(second, model)
    assert refused.verdict.hook == "evidence"
    assert any("earlier task" in item["question"] for item in model.asked[0]["items"])


def test_a_test_that_an_earlier_task_brought_is_not_weakened_unasked(court: Made) -> None:
    judged = court()
    first = {"calc.py": HALF, T: TESTS + OF_ONE_MORE}
    judged.land(first, judged.judge(first, NO()))
    model = NO()
    weakened = {T: first[T].replace("half(3) == 1.5", "half(3)"), "calc.py": HALF.replace("a / 2", "a / 3")}
    assert judged.judge(weakened, model).verdict.hook == "evidence"
    assert any(item["kind"] == "changed" for item in model.asked[0]["items"])


def test_a_change_of_checks_that_was_answered_with_yes_becomes_the_base(court: Made) -> None:
    judged = court()
    changed = {"calc.py": CALC.replace("2 * a", "a * 3"), T: TESTS.replace("== 8", "== 12")}
    judged.land(changed, judged.judge(changed, YES()))
    assert judged.checks_base == judged.base
    model = NO()
    assert (
        judged.judge(
            {"calc.py": changed["calc.py"].replace("a // 2", "a / 2"), "test_half.py": OF_HALF}, model
        ).verdict.action
        == "complete"
    )


def test_a_test_that_is_gone_is_asked_though_all_holds(shared: Court) -> None:
    model = NO()
    judgement = shared.judge(
        {"calc.py": HALF, "test_half.py": OF_HALF, T: TESTS.partition("    def test_double")[0]}, model
    )
    assert judgement.verdict.hook == "evidence"
    (item,) = model.asked[0]["items"]
    assert (item["kind"], item["tests"]) == ("changed", ["test_calc.Test.test_double"])


def test_what_nobody_was_asked_about_does_not_weaken_step_by_step(court: Made) -> None:
    """A test comes with one task and is weakened by the next, whose code is still right: the third could break it."""
    judged = court()
    first = {"calc.py": HALF, T: TESTS + OF_ONE_MORE}
    judged.land(first, judged.judge(first, NO()))
    model = NO()
    weakened = {T: first[T].replace("half(3) == 1.5", "half(3)"), "calc.py": HALF.replace("2 * a", "2.0 * a")}
    weakened["test_more.py"] = (
        f"from calc import double\n{HEAD}    def test_more(self):\n        assert repr(double(1)) == '2.0'\n"
    )
    assert judged.judge(weakened, model).verdict.hook == "evidence"
    (item,) = model.asked[0]["items"]
    assert (item["kind"], item["files"]) == ("changed", [T])


# Canaries


def test_a_gate_that_looks_elsewhere_proves_nothing_and_is_told(court: Made) -> None:
    elsewhere = VerificationStep(name="tests", kind="test", command="echo '3 passed in 0.01s'")
    judged = court(gates=(elsewhere,))
    model = NO()
    assert judged.judge({"calc.py": HALF, "test_half.py": OF_HALF}, model).verdict.hook == "evidence"
    warnings = [event.text for event in judged.seen if isinstance(event, Notice) and event.level == "warning"]
    assert any("every source file is empty" in text for text in warnings)
    again = len(warnings)
    judged.judge({"calc.py": HALF + "#\n"}, model)
    assert len([event for event in judged.seen if isinstance(event, Notice) and event.level == "warning"]) == again


def test_a_gate_without_tests_proves_nothing(court: Made) -> None:
    empty = VerificationStep(name="tests", kind="test", command="python -m unittest discover -s empty || true")
    judged = court({**FILES, "empty/__init__.py": ""}, gates=(empty,))
    assert judged.judge({"calc.py": HALF}, NO()).verdict.hook == "evidence"
    assert any(isinstance(event, Notice) and "runs no tests" in event.text for event in judged.seen)


def test_a_gate_that_proved_nothing_is_believed_once_its_tests_do(court: Made) -> None:
    judged = court({"calc.py": CALC, "test_calc.py": f"{HEAD}    def test_nothing(self):\n        pass\n"})
    reads = f"{HEAD}    def test_file(self):\n        assert open('feature.txt').read() == 'x'\n"
    changed = {"feature.txt": "x", "test_file.py": reads}
    judgement = judged.judge(changed, YES())
    assert judgement.evidence is not None
    assert judgement.evidence.turned == ()
    judged.land(changed, judgement)
    more = judged.judge({"feature.txt": "x", "calc.py": HALF, "test_half.py": OF_HALF}, NO())
    assert more.verdict.action == "complete", more


def test_doctests_live_in_the_source_so_its_change_is_asked(court: Made) -> None:
    source = 'def add(a, b):\n    """\n    >>> add(1, 2)\n    3\n    """\n    return a + b\n'
    gate = VerificationStep(name="tests", kind="test", command=f"{PYTEST.command} --doctest-modules")
    judged = court({"calc.py": source}, gates=(gate,))
    model = NO()
    judgement = judged.judge({"calc.py": source.replace("a + b", "a - b").replace("    3", "    -1")}, model)
    assert judgement.verdict.hook == "evidence"
    assert ("changed", ["calc.py"]) in [(item["kind"], item.get("files")) for item in model.asked[0]["items"]]


# Flaky tests


FLAKY = """import pathlib
import unittest

SEEN = pathlib.Path({place!r})


class Test(unittest.TestCase):
    def test_flaky(self):
        times = len(SEEN.read_text()) if SEEN.exists() else 0
        SEEN.write_text("x" * (times + 1))
        assert times not in {red}
"""


@pytest.mark.parametrize(("red", "action"), [({2}, "complete"), ({2, 3}, "continue")])
def test_a_red_counts_only_where_it_is_red_twice(court: Made, tmp_path: Path, red: set[int], action: str) -> None:
    seen = tmp_path / "seen"
    judged = court({**FILES, "test_flaky.py": FLAKY.format(place=str(seen), red=red)})
    judged.runner.run(judged.base, on_base=True)
    seen.write_text("xx")  # whatever the baseline counted
    assert judged.judge({"calc.py": CALC + "#\n"}, YES()).verdict.action == action


def test_a_test_that_flakes_on_the_base_is_no_proof(court: Made, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    judged = court()
    judged.runner.run(judged.base, on_base=True)
    model = NO()
    flaky = FLAKY.format(place=str(seen), red={1})  # green in new/new, red once on the base's code
    judgement = judged.judge({"calc.py": CALC + "#\n", "test_flaky.py": flaky}, model)
    assert judgement.verdict.hook == "evidence", judgement


# Nobody to ask


def test_without_a_model_the_work_waits_for_approval(court: Made) -> None:
    judged = court()
    judgement = judged.judge({"NOTES.md": "x\n"})
    verdict = judgement.verdict
    assert (verdict.action, verdict.stop_reason, verdict.awaits_approval, verdict.counts) == (
        "stop",
        "blocked",
        True,
        False,
    )
    assert verdict.reason.startswith("needs approval: ")
    approved = judged.judge({"NOTES.md": "x\n"}, approved=True)
    assert approved.verdict.action == "complete"
    assert approved.evidence is not None
    assert approved.evidence.judged_by == "person"


@pytest.mark.parametrize(
    ("mode", "action"), sample([("allow", "complete"), ("approve", "stop"), ("ask", "continue")], 2)
)
def test_who_answers_is_configured(court: Made, mode: Any, action: str) -> None:
    judged = court(integrity=Integrity(changed=mode, unproven=mode))
    model = NO()
    changed = {"calc.py": CALC.replace("2 * a", "a * 3"), T: TESTS.replace("== 8", "== 12")}
    assert judged.judge(changed, model).verdict.action == action
    assert judged.judge({"NOTES.md": "x\n"}, model).verdict.action == action
    assert len(model.asked) == (2 if mode == "ask" else 0)


def test_unittest_without_names_of_what_passes(court: Made) -> None:
    """Without -v unittest names failures alone; numbers tell the rest."""
    tests = "import unittest\nimport calc\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n"
    half = tests.replace("add(1, 2), 3", "half(3), 1.5")
    judged = court({"calc.py": CALC, "test_calc.py": tests}, gates=(UNITTEST,))
    model = NO()
    assert judged.judge({"calc.py": HALF, "test_half.py": half}, model).verdict.action == "complete"
    assert model.asked == []
    assert judged.judge({"calc.py": BROKEN}, model).verdict.hook == "gates"
    assert (
        judged.judge({"calc.py": BROKEN, "test_calc.py": tests.replace("3)", "-1)")}, model).verdict.hook == "evidence"
    )
    assert (
        judged.judge(
            {"calc.py": BROKEN, "test_calc.py": None, "test_half.py": half.replace("1.5", "1")}, model
        ).verdict.hook
        == "evidence"
    )
    assert [item["kind"] for asked in model.asked for item in asked["items"]].count("changed") == 2
