"""Changes to what defines the gates, as far as the gates go by it."""

import json

from rulebook_ralph.checks.integrity.gate_commands import read_gate
from rulebook_ralph.core.settings import VerificationStep
from tests.cases import each_of
from tests.integrity_case import PYTEST, SHELL, Files, step, told

PACKAGE = {
    "name": "x",
    "scripts": {"start": "vite", "test": "npm run unit", "unit": "vitest run", "lint": "eslint ."},
    "dependencies": {"a": "1"},
    "jest": {"bail": True},
}


def package(**changes: object) -> str:
    return json.dumps({**PACKAGE, **changes}, indent=2)


def scripts(**changes: str) -> str:
    return package(scripts={**PACKAGE["scripts"], **changes})  # type: ignore[dict-item]


PYPROJECT = """\
[project]
name = "x"
dependencies = ["a"]

[tool.pytest.ini_options]
testpaths = ["tests"]
markers = ["slow"]

[tool.ruff]
line-length = 100

[tool.black]
line-length = 100
"""
MAKE = """\
PYTHON = python3
FILES := a b
.PHONY: test lint clean

test: unit
\t$(MAKE) extra
unit:
\t$(PYTHON) -m pytest
extra:
\t./extra.sh
lint:
\truff check .
clean:
\trm -rf build
"""
SETUP_CFG = "[metadata]\nname = x\n\n[tool:pytest]\naddopts = -q\n\n[flake8]\nmax-line-length = 100\n"
CONFTEST = """\
import pytest


@pytest.fixture
def data():
    return 1


def pytest_collection_modifyitems(items):
    items.sort(key=str)
"""
NPM = step("npm run test")
MAKE_TEST = step("make test")


def one(path: str, old: str, new: str | None) -> tuple[Files, Files]:
    return {path: old, "app.py": ""}, {"app.py": "", **({} if new is None else {path: new})}


def added(path: str, text: str, **beside: str) -> tuple[Files, Files]:
    return {"app.py": "", **beside}, {"app.py": "", path: text, **beside}


OFFENCES: dict[str, tuple[tuple[Files, Files], VerificationStep, str]] = {
    "the script of a gate": (one("check.sh", "grep x\n", "true\n"), SHELL, "the gate 'tests' starts this script"),
    "the script of a gate deleted": (one("check.sh", "grep x\n", None), SHELL, "it was deleted"),
    "a script by its path": (one("scripts/test", "pytest\n", "true\n"), step("./scripts/test --all"), "starts this"),
    "a script in a folder": (
        one("sub/check.sh", "a\n", "b\n"),
        step("sh ./check.sh", working_dir="sub"),
        "starts this",
    ),
    "a script after cd": (one("sub/check.sh", "a\n", "b\n"), step("cd sub && bash -e check.sh"), "starts this"),
    "a Python script": (
        one("tools/check.py", "a\n", "b\n"),
        step("PYTHONPATH=. python3 tools/check.py"),
        "starts this",
    ),
    "a module": (one("tools/check.py", "a\n", "b\n"), step("python -m tools.check"), "starts this"),
    "a script in a shell in a shell": (one("a.sh", "a\n", "b\n"), step("sh -c 'set -e; ./a.sh'"), "starts this"),
    "pytest.ini": (one("pytest.ini", "[pytest]\n", "[pytest]\naddopts = -k one\n"), PYTEST, "goes by it"),
    "pytest.ini deleted": (one("pytest.ini", "[pytest]\n", None), PYTEST, "was deleted"),
    "pytest.ini beside": (added("pytest.ini", "[pytest]\naddopts = --co\n"), PYTEST, "which was green"),
    "pytest.ini where pytest looks": (added("tests/pytest.ini", "[pytest]\n"), step("pytest tests/unit"), "was green"),
    "pyproject of pytest": (
        one("pyproject.toml", PYPROJECT, PYPROJECT.replace('["tests"]', '["tests/unit"]')),
        PYTEST,
        "[tool.pytest] was changed",
    ),
    "a new section": (
        one("pyproject.toml", '[project]\nname = "x"\n', PYPROJECT),
        PYTEST,
        "pyproject.toml:5: [tool.pytest] was added",
    ),
    "a section removed": (one("pyproject.toml", PYPROJECT, '[project]\nname = "x"\n'), PYTEST, "was removed"),
    "setup.cfg": (one("setup.cfg", SETUP_CFG, SETUP_CFG.replace("-q", "-q -x")), PYTEST, "[tool:pytest]"),
    "ruff": (
        one("pyproject.toml", PYPROJECT, PYPROJECT.replace("[tool.ruff]", '[tool.ruff]\nexclude = ["src"]')),
        step("ruff check .", "lint"),
        "[tool.ruff]",
    ),
    "ruff below": (
        ({"src/a.py": "a"}, {"src/a.py": "b", "src/ruff.toml": "exclude = ['*']"}),
        step("ruff check .", "lint"),
        "ruff",
    ),
    "coverage": (one(".coveragerc", "[report]\nfail_under = 90\n", "[report]\nfail_under = 1\n"), PYTEST, "coverage"),
    "tox.ini": (
        one("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = true\n"),
        step("tox"),
        "[testenv]",
    ),
    "noxfile": (one("noxfile.py", "a", "b"), step("nox -s tests"), "nox"),
    "mypy.ini": (one("mypy.ini", "[mypy]\nstrict = True\n", "[mypy]\n"), step("mypy .", "typecheck"), "mypy"),
    "tsconfig": (one("tsconfig.json", '{"strict": true}', "{}"), step("npx tsc --noEmit", "typecheck"), "TypeScript"),
    "eslint": (one("eslint.config.js", "a", "b"), step("npx eslint .", "lint"), "eslint"),
    "anything, where a runner may run it": (one("jest.config.js", "a", "b"), MAKE_TEST, "jest"),
    "a script of package.json": (one("package.json", package(), scripts(test="true")), NPM, 'the script "test"'),
    "a script that a script runs": (one("package.json", package(), scripts(unit="true")), NPM, 'the script "unit"'),
    "a script removed": (one("package.json", package(), package(scripts={})), NPM, 'the script "test"'),
    "a script before": (one("package.json", package(), scripts(pretest="rm -r tests")), NPM, '"pretest"'),
    "a script after": (one("package.json", package(), scripts(postunit="true")), NPM, '"postunit"'),
    "npm test": (one("package.json", package(), scripts(test="true")), step("npm test -- --ci"), '"test"'),
    "yarn": (one("package.json", package(), scripts(lint="true")), step("yarn lint", "lint"), '"lint"'),
    "jest in package.json": (one("package.json", package(), package(jest={})), step("npx jest"), '"jest"'),
    "a script that make may run": (one("package.json", package(), scripts(lint="true")), MAKE_TEST, '"lint"'),
    "a target": (one("Makefile", MAKE, MAKE.replace("pytest", "pytest -k a")), MAKE_TEST, "the target `unit`"),
    "a target that is called": (one("Makefile", MAKE, MAKE.replace("./extra.sh", "true")), MAKE_TEST, "`extra`"),
    "a target removed": (one("Makefile", MAKE, MAKE.replace("test: unit", "test:")), MAKE_TEST, "`test`"),
    "a variable": (one("Makefile", MAKE, MAKE.replace("python3", "true")), MAKE_TEST, "the variable `PYTHON`"),
    "the shell": (one("Makefile", MAKE, "SHELL = /bin/true\n" + MAKE), MAKE_TEST, "`SHELL`"),
    "errors ignored": (one("Makefile", MAKE, MAKE + ".IGNORE:\n"), MAKE_TEST, "all targets"),
    "a target again": (one("Makefile", MAKE, MAKE + "unit:\n\ttrue\n"), MAKE_TEST, "`unit`"),
    "another makefile": (added("GNUmakefile", "test:\n\ttrue\n", Makefile=MAKE), MAKE_TEST, "would go by it"),
    "the Makefile deleted": (one("Makefile", MAKE, None), MAKE_TEST, "deleted"),
    "the first target": (one("Makefile", MAKE, MAKE.replace("pytest", "true")), step("make"), "`unit`"),
    "a recipe of just": (one("justfile", "test:\n    pytest\n", "test:\n    true\n"), step("just test"), "`test`"),
    "CI": (one(".github/workflows/ci.yml", "a", "b"), PYTEST, "CI configuration was changed"),
    "CI deleted": (one(".gitlab-ci.yml", "a", None), PYTEST, "CI configuration was deleted"),
    "commit hooks": (one(".pre-commit-config.yaml", "a", "b"), PYTEST, "commit hooks"),
    "a hook of conftest": (
        added("tests/conftest.py", "def pytest_collection_modifyitems(items):\n    items.clear()\n"),
        PYTEST,
        "`pytest_collection_modifyitems` was added",
    ),
    "a hook changed": (
        one("conftest.py", CONFTEST, CONFTEST.replace(".sort(key=str)", ".clear()")),
        PYTEST,
        "was changed",
    ),
    "a hook wrapper": (
        one("conftest.py", CONFTEST, CONFTEST + "\n\ndef pytest_runtest_makereport(item):\n    pass\n"),
        PYTEST,
        "pytest_runtest_makereport",
    ),
    "collect_ignore": (one("conftest.py", CONFTEST, CONFTEST + "\ncollect_ignore = ['a']\n"), PYTEST, "collect_ignore"),
    "a fixture that skips": (
        one("conftest.py", CONFTEST, CONFTEST.replace("return 1", "pytest.skip('x')")),
        PYTEST,
        "skips tests",
    ),
    "a new conftest that skips": (
        added("tests/conftest.py", CONFTEST.replace("return 1", "pytest.skip('x')")),
        PYTEST,
        "skips tests",
    ),
    "sitecustomize": (added("sitecustomize.py", "import os\n"), PYTEST, "whenever it starts"),
    "a module instead of pytest": (added("pytest.py", "exit(0)\n"), PYTEST, "instead of pytest"),
    "a package instead of pytest": (added("pytest/__init__.py", "exit(0)\n"), PYTEST, "instead of pytest"),
    "ini of npm": (added(".npmrc", "script-shell=/bin/true\n"), NPM, "how scripts are run"),
    "surefire": (
        one("pom.xml", "<a/>\n", "<a/>\n<testFailureIgnore>true</testFailureIgnore>\n"),
        step("mvn -q test"),
        "what it says of tests",
    ),
}


@each_of("name", OFFENCES)
def test_what_defines_a_gate_may_not_be_changed(name: str) -> None:
    (before, after), gate, words = OFFENCES[name]
    found = told(before, after, steps=[gate])
    assert found, name
    assert any(words in one for one in found), found


@each_of("name", OFFENCES)
def test_unless_the_file_is_named_or_allowed(name: str) -> None:
    (before, after), gate, _ = OFFENCES[name]
    paths = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert told(before, after, steps=[gate], description=f"Change {', '.join(paths)}.") == []
    assert told(before, after, steps=[gate], allow=tuple(f"/{path}" for path in paths)) == []


FINE: dict[str, tuple[tuple[Files, Files], VerificationStep]] = {
    "a dependency": (one("pyproject.toml", PYPROJECT, PYPROJECT.replace('["a"]', '["a", "b"]')), PYTEST),
    "a group of dependencies": (
        one("pyproject.toml", PYPROJECT, PYPROJECT + '\n[dependency-groups]\ndev = ["pytest-xdist"]\n'),
        PYTEST,
    ),
    "a marker": (one("pyproject.toml", PYPROJECT, PYPROJECT.replace('["slow"]', '["slow", "net"]')), PYTEST),
    "a section that no gate reads": (
        one(
            "pyproject.toml",
            PYPROJECT,
            PYPROJECT.replace("[tool.black]\nline-length = 100", "[tool.black]\nline-length = 9"),
        ),
        PYTEST,
    ),
    "another order and form": (
        one(
            "pyproject.toml",
            PYPROJECT,
            PYPROJECT.replace('testpaths = ["tests"]', 'testpaths = [\n  "tests",  # all\n]'),
        ),
        PYTEST,
    ),
    "a dependency of node": (one("package.json", package(), package(devDependencies={"b": "2"})), NPM),
    "a new script": (one("package.json", package(), scripts(deploy="rsync", coverage="c8 vitest")), NPM),
    "a script no gate uses": (one("package.json", package(), scripts(start="vite --host")), NPM),
    "a script before another one": (one("package.json", package(), scripts(prestart="x")), NPM),
    "a new target": (one("Makefile", MAKE, MAKE + "docs:\n\tmkdocs build\n"), MAKE_TEST),
    "a target no gate uses": (one("Makefile", MAKE, MAKE.replace("rm -rf build", "rm -rf build dist")), MAKE_TEST),
    "a variable no gate uses": (one("Makefile", MAKE, MAKE.replace("FILES := a b", "FILES := a b c")), MAKE_TEST),
    "a comment in a Makefile": (one("Makefile", MAKE, "# All of it.\n" + MAKE), MAKE_TEST),
    "tsconfig in a project of pytest": (one("tsconfig.json", "{}", '{"strict": false}'), PYTEST),
    "a new tsconfig": (added("tsconfig.json", "{}"), PYTEST),
    "a package of its own": (added("packages/new/jest.config.js", "x"), NPM),
    "configuration of a linter that is no gate": (added("ruff.toml", "line-length = 100\n"), PYTEST),
    "a new Makefile": (added("Makefile", MAKE), PYTEST),
    "a new package.json": (added("package.json", package()), PYTEST),
    "a new workflow": (added(".github/workflows/release.yml", "x"), PYTEST),
    "a fixture": (one("conftest.py", CONFTEST, CONFTEST + "\n\n@pytest.fixture\ndef more():\n    return 2\n"), PYTEST),
    "a new conftest": (
        added("tests/unit/conftest.py", "import pytest\n\n\n@pytest.fixture\ndef more():\n    return 2\n"),
        PYTEST,
    ),
    "new tests with a conftest of theirs": (
        (
            {},
            {
                "tests/e2e/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef cli():\n    pytest.skip('not installed')\n",
                "tests/e2e/test_cli.py": "def test_cli(cli):\n    assert cli()\n",
            },
        ),
        PYTEST,
    ),
    "markers in conftest": (
        one(
            "conftest.py",
            CONFTEST,
            CONFTEST + "\n\ndef pytest_configure(config):\n    config.addinivalue_line('markers', 'slow')\n",
        ),
        PYTEST,
    ),
    "a formatted hook": (
        one(
            "conftest.py",
            CONFTEST,
            CONFTEST.replace("    items.sort(key=str)", "    # by name\n    items.sort(key=str)"),
        ),
        PYTEST,
    ),
    "another script": (one("scripts/deploy.sh", "a\n", "b\n"), SHELL),
    "what a gate searches": (one("app.txt", "a\n", "sound\n"), step("grep -q sound app.txt")),
    "tests that a gate names": (
        one("tests/test_a.py", "def test_a():\n    assert f()\n", "def test_a():\n    assert f(1)\n"),
        step("pytest tests/test_a.py"),
    ),
    "a test that is its own gate": (
        one(
            "test/app.test.js",
            "test('f', () => {\n  assert(f())\n})\n",
            "test('f', () => {\n  assert(f(1))\n})\n",
        ),
        step("node test/app.test.js"),
    ),
    "suppressions": (one("src/a.py", "x = 1\n", "x = 1  # noqa: F401\n# type: ignore\n"), step("ruff check .", "lint")),
    "a changelog": (one("CHANGELOG.md", "# 1\n", "# 2\n"), MAKE_TEST),
    "a dependency of gradle": (
        one("build.gradle", "a {}\n", "a {}\n    testImplementation 'junit:junit:4'\n"),
        step("./gradlew test"),
    ),
    "a dependency of cargo": (one("Cargo.toml", "[dependencies]\n", '[dependencies]\na = "1"\n'), step("cargo test")),
    "no gates at all": (one("pytest.ini", "a", "b"), step("true")),
}


@each_of("name", FINE)
def test_what_no_gate_goes_by_is_free(name: str) -> None:
    (before, after), gate = FINE[name]
    assert told(before, after, steps=[gate]) == []


def test_a_new_file_for_a_gate_that_was_red_is_the_work_itself() -> None:
    before, after = added("pytest.ini", "[pytest]\ntestpaths = tests\n")
    assert told(before, after, steps=[PYTEST])
    assert told(before, after, steps=[PYTEST], red=frozenset(("tests",))) == []


def test_broken_files_raise_nothing() -> None:
    for path in ("pyproject.toml", "package.json", "setup.cfg", "Cargo.toml", "Makefile", "tox.ini", "conftest.py"):
        for text in ("[[[", "{", "\0", "a = = b", "[tool]\nx=1", '{"scripts": []}', "[]", "[x]\n[x]\n", "=" * 50):
            told({path: text}, {path: "{]" + text}, steps=[step("make && sh 'x")])
            told({path: text}, {}, steps=[PYTEST, MAKE_TEST])
            told({}, {path: text}, steps=[PYTEST, MAKE_TEST, NPM])


COMMANDS = {
    "uv run pytest -q": ({"pytest"}, False, set()),
    ".venv/bin/python -m pytest -q tests": ({"pytest"}, False, {".venv/bin/python"}),
    "poetry run ruff check . && poetry run mypy": ({"ruff", "mypy"}, False, set()),
    "CI=1 npx vitest --run": ({"vitest"}, False, set()),
    "timeout 60 env A=1 bundle exec rspec": ({"rspec"}, False, set()),
    "coverage run -m pytest; coverage report": ({"coverage", "pytest"}, False, set()),
    "go test ./... && go vet ./...": ({"go"}, False, set()),
    "test -f a && ! grep -q b c | wc -l": (set(), False, set()),
    "tox -e py": (set(), True, set()),
    "mytool check": (set(), True, set()),
    "bash -euo pipefail ci/run.sh x": (set(), True, {"ci/run.sh"}),
    "if ./a.sh; then b/c; fi": (set(), True, {"a.sh", "b/c"}),
    "": (set(), False, set()),
}


@each_of("command", COMMANDS)
def test_what_a_command_runs(command: str) -> None:
    gate = read_gate(VerificationStep(name="x", command=command))
    assert (gate.tools, gate.opaque, gate.paths) == COMMANDS[command]


def test_settings_of_prove_bats_and_shellspec_are_gates_too() -> None:
    for name, command in ((".proverc", "prove -r t"), (".batsrc", "bats tests"), (".shellspec", "shellspec")):
        assert told({}, {name: "--exec true\n"}, steps=[step(command)]), name
        assert told({name: "-v\n"}, {name: "--exec true\n"}, steps=[step(command)]), name
        assert told({name: "-v\n"}, {name: "--exec true\n"}, steps=[PYTEST]) == [], name
