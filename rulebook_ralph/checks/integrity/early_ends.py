"""Code under test that ends its process as if all were well, so that what comes after it is never run."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.python_source import last_name, parsed
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
_OF_MAIN = re.compile(r"__name__")
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


def ends_when_loaded(diff: Sequence[FileDiff], read: Callable[[FileDiff], Versions]) -> Iterator[Objection]:
    """At most one for each module of Python that ends at once whatever process loads it: no honest one does."""
    for file in diff:
        added = {line.number for line in file.added if _AT_ONCE.search(line.text[:_LONGEST_LINE])}
        tree = parsed(read(file).after or "") if added and file.path.endswith(".py") else None
        try:
            line = (
                next((number for number in _exits(tree.body, at_once=True) if number in added), None) if tree else None
            )
        except RecursionError:
            continue
        if line is not None:
            yield Objection(file.path, line, "ends any process that loads it, as if all were well")


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


def _exits(body: Sequence[ast.stmt], *, at_once: bool = False) -> Iterator[int]:
    """The lines that end the process with success when a module is loaded, whoever loads it; `at_once`: those without
    the process's last steps, which a script has no need of but below `__name__`.
    """
    of_a_script = _OF_MAIN if at_once else _OF_A_SCRIPT
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and of_a_script.search(ast.unparse(statement.test)):
            continue
        if _is_exit(statement, ("_exit",) if at_once else ("exit", "quit")):
            yield statement.lineno
        for name in ("body", "orelse", "finalbody"):
            yield from _exits(getattr(statement, name, []), at_once=at_once)
        for handler in getattr(statement, "handlers", []):
            yield from _exits(handler.body, at_once=at_once)


def _is_exit(statement: ast.stmt, names: Sequence[str]) -> bool:
    if isinstance(statement, ast.Raise) and "exit" in names:
        raised = statement.exc
        named = raised.func if isinstance(raised, ast.Call) else raised
        return isinstance(named, ast.Name) and named.id == "SystemExit" and _is_success(raised)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    return last_name(statement.value.func) in names and _is_success(statement.value)


def _is_success(raised: ast.expr | None) -> bool:
    """Whether an exit is given nothing, or 0."""
    given = raised.args if isinstance(raised, ast.Call) else []
    return all(isinstance(each, ast.Constant) and not each.value for each in given)
