"""Scripts that become part of a gate's shell: what in them would end the gate, or stand for its own commands."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rulebook_ralph.checks.integrity import known_programs as known

_FUNCTION = re.compile(
    r"^(?P<indent>[ \t]*)(?:function[ \t]+)?(?P<name>[\w.:\[-]+)[ \t]*\(\)|^[ \t]*function[ \t]+(?P<sub>[\w.:-]+)"
)
_ENDS = re.compile(r"(?:^|[;&|{(]|\b(?:then|do|else))\s*(?:exit(?:\s+0)?\s*(?:$|[;&|)}#])|exec\s+[^\d<>&\s])")
"""With success, or as another program says."""
_DECIDES = re.compile(
    r"(?:^|[;&|{(]|\b(?:then|do|else))\s*(?:return\b|trap\s|alias\s|set\s+\+e|set\s+-n|(?:export\s+)?PATH=|enable\s+-n)"
)
_FAILS = re.compile(r"(?:^|[;&|{(\s])(?:exit\s+(?:[1-9]|\$)|false\b|kill\s)")
_CHECKS = re.compile(r"(?:assert|expect|should|must|fail|die|abort|verify|test_|run_test|run_check)", re.IGNORECASE)
_BUILT_IN = frozenset(("exit", "return", "exec", "trap", "eval", "command", "builtin"))
_COMMANDS = (
    known.HARMLESS
    | known.INTERPRETERS
    | known.MAKES
    | known.MANAGERS
    | known.STARTERS
    | known.RUNNERS
    | known.TOOLS.keys()
    | _BUILT_IN
)
_LONGEST_LINE = 1000


_Lines = list[tuple[int, str]]


@dataclass(slots=True)
class _Script:
    """A shell's text taken apart: `functions` by name with their lines, where they start, and lines with their numbers,
    all of them and those outside of functions.
    """

    functions: dict[str, list[str]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    lines: _Lines = field(default_factory=list)
    outside: _Lines = field(default_factory=list)


def what_decides(before: str | None, after: str | None) -> Iterator[tuple[int, str]]:
    """What one version of a script that is sourced has and the other had not, by which it decides what a gate says:
    the line (1 is the first) and what it is.
    """
    old, new = _read(before or ""), _read(after or "")
    yield from _added(old, new)
    if before is not None:
        yield from _weakened(old, new)


def _added(old: _Script, new: _Script) -> Iterator[tuple[int, str]]:
    for found, pattern, what in (
        (_new_lines(old.lines, new.lines), _ENDS, "would end the gate"),
        (_new_lines(old.outside, new.outside), _DECIDES, "decides how the gate goes on"),
    ):
        yield from ((number, what) for number, line in found if pattern.search(line))
    for name, start in new.starts.items():
        if name not in old.functions and name in _COMMANDS:
            yield start, f"stands for the command `{name}`"


def _weakened(old: _Script, new: _Script) -> Iterator[tuple[int, str]]:
    for name, lines in old.functions.items():
        now = new.functions.get(name, [])
        if now != lines and (_CHECKS.match(name) or _fails(now) < _fails(lines)):
            yield new.starts.get(name, 1), f"has another `{name}`, by which the gate checks"
    if _fails_in(new.outside) < _fails_in(old.outside) and _fails_in(new.lines) < _fails_in(old.lines):
        yield 1, "does not fail any more where it did"


def functions_of(text: str) -> frozenset[str]:
    """The names of the functions that a shell's text defines."""
    return frozenset(_read(text).functions)


def _new_lines(old: _Lines, new: _Lines) -> Iterator[tuple[int, str]]:
    was_there = Counter(line for _, line in old)
    for number, line in new:
        was_there[line] -= 1
        if was_there[line] < 0 and not line.startswith("#"):
            yield number, line


def _fails_in(lines: _Lines) -> int:
    return _fails([line for _, line in lines])


def _fails(lines: list[str]) -> int:
    return sum(1 for line in lines if _FAILS.search(line) and not line.startswith("#"))


def _read(text: str) -> _Script:
    script = _Script()
    inside, indent, depth = "", 0, 0
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole[:_LONGEST_LINE]
        stripped = line.strip()
        script.lines.append((number, stripped))
        if not inside and (found := _FUNCTION.match(line)):
            inside, indent, depth = found["name"] or found["sub"], len(line) - len(line.lstrip()), 0
            script.starts[inside] = number
            script.functions[inside] = []
        if not inside:
            script.outside.append((number, stripped))
            continue
        script.functions[inside].append(stripped)
        depth += line.count("{") + line.count("(") - line.count("}") - line.count(")")
        ends = stripped.endswith(("}", ")", "};")) and len(line) - len(line.lstrip()) <= indent
        if ends and (depth <= 0 or stripped in ("}", "};", ")")):
            inside = ""
    return script
