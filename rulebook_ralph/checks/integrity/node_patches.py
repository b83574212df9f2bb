"""JavaScript that changes what assertions do, which modules are loaded, or how the process ends."""

import re
from collections.abc import Callable, Iterator, Sequence

from rulebook_ralph.checks.integrity.extraction import is_comment
from rulebook_ralph.checks.integrity.languages import JAVASCRIPT
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

_FILES = re.compile(r"\.[cm]?[jt]sx?$")
_LOADER = re.compile(
    r"\brequire\.cache\[.*\]\s*(?:\.exports\s*)?=(?!=)|\brequire\.extensions\[|\bModule\.(?:_load|_resolveFilename|_extensions|"
    r"prototype\.require)\b[^=]*=(?![=>])|\bObject\.assign\(\s*require\.cache"
)
_PROCESS = re.compile(
    r"\bprocess\.(?:exit|reallyExit|abort)\s*=(?!=)|\bprocess\.exitCode\s*=\s*0\b|\bprocess\.on(?:ce)?\(\s*['\"]exit['\"].*"
    r"(?:exitCode\s*=|process\.exit\(\s*0|reallyExit)"
)
_IMPORTED = re.compile(
    r"\b(?:const|let|var|import)\s+(?:\*\s+as\s+)?(?P<one>[\w$]+|\{[^}\n]*\})\s*(?:=\s*(?:await\s+)?(?:require|import)\(|\bfrom\b)\s*"
    r"['\"](?:node:)?(?:assert(?:/strict)?|test|chai|vitest|@jest/globals|expect|should|power-assert|tape|ava)['\"]"
)
_ALWAYS = frozenset(("assert", "expect", "chai"))
_GLOBAL = re.compile(
    r"\b(?:globalThis|global|window)\.(?:assert|expect|test|it|describe)\s*=(?!=)\s*(?:\(|async\b|function\b|new\s+Proxy|[\w$]+\s*=>)"
)
_MATCHERS = re.compile(
    r"\bexpect\.extend\(\s*\{\s*(?:async\s+)?(?:toBe|toEqual|toStrictEqual|toMatchObject|toThrow|toContain|toHaveLength|"
    r"toBeTruthy|toBeDefined|toMatchSnapshot|toHaveBeenCalled\w*)\b"
)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_LONGEST_LINE = 1000


def node_patches(diff: Sequence[FileDiff], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """One objection for each file in which such a line was added."""
    for file in diff:
        if file.kind == "D" or _FILES.search(file.path) is None or excused(file.path):
            continue
        was_there = {line.text.strip() for line in file.removed}
        names = _ALWAYS | {
            name
            for line in file.added
            for found in _IMPORTED.finditer(line.text[:_LONGEST_LINE])
            for name in _WORD.findall(found["one"])
        }
        for line in file.added:
            text = line.text[:_LONGEST_LINE].strip()
            if text not in was_there and not is_comment(text, JAVASCRIPT) and (what := _what(text, names)) is not None:
                yield Objection(file.path, line.number, what)
                break


def _what(text: str, names: frozenset[str]) -> str | None:
    if _LOADER.search(text):
        return "modules are replaced while they are loaded"
    if _PROCESS.search(text):
        return "how the process ends is changed, and so what a test run tells"
    if _GLOBAL.search(text) or _MATCHERS.search(text) or _changes_one_of(text, names):
        return "what assertions and tests do is changed while they run"
    return None


def _changes_one_of(text: str, names: frozenset[str]) -> bool:
    """Whether a part of an assertion library gets another value."""
    if "=" not in text and "Object." not in text:
        return False
    changed = re.match(
        r"(?:\(?\s*)?(?:require\(\s*['\"](?:node:)?(?:assert(?:/strict)?|chai|test)['\"]\s*\)|([A-Za-z_$][\w$]*))"
        r"(?:\.prototype)?(?:\.[\w$]+|\[[^\]]+\])+\s*=(?![=>])",
        text,
    )
    if changed is not None:
        return changed[1] is None or changed[1] in names
    defined = re.match(r"Object\.(?:assign|defineProperty|defineProperties|setPrototypeOf)\(\s*([\w$]+)", text)
    return defined is not None and defined[1] in names
