"""What Python code puts in place of names of other modules: by assignment, setattr, patch, sys.modules."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rulebook_ralph.checks.integrity.python_source import last_name, parsed, text_of
from rulebook_ralph.core.diff import FileDiff, Versions

_PATCHES = frozenset(("patch", "object", "multiple", "setattr", "setitem", "replace", "delattr"))
_SET_UP = frozenset(
    ("setUpModule", "setup_module", "setup_function", "setup_package", "pytest_configure", "pytest_sessionstart")
)
_MAY_REPLACE = re.compile(
    r"(?<![\w.])(?!self\.|cls\.)[A-Za-z_]\w*(?:\.\w+)+\s*(?::[^=]*)?=(?!=)|\bsetattr\b|\bpatch\b|\bsys\.modules\b|__dict__|\bvars\("
    r"|\bgetattr\(.*=|\bmodules\[|\bimport_module\(|__import__"
)
_LONGEST_LINE = 500


@dataclass(frozen=True, slots=True)
class Replaced:
    """`target` is the whole dotted name. `function`: in which it is done, empty for all tests: where a module is
    loaded, or in a fixture that no test asks for.
    """

    target: str
    line: int
    function: str


def may_replace(file: FileDiff) -> bool:
    """Whether a Python file has got lines that may put something in place of other modules' names."""
    return (
        file.kind != "D"
        and file.path.endswith(".py")
        and any(_MAY_REPLACE.search(line.text[:_LONGEST_LINE]) for line in file.added)
    )


def newly_replaced(texts: Versions) -> Iterator[Replaced]:
    """What the new version of a file replaces, and the old one did not."""
    before = {(each.target, each.function) for each in replaced_names(texts.before or "")}
    for each in replaced_names(texts.after or ""):
        if (each.target, each.function) not in before:
            yield each


def replaced_names(text: str) -> tuple[Replaced, ...]:
    """All of a module; none where it cannot be read."""
    tree = parsed(text)
    try:
        return tuple(_in_body(tree.body, "", _aliases(tree))) if tree else ()
    except RecursionError:
        return ()


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the names of a module stand for, where these are other modules or parts of them."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = f"{node.module or ''}.{each.name}".lstrip(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _dotted(node.value, found)
            if value and not isinstance(node.value, ast.Name):
                found.setdefault(node.targets[0].id, value)
    return found


def _in_body(body: list[ast.stmt], function: str, names: dict[str, str]) -> Iterator[Replaced]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = function or ("" if _is_for_all(statement) else statement.name)
            for decorator in statement.decorator_list:
                yield from _in_expression(decorator, statement.name, names)
            yield from _in_body(statement.body, inside, names)
            continue
        yield from _in_statement(statement, function, names)
        for name in ("body", "orelse", "finalbody"):
            yield from _in_body(getattr(statement, name, []), function, names)
        for handler in getattr(statement, "handlers", []):
            yield from _in_body(handler.body, function, names)


def _is_for_all(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is run for tests that do not ask for it."""
    if function.name in _SET_UP:
        return True
    return any(
        isinstance(each, ast.Call)
        and any(key.arg == "autouse" and getattr(key.value, "value", True) for key in each.keywords)
        for each in function.decorator_list
    )


def _in_statement(statement: ast.stmt, function: str, names: dict[str, str]) -> Iterator[Replaced]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    for target in targets:
        if (name := _assigned(target, names)) is not None:
            yield Replaced(name, statement.lineno, function)
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr | ast.withitem):
            yield from _in_expression(child, function, names)


def _in_expression(node: ast.AST, function: str, names: dict[str, str]) -> Iterator[Replaced]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and last_name(call.func) in _PATCHES and call.args:
            first, second = call.args[0], call.args[1] if len(call.args) > 1 else None
            name = text_of(first) or _dotted(first, names)
            part = text_of(second)
            if name == "sys.modules" and part:
                yield Replaced(part, call.lineno, function)
            elif name and part and text_of(first) is None:
                yield Replaced(f"{name}.{part}", call.lineno, function)
            elif name and text_of(first) is not None:
                yield Replaced(name, call.lineno, function)


def _assigned(target: ast.expr, names: dict[str, str]) -> str | None:
    """The name of another module that an assignment changes."""
    if isinstance(target, ast.Attribute):
        return _dotted(target, names)
    if isinstance(target, ast.Subscript):
        holder, key = _dotted(target.value, names), text_of(target.slice)
        if holder == "sys.modules" and key:
            return key
        if holder and key and holder.endswith(".__dict__"):
            return f"{holder.removesuffix('.__dict__')}.{key}"
    return None


def _dotted(node: ast.expr | None, names: dict[str, str]) -> str | None:
    """What `a.b.c` means by the imports of its module."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        holder = _dotted(node.value, names)
        return f"{holder}.{node.attr}" if holder else None
    if isinstance(node, ast.Call) and node.args:
        function, first = last_name(node.func), text_of(node.args[0])
        if function in ("import_module", "__import__"):
            return first
        if function == "getattr" and len(node.args) > 1:
            holder, part = _dotted(node.args[0], names), text_of(node.args[1])
            return f"{holder}.{part}" if holder and part else None
        if function == "vars":
            holder = _dotted(node.args[0], names)
            return f"{holder}.__dict__" if holder else None
    return None
