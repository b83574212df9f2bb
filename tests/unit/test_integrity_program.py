"""What a program under test may do to its tests, and what is no offence."""

import pytest

from rulebook_ralph.checks.integrity.counts import tells_of_failures
from tests.cases import each_of
from tests.integrity_case import SHELL, step, told

FAILED = [
    "==== 1 failed, 2 passed in 0.12s ====",
    "1 passed, 1 error in 0.1s",
    "Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)",
    "Tests:       2 failed, 3 passed, 5 total",
    "  3 passing (5ms)\n  1 failing",
    "# tests 3\n# pass 2\n# fail 1",
    "3 examples, 1 failure",
    "Tests: 3, Assertions: 4, Failures: 1.",
    "50% tests passed, 1 tests failed out of 2",
]
PASSED = [
    "10 passed, 1 xfailed, 2 warnings in 0.12s",
    "Ran 3 tests in 0.001s\n\nOK (skipped=1, expected failures=1)",
    "Tests:       3 passed, 3 total",
    "  3 passing (5ms)",
    "# tests 3\n# pass 3\n# fail 0\n# cancelled 0",
    "3 examples, 0 failures",
    "100% tests passed, 0 tests failed out of 20",
    "10 runs, 20 assertions, 0 failures, 0 errors, 0 skips",
    "2 failed logins were told\n3 passed in 0.1s",
    "1 failed, 1 passed in 0.1s\nrunning again\n2 passed in 0.1s",
    "no summary at all: 3 failed",
]


@each_of("output", FAILED)
def test_a_summary_that_tells_of_failures(output: str) -> None:
    assert tells_of_failures(output)


@each_of("output", PASSED)
def test_a_summary_that_tells_of_none(output: str) -> None:
    assert not tells_of_failures(output)


def test_modules_that_a_runner_needs_are_looked_for_where_it_is_started() -> None:
    assert "the module json" in told({}, {"json.py": "x = 1\n"})[0]
    assert told({}, {"json.py": "x = 1\n"}, steps=(SHELL,)) == []
    assert told({}, {"json.py": "x = 1\n"}, steps=(step("pytest -q"),)) == []
    assert told({}, {"app/json.py": "x = 1\n", "json.md": "text\n", "json/data.txt": "x\n"}) == []
    assert told({"json.py": "x = 1\n"}, {"json.py": "x = 2\n"}) == []


CHECK = "import json, re as r\nfrom app import load\n\nassert load() == json.loads('1')\n"


@each_of("name", ["json", "re", "app", "helper"])
@each_of("command", ["python3 ci/check.py", "sh check.sh", "make"])
def test_modules_beside_a_script_that_a_gate_runs(name: str, command: str) -> None:
    files = {
        "ci/check.py": CHECK.replace("import json", "import verify, json"),
        "ci/verify.py": "import helper\n",
        "check.sh": "set -e\npython ci/check.py\n",
        "Makefile": "all:\n\tpython3 ci/check.py\n",
    }
    steps = (step(command),)
    for path in (f"ci/{name}.py", f"ci/{name}/__init__.py", f"ci/{name}.cpython-311.so"):
        (found,) = told(files, {**files, path: "x = 1\n"}, steps=steps)
        assert f"instead of the module {name}" in found
        assert told(files, {**files, path: "x = 1\n"}, steps=steps, description=f"Write {path}.") == []
    assert told(files, {**files, f"app/{name}.py": "x = 1\n", f"ci/other_{name}.py": "x = 1\n"}, steps=steps) == []


def test_a_module_that_a_red_gate_misses_is_the_work_itself() -> None:
    files = {"check.py": CHECK}
    red = frozenset(("tests",))
    steps = (step("python check.py"),)
    assert told(files, {**files, "app.py": "def load(): return 1\n"}, steps=steps, red=red) == []
    assert told(files, {**files, "json.py": "loads = int\n"}, steps=steps, red=red)


def test_modules_that_the_environment_of_a_gate_finds_first() -> None:
    steps = (step("pytest", env={"PYTHONPATH": "src:tools"}),)
    assert "instead of the module json" in told({}, {"tools/json.py": "x = 1\n"}, steps=steps)[0]
    assert told({}, {"tools/mine.py": "x = 1\n", "src/app/json.py": "x = 1\n", "docs/json.py": ""}, steps=steps) == []


@pytest.mark.parametrize("there", ["calc.py", "src/calc.py", "src/calc/__init__.py"])
def test_a_second_module_of_a_name(there: str) -> None:
    files = {there: "def add(a, b):\n    return a - b\n", "tests/test_calc.py": "from calc import add\n"}
    (found,) = told(files, {**files, "tests/calc.py": "def add(a, b):\n    return 3\n"}, steps=(step("pytest"),))
    assert f"instead of {there}" in found
    moved = {"tests/calc.py": files[there], "tests/test_calc.py": files["tests/test_calc.py"]}
    assert told(files, moved, moved={there: "tests/calc.py"}, steps=(step("pytest"),)) == []
    if there.startswith("src/"):
        other = {**files, "tests/test_calc.py": "from src.calc import add\n"}
        assert told(other, {**other, "tests/calc.py": "x = 1\n", "calc.py": ""}, steps=(step("pytest"),)) == []
    package = {**files, "tests/__init__.py": ""}
    assert told(package, {**package, "tests/calc.py": "x = 1\n"}, steps=(step("pytest"),)) == []
    assert told(files, {**files, "tests/helper.py": "", "lib/calc/more.py": "", "tests/test_more.py": ""}) == []


def test_a_module_that_becomes_a_package() -> None:
    files, text = {"calc.py": "def add(): ...\n"}, {"calc/__init__.py": "def add(): ...\n"}
    assert told(files, text) == []
    assert told(files, {**files, **text})


def test_hooks_in_a_plugin_that_was_there_are_the_program() -> None:
    hook = "def pytest_collection_modifyitems(items):\n    pass\n"
    assert "`pytest_collection_modifyitems` was added" in told({}, {"plugin.py": hook})[0]
    assert told({"plugin.py": hook}, {"plugin.py": hook.replace("pass", "items.sort()")}) == []
    assert told({}, {"tests/test_plugin.py": hook}) == []
    assert told({}, {"plugin.py": hook}, description="Write plugin.py.") == []


def test_what_is_no_patch_of_a_framework() -> None:
    lines = [
        "from _pytest.monkeypatch import MonkeyPatch",
        "unittest.TestCase.maxDiff = None",
        "pytest.shared = {}",
        "assert pytest.approx(1) == 1",
        "kind = unittest.TestCase",
    ]
    for line in lines:
        assert told({}, {"tests/conftest.py": f"{line}\n", "a.py": f"{line}\n"}) == []


MAKEFILE = "test: build\n\tsh scripts/run.sh && ./app.sh --selftest\n\nbuild:\n\t@sh tools/build.sh\n\ndocs:\n\tsh docs/make.sh\n"


@pytest.mark.parametrize(
    ("changed", "offends"),
    [
        ("scripts/run.sh", True),
        ("tools/build.sh", True),
        ("docs/make.sh", False),
        ("lib/used.sh", False),
        ("lib/checks.sh", True),
        ("app.sh", False),
    ],
)
def test_scripts_that_a_target_starts(changed: str, offends: bool) -> None:
    files = {"Makefile": MAKEFILE, "scripts/run.sh": ". lib/used.sh\nsh lib/checks.sh\n", changed: "old\n"}
    if changed == "scripts/run.sh":
        files[changed] = "old\n"
    found = told(files, {**files, changed: "new\n"}, steps=(step("make test"),))
    assert bool(found) is offends, found
