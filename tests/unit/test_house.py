"""The house's rules: imports point one way, a class has one name, nothing heavy is loaded before it is needed."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "rulebook_ralph"
NAME = "rulebook_ralph"
HEAVY = {"rich", "jinja2", "jsonschema", "transitions", "ruamel", "psutil", "regex", "anthropic", "watchdog"}
MODULES = sorted(PACKAGE.rglob("*.py"))

LEAVES = ("errors", "clock", "resources", "entry", "tasks", "report.events", "config", "process", "git", "agents")
ORDER = (*LEAVES, "verify", "run", "report", "cli", "__main__")
"""A module imports only from rooms to the left of its own, or from its own (docs/design.md, The rooms)."""


def room(dotted: str) -> str:
    """The room that a dotted name of this package belongs to; empty for the package itself."""
    parts = dotted.split(".")[1:]
    if parts[:2] == ["report", "events"]:
        return "report.events"
    return parts[0] if parts else ""


def dotted_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(file.read_bytes())))


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported anywhere in the file, also inside functions."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_imports_point_one_way() -> None:
    wrong = []
    for file in MODULES:
        here = room(dotted_name(file))
        if not here or here == "entry":  # its one way into the command line is taken last
            continue
        assert here in ORDER, f"{file.name} has no place in the house: give it one here, and in docs/design.md"
        for line, name in imported(file):
            there = room(name) if name.split(".")[0] == NAME else ""
            if there in ORDER and ORDER.index(there) > ORDER.index(here):
                wrong.append(f"{file.relative_to(PACKAGE.parent)}:{line}: {here} must not know {name}")
    assert not wrong, "\n".join(wrong)


def test_a_class_name_occurs_once() -> None:
    names = Counter(
        node.name
        for file in MODULES
        for node in nodes(file)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in names.items() if count > 1]


def test_no_document_is_cited_that_is_not_there() -> None:
    cited = {
        (file.name, found)
        for file in MODULES
        for found in re.findall(r"\b[\w/.-]+\.md\b", file.read_text("utf-8"))
        if found == "DESIGN.md" or found.startswith("docs/")
    }
    missing = [f"{name}: {found}" for name, found in cited if not (PACKAGE.parent / found).exists()]
    assert not missing, "\n".join(missing)


def test_only_the_supervisor_opens_sessions() -> None:
    """What is started in another session is not reached by ^C: the supervisor ends it."""
    opens = {
        dotted_name(file)
        for file in MODULES
        for node in nodes(file)
        if isinstance(node, ast.Call) and any(word.arg == "start_new_session" for word in node.keywords)
    }
    assert opens == {f"{NAME}.process.supervisor"}


@pytest.mark.parametrize("module", ["cli.main", "cli.status", "entry"])
def test_nothing_heavy_is_loaded_by_importing(module: str) -> None:
    look = f"import sys, {NAME}.{module}; sys.stdout.write(' '.join(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_python_m_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", NAME, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.startswith("ralph")) == (0, True), ran.stderr
