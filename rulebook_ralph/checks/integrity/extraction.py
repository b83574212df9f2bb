"""The tests in a text: their names, where they stand, what they say. By patterns, never by running anything."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from rulebook_ralph.checks.integrity.languages import PYTHON, Language

_CLASS = re.compile(r"^[ \t]*class[ \t]+(\w+)")
_BARE_STRING = re.compile(r"^[ \t]*[rRbBuUfF]{0,2}(\"\"\"|''')[\s\S]*?\1", re.MULTILINE)
_MOST_LINES = 3000
"""Lines of one test."""
_MOST_TEXT = 16 * 1024 * 1024
_LONGEST_LINE = 2000
_FARTHEST = 500
"""Characters of a line in which a test may begin."""
_LONG_QUOTES = ('"""', "'''")
_TOKEN = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_NAME = re.compile(r"[A-Za-z_$]")
_RETURN = re.compile(r"return\b\s*(?:;|None|nil|true|Ok\(\(\)\);?)?\s*$|(?:pytest\.)?exit\b")
_ASSERTION = re.compile(
    r"assert|expect|EXPECT|ASSERT|\bREQUIRE|\bCHECK|[Ss]hould\b|\brefute|\bXCT|\bt\.(?:Error|Fatal|Fail|is|ok|equal|deep|true|false|throws|not)"
    r"|\b(?:require|is|qt|td|must)\.[A-Z]\w*\(|\braises\b|\bwarns\b|\b\w*(?:check|verify|ensure|validate|compare)\w*!?\s*\("
    r"|\bfail(?:IfNo|Unless|If)?\w*\(|\bpanic!|\braise\b|\bthrow\b|[sS]napshot|^\s*(?:\[\[?|test|run|grep|diff|cmp)\s"
    r"|\.unwrap\(\)|\?;|\bmust\b|\bOutput:",
    re.MULTILINE,
)
_FAILS = re.compile(
    r"\bt\.(?:Error|Fatal|Fail)|[Ff]ail|panic|raise|throw|warns|unwrap|\?;|napshot|Output:"
    r"|^\s*(?:\[|test|run|grep|diff|cmp)"
)
_COMMON_TEXT = (
    "self this def async await function const let var func fn pub void public class return if else for in "
    "of not is and or true false True False None null nil undefined new t it test expect should be to eq "
    "equal equals toBe toEqual toStrictEqual assert assertEqual assertEquals assertTrue assertFalse "
    "assertIs assertIsNone assertIn assertRaises assert_eq assert_ne assertThat pytest raises with as "
    "mock fixture mark end do describe unittest TestCase have eql that Equal True_ require Error Errorf "
    "Fatal Fatalf testing T err got want result expected actual"
)
_COMMON = frozenset(_COMMON_TEXT.split())


@dataclass(frozen=True, eq=False)
class Case:
    """One test. `line` is where it begins, its decorators aside; `scope` the class around it; `text` all of it."""

    language: Language
    path: str
    name: str
    scope: str
    line: int
    first_line: int
    text: str

    @cached_property
    def code(self) -> str:
        """The text without comments and texts that stand by themselves."""
        return without_comments(self.text, self.language)

    @cached_property
    def skipped_at(self) -> int | None:
        """The line that skips it, or keeps it from being run."""
        for number, line in enumerate(self.text.split("\n"), self.first_line):
            if self.language.skip.search(without_strings(line)) and not is_comment(line, self.language):
                return number
        return None

    @cached_property
    def assertions(self) -> int:
        """How many lines check something; what says nothing (`assert True`) or is never reached does not count."""
        return len(self.asserting)

    @cached_property
    def asserting(self) -> tuple[str, ...]:
        """The lines that check something."""
        return tuple(line for line in self._reached() if _ASSERTION.search(line) and _says_something(line))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """The names and literals that tell what is tested."""
        return _tokens(self.code) - {self.name}

    @cached_property
    def assertion_tokens(self) -> frozenset[str]:
        """Those of the lines that check something."""
        return _tokens("\n".join(line for line in self._reached() if _ASSERTION.search(line)))

    @property
    def is_many(self) -> bool:
        return self.language.many.search(self.text) is not None

    def _reached(self) -> Iterator[str]:
        """The lines of the body up to a return that always happens."""
        lines = self.code.split("\n")
        head = self.line - self.first_line
        body = [line[:_LONGEST_LINE] for line in lines[head + 1 :] if line.strip()]
        first = lines[head] if head < len(lines) else ""
        base = min((indent for line in body if (indent := _indent(line)) > _indent(first)), default=-1)
        yield first[:_LONGEST_LINE]
        for line in body:
            if _indent(line) == base and _RETURN.match(line.strip()):
                return
            if self.language.never.search(line):
                return
            yield line


def cases(text: str, path: str, language: Language) -> list[Case]:
    """The tests of a file, in their order. Of a file that would cost too much, tests are cut."""
    starts = [found for found in language.start.finditer(text) if _is_start(text, found, language)]
    if not starts:
        return []
    lines = text.split("\n")
    offsets = list(accumulate((len(line) + 1 for line in lines), initial=0))
    rows = [bisect_right(offsets, _name_at(found)) - 1 for found in starts]
    scopes = _scopes(lines, rows) if language is PYTHON else {}
    found_cases = []
    budget = _MOST_TEXT
    for found, row, limit in zip(starts, rows, _limits(lines, rows), strict=True):
        top = _top(lines, bisect_right(offsets, found.start()) - 1, language)
        end = _end(lines, row, limit, language)
        name = next(value for key in _NAME_GROUPS if (value := found.groupdict().get(key)) is not None)
        span = "\n".join(lines[top : end if budget > 0 else row + 1])
        budget -= len(span)
        found_cases.append(Case(language, path, name, scopes.get(row, ""), row + 1, top + 1, span))
    return found_cases


def _limits(lines: Sequence[str], rows: Sequence[int]) -> list[int]:
    """For each test the row that it ends before at the latest: the next test that is not within it."""
    limits = [0] * len(rows)
    later: list[tuple[int, int]] = []
    for at in range(len(rows) - 1, -1, -1):
        indent = _indent(lines[rows[at]])
        while later and later[-1][0] > indent:
            later.pop()
        limits[at] = min(later[-1][1] if later else len(lines), rows[at] + _MOST_LINES)
        if rows[at] < limits[at]:
            later.append((indent, rows[at]))
        limits[at] = max(limits[at], rows[at] + 1)
    return limits


def without_comments(text: str, language: Language) -> str:
    """A text without comments, and in Python without texts that stand by themselves; with the same lines."""
    if language is PYTHON:
        text = _BARE_STRING.sub(_line_feeds, text) if '"""' in text or "'''" in text else text
    elif language.comment.startswith("//") and "/*" in text:
        text = _without_block_comments(text)
    mark = language.comment.strip()
    return "\n".join("" if line.lstrip().startswith(mark) else line for line in text.split("\n"))


def _without_block_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("/*", at)) >= 0 and (end := text.find("*/", start + 2)) >= 0:
        kept += [text[at:start], "\n" * text.count("\n", start, end)]
        at = end + 2
    return "".join([*kept, text[at:]])


def without_strings(line: str) -> str:
    """A line (the beginning of a long one) with nothing in its strings: what they say is no code."""
    return _STRING.sub(_empty_string, line[:_LONGEST_LINE])


def _empty_string(found: re.Match[str]) -> str:
    return found[0][0] * 2


def is_comment(line: str, language: Language) -> bool:
    """Whether a line is a comment as a whole."""
    stripped = line.lstrip()
    return stripped.startswith(language.comment) or (language.comment != "#" and stripped.startswith(("*", "/*")))


def gained_tokens(lines: Sequence[str]) -> frozenset[str]:
    """The names and literals in lines that were added."""
    return _tokens("\n".join(lines))


_NAME_GROUPS = ("name", "sub", "title")


def _name_at(found: re.Match[str]) -> int:
    return next(found.start(key) for key in _NAME_GROUPS if key in found.groupdict() and found[key] is not None)


def _is_start(text: str, found: re.Match[str], language: Language) -> bool:
    """Whether what looks like a test begins its line (or follows what may stand there) and is no comment."""
    begin = text.rfind("\n", max(0, found.start() - _FARTHEST), found.start())
    if begin < 0 and found.start() > _FARTHEST:
        return False
    before = text[begin + 1 : found.start()].strip()
    if language is PYTHON:
        return before in ("", "async")
    return not before.startswith((language.comment.strip(), "*", "/*"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _top(lines: Sequence[str], row: int, language: Language) -> int:
    """The first row of what stands above a test and belongs to it, over several lines too."""
    top, at, indent = row, row - 1, _indent(lines[row])
    while at >= 0 and (line := lines[at]).strip():
        own = _indent(line)
        if own == indent and language.before.match(line):
            top = at
        elif own < indent or (own == indent and line.strip()[0] not in ")]}"):
            break
        at -= 1
    return top


def _end(lines: Sequence[str], row: int, limit: int, language: Language) -> int:
    """The row behind a test."""
    indent = _indent(lines[row])
    if language.end == "indent":
        return _end_by_indent(lines, row, limit, indent)
    closing = ("}", ")") if language.end == "brace" else ("end",)
    line = lines[row]
    if language.end == "brace" and line.count("{") == line.count("}") and line.count("(") == line.count(")") > 0:
        following = lines[row + 1].strip() if row + 1 < len(lines) else ""
        if not following.startswith("{") and ("}" in line or line.rstrip().endswith(";")):
            return row + 1
    for at in range(row + 1, limit):
        text = lines[at]
        if text and _indent(text) <= indent and text.lstrip().startswith(closing):
            stays_open = text.rstrip().endswith(("{", "(", "[")) and _indent(text) == indent
            if not stays_open:
                return at + 1
    return limit


def _end_by_indent(lines: Sequence[str], row: int, limit: int, indent: int) -> int:
    quotes = ""
    open_signature = not lines[row].rstrip().endswith(":")
    last = row + 1
    deeper = indent + 1
    for at in range(row + 1, limit):
        line = lines[at]
        if not line:
            continue
        if not quotes and not line[:deeper].isspace():
            if not (open_signature and line.lstrip().startswith(")")):
                return last
            open_signature = False
        for mark in _LONG_QUOTES if '"""' in line or "'''" in line else ():
            if (not quotes or quotes == mark) and line.count(mark) % 2:
                quotes = "" if quotes else mark
        last = at + 1
    return last


def _scopes(lines: Sequence[str], rows: Sequence[int]) -> dict[int, str]:
    """Row of a test -> the name of the class around it."""
    around: list[tuple[int, str]] = []
    wanted = set(rows)
    found: dict[int, str] = {}
    for row, line in enumerate(lines):
        is_class = _CLASS.match(line) if "class" in line else None
        if is_class is None and row not in wanted:
            continue
        indent = _indent(line)
        while around and around[-1][0] >= indent:
            around.pop()
        if is_class:
            around.append((indent, is_class[1]))
        else:
            found[row] = around[-1][1] if around else ""
    return found


def _says_something(line: str) -> bool:
    """Whether a check fails outright, goes on in the next line, or names anything of the program's."""
    if _FAILS.search(line) or line.rstrip().endswith(("(", "[", "{", ",", "\\")):
        return True
    names = set(filter(_NAME.match, _TOKEN.findall(line))) - _COMMON
    return any(not _ASSERTION.match(name) for name in names)


def _tokens(text: str) -> frozenset[str]:
    return frozenset(token.strip("\"'") for token in _TOKEN.findall(text)) - _COMMON - {""}


def _line_feeds(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")
