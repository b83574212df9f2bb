"""Gates and setup of a Python project: pytest, unittest, tox or nox; ruff or flake8; mypy or pyright.

Commands run in the environment that the setup of a clone makes: `uv run` beside a uv.lock and its like,
`.venv/bin/python -m` where requirements are installed with pip. Where there is nothing to install, in what is on PATH.
"""

import configparser
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.config.manifests import LanguageGates, ManifestProject, Table, step, strings, table
from rulebook_ralph.config.settings import StepKind, VerificationStep

_RUNNERS = (
    ("uv.lock", "uv", "uv run", "uv sync"),
    ("poetry.lock", "poetry", "poetry run", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install"),
    ("pdm.lock", "pdm", "pdm run", "pdm install"),
    ("Pipfile.lock", "pipenv", "pipenv run", "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"),
)
_TOLD = ("poetry", "pdm", "pipenv")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_DEVELOPING = re.compile(r"dev|develop|development|tests?|testing|lint|typing|typecheck|ci")
_TESTS = ("tests", "test")
_USES_UNITTEST = re.compile(r"^\s*(?:import|from) +unittest\b", re.MULTILINE)
_INI_FILES = ("setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", ".mypy.ini")


@dataclass(frozen=True, slots=True)
class _Python:
    project: ManifestProject
    pyproject: Table
    sections: frozenset[str]
    """`file:section` of the INI files."""
    mypy_targets: bool
    extras: dict[str, list[str]]
    groups: dict[str, list[str]]
    files: dict[str, list[str]]
    """Requirements by extra, by dependency group, and by the requirements file they stand in."""
    further: list[str]
    """Requirements of the project itself, and those in the tables of other tools."""

    def has_tool(self, name: str, *sections: str) -> bool:
        return name in table(self.pyproject, "tool") or not self.sections.isdisjoint(sections)

    @property
    def requires(self) -> frozenset[str]:
        listed = (self.further, *self.extras.values(), *self.groups.values(), *self.files.values())
        return _names(one for each in listed for one in each)

    def developing(self, groups: dict[str, list[str]], tools: Iterable[str]) -> list[str]:
        """Those of the groups that have the tools, or are called like it."""
        return [
            name for name, each in groups.items() if _DEVELOPING.fullmatch(name) or not _names(each).isdisjoint(tools)
        ]


def discover(project: ManifestProject) -> LanguageGates:
    """The steps of a Python project and the setup of a clone that they need; nothing where nothing says it is one."""
    python = _read(project)
    wanted = [each for each in (_test(python), _lint(python), _types(python)) if each]
    environments = tuple(name for name in (".venv", "venv") if project.has(f"{name}/pyvenv.cfg"))
    tools = [module for _, module, _, _ in wanted if module != "unittest"]
    runner = next((each for each in _RUNNERS if project.has(each[0])), None)
    if runner is not None:
        lock, program, start, setup = runner
        setup += (
            "".join(f" --extra {name}" for name in python.developing(python.extras, tools)) if program == "uv" else ""
        )
        steps = tuple(_step(wish, f"{start} {'python -m ' if wish[1] == 'unittest' else ''}") for wish in wanted)
        missing = "" if project.can_run(program) else f"; {program} is not on PATH, install it"
        told = (f"{lock}: {setup}{missing}",) if program in _TOLD or missing else ()
        return LanguageGates(steps, setup, notes=told)
    if wanted and (parts := _pip(python, tools)):
        setup = f"python3 -m venv .venv && .venv/bin/pip install -q {' '.join(map(_quoted, parts))}"
        return LanguageGates(tuple(_step(wish, ".venv/bin/python -m ") for wish in wanted), setup)
    return LanguageGates(tuple(_step(wish, _start(project, wish[1])) for wish in wanted), link=environments)


_Wish = tuple[StepKind, str, str, dict[str, str] | None]
"""What a step is to run: its kind, a module, arguments, and variables."""


def _step(wish: _Wish, start: str) -> VerificationStep:
    kind, module, arguments, env = wish
    return step(kind, f"{start}{module} {arguments}".rstrip(), env)


def _start(project: ManifestProject, module: str) -> str:
    """Without an environment of the clone's: as a module where the script may be another Python's."""
    script = project.root / ".venv" / "bin" / module
    if project.has(".venv/bin/python") and (module == "unittest" or script.exists()):
        return ".venv/bin/python -m "
    return "python3 -m " if module in ("pytest", "unittest") else ""


def _pip(python: _Python, tools: list[str]) -> list[str]:
    """What `pip install` is to install; nothing where nothing is required."""
    project = python.pyproject.get("project")
    root = python.project
    installable = isinstance(project, dict) or "build-system" in python.pyproject or root.has("setup.py")
    extras, groups = python.developing(python.extras, tools), python.developing(python.groups, tools)
    declares = bool(table(python.pyproject, "project").get("dependencies")) or root.has("setup.py")
    declares = declares or "dependencies" in strings(table(python.pyproject, "project").get("dynamic"))
    if not (extras or groups or python.files or (installable and (declares or _is_source_folder(root.root / "src")))):
        return []
    parts = (["-e", f".[{','.join(extras)}]" if extras else "."]) if installable else []
    parts += [word for name in python.files for word in ("-r", name)]
    parts += list(dict.fromkeys(one for name in groups for one in python.groups[name]))
    chosen = [*python.further, *(one for name in extras for one in python.extras[name]), *parts]
    chosen += [one for each in python.files.values() for one in each]
    return [*parts, *(tool for tool in tools if tool not in _names(chosen))]


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./=-]+", word) else shlex.quote(word)


def _test(python: _Python) -> _Wish | None:
    files = list(_test_files(python.project.root))
    configured = "pytest" in table(python.pyproject, "tool") or not python.sections.isdisjoint(
        {"setup.cfg:tool:pytest", "tox.ini:pytest", "pytest.ini:"}
    )
    if configured or ("pytest" in python.requires and files):
        return "test", "pytest", "-q", None
    if python.has_tool("tox", "tox.ini:tox", "tox.ini:testenv", "setup.cfg:tox:tox"):
        return "test", "tox", "", None
    return ("test", "nox", "", None) if python.project.has("noxfile.py") else _unittest(python.project, files)


def _unittest(project: ManifestProject, test_files: list[Path]) -> _Wish | None:
    """unittest for a folder of test files that use it, started so that it finds them (a package or plain files)."""
    for file in test_files:
        name = file.relative_to(project.root).as_posix()
        if not file.name.startswith("test") or not _USES_UNITTEST.search(project.text(name)):
            continue
        folder = next((each for each in _TESTS if file.is_relative_to(project.root / each)), "")
        below = file.parent not in (project.root, project.root / folder)
        if below and not (file.parent / "__init__.py").is_file():
            continue  # discovery enters packages only
        start = f" -s {folder}" if folder else ""
        package = " -t ." if folder and (project.root / folder / "__init__.py").is_file() else ""
        env = {"PYTHONPATH": "src"} if _is_source_folder(project.root / "src") else None
        return "test", "unittest", f"discover{start}{package}", env
    return None


def _lint(python: _Python) -> _Wish | None:
    if python.has_tool("ruff") or python.project.has("ruff.toml", ".ruff.toml"):
        return "lint", "ruff", "check .", None
    if python.project.has(".flake8") or python.has_tool("", "setup.cfg:flake8", "tox.ini:flake8"):
        return "lint", "flake8", "", None
    return None


def _types(python: _Python) -> _Wish | None:
    if python.has_tool("mypy", "setup.cfg:mypy", "mypy.ini:mypy", ".mypy.ini:mypy"):
        return "typecheck", "mypy", "" if python.mypy_targets else ".", None
    if python.has_tool("pyright") or python.project.has("pyrightconfig.json"):
        return "typecheck", "pyright", "", None
    return None


def _test_files(root: Path) -> Iterator[Path]:
    """Python test files in the root, tests/ and test/, and one level below these."""
    for folder in (root, *(root / name for name in _TESTS)):
        for pattern in ("test*.py", "*_test.py"):
            yield from sorted(file for file in folder.glob(pattern) if file.is_file())
    for name in _TESTS:
        yield from sorted(file for file in (root / name).glob("*/test*.py") if file.is_file())


def _is_source_folder(folder: Path) -> bool:
    return any(folder.glob("*/__init__.py")) or any(folder.glob("*.py"))


def _names(requirements: Iterable[str]) -> frozenset[str]:
    found = (_NAME.match(one) for one in requirements)
    return frozenset(match[1].lower().replace("_", "-") for match in found if match)


def _read(project: ManifestProject) -> _Python:
    pyproject = project.toml("pyproject.toml")
    sections: set[str] = set()
    targets = any(key in table(pyproject, "tool", "mypy") for key in ("files", "packages", "modules"))
    extras = {name: strings(each) for name, each in table(pyproject, "project", "optional-dependencies").items()}
    for name in _INI_FILES:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(project.text(name))
        except configparser.Error as error:
            line = re.search(r"line:? +(\d+)", str(error))
            project.problem(name, f"cannot be read: {str(error).splitlines()[0]}", int(line[1]) if line else None)
            continue
        if project.has(name):  # pytest.ini counts even when it is empty
            sections |= {f"{name}:{section}" for section in ("", *parser.sections())}
        targets = targets or any(parser.has_option("mypy", key) for key in ("files", "packages", "modules"))
        if parser.has_section("options.extras_require"):
            extras |= {key: (each or "").split("\n") for key, each in parser.items("options.extras_require")}
    files = sorted(file.name for file in project.root.glob("*requirements*.txt"))
    return _Python(
        project,
        pyproject,
        frozenset(sections),
        targets,
        extras,
        {name: _group(table(pyproject, "dependency-groups"), name) for name in table(pyproject, "dependency-groups")},
        {name: project.text(name).split("\n") for name in files if "doc" not in name},
        list(_further(project, pyproject)),
    )


def _group(groups: Table, name: str, depth: int = 5) -> list[str]:
    """The requirements of a dependency group and of those that it includes."""
    held = groups.get(name)
    items = held if isinstance(held, list) else []
    included = [each["include-group"] for each in items if isinstance(each, dict) and "include-group" in each]
    return [*strings(items), *(one for each in included if depth for one in _group(groups, str(each), depth - 1))]


def _further(project: ManifestProject, pyproject: Table) -> Iterator[str]:
    tool = table(pyproject, "tool")
    yield from strings(table(pyproject, "project").get("dependencies"))
    yield from strings(table(tool, "uv").get("dev-dependencies"))
    for group in table(tool, "pdm", "dev-dependencies").values():
        yield from strings(group)
    for environment in table(tool, "hatch", "envs").values():
        yield from strings(table(environment).get("dependencies"))
    poetry = table(tool, "poetry")
    yield from (*table(poetry, "dependencies"), *table(poetry, "dev-dependencies"))
    for group in table(poetry, "group").values():
        yield from table(group, "dependencies")
    pipfile = project.toml("Pipfile")
    yield from (*table(pipfile, "packages"), *table(pipfile, "dev-packages"))
