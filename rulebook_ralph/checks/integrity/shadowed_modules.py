"""New modules that Python would load in place of others: what lies beside a script or a test comes first."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.gate_commands import Gate
from rulebook_ralph.checks.integrity.indirect_scripts import PythonScript
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_LOADED = frozenset(
    [
        "__future__",
        "_pytest",
        "pytest",
        "pluggy",
        "iniconfig",
        "packaging",
        "exceptiongroup",
        "tomli",
        "pygments",
        "py",
        "pytest_cov",
        "coverage",
        "xdist",
        "execnet",
        "argparse",
        "ast",
        "asyncio",
        "base64",
        "bdb",
        "bisect",
        "bz2",
        "calendar",
        "cmd",
        "code",
        "codeop",
        "collections",
        "concurrent",
        "contextlib",
        "contextvars",
        "copy",
        "copyreg",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "dis",
        "email",
        "enum",
        "fnmatch",
        "fractions",
        "functools",
        "gettext",
        "glob",
        "gzip",
        "hashlib",
        "heapq",
        "html",
        "importlib",
        "inspect",
        "ipaddress",
        "json",
        "keyword",
        "linecache",
        "locale",
        "logging",
        "lzma",
        "math",
        "numbers",
        "opcode",
        "operator",
        "pathlib",
        "pdb",
        "platform",
        "pprint",
        "queue",
        "quopri",
        "random",
        "re",
        "readline",
        "reprlib",
        "runpy",
        "select",
        "selectors",
        "shlex",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "string",
        "struct",
        "subprocess",
        "sysconfig",
        "tempfile",
        "textwrap",
        "threading",
        "token",
        "tokenize",
        "tomllib",
        "traceback",
        "types",
        "typing",
        "unicodedata",
        "unittest",
        "urllib",
        "uuid",
        "warnings",
        "weakref",
        "xml",
        "zipfile",
        "zoneinfo",
        "zlib",
    ]
)
"""What pytest and unittest load when they start: a project that had such a module could not run its tests."""
_PLUGIN = re.compile(
    r"_?hypothesis(?:_pytestplugin|_globals)?|pytest_\w+|anyio|sniffio|xdist|faker|typeguard|syrupy|respx|requests_mock|"
    r"typing_extensions|sortedcontainers"
)
"""Plugins that pytest loads wherever they are installed, and what these load."""
_RUNNERS = frozenset(("pytest", "unittest", "coverage"))
_PYTHON = re.compile(r"python[\d.]*")


_STANDARD = sys.stdlib_module_names
_MODULE_FILE = re.compile(r"\.(?:py|pyc|pyd|so)$")


def shadowed_modules(
    diff: Sequence[FileDiff],
    green: Sequence[Gate],
    scripts: Callable[[], Iterable[PythonScript]],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """New modules and packages that the gates would load in place of others, one objection for each name. `scripts`:
    those of Python that gates run.
    """
    new = [file.path for file in diff if file.kind in ("A", "R") and is_module(file.path) and not excused(file.path)]
    told: set[str] = set()
    for path, name, loader in (*_of_gates(new, green), *_of_scripts(new, green, scripts)) if new else ():
        if name not in told:
            told.add(name)
            yield Objection(path, None, f"{loader} would load it instead of the module {name}")


def _of_gates(new: Sequence[str], green: Sequence[Gate]) -> Iterator[tuple[str, str, str]]:
    """What a runner needs is looked for in its working folder first, and all in what the environment names."""
    for gate in green:
        is_runner = gate.tools & _RUNNERS and any(map(_PYTHON.fullmatch, gate.programs))
        folders = dict.fromkeys(gate.module_folders, _STANDARD) | ({gate.folder: _LOADED} if is_runner else {})
        for folder, known in folders.items():
            for path in new:
                name = top_module(path, folder)
                if name in known or (is_runner and folder == gate.folder and _PLUGIN.fullmatch(name)):
                    yield path, name, f"the gate '{gate.name}'"


def _of_scripts(
    new: Sequence[str], green: Sequence[Gate], scripts: Callable[[], Iterable[PythonScript]]
) -> Iterator[tuple[str, str, str]]:
    """What is beside a script comes before all that is installed; what one that was red misses is the work itself."""
    were_green = {gate.name for gate in green}
    for script in scripts():
        known = script.imported if script.gate in were_green else script.imported & _STANDARD
        for path in new:
            if (name := top_module(path, script.folder)) in known:
                yield path, name, f"a script of the gate '{script.gate}'"


def is_module(path: str) -> bool:
    """Whether a file is one that Python loads."""
    return _MODULE_FILE.search(path) is not None


def top_module(path: str, folder: str) -> str:
    """The top-level module that a file is, or belongs to, seen from a folder; empty for what is none."""
    within = path if folder in ("", ".") else path.removeprefix(f"{folder}/")
    if within == path and folder not in ("", "."):
        return ""
    first, slash, _ = within.partition("/")
    return first if slash else first.partition(".")[0]
