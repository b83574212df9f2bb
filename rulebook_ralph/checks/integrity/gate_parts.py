"""The parts of a file that define gates, as values to compare: a part that reads the same defines the same."""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rulebook_ralph.checks.integrity.gate_commands import MANAGER
from rulebook_ralph.checks.integrity.gate_files import Category, Definition


@dataclass(frozen=True, slots=True)
class Part:
    """`value` says all that counts, whatever its form. `mark` is a text of the file where the part stands."""

    value: object
    tools: frozenset[str]
    category: Category
    mark: str = ""


Parts = Mapping[str, Part]
_Table = dict[str, Any]

_TEST_TOOLS = ("pytest", "coverage", "tox", "nox", "jest", "vitest", "mocha", "ava", "nyc", "c8", "tap", "karma")
_TYPE_TOOLS = ("mypy", "pyright", "basedpyright", "ty", "tsc")
_SCRIPTS = frozenset(("poe", "taskipy", "hatch", "pdm", "rye", "pixi"))
_PYPROJECT = frozenset(
    (*_TEST_TOOLS, *_TYPE_TOOLS, "ruff", "flake8", "pylint", "black", "isort", "bandit", "codespell", "typos", "nox")
)
_INI = {
    "pytest": "pytest",
    "tool:pytest": "pytest",
    "flake8": "flake8",
    "isort": "isort",
    "pycodestyle": "flake8",
    "pydocstyle": "flake8",
    "pylint": "pylint",
    "mypy": "mypy",
    "coverage": "coverage",
    "testenv": "tox",
    "tox": "tox",
    "tox:tox": "tox",
    "gh-actions": "tox",
    "aliases": "a-runner",
}
_PACKAGE = {
    "jest": "jest",
    "mocha": "mocha",
    "ava": "ava",
    "nyc": "nyc",
    "c8": "c8",
    "tap": "tap",
    "vitest": "vitest",
    "eslintConfig": "eslint",
    "eslintIgnore": "eslint",
    "xo": "xo",
    "standard": "standard",
    "prettier": "prettier",
    "stylelint": "stylelint",
    "lint-staged": "a-runner",
    "husky": "a-runner",
    "wireit": "a-runner",
    "nx": "a-runner",
}
_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "overrides", "resolutions")
_TOOLS_OF_NODE = frozenset((*_PACKAGE.values(), *_TEST_TOOLS, "typescript", "tsx", "ts-node", "jasmine", "cypress"))
_ELSEWHERE = re.compile(r"(?:file|link|portal|patch|git[+\w]*|https?|npm):|[./~]")
"""A version that is none: the package is another one, or one that an agent may write."""
_RUNNER = frozenset(("a-runner",))
_COMMENT = re.compile(r"^\s*(?:#|//|;).*$", re.MULTILINE)
_BUILD_LINES = re.compile(
    r"test|exclude|ignore|fail|skip|lint|checkstyle|jacoco|coverage|TreatWarnings|NoWarn|WError|Nullable", re.IGNORECASE
)
_DEPENDENCY = re.compile(
    r"^\s*(?:(?:test)?(?:[iI]mplementation|[aA]pi|[cC]ompile\w*|[rR]untime\w*|kapt|ksp)\b|</?dependenc|<groupId|"
    r"<artifactId|<version|<scope|<PackageReference)"
)


def parts_of(definition: Definition, text: str | None) -> Parts:
    """The parts of one version of a file; none where it is not there."""
    if text is None:
        return {}
    if definition.parts == "whole":
        return {"": Part(_plain(text), definition.tools, definition.category)}
    return _READERS[definition.parts](text)


def _plain(text: str) -> str:
    """A text without comments and white space."""
    return "".join(_COMMENT.sub("", text).split())


def _category(tool: str) -> Category:
    if tool in _TEST_TOOLS:
        return "test"
    return "typecheck" if tool in _TYPE_TOOLS else "any" if tool in {*_RUNNER, "tox", "nox"} else "lint"


def _pyproject(text: str) -> Parts:
    try:
        tools = tomllib.loads(text).get("tool", {})
    except (ValueError, RecursionError):
        return {"": Part(_plain(text), _PYPROJECT, "any")}
    found: dict[str, Part] = {}
    for name, table in tools.items() if isinstance(tools, dict) else ():
        mark = f"[tool.{name}"
        if name in _SCRIPTS:
            scripts = _with_keys(table, ("scripts", "tasks", "sequence"))
            if scripts:
                found[f"the scripts of [tool.{name}]"] = Part(_frozen(scripts), _RUNNER, "any", mark)
        elif name in _PYPROJECT:
            value = _without_markers(table) if name == "pytest" else table
            if value:
                found[f"[tool.{name}]"] = Part(_frozen(value), _readers_of(name), _category(name), mark)
    return found


def _readers_of(tool: str) -> frozenset[str]:
    return frozenset(("coverage", "pytest")) if tool == "coverage" else frozenset((tool,))


def _without_markers(table: Any) -> Any:
    """The settings of pytest without the names of markers, which change nothing."""
    if not isinstance(table, dict):
        return table
    cut = {
        key: {name: item for name, item in value.items() if name != "markers"} if isinstance(value, dict) else value
        for key, value in table.items()
        if key != "markers"
    }
    return {key: value for key, value in cut.items() if value != {}}


def _with_keys(table: Any, keys: Collection[str]) -> _Table:
    """Whatever stands under one of those keys, at any depth."""
    found: _Table = {}
    if isinstance(table, dict):
        for key, value in table.items():
            if key in keys:
                found[key] = value
            elif below := _with_keys(value, keys):
                found[key] = below
    return found


def _ini(text: str) -> Parts:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, delimiters=("=", ":"))
    try:
        parser.read_string(text)
    except configparser.Error:
        return {"": Part(_plain(text), frozenset(_INI.values()), "any")}
    found = {}
    for section in parser.sections():
        tool = _INI.get(section) or _INI.get(re.split(r"[:.-]", section)[0])
        if tool:
            values = {key: "".join(_plain(value or "")) for key, value in parser.items(section) if key != "markers"}
            found[f"[{section}]"] = Part(_frozen(values), _readers_of(tool), _category(tool), f"[{section}]")
    return found


def _package(text: str) -> Parts:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return {"": Part(_plain(text), frozenset((*_PACKAGE.values(), *_RUNNER)), "any")}
    if not isinstance(manifest, dict):
        return {}
    parts = {
        f'"{key}"': Part(_frozen(manifest[key]), frozenset((tool,)), _category(tool), f'"{key}"')
        for key, tool in _PACKAGE.items()
        if key in manifest
    }
    return parts | {
        f'where "{name}" comes from': Part(place, _RUNNER, "any", f'"{name}"')
        for key in _DEPENDENCIES
        for name, place in _items(manifest.get(key))
        if name in _TOOLS_OF_NODE and isinstance(place, str) and _ELSEWHERE.match(place)
    }


def _items(table: object) -> Iterable[tuple[str, object]]:
    return table.items() if isinstance(table, dict) else ()


def _cargo(text: str) -> Parts:
    try:
        manifest = tomllib.loads(text)
    except (ValueError, RecursionError):
        return {"": Part(_plain(text), frozenset(("cargo",)), "any")}
    workspace = manifest.get("workspace", {})
    tables = {
        "[lints]": manifest.get("lints"),
        "[workspace.lints]": workspace.get("lints") if isinstance(workspace, dict) else None,
        "[[test]]": manifest.get("test"),
        "[profile.test]": _with_keys(manifest.get("profile"), ("test",)),
        "[lib] test": _with_keys(manifest.get("lib"), ("test", "doctest", "harness")),
    }
    return {
        name: Part(_frozen(value), frozenset(("cargo",)), "any", name.split("]")[0].strip("["))
        for name, value in tables.items()
        if value
    }


def _build(text: str) -> Parts:
    """Lines of a build file that speak of tests or checks; those that name what it depends on aside."""
    kept = [line for line in text.splitlines() if _BUILD_LINES.search(line) and not _DEPENDENCY.match(line)]
    return {"what it says of tests and checks": Part(_plain("\n".join(kept)), _RUNNER, "any")} if kept else {}


def _npmrc(text: str) -> Parts:
    kept = [line for line in text.splitlines() if re.search(r"script|shell|prefix|if-present", line)]
    return {"how scripts are run": Part(_plain("\n".join(kept)), frozenset((MANAGER,)), "any")} if kept else {}


def _frozen(value: Any) -> object:
    """A value that compares the same whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, default=str)


_READERS: Mapping[str, Callable[[str], Parts]] = {
    "pyproject": _pyproject,
    "ini": _ini,
    "package": _package,
    "cargo": _cargo,
    "build": _build,
    "npmrc": _npmrc,
}
