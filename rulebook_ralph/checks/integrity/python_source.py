"""Python that an agent wrote, read without running it."""

import ast
import warnings

_LONGEST = 300_000


def parsed(text: str) -> ast.Module | None:
    """The tree of a module; None where it is none, or too long or too deep to be looked at."""
    if len(text) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its escapes; they are not ours to tell
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def last_name(node: ast.AST | None) -> str:
    """`c` of `a.b.c`; empty for what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def text_of(node: ast.AST | None) -> str | None:
    """The text that a literal is."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
