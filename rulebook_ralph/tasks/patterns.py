"""Patterns that a person writes: regular expressions on an agent's text, and globs on the repository's paths.

Whatever pattern and text are, a search ends in time and in little memory: the `regex` package is asked with its
timeout, and what that does not cover is refused before.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from math import prod

LONGEST = 1000
MOST_REPEATS = 10_000
"""Of all counted repeats together: `regex` copies what is inside `{n}`, and a few nested ones fill any memory."""

_COUNTED = re.compile(r"\{(\d*),?(\d*)\}", re.ASCII)
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")

HEAD = 50_000
TAIL = 150_000
"""Characters of a longer text that are searched."""

TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class Search:
    """`found` is the first group where the pattern has one that took part, else the whole match; None: no match.

    `problem` says why the pattern could not be searched to the end; nothing is found then.
    """

    found: str | None = None
    problem: str = ""


def problem_with_pattern(text: str) -> str | None:
    """What is wrong with a regular expression of the `regex` package, worded as a message, or None."""
    if len(text) > LONGEST:
        return f"is longer than {LONGEST} characters"
    counts = [max(int(low[:9] or 1), int(high[:9] or 1), 1) for low, high in _COUNTED.findall(text)]
    if prod(counts) > MOST_REPEATS:
        return f"its counted repeats come to more than {MOST_REPEATS}"
    if _RECURSIVE.search(text):
        return "must not call itself"
    import regex  # noqa: PLC0415 - costs 15 ms, and few files have a pattern

    try:
        pattern = regex.compile(text)
        matches_nothing = pattern.search("", timeout=1) is not None
    except regex.error as error:
        return f"is no regular expression: {error}"
    except (RecursionError, MemoryError, OverflowError, ValueError, TimeoutError):
        return "is no regular expression that can be used: it is too complex"
    return "matches an empty text, and so every text" if matches_nothing else None


def search(pattern: str, text: str, *, timeout: float = TIMEOUT) -> Search:
    """Search the text, or the head and tail of a long one, for at most `timeout` seconds. Never raises."""
    if (problem := problem_with_pattern(pattern)) is not None:
        return Search(problem=problem)
    import regex  # noqa: PLC0415 - 14 ms, and most projects have no pattern

    pieces = tuple(_pieces(text))
    try:
        for piece in pieces:
            match = regex.search(pattern, piece, timeout=timeout / len(pieces), concurrent=True)
            if match:
                first = match[1] if match.re.groups else None
                return Search(first if first is not None else match[0])
    except (TimeoutError, MemoryError, RecursionError):
        return Search(problem=f"took longer than {timeout:g} s or too much memory")
    return Search()


def _pieces(text: str) -> Iterator[str]:
    """The end comes first: it is where an agent says how it ended. No match lies across what is left out."""
    if len(text) <= HEAD + TAIL:
        yield text
    else:
        yield text[-TAIL:]
        yield text[:HEAD]


# Globs

_DEEP = "**"
_ESCAPED = re.compile(r"\\(.)")


class Globs:
    """Globs as in a .gitignore: without a slash at any depth, a folder stands for all in it, `**`, `!` takes back.
    Of those that match a path the last one decides.
    """

    def __init__(self, globs: Iterable[str]) -> None:
        self._rules = [(_Glob(glob.removeprefix("!")), not glob.startswith("!")) for glob in globs if glob.strip("/!")]

    def match(self, path: str) -> bool:
        """Whether a path of the repository (of a file, with slashes) is meant."""
        names = path.split("/")
        return next((meant for rule, meant in reversed(self._rules) if rule.match(names)), False)


class _Glob:
    """One glob, followed name by name: the time it takes grows with its length times that of the path."""

    def __init__(self, glob: str) -> None:
        self._is_folder = glob.endswith("/")
        names = glob.strip("/").removeprefix("./").split("/")
        names = [_DEEP, *names] if "/" not in glob.rstrip("/") else names
        self._parts: list[re.Pattern[str] | None] = []  # None, for `**`, never twice behind each other
        for name in filter(None, [*names, "*"] if names[-1] == _DEEP else names):
            if name != _DEEP:
                plain = _ESCAPED.sub(lambda found: f"[{found[1]}]", name)
                self._parts.append(re.compile(translate(plain.replace("[^", "[!"))))  # its stars never backtrack
            elif self._parts[-1:] != [None]:
                self._parts.append(None)

    def match(self, names: list[str]) -> bool:
        reached = {0}
        for index, name in enumerate(names):
            reached |= {at + 1 for at in reached if self._parts[at] is None}  # it may stand for no folder at all
            parts = [(at, self._parts[at]) for at in reached]
            reached = {at if part is None else at + 1 for at, part in parts if part is None or part.fullmatch(name)}
            if len(self._parts) in reached:
                return not self._is_folder or index + 1 < len(names)
        return False
