"""Which files are check files, and which tables of manifests."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.verify.check_files import (
    CheckFiles,
    GateText,
    changed_checks,
    check_files,
    programs_of,
    with_checks,
)
from rulebook_ralph.verify.check_tables import NpmScripts, Tables
from tests.unit.git.project import Project

FILES = {
    "check.sh": "grep x app.txt && sh part.sh\n",
    "part.sh": "./ci/inner.sh\n",
    "ci/inner.sh": "true\n",
    "ci/sources.sh": '. "$(dirname "$0")/lib.sh"\nHERE="$(cd "$(dirname "$0")" && pwd)"\n. "$(cd "$(dirname "$0")" && pwd)/more.sh"\n',
    "ci/lib.sh": "",
    "ci/more.sh": "",
    "rules.inc": "",
    "package.json": json.dumps(
        {"scripts": {"test": "npm run unit && eslint .", "unit": "mocha", "start": "node run.js"}}
    ),
    "run.js": "",
    "Makefile": "include rules.inc\nlint:\n\tpython tools/lint.py\n",
    "tools/lint.py": "import sys\nfrom rules import all_of_them\n",
    "tools/rules.py": "",
    "main.py": "",
    "app.txt": "x",
}


def files(*commands: str, more: tuple[str, ...] = (), is_test: bool = True) -> CheckFiles:
    return check_files(
        [GateText(f"g{n}", command, is_test=is_test) for n, command in enumerate(commands)], FILES.get, more=more
    )


@pytest.mark.parametrize(
    "path",
    ["tests/a.py", "pkg/tests/data/x.json", "test_a.py", "a_test.go", "src/a.test.ts", "conftest.py", "a.snap", "pytest.ini", "__tests__/a.js", "golden/x", "jest.config.js", "sitecustomize.py", "tox.ini", "spec/a_spec.rb", "testdata/x", "specs/a.ts"],
)  # fmt: skip
def test_tests_and_their_configuration_always(path: str) -> None:
    assert files().is_check(path)


@pytest.mark.parametrize(
    "path",
    ["src/app.py", "contest.py", "latest/a.py", "README.md", ".github/workflows/ci.yml", ".pre-commit-config.yaml", ".coveragerc", "ruff.toml", "Makefile", "check.sh", "src/generated/api.py", "src/testing.py", "package-lock.json", ".rulebook/tasks/a/specs/b/spec.md", "specs/auth/tasks.md", ".ralph/specs/api.md"],
)  # fmt: skip
def test_what_no_gate_reads_never(path: str) -> None:
    assert not files("pytest").is_check(path)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sh check.sh", "check.sh"),
        ("sh check.sh", "part.sh"),
        ("sh check.sh", "ci/inner.sh"),
        ("FOO=1 bash ./check.sh -v", "check.sh"),
        ("cd . && ./ci/inner.sh", "ci/inner.sh"),
        ("timeout 60 python3 tools/lint.py", "tools/lint.py"),
        ("cd tools && python3 lint.py", "tools/lint.py"),
        ("bash -c 'python3 tools/lint.py'", "tools/lint.py"),
        ("python3 -X dev tools/lint.py", "tools/lint.py"),
        ("/usr/bin/env python3 tools/lint.py", "tools/lint.py"),
        ('python3 "$PWD/tools/lint.py"', "tools/lint.py"),
        ("./ci/sources.sh", "ci/lib.sh"),
        ("./ci/sources.sh", "ci/more.sh"),
        ("make -f rules.mk", "rules.inc"),
        ("make lint", "Makefile"),
        ("make lint", "tools/lint.py"),
        ("make lint", "tools/rules.py"),
        ("python -B -m tools.lint", "tools/lint.py"),
        ("npm test", ".eslintrc.json"),
        ("ruff check .", "ruff.toml"),
        ("pre-commit run -a", ".pre-commit-config.yaml"),
        ("pytest --cov=app", ".coveragerc"),
    ],
)
def test_what_a_gate_runs_or_reads(command: str, path: str) -> None:
    assert files(command).is_check(path)
    assert not files("pytest").is_check(path)


@pytest.mark.parametrize(
    "command",
    [
        "grep -q x app.txt",
        "grep -q . app.txt main.py",
        "python main.py.txt",
        "cat main.py",
        "mypy main.py",
        "node --test main.py",
        """node -e "import('./main.py').then(m => process.exit(m.ok ? 0 : 1))\"""",
        """python3 -c "exec(open('main.py').read())\"""",
        "sh",
    ],
)
def test_what_a_gate_only_looks_at_is_product(command: str) -> None:
    assert not files(command).is_check("app.txt")
    assert not files(command).is_check("main.py")


@pytest.mark.parametrize(
    "command",
    [
        "npm test",
        "npm --silent test",
        "npm -s run test",
        "npm run --silent test",
        "npm --prefix . test",
        "cd . && npm t",
    ],
)
def test_npm_runs_a_script_whatever_its_options(command: str) -> None:
    assert {"test", "unit"} <= files(command).tables.npm.named


def test_gates_of_an_earlier_commit_count_too() -> None:
    earlier = FILES | {"Makefile": "lint:\n\tpython ci/old.py\n"}
    found = check_files([GateText("lint", "make lint")], FILES.get, earlier.get)
    assert found.is_check("tools/lint.py")
    assert found.is_check("ci/old.py")


def test_a_script_that_runs_itself_in_each_workspace_is_followed_once() -> None:
    package = '{"scripts": {"test": "npm run test --workspaces && node scripts/all.js"}}'
    files = check_files([GateText("tests", "npm test")], {"package.json": package}.get)
    assert files.is_check("scripts/all.js")


@pytest.mark.parametrize(
    "command", ["python app/main.py", "python3 -B app/main.py x", "cd app && python3 main.py | cat"]
)
def test_a_program_is_the_same_however_it_is_run(command: str) -> None:
    assert list(programs_of(command, ".")) == ["app/main.py"]
    assert list(programs_of(command.replace("python3", "sh").replace("python", "sh"), ".")) == []


def test_a_project_names_more() -> None:
    assert files(more=("acceptance/", "!acceptance/app")).is_check("acceptance/x")
    assert not files(more=("acceptance/", "!acceptance/app/")).is_check("acceptance/app/x")


def test_which_gates_read_a_file() -> None:
    both = check_files(
        [GateText("lint", "sh check.sh; ruff check .", is_test=False), GateText("tests", "sh check.sh")], FILES.get
    )
    assert both.other_gates("check.sh", ["lint"]) == ("lint",)
    assert both.other_gates("ruff.toml", ["lint"]) == ("lint",)
    assert both.other_gates("tests/a.py", ["lint"]) == ()


# Manifests

PYPROJECT = '[project]\nname = "a"\ndependencies = []\n\n[tool.pytest.ini_options]\naddopts = "-q"  # quiet\n\n[tool.ruff]\nline-length = 100\n'


def tables(*words: str) -> Tables:
    return Tables(frozenset(words), NpmScripts({"test"}))


@pytest.mark.parametrize(
    ("new", "differs"),
    [
        (PYPROJECT.replace("[]", '["six"]'), False),
        (PYPROJECT.replace("-q", "-k nothing"), True),
        (PYPROJECT.replace("100", "200"), False),
        (PYPROJECT + '[tool.poetry.dependencies]\nsix = "*"\n', False),
        (PYPROJECT.replace("[tool.pytest", "[[tool.pytest"), True),
        (PYPROJECT + '[tool]\npytest.extra.addopts = "-p quality"\n', True),
        (PYPROJECT + '["t\\u006fol".pytest.extra]\naddopts = "-p quality"\n', True),
        ("[[[", True),
    ],
)
def test_tables_of_a_pyproject(new: str, differs: bool) -> None:
    assert tables("pytest", "poetry").differ("pyproject.toml", PYPROJECT, new) == differs
    mixed = tables("pytest", "poetry").mixed("pyproject.toml", new, PYPROJECT)
    assert tomllib.loads(mixed)["tool"]["pytest"] == tomllib.loads(PYPROJECT)["tool"]["pytest"]


def test_a_tools_table_counts_where_a_gate_runs_it() -> None:
    assert tables("ruff").differ("pyproject.toml", PYPROJECT, PYPROJECT.replace("100", "200"))


names = st.dictionaries(
    st.sampled_from(["name", "version", "dependencies", "jest", "mocha", "eslintConfig"]), st.sampled_from(["1", "2"])
)
scripts = st.dictionaries(st.sampled_from(["test", "start", "build"]), st.sampled_from(["a", "b"]))


@given(names, scripts, names, scripts)
def test_a_mixed_package_has_the_ones_product_and_the_others_checks(
    code: dict[str, str], own: dict[str, str], checks: dict[str, str], theirs: dict[str, str]
) -> None:
    ours, other = (json.dumps({**top, "scripts": each}) for top, each in ((code, own), (checks, theirs)))
    mixed = json.loads(tables().mixed("package.json", ours, other))
    for key in ("name", "version", "dependencies", "eslintConfig"):
        assert mixed.get(key) == code.get(key)
    for key in ("jest", "mocha"):
        assert mixed.get(key) == checks.get(key)
    assert mixed["scripts"].get("test") == theirs.get("test")
    assert mixed["scripts"].get("start") == own.get("start")
    assert not tables().differ("package.json", json.dumps(mixed), other)


# Trees

paths = st.sampled_from(["a.py", "b.py", "tests/a.py", "tests/b.py", "conftest.py", "docs/c.md"])
contents = st.dictionaries(paths, st.sampled_from(["1", "2", "3"]))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("trees") / "p", {"seed": "s"})


@given(contents, contents)
def test_a_tree_with_anothers_checks(project: Project, code: dict[str, str], checks: dict[str, str]) -> None:
    known = files("pytest")
    ours, theirs = project.tree(code), project.tree(checks)
    mixed = with_checks(project.repository, ours, theirs, known, free=lambda path: path == "conftest.py")
    free = {path: text for path, text in code.items() if path == "conftest.py"}
    expected = {path: text for path, text in code.items() if not known.is_check(path)} | free
    expected |= {path: text for path, text in checks.items() if known.is_check(path) and path != "conftest.py"}
    assert project.content(mixed) == {"seed": "s", **expected}
    changed = {change.path for change in changed_checks(project.repository, theirs, mixed, known)}
    assert changed <= {"conftest.py"}


def test_a_manifest_in_a_tree(tmp_path: Path) -> None:
    project = Project(tmp_path / "p", {"pyproject.toml": PYPROJECT})
    known = files("pytest")
    new = project.tree({"pyproject.toml": PYPROJECT.replace("[]", '["six"]').replace("-q", "-k no")})
    mixed = project.content(with_checks(project.repository, new, "HEAD", known, free=lambda _: False))["pyproject.toml"]
    assert tomllib.loads(mixed) == tomllib.loads(PYPROJECT.replace("[]", '["six"]'))
    assert [change.path for change in changed_checks(project.repository, "HEAD", new, known)] == ["pyproject.toml"]
