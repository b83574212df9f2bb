"""The assertions of one Python test that can make it fail: reached, not suppressed, and no tautologies."""

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from rulebook_ralph.checks.integrity.python_source import last_name, parsed

_CALL = re.compile(
    r"(?:assert|expect|check|verify|ensure|validate|should|raises|warns|deprecated_call|fail)", re.IGNORECASE
)
_SWALLOWED = frozenset(("AssertionError", "Exception", "BaseException"))
_ANY = frozenset(("Exception", "BaseException"))
_RAISES = frozenset(("raises", "assertRaises", "assertRaisesRegex"))
_EQUAL = frozenset(("assertEqual", "assertIs", "assertEquals"))
_TRUE = frozenset(("assertTrue", "assert_"))


@dataclass(slots=True)
class Assertions:
    """`effective` are the texts of those that count. `dead`: the lines (1 is the test's first) of what cannot fail.
    `returns`: the lines where it may end before one that counts; `wide`: where any exception will do.
    """

    effective: list[str] = field(default_factory=list)
    tautologies: list[int] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    returns: list[int] = field(default_factory=list)
    suppressed: list[int] = field(default_factory=list)
    wide: list[int] = field(default_factory=list)


def assertions_of(text: str) -> Assertions | None:
    """None where it cannot be read as Python. `text` is one test, with its decorators."""
    tree = parsed(textwrap.dedent(text))
    if tree is None or len(tree.body) != 1:
        return None
    found = Assertions()
    try:
        if isinstance(function := tree.body[0], ast.FunctionDef | ast.AsyncFunctionDef):
            _Reader(found).body(function.body, is_dead=False)
    except RecursionError:
        return None
    return found


class _Reader:
    """Goes through statements. `is_dead`: they are not reached, or cannot make the test fail. Each method tells whether
    what follows is dead.
    """

    def __init__(self, found: Assertions) -> None:
        self._found = found

    def body(self, statements: Sequence[ast.stmt], *, is_dead: bool) -> bool:
        for statement in statements:
            if is_dead:
                self._found.dead |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
            is_dead = self._statement(statement, is_dead=is_dead) or is_dead
        return is_dead

    def _statement(self, node: ast.stmt, *, is_dead: bool) -> bool:
        if isinstance(node, ast.Return):
            if node.value is None or isinstance(node.value, ast.Constant):
                self._found.returns.append(node.lineno)
            return True
        if isinstance(node, ast.Try):
            return self._try(node, is_dead=is_dead)
        if isinstance(node, ast.With | ast.AsyncWith):
            return self._with(node, is_dead=is_dead)
        if isinstance(node, ast.If):
            return self._if(node, is_dead=is_dead)
        if isinstance(node, ast.Assert):
            self._assertion(node, node.test, is_dead=is_dead)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            self.body([*node.body, *node.orelse], is_dead=is_dead)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = Assertions()
            _Reader(inner).body(node.body, is_dead=is_dead)
            self._found.effective += inner.effective
        else:
            self._calls(node, is_dead=is_dead)
        return False

    def _try(self, node: ast.Try, *, is_dead: bool) -> bool:
        suppressed = any(map(_swallows, node.handlers))
        self._found.suppressed += [node.lineno] if suppressed else []
        is_over = self.body(node.body, is_dead=is_dead or suppressed) and not suppressed
        for handler in node.handlers:
            self.body(handler.body, is_dead=is_dead)
        self.body(node.orelse, is_dead=is_dead)
        return self.body(node.finalbody, is_dead=is_dead) or (is_over and not node.handlers)

    def _with(self, node: ast.With | ast.AsyncWith, *, is_dead: bool) -> bool:
        opened = [item.context_expr for item in node.items]
        suppressed = any(_called(each) == "suppress" and _names(each) & _SWALLOWED for each in opened)
        self._found.suppressed += [node.lineno] if suppressed else []
        for each in opened:
            self._calls(each, is_dead=is_dead)
        return self.body(node.body, is_dead=is_dead or suppressed) and not suppressed

    def _if(self, node: ast.If, *, is_dead: bool) -> bool:
        constant = _constant(node.test)
        over = self.body(node.body, is_dead=is_dead or constant is False)
        other = self.body(node.orelse, is_dead=is_dead or constant is True)
        return over and (constant is True or (bool(node.orelse) and other))

    def _assertion(self, node: ast.stmt | ast.Call, test: ast.expr | None, *, is_dead: bool) -> None:
        if test is not None and _is_always(test):
            self._found.tautologies.append(node.lineno)
        elif not is_dead:
            self._found.effective.append(ast.unparse(node))

    def _calls(self, node: ast.AST, *, is_dead: bool) -> None:
        """Calls that check something, the outermost of each."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if not isinstance(each, ast.Call) or not _CALL.match(_called(each).lstrip("_")):
                waiting += ast.iter_child_nodes(each)
                continue
            name = _called(each)
            if name in _RAISES and each.args and _names(each.args[0]) & _ANY and not each.keywords:
                self._found.wide.append(each.lineno)
            first = each.args[0] if each.args else None
            is_same = len(each.args) > 1 and name in _EQUAL and _is_same(each.args[0], each.args[1])
            self._assertion(each, ast.Constant(True) if is_same else first if name in _TRUE else None, is_dead=is_dead)


def _is_always(test: ast.expr) -> bool:
    """Whether an expression is true whatever the program does."""
    if isinstance(test, ast.BoolOp):
        each = [_is_always(value) for value in test.values]
        return any(each) if isinstance(test.op, ast.Or) else all(each)
    if isinstance(test, ast.Tuple | ast.List):
        return bool(test.elts)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        equal = isinstance(test.ops[0], ast.Eq | ast.Is | ast.GtE | ast.LtE)
        return equal and _is_same(test.left, test.comparators[0])
    return _constant(test) is True


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two sides say the same: whatever the program answers, it answers twice."""
    return ast.dump(one) == ast.dump(other)


def _constant(test: ast.expr) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _constant(test.operand)
        return None if inner is None else not inner
    return bool(test.value) if isinstance(test, ast.Constant) else None


def _swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a failed assertion is caught and nothing fails then."""
    if handler.type is not None and not _names(handler.type) & _SWALLOWED:
        return False
    inner = Assertions()
    _Reader(inner).body(handler.body, is_dead=False)
    fails = any(isinstance(node, ast.Raise) for each in handler.body for node in ast.walk(each))
    return not fails and not inner.effective


def _names(node: ast.AST) -> set[str]:
    return {last_name(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}


def _called(node: ast.AST) -> str:
    return last_name(node.func) if isinstance(node, ast.Call) else ""
