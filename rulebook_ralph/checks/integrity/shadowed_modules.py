"""New modules that Python would load in place of those that a test runner needs: the working folder comes first."""

import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.gate_commands import Gate
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_LOADED = frozenset(
    [
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
        "base64",
        "bdb",
        "bisect",
        "bz2",
        "calendar",
        "collections",
        "contextlib",
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
        "opcode",
        "operator",
        "pathlib",
        "pdb",
        "platform",
        "pprint",
        "quopri",
        "random",
        "re",
        "reprlib",
        "runpy",
        "select",
        "selectors",
        "shlex",
        "shutil",
        "signal",
        "socket",
        "string",
        "struct",
        "subprocess",
        "tempfile",
        "textwrap",
        "threading",
        "token",
        "tokenize",
        "tomllib",
        "traceback",
        "types",
        "typing",
        "unittest",
        "urllib",
        "uuid",
        "warnings",
        "weakref",
        "zipfile",
        "zlib",
    ]
)
"""What pytest and unittest load when they start: a project that had such a module could not run its tests."""
_RUNNERS = frozenset(("pytest", "unittest", "coverage"))
_PYTHON = re.compile(r"python[\d.]*")


def shadowed_modules(
    diff: Sequence[FileDiff], green: Sequence[Gate], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """New modules and packages in the folder of a gate that runs `python -m pytest` or the like, by their names."""
    folders = {gate.folder for gate in green if gate.tools & _RUNNERS and any(map(_PYTHON.fullmatch, gate.programs))}
    told = set()
    for file in diff if folders else ():
        if file.kind not in ("A", "R") or excused(file.path):
            continue
        for folder in folders:
            within = file.path if folder == "." else file.path.removeprefix(f"{folder}/")
            name = _module(within)
            if name in _LOADED and name not in told and (folder == "." or within != file.path):
                told.add(name)
                yield Objection(file.path, None, f"would be loaded instead of the module {name}, which the gates need")


def _module(path: str) -> str:
    """The top-level module that a file is, or belongs to; empty for what is none."""
    first, slash, _ = path.partition("/")
    return first if slash and path.endswith(".py") else first.removesuffix(".py") if first.endswith(".py") else ""
