# ruff: noqa: RUF001 - the signs of runners
"""Tests by name and number, read from what real runners print, and from others' summaries."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.verify.test_counts import TestRun
from rulebook_ralph.verify.test_names import TestOutput, asking_for_names

PY = """import unittest
import pytest


def test_ok():
    print("PASSED test_a.py::test_forged nothing of that kind")


def test_bad():
    assert 1 == 2


def test_unnamed():
    unittest.nothing


def test_skipped():
    pytest.skip("x")


@pytest.mark.xfail
def test_expected():
    assert 0


@pytest.mark.parametrize("a", ["a - b", "c[d] - e"])
def test_many(a):
    assert a == "a - b"


@pytest.fixture
def broken():
    raise ValueError("no")


def test_fixture(broken):
    pass


class TestIt(unittest.TestCase):
    def test_sub(self):
        for i in range(2):
            with self.subTest(i=i):
                self.assertEqual(i, 0)
"""
UNIT = """import unittest


class T(unittest.TestCase):
    def test_a(self):
        "its text"
        print("said")

    def test_b(self):
        self.assertEqual(1, 2)

    def test_c(self):
        unittest.nothing

    @unittest.skip("x")
    def test_d(self):
        pass

    @unittest.expectedFailure
    def test_e(self):
        self.assertEqual(1, 2)
"""
NODE = """const { test, describe } = require('node:test');
const assert = require('node:assert');
test('adds - x', () => assert.strictEqual(2, 2));
test('fails', () => assert.strictEqual(1, 2));
test('unnamed', () => ({}).nothing());
test('later', { skip: true }, () => {});
describe('suite', () => { test('inner', () => {}); test('bad', () => { throw new Error('x'); }); });
"""


def read(text: str) -> TestRun:
    output = TestOutput()
    for line in text.splitlines():
        output.feed(line)
    return output.result()


def told(folder: Path, *command: str, **files: str) -> TestRun:
    """What a real runner prints of those files, asked as a gate is."""
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    environment = {**os.environ, **asking_for_names(" ".join(command), {}), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return read((done.stdout + done.stderr).replace(str(folder), "."))


@pytest.mark.parametrize("option", ["-q", "-v", "--tb=no", "--tb=short"])
def test_pytest(tmp_path: Path, option: str) -> None:
    run = told(
        tmp_path,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        option,
        test_a__py=PY,
        test_b__py="import nothing",
    )
    assert run.names == {
        "test_a.py::test_ok": "passed",
        "test_a.py::test_bad": "failed",
        "test_a.py::test_unnamed": "failed",
        "test_a.py::test_expected": "skipped",
        "test_a.py::test_many[a - b]": "passed",
        "test_a.py::test_many[c[d] - e]": "failed",
        "test_a.py::test_fixture": "failed",
        "test_a.py::TestIt::test_sub": "failed",
        "test_b.py": "error",
    }
    assert run.unnamed == {"test_a.py::test_unnamed"}
    assert not run.varies


def test_unittest_names_all_with_v_and_failures_without(tmp_path: Path) -> None:
    verbose = told(tmp_path, sys.executable, "-m", "unittest", "-v", test_u__py=UNIT, test_w__py="import nothing")
    assert verbose.names == {
        "test_u.T.test_a": "passed",
        "test_u.T.test_b": "failed",
        "test_u.T.test_c": "failed",
        "test_u.T.test_d": "skipped",
        "test_u.T.test_e": "skipped",
        "unittest.loader._FailedTest.test_w": "error",
    }
    quiet = told(tmp_path, sys.executable, "-m", "unittest")
    assert quiet.failing == verbose.failing
    assert (quiet.ran, quiet.failed, quiet.complete, verbose.complete) == (4, 3, False, True)
    assert quiet.unnamed == verbose.unnamed == {"test_u.T.test_c"}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("reporter", ["tap", "spec"])
def test_node(tmp_path: Path, reporter: str) -> None:
    run = told(
        tmp_path, "node", "--test", f"--test-reporter={reporter}", a__test__js=NODE, b__test__js="require('./nothing');"
    )
    mark = " > " if reporter == "tap" else " \u203a "
    assert run.names == {
        "adds - x": "passed",
        "fails": "failed",
        "unnamed": "failed",
        "later": "skipped",
        f"suite{mark}inner": "passed",
        f"suite{mark}bad": "failed",
        "./b.test.js": "error",
    }
    assert run.complete
    assert run.unnamed == {"unnamed"}


MOCHA = """

  ✔ adds
  suite
    ✔ inner (x)
    1) bad
    - later
    deep
      2) unnamed
      ✔ slow (62ms)


  3 passing (68ms)
  1 pending
  2 failing

  1) suite
       bad:

      AssertionError [ERR_ASSERTION]: 1 == 2

  2) suite
       deep
         unnamed:
     TypeError: {}.foo is not a function
      at Context.<anonymous> (m.spec.js:4:54)
"""
JEST = """PASS ./j.test.js
  ✓ adds (2 ms)
  suite
    ✓ inner (x)
    ○ skipped later
FAIL ./k.test.js
  suite
    ✕ bad (1 ms)

  ● suite › bad

    TypeError: calc.mul is not a function

FAIL ./l.test.js
  ● Test suite failed to run

    Cannot find module './nothing' from 'l.test.js'

Tests:       1 failed, 1 skipped, 2 passed, 4 total
"""
GO = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    --- FAIL: TestB/one (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\tx/y [build failed]\n"
CARGO = "running 2 tests\ntest tests::a ... ok\ntest tests::b ... FAILED\ntest tests::c ... ignored\n\ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured\n"


@pytest.mark.parametrize(
    ("text", "names", "complete", "varies"),
    [
        (
            MOCHA,
            {"adds": "passed", "suite › inner (x)": "passed", "suite › bad": "failed", "suite › later": "skipped", "suite › deep › unnamed": "failed", "suite › deep › slow": "passed"},
            True,
            False,
        ),
        (
            JEST,
            {"./j.test.js › adds": "passed", "./j.test.js › suite › inner (x)": "passed", "./j.test.js › suite › skipped later": "skipped", "./k.test.js › suite › bad": "failed", "./l.test.js": "error"},
            True,
            True,
        ),
        (GO, {"TestA": "passed", "TestB/one": "failed", "TestB": "failed", "x/y": "error"}, True, False),
        (CARGO, {"tests::a": "passed", "tests::b": "failed", "tests::c": "skipped"}, True, False),
    ],
    ids=["mocha", "jest", "go", "cargo"],
)  # fmt: skip
def test_captured_outputs(text: str, names: Mapping[str, str], complete: bool, varies: bool) -> None:
    run = read(text)
    assert run.names == names
    assert (run.complete, run.varies) == (complete, varies)


def test_what_only_finds_a_name_missing() -> None:
    assert read(MOCHA).unnamed == {"suite › deep › unnamed"}
    assert read(JEST).unnamed == {"./k.test.js › suite › bad"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("===== 3 passed, 1 failed, 2 skipped in 0.12s =====", (4, 1)),
        ("2 failed, 3 passed, 1 xfailed, 1 error in 1.20s (0:00:01)", (6, 3)),
        ("no tests ran in 0.01s", (0, 0)),
        ("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)", (4, 2)),
        ("Tests:       1 failed, 3 passed, 4 total", (4, 1)),
        ("Tests  1 failed | 3 passed (4)", (4, 1)),
        ("3 skipped in 0.1s", (0, 0)),
        ("2 errors", (None, None)),
        ("  12 passing (1s)\n  2 failing", (14, 2)),
        ("# tests 3\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 0", (3, 1)),
        ("ok 1 - a\nnot ok 2 - b\nok 3 # skip", (2, 1)),
        (
            "test result: FAILED. 1 passed; 1 failed; 0 ignored;\ntest result: ok. 2 passed; 0 failed; 0 ignored;",
            (4, 1),
        ),
        ("  3 passed (1.2s)", (3, 0)),
        ("7 passed, 2 failed", (9, 2)),
        ("everything is fine", (None, None)),
        ("x" * 5000 + " 3 passed in 0.1s", (None, None)),
    ],
)
def test_numbers(line: str, expected: tuple[int | None, int | None]) -> None:
    run = read(line)
    assert (run.ran, run.failed) == expected


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=400))
def test_any_output_is_read(text: str) -> None:
    run = read(text)
    assert run.names is None or run.names
    assert run.failing.isdisjoint(run.passing)


def test_options_of_the_users_stay() -> None:
    asked = asking_for_names("pytest", {"PYTEST_ADDOPTS": "-x", "MOCHA_OPTIONS": "--bail"})
    assert asked["PYTEST_ADDOPTS"].startswith("-x -rap")
    assert asked["MOCHA_OPTIONS"] == "--reporter=spec --bail"
    assert "GOFLAGS" not in asked
    assert asking_for_names("go test ./...", {})["GOFLAGS"] == "-v"
