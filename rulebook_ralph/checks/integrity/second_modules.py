"""New modules of Python that have the name of one that is there, so that tests would load these."""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.gate import Gate
from rulebook_ralph.checks.integrity.indirect_scripts import ReadBase
from rulebook_ralph.checks.integrity.languages import language_of
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.shadowed_modules import is_module, top_module
from rulebook_ralph.core.diff import FileDiff

_RUNNERS = frozenset(("pytest", "unittest"))


def second_modules(
    diff: Sequence[FileDiff], gates: Sequence[Gate], read_base: ReadBase, excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """A module beside the tests that has the name of one that is there and stays, and a package instead of a module."""
    if not any(gate.tools & _RUNNERS or gate.opaque for gate in gates):
        return
    new = [file for file in diff if file.kind in ("A", "R") and is_module(file.path) and not excused(file.path)]
    gone = {file.old_path for file in diff if file.kind in ("D", "R")}
    now = {file.path for file in diff if file.kind != "D"}
    given = {place.removeprefix("./").rstrip("/") for gate in gates for place in gate.places}
    doubtful = [
        (file, name, place) for file in new for name, place in _namesakes(file.path, given) if place not in gone
    ]
    asked = {place for _, _, place in doubtful} | {
        path for file, name, _ in doubtful for path in _beside(file.path, name)
    }
    there = read_base(sorted(asked)) if asked else {}
    for file, name, place in doubtful:
        package, test = _beside(file.path, name)
        by_name = re.compile(rf"^[ \t]*(?:from|import)[ \t]+{re.escape(name)}\b", re.MULTILINE)
        is_meant = not place.startswith("src/") or by_name.search(there.get(test, ""))
        if place in there and is_meant and package not in there.keys() | now - {file.path}:
            yield Objection(file.path, None, f"tests may load it instead of {place}, which has the same name")


def _namesakes(path: str, given: set[str]) -> Iterator[tuple[str, str]]:
    """The name of a module that comes before others, and where another of this name may lie. `given`: what runners are
    to look for tests in.
    """
    folder = posixpath.dirname(path.removesuffix("/__init__.py"))
    name = top_module(path, folder)
    if language_of(path) is not None or name in ("conftest", "setup", "__init__", ""):
        return
    if folder == "" and path.endswith("/__init__.py"):
        yield name, f"{name}.py"
    elif folder.rpartition("/")[2] in ("tests", "test") or (folder and folder in given):
        for root in ("", "src/", "lib/"):
            yield from ((name, f"{root}{name}.py"), (name, f"{root}{name}/__init__.py"))


def _beside(path: str, name: str) -> tuple[str, str]:
    """What makes the folder of a module a package, so that it is found by another name; and the test of the module."""
    folder = posixpath.dirname(path.removesuffix("/__init__.py"))
    return posixpath.join(folder, "__init__.py"), posixpath.join(folder, f"test_{name}.py")
