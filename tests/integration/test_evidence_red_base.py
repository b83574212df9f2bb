"""Bases whose tests are red: a task may leave what was red, by name, and add nothing to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rulebook_ralph.config.settings import VerificationStep
from tests.conftest import isolate
from tests.judging import NO, NODE, PYTEST, UNITTEST, VERBOSE, YES, Court

VALUES = (("add", 3), ("sub", 1), ("mul", 2), ("div", 2), ("mod", 0))
TESTS = "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n" + "".join(
    f"    def test_{name}(self):\n        self.assertEqual(calc.{name}(2, 1), {value})\n\n" for name, value in VALUES
)
RIGHT = {
    name: f"def {name}(a, b):\n    return a {sign} b\n\n\n"
    for name, sign in zip(("add", "sub", "mul", "div", "mod"), "+-*/%", strict=True)
}
WRONG = {name: f"def {name}(a, b):\n    return None\n\n\n" for name in RIGHT}


def calc(*right: str) -> str:
    return "".join((RIGHT if name in right else WRONG)[name] for name in RIGHT)


@pytest.fixture(scope="module", params=[PYTEST, UNITTEST, VERBOSE], ids=["pytest", "unittest", "unittest -v"])
def court(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    files = {"calc.py": calc("add"), "test_calc.py": TESTS}
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("home"))
        made = Court(tmp_path_factory.mktemp("red"), files, gates=(request.param,))
    yield made
    made.clones.close()


def test_a_task_that_mends_one_of_four_completes(court: Court) -> None:
    model = NO()
    judgement = court.judge({"calc.py": calc("add", "sub")}, model)
    assert judgement.verdict.action == "complete", judgement
    assert model.asked == []
    assert judgement.evidence is not None
    assert any("sub" in name for name in judgement.evidence.turned)
    assert "tests: 3 failing, as before" in judgement.log
    assert court.runner.red_required(court.base) == ("tests: 4 failing",)


def test_one_that_spoils_a_green_test_is_refused_by_name(court: Court) -> None:
    """Two red ones turn green meanwhile: numbers alone would praise it."""
    judgement = court.judge({"calc.py": calc("sub", "mul")}, YES())
    assert judgement.verdict.hook == "gates"
    assert "test_add" in judgement.verdict.reason
    assert "test_add" in judgement.verdict.feedback
    assert "test_div" not in judgement.verdict.reason


def test_one_that_mends_nothing_is_asked(court: Court) -> None:
    model = NO()
    assert court.judge({"note.txt": "hi\n"}, model).verdict.hook == "evidence"
    assert [item["kind"] for item in model.asked[0]["items"]] == ["unproven"]


def test_a_red_test_that_is_made_to_agree_is_no_proof(court: Court) -> None:
    model = NO()
    changed = {
        "calc.py": calc("add") + "# x\n",
        "test_calc.py": TESTS.replace("calc.sub(2, 1), 1", "calc.sub(2, 1), None"),
    }
    assert court.judge(changed, model).verdict.hook == "evidence"


def test_a_new_red_test_is_refused(court: Court) -> None:
    changed = {
        "test_more.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_more(self):\n        assert False\n"
    }
    judgement = court.judge(changed, YES())
    assert judgement.verdict.hook == "gates"
    assert "test_more" in judgement.verdict.reason


def test_a_module_that_could_not_be_imported_may_still_have_red_tests(tmp_path: Path) -> None:
    """Tests written first: on the base nothing of their file could run, so what is left red was red."""
    court = Court(tmp_path, {"other.py": "", "test_calc.py": TESTS})
    assert court.judge({"calc.py": calc("add", "sub", "mul")}, YES()).verdict.action == "complete"
    court.clones.close()


def test_without_names_by_number_and_by_exit_code(tmp_path: Path) -> None:
    gates = (
        VerificationStep(name="tests", kind="test", command="cat numbers; ! grep -q failed numbers"),
        VerificationStep(name="build", kind="build", command="exit $(cat code)"),
    )
    court = Court(
        tmp_path, {"numbers": "3 passed, 2 failed in 0.1s\n", "code": "3\n", "product.txt": "x\n"}, gates=gates
    )
    judged = {
        "better": court.judge({"numbers": "4 passed, 1 failed in 0.1s\n"}, YES()),
        "worse": court.judge({"numbers": "2 passed, 3 failed in 0.1s\n"}, YES()),
        "silent": court.judge({"numbers": "failed\n"}, YES()),
        "other code": court.judge({"code": "4\n"}, YES()),
        "same code": court.judge({"product.txt": "y\n"}, YES()),
    }
    refused = {name for name, judgement in judged.items() if judgement.verdict.hook == "gates"}
    assert refused == {"worse", "silent", "other code"}
    court.clones.close()


def test_node_by_name(tmp_path: Path) -> None:
    tests = (
        "const test = require('node:test');\nconst assert = require('node:assert');\nconst calc = require('./calc');\n"
    )
    tests += "".join(
        f"test('{name}', () => assert.strictEqual(calc.{name}(2, 1), {value}));\n" for name, value in VALUES
    )

    def program(*right: str) -> str:
        signs = dict(zip(RIGHT, "+-*/%", strict=True))
        return "".join(
            f"exports.{name} = (a, b) => {f'a {signs[name]} b' if name in right else 'null'};\n" for name in RIGHT
        )

    court = Court(tmp_path, {"calc.js": program("add"), "calc.test.js": tests}, gates=(NODE,))
    model = NO()
    assert court.judge({"calc.js": program("add", "sub")}, model).verdict.action == "complete"
    spoiled = court.judge({"calc.js": program("sub", "mul")}, model)
    assert (spoiled.verdict.hook, model.asked) == ("gates", [])
    assert "tests failed: add" in spoiled.verdict.reason
    court.clones.close()
