"""The house's rules: imports point downwards, one place prints, nothing heavy is loaded before it is needed."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "rulebook_ralph"
NAME = "rulebook_ralph"
HEAVY = {"rich", "jinja2", "jsonschema", "transitions", "ruamel", "psutil", "regex", "anthropic", "watchdog"}

MIDDLE = {"agents", "checks", "sources", "workspace", "state"}
LEAVES = {
    "errors",
    "resources",
    "clock",
    "cancellation",
    "control",
    "lineage",
    "supervisor",
    "idleness",
    "descendants",
    "process_search",
    "process_table",
    "pump",
    "plain_yaml",
    "session_place",
}
"""Modules at the package's root that serve every room. They know core, and each other."""
FAMILIES = ("console", "config")
"""Root modules in several files, `console_live` beside `console`."""
PROGRAMS = {f"{NAME}.agents.scripted_player"}
"""Run as processes of their own; their standard output is what an agent says."""

BELOW = {
    "core": {"core", "errors"},
    **{room: {room, "core"} | LEAVES for room in MIDDLE},
    "loop": {"loop", "core"} | MIDDLE | LEAVES,
    "config": {"config", "core", "errors", "resources", "plain_yaml"},
    "console": {"console", "core", "errors"},
    "app": {"console", "core"} | LEAVES,
    "commands": {"commands", "app", "config", "console", "loop", "core"} | MIDDLE | LEAVES,
    "cli": {"cli", "app", "commands", "config", "console", "loop", "core"} | MIDDLE | LEAVES,
    "entry": {"cli", "session_place"},
    "__main__": {"cli"},
    **{leaf: {"core"} | LEAVES for leaf in LEAVES},
}
"""What the modules of a room may import of this package."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def place(dotted: str) -> str:
    """The room or root module that a dotted name of this package belongs to; empty for the package itself."""
    first = dotted.split(".")[1] if "." in dotted else ""
    return next((family for family in FAMILIES if first.startswith(f"{family}_")), first)


def dotted_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(file.read_bytes())))


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported anywhere in the file, also inside functions."""
    package = dotted_name(file) if file.name == "__init__.py" else dotted_name(file).rpartition(".")[0]
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def test_the_walk_sees_what_is_there() -> None:
    names = {dotted_name(file) for file in MODULES}
    assert {f"{NAME}.core.model", f"{NAME}.console_live", NAME} <= names
    of_console = {name for _line, name in imported(PACKAGE / "console.py")}
    assert f"{NAME}.console_live.LiveDisplay" in of_console
    assert f"{NAME}.core.events.Event" in of_console


def test_imports_point_downwards() -> None:
    wrong = []
    for file in MODULES:
        here = place(dotted_name(file))
        assert not here or here in BELOW, f"{file.name} has no place in the house: give it one here, and in DESIGN.md's"
        known = BELOW[here] | {"", "__version__"} if here else frozenset[str]()  # the package itself imports nothing
        wrong += [
            f"{file.relative_to(PACKAGE.parent)}:{line}: {here} must not know {name}"
            for line, name in imported(file)
            if name.split(".")[0] == NAME and place(name) not in known
        ]
    assert not wrong, "\n".join(wrong)


def calls(file: Path) -> Iterator[ast.Call]:
    return (node for node in nodes(file) if isinstance(node, ast.Call))


def test_only_the_console_prints() -> None:
    silent = [file for file in MODULES if place(dotted_name(file)) != "console" and dotted_name(file) not in PROGRAMS]
    prints = [
        f"{file.relative_to(PACKAGE.parent)}:{call.lineno} prints: let the console do it"
        for file in silent
        for call in calls(file)
        if ast.unparse(call.func) in {"print", "click.echo", "echo"}
    ]
    assert not prints, "\n".join(prints)


def test_only_the_supervisor_opens_sessions() -> None:
    """What Ralph starts in another session is taken for what an agent left, and ended (descendants.py)."""
    opens = [
        dotted_name(file)
        for file in MODULES
        if any(word.arg == "start_new_session" for call in calls(file) for word in call.keywords)
    ]
    assert opens == [f"{NAME}.supervisor"]


@pytest.mark.parametrize("module", ["cli", "commands.projects", "console", "console_plain"])
def test_nothing_heavy_is_loaded_by_importing(module: str) -> None:
    look = f"import sys, {NAME}.{module}; sys.stdout.write(' '.join(name.split('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize("module", [NAME, f"{NAME}.cli"])
def test_python_m_is_the_command(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.startswith("ralph")) == (0, True), ran.stderr
