"""Gates found in projects of many kinds, and the commands really run where their tools are here."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rulebook_ralph.config.detection import Discovery, discover, gates_or_found
from rulebook_ralph.config.layers import PROJECT_CONFIG, load_config
from rulebook_ralph.config.settings import Workspace
from tests.cases import each_of

UNITTEST_TEST = """import unittest
from pkg import one


class T(unittest.TestCase):
    def test_it(self):
        self.assertEqual(one(), 1)
"""


def write(root: Path, files: dict[str, str], search_path: str | None = None) -> Discovery:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return discover(root, search_path)


def commands(found: Discovery) -> dict[str, str]:
    return {step.name: step.command for step in found.steps}


def package(scripts: dict[str, str], **more: object) -> str:
    return json.dumps({"scripts": scripts, **more})


NODE = package({"test": "x"})


@each_of(
    ("files", "expected"),
    [
        ({}, {}),
        ({"README.md": "make test"}, {}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, {"test": "python3 -m pytest -q"}),
        ({"pytest.ini": ""}, {"test": "python3 -m pytest -q"}),
        ({"setup.cfg": "[tool:pytest]\naddopts = -q %(x)s\n"}, {"test": "python3 -m pytest -q"}),
        ({"requirements-dev.txt": "pytest>=8 # x\n", "tests/test_a.py": ""}, {"test": ".venv/bin/python -m pytest -q"}),
        ({"requirements-dev.txt": "pytest-cov\n", "tests/test_a.py": ""}, {}),
        ({"requirements.txt": "pytest\n"}, {}),
        ({"tests/unit/test_a.py": UNITTEST_TEST}, {}),  # unittest does not enter folders that are no packages
        (
            {
                "pyproject.toml": '[project]\nname="x"\n[project.optional-dependencies]\ndev=["pytest"]\n',
                "tests/unit/test_a.py": "",
            },
            {"test": ".venv/bin/python -m pytest -q"},
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ndev=["pytest"]\n', "test_a.py": "", "uv.lock": ""},
            {"test": "uv run pytest -q"},
        ),
        (
            {
                "pyproject.toml": '[tool.poetry.group.dev.dependencies]\npytest="^8"\n',
                "tests/test_a.py": "",
                "poetry.lock": "",
            },
            {"test": "poetry run pytest -q"},
        ),
        ({"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n"}, {"lint": "ruff check .", "typecheck": "mypy ."}),
        ({"ruff.toml": "", "justfile": "test:\n"}, {"lint": "ruff check ."}),
        (
            {"pyproject.toml": "[tool.ruff.lint]\n[tool.mypy]\nfiles=['a']\n", "uv.lock": '"ruff" "mypy"'},
            {"lint": "uv run ruff check .", "typecheck": "uv run mypy"},
        ),
        ({"mypy.ini": "[mypy]\n", "src/a/__init__.py": "", "b/__init__.py": ""}, {"typecheck": "mypy src"}),
        ({"mypy.ini": "[mypy]\n", "b/__init__.py": "", "tests/__init__.py": ""}, {"typecheck": "mypy b"}),
        ({"mypy.ini": "[mypy]\npackages = a\n", ".flake8": ""}, {"lint": "flake8", "typecheck": "mypy"}),
        ({"tox.ini": "[tox]\n[testenv]\n"}, {"test": "tox"}),
        ({"tox.ini": "[testenv]\n[pytest]\n"}, {"test": "python3 -m pytest -q"}),
        ({"noxfile.py": ""}, {"test": "nox"}),
        ({"package.json": package({"test": 'echo "Error: no test specified" && exit 1'})}, {}),
        (
            {"package.json": package({"test": "jest", "lint": "eslint .", "tsc": "tsc", "build": "x"})},
            {"test": "npm run test", "lint": "npm run lint", "typecheck": "npm run tsc", "build": "npm run build"},
        ),
        ({"package.json": package({"test": "vitest"})}, {"test": "npm run test -- --run"}),
        ({"package.json": package({"test": "tsc && vitest"}), "pnpm-lock.yaml": ""}, {"test": "pnpm run test --run"}),
        ({"package.json": package({"test": "vitest run"}), "yarn.lock": ""}, {"test": "yarn run test"}),
        ({"package.json": package({"test": "vitest --run && echo"}), "bun.lockb": ""}, {"test": "bun run test"}),
        ({"package.json": package({"test": "ng test"})}, {"test": "npm run test -- --watch=false"}),
        ({"package.json": package({"test": "npm run t -w a"}, packageManager="pnpm@9.1.0")}, {"test": "pnpm run test"}),
        ({"package.json": package({"test": "jest --watch", "test:ci": "jest"})}, {"test": "npm run test:ci"}),
        ({"package.json": package({"lint": "eslint --fix", "lint:check": "eslint"})}, {"lint": "npm run lint:check"}),
        ({"package.json": '{"scripts": {"test": 3, "lint": " ", "build": null}}'}, {}),
        ({"package.json": '{"scripts": ["test"]}'}, {}),
        ({"Cargo.toml": '[package]\nname="x"\n'}, {"test": "cargo test", "typecheck": "cargo check"}),
        (
            {"Cargo.toml": "[workspace]\n[workspace.lints.clippy]\nall='deny'\n"},
            {
                "test": "cargo test --workspace",
                "lint": "cargo clippy --workspace",
                "typecheck": "cargo check --workspace",
            },
        ),
        ({"go.mod": "module x\n"}, {"test": "go test ./...", "lint": "go vet ./..."}),
        ({"Makefile": ".PHONY: test lint build\ntest: unit\nunit:\n\ttrue\nbuild:\n"}, {"test": "make test"}),
        (
            {"Makefile": "check: ; true\nlint type-check::\n\ttrue\n"},
            {"test": "make check", "lint": "make lint", "typecheck": "make type-check"},
        ),
        ({"Makefile": "test := 1\nlint = 2\nbuild: CFLAGS = -g\nexport typecheck ?= 3\n# test:\n\ttrue\n"}, {}),
        ({"Makefile": "define x\ntest:\n\ttrue\nendef\nlint: a \\\n b\n"}, {"lint": "make lint"}),
        (
            {
                "justfile": (
                    "set shell := ['sh']\ntest *args: build\nlint path:\n  x\n@build:\n  x\ntypecheck mode='x':\n  x\n"
                )
            },
            {"test": "just test", "typecheck": "just typecheck", "build": "just build"},
        ),
        (
            {
                "pyproject.toml": "[tool.pytest]\n",
                "Makefile": "test:\n\ttrue\nlint:\n\ttrue\n",
                "justfile": "lint:\n  x\nbuild:\n  x\n",
            },
            {"test": "python3 -m pytest -q", "lint": "make lint", "build": "just build"},
        ),
        (
            {"pyproject.toml": "[tool.pytest]\n[tool.ruff]\n", "package.json": package({"test": "jest"})},
            {"test-python": "python3 -m pytest -q", "test-node": "npm run test", "lint": "ruff check ."},
        ),
    ],
)
def test_what_is_defined_is_found_and_nothing_else(
    tmp_path: Path, programs: str, files: dict[str, str], expected: dict[str, str]
) -> None:
    found = write(tmp_path, files, programs)
    assert commands(found) == expected
    assert list(commands(found)) == list(expected)
    assert found.problems == ()
    assert all(step.required and step.name.startswith(step.kind) for step in found.steps)


@each_of(
    ("files", "problem"),
    [
        ({"pyproject.toml": "[tool.pytest]\nx = \n"}, "pyproject.toml:2: cannot be read"),
        ({"setup.cfg": "pytest\n"}, "setup.cfg:1: cannot be read"),
        ({"package.json": '{\n "scripts": {"test": "jest",}\n}'}, "package.json:2: cannot be read"),
        ({"package.json": "[]"}, "package.json:1: must hold an object"),
        ({"package.json": "[" * 100_000}, "package.json: cannot be read"),
        ({"package.json": package({"test": "jest --watchAll"})}, 'package.json: the script "test" watches'),
        ({"package.json": package({"build": "tsc -w"})}, 'package.json: the script "build" watches'),
        ({"Cargo.toml": "[package\n"}, "Cargo.toml:1: cannot be read"),
        ({"go.mod": "go 1.22\n"}, "go.mod: names no module"),
        ({"Makefile": "test:\n\ttrue\n", "test/x": ""}, 'Makefile: the target "test" is not .PHONY'),
        ({"Makefile": "test:\n\t\0\n"}, "Makefile:2: holds a NUL"),
    ],
)
def test_a_broken_manifest_gives_a_problem_and_no_step(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    found = write(tmp_path, files)
    assert found.steps == ()
    assert [str(one)[: len(problem)] for one in found.problems] == [problem]


TOOLS = """[dependency-groups]
dev = ["pytest"]
[tool.pytest]
[tool.ruff]
[tool.mypy]
"""


@each_of(
    ("files", "expected", "link"),
    [
        ({}, {"test": "python3 -m pytest -q"}, ()),
        ({".venv/bin/python": ""}, {"test": ".venv/bin/python -m pytest -q"}, (".venv",)),
        ({"venv/bin/python": "", "uv.lock": ""}, {"test": "venv/bin/python -m pytest -q"}, ("venv",)),
        (
            {".venv/bin/python": "", ".venv/bin/pytest": "", ".venv/bin/ruff": ""},
            {"test": ".venv/bin/python -m pytest -q", "lint": ".venv/bin/python -m ruff check ."},
            (".venv",),
        ),
        ({"Makefile": "lint:\n\ttrue\n", "justfile": "build:\n  x\n"}, {"test": "python3 -m pytest -q"}, ()),
    ],
)
def test_what_is_not_installed_is_no_gate_but_the_tests(
    tmp_path: Path, files: dict[str, str], expected: dict[str, str], link: tuple[str, ...]
) -> None:
    configured = TOOLS.replace('dev = ["pytest"]', "")
    found = write(tmp_path, {"pyproject.toml": configured, "tox.ini": "[tox]\n", **files}, "/nowhere")
    assert (commands(found), found.workspace) == (expected, Workspace(link=link))


def test_without_uv_its_lock_file_is_no_reason_to_start_it(tmp_path: Path) -> None:
    files = {"pyproject.toml": TOOLS, "uv.lock": 'name = "mypy"\n'}
    found = write(tmp_path, files, "/nowhere")
    assert found.workspace.setup == "python3 -m venv .venv && .venv/bin/pip install -q pytest mypy"
    assert commands(found) == {"test": ".venv/bin/python -m pytest -q", "typecheck": ".venv/bin/python -m mypy ."}
    assert "uv is not on PATH" in found.notes[0]
    linked = write(tmp_path, {".venv/bin/python": "", ".venv/bin/mypy": ""}, "/nowhere")
    assert linked.workspace == Workspace(link=(".venv",))
    assert commands(linked) == commands(found)


def test_scripts_of_node_are_told_that_nobody_watches(tmp_path: Path) -> None:
    assert write(tmp_path, {"package.json": NODE}).steps[0].env == {"CI": "1"}


def run(root: Path, found: Discovery, kind: str) -> subprocess.CompletedProcess[str]:
    step = next(step for step in found.steps if step.kind == kind)
    environment = {**os.environ, **step.env, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        step.command, shell=True, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "files",
    [
        {"tests/__init__.py": "", "tests/test_a.py": UNITTEST_TEST, "pkg/__init__.py": "def one(): return 1\n"},
        {"test/test_a.py": UNITTEST_TEST, "src/pkg/__init__.py": "def one(): return 1\n"},
        {
            "tests/__init__.py": "",
            "tests/unit/__init__.py": "",
            "tests/unit/test_a.py": UNITTEST_TEST,
            "pkg.py": "def one(): return 1\n",
        },
    ],
)
def test_unittest_is_started_so_that_it_finds_the_tests(tmp_path: Path, files: dict[str, str]) -> None:
    found = write(tmp_path, files)
    good = run(tmp_path, found, "test")
    assert (good.returncode, "Ran 1 test" in good.stderr) == (0, True), good.stderr
    for file in tmp_path.rglob("pkg*"):
        broken = file / "__init__.py" if file.is_dir() else file
        broken.write_text("def one(): return 2\n")
    assert run(tmp_path, found, "test").returncode == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_targets_run_and_fail_as_their_recipes_do(tmp_path: Path) -> None:
    found = write(tmp_path, {"Makefile": "test:\n\t@echo ran\nlint:\n\tfalse\n"})
    assert run(tmp_path, found, "test").stdout == "ran\n"
    assert run(tmp_path, found, "lint").returncode != 0


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_hands_on_what_makes_a_script_end(tmp_path: Path) -> None:
    tool = {"node_modules/.bin/vitest": '#!/bin/sh\necho "CI=$CI args=$*"\n'}
    found = write(tmp_path, {"package.json": package({"test": "vitest"}, name="x"), **tool})
    (tmp_path / "node_modules/.bin/vitest").chmod(0o755)
    assert "CI=1 args=--run" in run(tmp_path, found, "test").stdout


PYTEST = '[project]\nname = "x"\nversion = "1"\n'
TESTED = f"{PYTEST}[tool.pytest]\n"


@each_of(
    ("files", "setup", "link"),
    [
        ({"Makefile": "test:\n\ttrue\n", ".venv/bin/python": ""}, "", (".venv",)),
        ({"pyproject.toml": TESTED}, "", ()),  # nothing is required
        ({"pyproject.toml": TESTED, "venv/bin/python": ""}, "", ("venv",)),
        (
            {"pyproject.toml": f'{PYTEST}dependencies = ["six"]\n[tool.pytest]\n'},
            "python3 -m venv .venv && .venv/bin/pip install -q -e . pytest",
            (),
        ),
        (
            {"pyproject.toml": f"{PYTEST}[tool.pytest]\n[tool.ruff]\n", "src/x/__init__.py": ""},
            "python3 -m venv .venv && .venv/bin/pip install -q -e . pytest",
            (),
        ),
        (
            {
                "pyproject.toml": f'{PYTEST}[project.optional-dependencies]\ntest = ["pytest"]\ndocs = ["sphinx"]\n',
                "test_x.py": "",
            },
            "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'",
            (),
        ),
        (
            {
                "pyproject.toml": (
                    '[dependency-groups]\ndev = [{include-group = "t"}, "ruff>=0.9,<1"]\nt = ["pytest>=8"]\n[tool.ruff]\n'
                ),
                "test_x.py": "",
            },
            "python3 -m venv .venv && .venv/bin/pip install -q 'ruff>=0.9,<1' 'pytest>=8'",
            (),
        ),
        (
            {"requirements.txt": "six\n", "requirements-docs.txt": "sphinx\n", "pytest.ini": ""},
            "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt pytest",
            (),
        ),
        ({"pyproject.toml": "[tool.pytest]\n", "uv.lock": ""}, "uv sync", ()),
        (
            {
                "pyproject.toml": f'{PYTEST}[project.optional-dependencies]\nall = ["pytest"]\n[tool.pytest]\n',
                "uv.lock": "",
            },
            "uv sync --extra all",
            (),
        ),
        (
            {"pyproject.toml": '[dependency-groups]\ndev=[]\ntests = ["pytest"]\n[tool.pytest]\n', "uv.lock": ""},
            "uv sync --group tests",
            (),
        ),
        (
            {"pyproject.toml": "[tool.pytest]\n", "poetry.lock": ""},
            "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install",
            (),
        ),
        ({"package.json": NODE, "package-lock.json": "{}"}, "npm ci", ()),
        ({"package.json": NODE, "pnpm-lock.yaml": "", "node_modules/a/b": ""}, "pnpm install --frozen-lockfile", ()),
        ({"package.json": NODE, "yarn.lock": ""}, "yarn install --frozen-lockfile", ()),
        ({"package.json": NODE, "yarn.lock": "", ".yarnrc.yml": ""}, "yarn install --immutable", ()),
        ({"package.json": package({"test": "x"}, dependencies={"a": "1"})}, "npm install --no-package-lock", ()),
        ({"package.json": NODE}, "", ()),
        (
            {"package.json": NODE, "package-lock.json": "{}", "uv.lock": "", "pyproject.toml": "[tool.ruff]"},
            "uv sync && npm ci",
            (),
        ),
        ({"composer.json": "{}", "vendor/x": "", "Cargo.toml": '[package]\nname="x"\n'}, "", ("vendor",)),
    ],
)
def test_what_a_clone_needs(
    tmp_path: Path, programs: str, files: dict[str, str], setup: str, link: tuple[str, ...]
) -> None:
    found = write(tmp_path, files, programs).workspace
    assert (found.setup, found.link) == (setup, link)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with every package manager."""
    folder = tmp_path_factory.mktemp("programs")
    managers, tools = ("uv", "poetry", "npm", "pnpm", "yarn"), ("ruff", "flake8", "mypy", "tox", "nox", "make", "just")
    for name in (*managers, *tools):
        (folder / name).touch(mode=0o755)
    return str(folder)


def test_without_its_package_manager_what_is_installed_is_linked(tmp_path: Path) -> None:
    files = {"package.json": NODE, "pnpm-lock.yaml": "", "node_modules/a/b": ""}
    found = write(tmp_path, files, "/nowhere")
    assert (found.workspace.setup, found.workspace.link) == ("", ("node_modules",))
    assert "pnpm is not on PATH" in found.notes[0]
    shutil.rmtree(tmp_path / "node_modules")
    assert "install it" in discover(tmp_path, "/nowhere").notes[0]


def test_what_git_holds_is_neither_copied_nor_linked(tmp_path: Path) -> None:
    write(tmp_path, {".env": "", ".env.test": "", ".venv/bin/python": "", "composer.json": "{}", "vendor/x": ""})
    found = discover(tmp_path, "/nowhere", lambda _: [".env.test", "vendor"]).workspace
    assert found == Workspace(copy=(".env",), link=(".venv",))


def test_a_run_without_gates_finds_those_that_init_would(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": "test:\n\ttrue\n", ".env": "", ".venv/bin/python": "", "node_modules/a": ""})

    def found(text: str) -> tuple[list[str], Workspace]:
        loaded = load_config(tmp_path, tmp_path, {}, instead={tmp_path / PROJECT_CONFIG: text.encode()})
        config, told = gates_or_found(loaded, tmp_path, lambda _: ["vendor"])
        assert (told is None) == (config.verification == loaded.config.verification)
        return [step.command for step in config.verification.steps], config.workspace

    assert found("rules: [a]\n") == (["make test"], Workspace(copy=(".env",), link=(".venv",)))
    assert found("workspace: {setup: x}\n") == (["make test"], Workspace(setup="x"))
    assert found("verification: {steps: []}\n") == ([], Workspace())
    assert found("verification: {enabled: false}\n") == ([], Workspace())
    assert found("verification: {steps: [{name: a, command: b}]}\n") == (["b"], Workspace())
    named = "verification: {steps: [{name: a, command: .venv/bin/pytest}, {name: b, command: CI=1 npx x}]}\n"
    assert found(named)[1] == Workspace(link=(".venv", "node_modules"))
    assert found(f"{named}workspace: {{setup: x}}\n")[1] == Workspace(setup="x")
