"""Cheats and honest work in JavaScript, with node's own runner, and with mocha and jest where npm could install them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph.config.settings import VerificationStep
from tests.judging import NO, Court, sample

CALC = "exports.add = (a, b) => a + b;\nexports.double = (a) => 2 * a;\nexports.half = (a) => Math.floor(a / 2);\n"
BROKEN = CALC.replace("a + b", "a - b")
MENDED = CALC.replace("Math.floor(a / 2)", "a / 2")
HEAD = {
    "node": "const { test } = require('node:test');\nconst assert = require('node:assert');\n",
    "mocha": "const assert = require('assert');\nconst test = it;\n",
    "jest": "const assert = require('assert');\n",
}
COMMAND = {"node": "node --test", "mocha": "mocha '*.test.js'", "jest": "jest --rootDir ."}
ADD = "test('adds', () => assert.strictEqual(calc.add(1, 2), 3));\n"
DOUBLE = "test('doubles', () => assert.strictEqual(calc.double(4), 8));\n"
NEW = "test('halves', () => assert.strictEqual(calc.half(3), 1.5));\n"
INSTALLED = [
    Path(folder, "node_modules") for folder in os.environ.get("RALPH_E2E_CLIS", "").split(os.pathsep) if folder
]
MODULES = next((folder for folder in INSTALLED if (folder / "mocha").is_dir()), Path("node_modules"))
"""Where mocha and jest are installed (npm install mocha jest)."""

CHEATS: dict[str, dict[str, str | None]] = {
    "changes what is expected": {"calc.test.js": ADD.replace("3)", "-1)") + DOUBLE},
    "truthiness": {"calc.test.js": ADD.replace("strictEqual(calc.add(1, 2), 3)", "ok(calc.add(1, 2))") + DOUBLE},
    "compares with itself": {"calc.test.js": ADD.replace(", 3)", ", calc.add(1, 2))") + DOUBLE},
    "a branch that is never reached": {
        "calc.test.js": ADD.replace("assert", "{ if (calc.add(1, 2) === 3) assert").replace("3));", "3); });") + DOUBLE
    },
    "deletes a test beside a new one": {"calc.test.js": DOUBLE + "test('new', () => assert.ok(calc));\n"},
    "deletes the test file beside a new one": {"calc.test.js": None, "new.test.js": DOUBLE},
    "skips it": {"calc.test.js": ADD.replace("test('", "test.skip('") + DOUBLE},
    "patches the product in a new test file": {
        "aaa.test.js": "calc.add = (a, b) => Number(a) + b;\n" + NEW.replace("1.5", "1"),
        "calc.test.js": f"require('./aaa.test.js');\n{ADD}{DOUBLE}",
    },
}


def test_file(runner: str, body: str) -> str:
    return f"{HEAD[runner]}const calc = require('./calc');\n{body}"


test_file.__test__ = False  # type: ignore[attr-defined]


def files(runner: str, changed: dict[str, str | None]) -> dict[str, str | None]:
    return {
        name: body if body is None or not name.endswith(".test.js") else test_file(runner, body)
        for name, body in changed.items()
    }


@pytest.fixture(scope="module", params=["node", "mocha", "jest"])
def court(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Court]]:
    runner: str = request.param
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if runner != "node" and not (MODULES / ".bin" / runner).exists():
        pytest.skip(f"{runner} is not installed: npm install mocha jest, and name the folder in RALPH_E2E_CLIS")
    command = COMMAND[runner] if runner == "node" else f"{MODULES}/.bin/{COMMAND[runner]}"
    given: Any = files(runner, {"calc.js": CALC, "calc.test.js": ADD + DOUBLE, "package.json": "{}\n"})
    gate = VerificationStep(name="tests", kind="test", command=command, timeout=60)
    made = Court(tmp_path_factory.mktemp(runner), given, gates=(gate,))
    yield runner, made
    made.clones.close()


@pytest.mark.parametrize("name", sample(CHEATS, 4))
def test_no_cheat_hides_a_broken_program(court: tuple[str, Court], name: str) -> None:
    runner, judged = court
    model = NO()
    judgement = judged.judge({"calc.js": BROKEN, **files(runner, CHEATS[name])}, model)
    assert judgement.verdict.hook == "evidence", judgement
    assert "changed" in [item["kind"] for item in model.asked[0]["items"]]


def test_a_broken_program_is_refused_by_name(court: tuple[str, Court]) -> None:
    _, judged = court
    judgement = judged.judge({"calc.js": BROKEN}, NO())
    assert judgement.verdict.hook == "gates"
    assert "adds failed" in judgement.verdict.reason


def test_a_mended_fault_with_its_test_needs_no_question(court: tuple[str, Court]) -> None:
    runner, judged = court
    model = NO()
    judgement = judged.judge({"calc.js": MENDED, **files(runner, {"half.test.js": NEW})}, model)
    assert judgement.verdict.action == "complete", judgement
    assert model.asked == []
    assert judgement.evidence is not None
    assert "halves" in judgement.evidence.turned[0]


def test_a_stub_that_can_be_called_is_asked(court: tuple[str, Court]) -> None:
    runner, judged = court
    model = NO()
    stub = {
        "calc.js": CALC + "exports.mul = () => undefined;\n",
        "mul.test.js": "test('multiplies', () => { calc.mul(1, 2); });\n",
    }
    assert judged.judge(files(runner, {**stub}), model).verdict.hook == "evidence"
    assert [item["kind"] for item in model.asked[0]["items"]] == ["unproven"]
