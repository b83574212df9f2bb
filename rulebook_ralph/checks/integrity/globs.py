"""Globs as in a .gitignore: without a slash at any depth, a folder stands for all in it, `**`, `!` takes back."""

import re
from collections.abc import Iterable

_DEEP, _ANY, _STAR = "(?:.*/)?", ".*", "[^/]*"
_WIDE = (_DEEP, _ANY, _STAR)
_MOST_WIDE = 2
"""So many parts of any length a regular expression may have: each multiplies the work on a path."""


class Globs:
    """Several globs; of those that match a path the last one decides."""

    def __init__(self, globs: Iterable[str]) -> None:
        self._rules = [(_Glob(glob.removeprefix("!")), not glob.startswith("!")) for glob in globs if glob.strip("/!")]

    def match(self, path: str) -> bool:
        """Whether a path of the repository (of a file, with slashes) is meant."""
        return next((meant for rule, meant in reversed(self._rules) if rule.match(path)), False)


class _Glob:
    """One glob, as a regular expression where that is quick, or else followed character by character."""

    def __init__(self, glob: str) -> None:
        self._parts = _parts(glob)
        self._is_folder = glob.endswith("/")
        inside = "/.*" if self._is_folder else "(?:/.*)?"
        self._expression = re.compile("".join(self._parts) + inside, re.DOTALL)
        self._is_quick = sum(part in _WIDE for part in self._parts) <= _MOST_WIDE

    def match(self, path: str) -> bool:
        return self._expression.fullmatch(path) is not None if self._is_quick else self.follow(path)

    def follow(self, path: str) -> bool:
        """The same in a time that grows with the length of the glob times that of the path."""
        single = [None if part in _WIDE else re.compile(part, re.DOTALL) for part in self._parts]
        end = len(self._parts)
        states = self._reached({(0, False)})
        for character in path:
            if character == "/" and (end, False) in states:
                return True
            following: set[tuple[int, bool]] = set()
            for at, is_inside in states:
                if at == end:
                    continue
                part, pattern = self._parts[at], single[at]
                if pattern is not None:
                    if pattern.fullmatch(character):
                        following.add((at + 1, False))
                elif part == _DEEP:
                    following.add((at, True))
                    if character == "/":
                        following.add((at + 1, False))
                elif part == _ANY or character != "/":
                    following.add((at, is_inside))
            states = self._reached(following)
        return not self._is_folder and (end, False) in states

    def _reached(self, states: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
        """With the states that need no further character: a wide part may be empty, save inside of a `**/`."""
        waiting = [at for at, is_inside in states if not is_inside]
        while waiting:
            at = waiting.pop()
            if at < len(self._parts) and self._parts[at] in _WIDE and (at + 1, False) not in states:
                states.add((at + 1, False))
                waiting.append(at + 1)
        return states


def _parts(glob: str) -> list[str]:
    """Regular expressions of what stands one after another, each for one character or one of `_WIDE`."""
    parts = [] if "/" in glob.rstrip("/") else [_DEEP]
    glob = glob.strip("/").removeprefix("./")
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            part, at = _DEEP, at + 3
        elif glob.startswith("**", at):
            part, at = _ANY, at + 2
        elif glob[at] == "[" and "]" in glob[at + 2 :]:
            end = glob.index("]", at + 2)
            part, at = _characters(glob[at + 1 : end]), end + 1
        elif glob[at] == "\\" and at + 1 < len(glob):
            part, at = re.escape(glob[at + 1]), at + 2
        else:
            part, at = {"*": _STAR, "?": "[^/]"}.get(glob[at], re.escape(glob[at])), at + 1
        if not (part in _WIDE and parts[-1:] == [part]):  # twice says no more than once
            parts.append(part)
    return parts


def _characters(text: str) -> str:
    negated = text.startswith(("!", "^"))
    text = text[1:] if negated else text
    safe = re.sub(r"([\\\[\]^&~|])", r"\\\1", text)
    if any(first > last for first, last in re.findall(r"(.)-(.)", text, re.DOTALL)):
        safe = safe.replace("-", r"\-")
    return f"[{'^/' if negated else ''}{safe}]" if safe else "(?!)"
