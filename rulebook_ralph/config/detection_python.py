"""Gates and setup of a Python project. What is installed decides, or what the setup of a clone installs.

A package manager that is there sets clones up by its lock file; without a lock file pip does, by what the project
requires. Where neither can, the project's own `.venv` is linked, and what is neither in it nor on PATH is no gate.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

from rulebook_ralph.config.manifests import LanguageGates, ManifestProject, Table, step, strings, table
from rulebook_ralph.config.settings import StepKind, VerificationStep

_MANAGERS = (
    ("uv.lock", "uv", "uv run ", "uv sync"),
    ("poetry.lock", "poetry", "poetry run ", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install"),
    ("pdm.lock", "pdm", "pdm run ", "pdm install"),
    ("Pipfile.lock", "pipenv", "pipenv run ", "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev"),
)
_DEVELOPING = re.compile(r"dev|develop|development|tests?|testing|lint|typing|typecheck|ci")
_TESTS = ("tests", "test")
_USES_UNITTEST = re.compile(r"^\s*(?:import|from) +unittest\b", re.MULTILINE)
_INI_FILES = ("setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", ".mypy.ini")
_MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", *(lock for lock, *_ in _MANAGERS))
_IN_CLONE = ".venv/bin/python -m "


class _Tool(NamedTuple):
    """What a gate runs, and the files or `file:section`s of INI files that configure it, beside pyproject's table."""

    kind: StepKind
    module: str
    arguments: str = ""
    places: tuple[str, ...] = ()
    env: dict[str, str] | None = None

    def gate(self, start: str) -> VerificationStep:
        return step(self.kind, f"{start}{self.module} {self.arguments}".rstrip(), self.env)


_TOOLS = (
    _Tool("test", "pytest", "-q", ("setup.cfg:tool:pytest", "tox.ini:pytest", "pytest.ini")),
    _Tool("test", "tox", "", ("tox.ini:tox", "tox.ini:testenv", "setup.cfg:tox:tox")),
    _Tool("test", "nox", "", ("noxfile.py",)),
    _Tool("lint", "ruff", "check .", ("ruff.toml", ".ruff.toml")),
    _Tool("lint", "flake8", "", (".flake8", "setup.cfg:flake8", "tox.ini:flake8")),
    _Tool("typecheck", "mypy", "", ("setup.cfg:mypy", "mypy.ini:mypy", ".mypy.ini:mypy")),
    _Tool("typecheck", "pyright", "", ("pyrightconfig.json",)),
)
"""The first one of each kind that the project configures is its gate."""


@dataclass(frozen=True, slots=True)
class _Python:
    """`sections` are `file:section` of the INI files. Requirements stand by extra and by dependency group, those of
    requirements files as their texts; `named` has all manifests, for tools that are named in them.
    """

    project: ManifestProject
    pyproject: Table
    sections: Table
    extras: dict[str, list[str]]
    groups: dict[str, list[str]]
    files: dict[str, str]
    named: str

    def configures(self, tool: _Tool) -> bool:
        in_files = self.project.has(*(place for place in tool.places if ":" not in place))
        in_sections = not self.sections.keys().isdisjoint(tool.places)
        return tool.module in table(self.pyproject, "tool") or in_files or in_sections

    def requires(self, tool: str) -> bool:
        return _names(tool, self.named)

    @property
    def environment(self) -> str:
        """The folder of the project's own environment; empty for none."""
        return next((name for name in (".venv", "venv") if (self.project.root / name / "bin/python").exists()), "")

    def is_in_environment(self, tool: str) -> bool:
        own = self.environment
        return bool(own) and (tool == "unittest" or (self.project.root / own / "bin" / tool).is_file())

    def has_installed(self, tool: str) -> bool:
        return self.is_in_environment(tool) or self.project.can_run(tool)

    def start_of(self, tool: str) -> str:
        """How a tool is started where the clone installs nothing."""
        if self.is_in_environment(tool) or (self.environment and not self.project.can_run(tool)):
            return f"{self.environment}/bin/python -m "
        return "python3 -m " if tool in ("pytest", "unittest") else ""

    @property
    def mypy_targets(self) -> str:
        """What mypy looks at where its configuration does not say it: src, or the packages at the root."""
        told = [*table(self.pyproject, "tool", "mypy")]
        told += [key for place, section in self.sections.items() if place.endswith(":mypy") for key in section]
        if not {"files", "packages", "modules"}.isdisjoint(told):
            return ""
        root = self.project.root
        packages = sorted(file.parent.name for file in root.glob("*/__init__.py"))
        at_root = " ".join(_quoted(name) for name in packages if name not in _TESTS) or "."
        return "src" if _is_source_folder(root / "src") else at_root


def discover(project: ManifestProject) -> LanguageGates:
    """The steps of a Python project and what a clone needs for them; nothing where nothing says it is one."""
    python = _read(project)
    required = _tools(python, python.requires)
    modules = [tool.module for tool in required if tool.module != "unittest"]
    lock, program, start, setup = next((each for each in _MANAGERS if project.has(each[0])), ("", "", "", ""))
    if lock and project.can_run(program):
        if program == "uv":
            setup += "".join(f" --extra {name}" for name in _developing(python.extras, modules))
            setup += "".join(f" --group {name}" for name in _developing(python.groups, modules) if name != "dev")
        starts = {"unittest": f"{start}python -m "}
        return LanguageGates(tuple(tool.gate(starts.get(tool.module, start)) for tool in required), setup)
    missing, environment = f"{lock}: {program} is not on PATH" if lock else "", python.environment
    if required and not (lock and environment) and (parts := _pip(python, modules)):
        setup = f"python3 -m venv .venv && .venv/bin/pip install -q {' '.join(map(_quoted, parts))}"
        note = missing and f"{missing}, so pip installs what the project requires"
        return LanguageGates(tuple(tool.gate(_IN_CLONE) for tool in required), setup, note=note)
    steps = tuple(tool.gate(python.start_of(tool.module)) for tool in _tools(python, python.has_installed))
    instead = f"{environment} is linked into clones, where no task can change it" if environment else "install it"
    return LanguageGates(steps, link=(environment,) if environment else (), note=missing and f"{missing}: {instead}")


def _tools(python: _Python, is_there: Callable[[str], bool]) -> list[_Tool]:
    """What the project has configured: its tests in any case, all else where it is there."""
    files = list(_test_files(python.project.root))
    found: dict[StepKind, _Tool] = {}
    for tool in _TOOLS:
        if tool.module == "pytest":
            is_used = python.configures(tool) or (bool(files) and python.requires("pytest"))
        else:
            is_used = python.configures(tool) and is_there(tool.module)
        if is_used:
            found.setdefault(tool.kind, tool)
    if "test" not in found and (by_hand := _unittest(python.project, files)):
        found = {"test": by_hand, **found}
    return [tool._replace(arguments=python.mypy_targets) if tool.module == "mypy" else tool for tool in found.values()]


def _unittest(project: ManifestProject, test_files: Sequence[Path]) -> _Tool | None:
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
        return _Tool("test", "unittest", f"discover{start}{package}", env=env)
    return None


def _pip(python: _Python, tools: list[str]) -> list[str]:
    """What `pip install` is to install; nothing where nothing is required."""
    root, declared = python.project.root, table(python.pyproject, "project")
    extras, groups = _developing(python.extras, tools), _developing(python.groups, tools)
    dependencies = strings(declared.get("dependencies"))
    has_some = dependencies or "dependencies" in strings(declared.get("dynamic")) or python.project.has("setup.py")
    installable = declared or "build-system" in python.pyproject or python.project.has("setup.py")
    if not (extras or groups or python.files or (installable and (has_some or _is_source_folder(root / "src")))):
        return []
    parts = (["-e", f".[{','.join(extras)}]" if extras else "."]) if installable else []
    parts += [word for name in python.files for word in ("-r", name)]
    parts += dict.fromkeys(one for name in groups for one in python.groups[name])
    of_extras = [one for name in extras for one in python.extras[name]]
    chosen = "\n".join([*dependencies, *of_extras, *parts, *python.files.values()])
    return [*parts, *(tool for tool in tools if not _names(tool, chosen))]


def _developing(groups: dict[str, list[str]], tools: list[str]) -> list[str]:
    """Those of the groups that have the tools, or are called like it."""
    return [
        name
        for name, each in groups.items()
        if _DEVELOPING.fullmatch(name) or any(_names(tool, "\n".join(each)) for tool in tools)
    ]


def _names(tool: str, text: str) -> bool:
    """Whether a text of requirements names the tool, and not only one that begins or ends like it."""
    return re.search(rf"(?<![\w.-]){tool}(?![\w-])", text) is not None


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./=-]+", word) else shlex.quote(word)


def _test_files(root: Path) -> Iterator[Path]:
    """Python test files in the root, tests/ and test/, and one level below these."""
    tests = [root / name for name in _TESTS]
    for folder, pattern in (*product((root, *tests), ("test*.py", "*_test.py")), *product(tests, ("*/test*.py",))):
        yield from sorted(file for file in folder.glob(pattern) if file.is_file())


def _is_source_folder(folder: Path) -> bool:
    return any(folder.glob("*/__init__.py")) or any(folder.glob("*.py"))


def _read(project: ManifestProject) -> _Python:
    pyproject = project.toml("pyproject.toml")
    sections = {f"{name}:{section}": told for name in _INI_FILES for section, told in project.ini(name).items()}
    extras = {name: strings(each) for name, each in table(pyproject, "project", "optional-dependencies").items()}
    in_setup = table(sections, "setup.cfg:options.extras_require")
    extras |= {name: (each or "").split("\n") for name, each in in_setup.items()}
    declared = table(pyproject, "dependency-groups")
    files = sorted(file.name for file in project.root.glob("*requirements*.txt"))
    texts = {name: project.text(name) for name in files if "doc" not in name}
    named = "\n".join([*(project.text(name) for name in _MANIFESTS if project.has(name)), *texts.values()])
    groups = {name: _group(declared, name) for name in declared}
    return _Python(project, pyproject, sections, extras, groups, texts, named)


def _group(groups: Table, name: str, depth: int = 5) -> list[str]:
    """The requirements of a dependency group and of those that it includes."""
    held = groups.get(name)
    items = held if isinstance(held, list) else []
    included = [each["include-group"] for each in items if isinstance(each, dict) and "include-group" in each]
    return [*strings(items), *(one for each in included if depth for one in _group(groups, str(each), depth - 1))]
