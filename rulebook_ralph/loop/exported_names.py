"""The names that a source file offers: Python by its syntax tree; JavaScript, TypeScript, Go and Rust by patterns."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator

_LONGEST = 1_000_000
"""Characters; of a longer file nothing is said."""
_SCRIPTS = ("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts")

_JS_DECLARED = re.compile(
    r"^[ \t]*export[ \t]+(?:default[ \t]+)?(?:declare[ \t]+)?(?:abstract[ \t]+|async[ \t]+)?"
    r"(?:function\*?|class|const(?:[ \t]+enum)?|let|var|interface|type|enum|namespace)[ \t]+([A-Za-z_$][\w$]*)",
    re.MULTILINE,
)
_JS_DEFAULT = re.compile(r"^[ \t]*export[ \t]+default[ \t]+([A-Za-z_$][\w$]*)[ \t]*+(?:;[ \t]*+)?$", re.MULTILINE)
_JS_LIST = re.compile(
    r"^[ \t]*(?:export[ \t]+(?:type[ \t]+)?|(?:module\.)?exports[ \t]*=[ \t]*)\{([^{}]{0,5000})\}", re.MULTILINE
)
_JS_ASSIGNED = re.compile(r"^[ \t]*(?:module\.)?exports\.([A-Za-z_$][\w$]*)[ \t]*=", re.MULTILINE)
_JS_ITEM = re.compile(r"(?:type\s+)?(?:[\w$]+\s+as\s+)?([A-Za-z_$][\w$]*)\s*(?::|$)")

_GO_DECLARED = re.compile(r"^(?:type|var|const)[ \t]+([A-Z]\w*)", re.MULTILINE)
_GO_FUNCTION = re.compile(
    r"^func[ \t]++(?:\([ \t]*+(?:\w++[ \t]++)?\*?(\w++)[^)\n]*+\)[ \t]*+)?([A-Z]\w*)", re.MULTILINE
)
_GO_GROUP = re.compile(r"(?:type|var|const)[ \t]*\(")
_GO_MEMBER = re.compile(r"(?:\t| {2,4})([A-Z]\w*)")

_RUST = re.compile(
    r"^pub[ \t]+(?:(?:async|unsafe|const|extern(?:[ \t]+\"[^\"\n]*\")?)[ \t]+)*"
    r"(?:fn|struct|enum|trait|type|mod|static(?:[ \t]+mut)?|const|union)[ \t]+([A-Za-z_]\w*)",
    re.MULTILINE,
)


def exported_names(path: str, text: str) -> frozenset[str]:
    """What stands at the top of the file for others to use; nothing for a language that is not known."""
    ending = path.rpartition(".")[2]
    read = _READERS.get(ending)
    return frozenset(read(text)) if read is not None and len(text) <= _LONGEST else frozenset()


def is_read(path: str) -> bool:
    """Whether the names of such a file are known."""
    return path.rpartition(".")[2] in _READERS


def _python(text: str) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    names = [name for node in body for name in _defined(node)]
    listed = next((items for node in body if (items := _all_of(node)) is not None), None)
    yield from (name for name in names if (name in listed if listed is not None else not name.startswith("_")))


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _all_of(node: ast.stmt) -> frozenset[str] | None:
    """The names of `__all__`, where the statement is that and spells them out."""
    if not isinstance(node, ast.Assign) or "__all__" not in _defined(node):
        return None
    if not isinstance(node.value, ast.List | ast.Tuple):
        return None
    return frozenset(
        item.value for item in node.value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
    )


def _script(text: str) -> Iterator[str]:
    for pattern in (_JS_DECLARED, _JS_DEFAULT, _JS_ASSIGNED):
        yield from (found[1] for found in pattern.finditer(text))
    for found in _JS_LIST.finditer(text):
        items = (_JS_ITEM.match(item.strip()) for item in found[1].split(","))
        yield from (item[1] for item in items if item)


def _go(text: str) -> Iterator[str]:
    yield from (found[1] for found in _GO_DECLARED.finditer(text))
    for found in _GO_FUNCTION.finditer(text):
        yield f"{found[1]}.{found[2]}" if found[1] else found[2]
    yield from _go_grouped(text)


def _go_grouped(text: str) -> Iterator[str]:
    """Members of groups, which end with a bracket at the start of a line; nothing of one that does not end."""
    members: list[str] | None = None
    for line in text.split("\n"):
        if members is None:
            members = [] if _GO_GROUP.fullmatch(line) else None
        elif line.startswith(")"):
            yield from members
            members = None
        elif found := _GO_MEMBER.match(line):
            members.append(found[1])


def _rust(text: str) -> Iterator[str]:
    yield from (found[1] for found in _RUST.finditer(text))


_READERS: dict[str, Callable[[str], Iterator[str]]] = {
    "py": _python,
    "pyi": _python,
    "go": _go,
    "rs": _rust,
    **dict.fromkeys(_SCRIPTS, _script),
}
