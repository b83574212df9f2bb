"""Code under test that ends its process as if all were well, so that what comes after it is never run."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.python_source import parsed
from rulebook_ralph.core.diff import FileDiff, Versions

_FILES = re.compile(r"\.(?:py|[cm]?[jt]sx?|rb|c|cc|cpp|cxx)$")
_AT_ONCE = re.compile(
    r"\b_exit['\"]?\)?\(\s*(?:0|False|os\.EX_OK|EXIT_SUCCESS)?\s*\)|\bquick_exit\(\s*(?:0|EXIT_SUCCESS)\s*\)|\breallyExit\(\s*0?\s*\)|"
    r"\bexit!(?:\(?\s*(?:0|true)\s*\)?)?\s*$|\bos\.kill\(\s*os\.getpid\(|\bprocess\.kill\(\s*process\.pid\b"
)
"""Without the process's own last steps, in which a test runner tells what it ran."""
_FORKS = re.compile(r"\bv?fork(?:pty)?\(")
_IN_NODE = re.compile(r"^(?:globalThis\.)?process\.exit\(\s*0?\s*\)")
_MAY_EXIT = re.compile(r"\b(?:exit|quit|SystemExit)\b")
_OF_A_SCRIPT = re.compile(r"__name__|\bargv\b")
_LONGEST_LINE = 1000


def early_ends(diff: Sequence[FileDiff], read: Callable[[FileDiff], Versions]) -> Iterator[Objection]:
    """At most one for each file: a process that is ended at once, anywhere but in one that was forked off, or when a
    module is loaded.
    """
    for file in diff:
        if file.kind == "D" or _FILES.search(file.path) is None:
            continue
        line = next((line.number for line in file.added if _AT_ONCE.search(line.text[:_LONGEST_LINE])), None)
        if line is not None and _FORKS.search(read(file).after or ""):
            line = None
        if line is None:
            line = _when_loaded(file, read)
        if line is not None:
            yield Objection(file.path, line, "ends the process as if all were well")


def _when_loaded(file: FileDiff, read: Callable[[FileDiff], Versions]) -> int | None:
    if not file.path.endswith(".py"):
        return next((line.number for line in file.added if _IN_NODE.match(line.text[:_LONGEST_LINE])), None)
    added = {line.number for line in file.added if _MAY_EXIT.search(line.text[:_LONGEST_LINE])}
    if not added:
        return None
    tree = parsed(read(file).after or "")
    try:
        return next((number for number in _exits(tree.body) if number in added), None) if tree else None
    except RecursionError:
        return None


def _exits(body: Sequence[ast.stmt]) -> Iterator[int]:
    """The lines that end the process with success when a module is loaded, whoever loads it."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and _OF_A_SCRIPT.search(ast.unparse(statement.test)):
            continue
        if _is_exit(statement):
            yield statement.lineno
        for name in ("body", "orelse", "finalbody"):
            yield from _exits(getattr(statement, name, []))
        for handler in getattr(statement, "handlers", []):
            yield from _exits(handler.body)


def _is_exit(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        raised = statement.exc
        named = raised.func if isinstance(raised, ast.Call) else raised
        return isinstance(named, ast.Name) and named.id == "SystemExit" and _is_success(raised)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    function = statement.value.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return name in ("exit", "quit") and _is_success(statement.value)


def _is_success(raised: ast.expr | None) -> bool:
    """Whether an exit is given nothing, or 0."""
    given = raised.args if isinstance(raised, ast.Call) else []
    return all(isinstance(each, ast.Constant) and not each.value for each in given)
