"""Gates of a Python project: pytest, unittest, tox or nox; ruff or flake8; mypy or pyright.

Commands run in the project's environment as its lock file or `.venv` tells: `uv run`, `poetry run`, `pdm run`,
`pipenv run`, `.venv/bin/python -m`; else what is on PATH.
"""

import configparser
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.core.settings import VerificationStep
from rulebook_ralph.sources.gates_found import Found, Table, step, strings, table, text_of, toml_of
from rulebook_ralph.sources.source import SourceProblem

_RUNNERS = (
    ("uv.lock", "uv run"),
    ("poetry.lock", "poetry run"),
    ("pdm.lock", "pdm run"),
    ("Pipfile.lock", "pipenv run"),
)
_REQUIREMENT_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_TESTS = ("tests", "test")
_USES_UNITTEST = r"^\s*(?:import|from) +unittest\b"


@dataclass(frozen=True, slots=True)
class _Project:
    root: Path
    pyproject: Table
    sections: frozenset[str]
    """`file:section` of setup.cfg, tox.ini, pytest.ini and mypy.ini."""
    requirements: frozenset[str]
    mypy_targets: bool

    def has_tool(self, name: str) -> bool:
        return name in table(self.pyproject, "tool")

    def has(self, *names: str) -> bool:
        return any((self.root / name).is_file() for name in names)


def discover(root: Path) -> Found:
    """The steps of a Python project; none where nothing says it is one."""
    problems: list[SourceProblem] = []
    project = _read(root, problems)
    steps: list[VerificationStep] = []
    if test := _test(project):
        steps.append(test)
    if project.has_tool("ruff") or project.has("ruff.toml", ".ruff.toml"):
        steps.append(step("lint", _command(project, "ruff", "check .")))
    elif project.has(".flake8") or not project.sections.isdisjoint({"setup.cfg:flake8", "tox.ini:flake8"}):
        steps.append(step("lint", _command(project, "flake8")))
    mypy = {"setup.cfg:mypy", "mypy.ini:mypy", ".mypy.ini:mypy"}
    if project.has_tool("mypy") or not project.sections.isdisjoint(mypy):
        steps.append(step("typecheck", _command(project, "mypy", "" if project.mypy_targets else ".")))
    elif project.has_tool("pyright") or project.has("pyrightconfig.json"):
        steps.append(step("typecheck", _command(project, "pyright")))
    return Found(tuple(steps), tuple(problems))


def _test(project: _Project) -> VerificationStep | None:
    configured = "pytest" in table(project.pyproject, "tool") or not project.sections.isdisjoint(
        {"setup.cfg:tool:pytest", "tox.ini:pytest", "pytest.ini:"}
    )
    test_files = list(_test_files(project.root))
    if configured or ("pytest" in project.requirements and test_files):
        return step("test", _command(project, "pytest", "-q", module_on_path=True))
    if project.has_tool("tox") or not project.sections.isdisjoint(
        {"tox.ini:tox", "tox.ini:testenv", "setup.cfg:tox:tox"}
    ):
        return step("test", _command(project, "tox"))
    if project.has("noxfile.py"):
        return step("test", _command(project, "nox"))
    return _unittest(project, test_files)


def _unittest(project: _Project, test_files: list[Path]) -> VerificationStep | None:
    """unittest for a folder of test files that use it, started so that it finds them (a package or plain files)."""
    for file in test_files:
        if not file.name.startswith("test") or not re.search(_USES_UNITTEST, text_of(file, []), re.MULTILINE):
            continue
        folder = next((name for name in _TESTS if file.is_relative_to(project.root / name)), "")
        below = file.parent not in (project.root, project.root / folder)
        if below and not (file.parent / "__init__.py").is_file():
            continue  # discovery enters packages only
        start = f" -s {folder}" if folder else ""
        package = " -t ." if folder and (project.root / folder / "__init__.py").is_file() else ""
        env = {"PYTHONPATH": "src"} if _is_source_folder(project.root / "src") else None
        return step("test", _command(project, "unittest", f"discover{start}{package}", module_on_path=True), env)
    return None


def _command(project: _Project, module: str, arguments: str = "", *, module_on_path: bool = False) -> str:
    """`module_on_path`: without an environment it is started as a module, since its script may be another Python's."""
    runner = next((run for lock, run in _RUNNERS if project.has(lock)), "")
    virtual = project.root / ".venv" / "bin"
    is_script = module != "unittest"
    if runner:
        start = f"{runner} {module}" if is_script else f"{runner} python -m {module}"
    elif (virtual / "python").exists() and (not is_script or (virtual / module).exists()):
        start = f".venv/bin/python -m {module}"
    else:
        start = f"python3 -m {module}" if module_on_path else module
    return f"{start} {arguments}".rstrip()


def _test_files(root: Path) -> Iterator[Path]:
    """Python test files in the root, tests/ and test/, and one level below these."""
    for folder in (root, *(root / name for name in _TESTS)):
        yield from sorted(
            file for pattern in ("test*.py", "*_test.py") for file in folder.glob(pattern) if file.is_file()
        )
    for name in _TESTS:
        yield from sorted(file for file in (root / name).glob("*/test*.py") if file.is_file())


def _is_source_folder(folder: Path) -> bool:
    return any(folder.glob("*/__init__.py")) or any(folder.glob("*.py"))


def _read(root: Path, problems: list[SourceProblem]) -> _Project:
    pyproject = toml_of(root / "pyproject.toml", problems)
    sections: set[str] = set()
    targets = any(key in table(pyproject, "tool", "mypy") for key in ("files", "packages", "modules"))
    for name in ("setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", ".mypy.ini"):
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(text_of(root / name, problems))
        except configparser.Error as error:
            line = re.search(r"line:? +(\d+)", str(error))
            message = f"cannot be read: {str(error).splitlines()[0]}"
            problems.append(SourceProblem(root / name, int(line[1]) if line else None, message))
            continue
        if (root / name).is_file():  # pytest.ini counts even when it is empty
            sections |= {f"{name}:{section}" for section in ("", *parser.sections())}
        targets = targets or any(parser.has_option("mypy", key) for key in ("files", "packages", "modules"))
    named = (_REQUIREMENT_NAME.match(one) for one in _requirements(root, pyproject, problems))
    names = frozenset(match[1].lower().replace("_", "-") for match in named if match)
    return _Project(root, pyproject, frozenset(sections), names, targets)


def _requirements(root: Path, pyproject: Table, problems: list[SourceProblem]) -> Iterator[str]:
    """Every requirement a manifest lists, for running or for developing."""
    project, tool = table(pyproject, "project"), table(pyproject, "tool")
    yield from strings(project.get("dependencies"))
    for groups in (table(project, "optional-dependencies"), table(pyproject, "dependency-groups")):
        for group in groups.values():
            yield from strings(group)
    yield from strings(table(tool, "uv").get("dev-dependencies"))
    for group in table(tool, "pdm", "dev-dependencies").values():
        yield from strings(group)
    for environment in table(tool, "hatch", "envs").values():
        yield from strings(table(environment).get("dependencies"))
    poetry = table(tool, "poetry")
    yield from (*table(poetry, "dependencies"), *table(poetry, "dev-dependencies"))
    for group in table(poetry, "group").values():
        yield from table(group, "dependencies")
    pipfile = toml_of(root / "Pipfile", problems)
    yield from (*table(pipfile, "packages"), *table(pipfile, "dev-packages"))
    for file in sorted(root.glob("*requirements*.txt")):
        yield from text_of(file, problems).split("\n")
