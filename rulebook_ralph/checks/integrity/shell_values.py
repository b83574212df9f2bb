"""What the words of a shell's commands stand for, as far as its own text says what its variables hold."""

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence

from rulebook_ralph.checks.integrity.shell_words import BEGIN, END

UNKNOWN = "\x03"
"""Stands in a value for what is not known."""
ROOT = "/\x04"
"""Stands for the repository's root, where a path is known from there."""
_REFERENCE = re.compile(rf"{BEGIN}(\d+){END}|\$(?:\{{([^}}]{{0,200}})\}}|([A-Za-z_]\w*|[\d@*#?!$-]))")
_INSIDE = re.compile(r"([A-Za-z_]\w*|[\d@*])(?:\[[^\]]*\])?(.*)", re.DOTALL)
_BRACES = re.compile(r"\{[^{}]*\}")
_MOST, _LONGEST, _MOST_REFERENCES = 32, 1000, 8
_MOST_OF_ALL = 20_000
"""Steps that all expansions of a text may take together."""
_A_STEP = 50
"""Characters that are put together in a step."""


class Values:
    """The variables of one text, as it is read from its beginning to its end."""

    def __init__(self, substituted: Callable[[int], Sequence[str]]) -> None:
        self._substituted = substituted
        self._known: dict[str, tuple[str, ...]] = {}
        self._left = _MOST_OF_ALL

    def assign(self, name: str, values: Iterable[str] | None, *, more: bool = False) -> None:
        """None: nothing is known of it any more."""
        if values is None:
            self._known.pop(name, None)
        else:
            before = self._known.get(name, ()) if more else ()
            self._known[name] = tuple(value for value in (*before, *values) if value or not before)[: 4 * _MOST]

    def assign_word(self, word: str) -> None:
        """What `NAME=VALUE` and `NAME+=VALUE` do."""
        name, _, value = word.partition("=")
        values = self.expand(value)
        before = self._known.get(name.removesuffix("+"))
        if name.endswith("+") and before and value.startswith(" "):
            values = [f"{one}{other}" for one in before for other in values][:_MOST]
            before = None
        self.assign(name.removesuffix("+"), values, more=name.endswith("+") and before is not None)

    def expand(self, word: str, *, split: bool = True) -> list[str]:
        """All that a word may stand for; one that is a reference alone stands for the words of its value."""
        if "$" not in word and BEGIN not in word:
            return [_BRACES.sub(_alternatives, word) if "{" in word else word]
        if self._left <= 0 or len(word) > 2 * _LONGEST:
            return [UNKNOWN]
        return [_BRACES.sub(_alternatives, value) for value in self._expanded(word, split=split)]

    def _expanded(self, word: str, *, split: bool) -> list[str]:
        results = [""]
        at = 0
        for references, match in enumerate(_REFERENCE.finditer(word)):
            values = self._values(match)
            self._left -= len(values)
            if match[0] == word and split:
                return [part for value in values for part in value.split() or [""]][: 2 * _MOST]
            if references >= _MOST_REFERENCES:
                return [UNKNOWN]
            results = [f"{one}{word[at : match.start()]}{value}"[:_LONGEST] for one in results for value in values]
            results = results[:_MOST]
            self._left -= sum(1 + len(one) // _A_STEP for one in results)
            at = match.end()
        return [f"{one}{word[at:]}" for one in results]

    def _values(self, match: re.Match[str]) -> Sequence[str]:
        if match[1] is not None:
            return self._substituted(int(match[1])) or (UNKNOWN,)
        inside = _INSIDE.fullmatch(match[2]) if match[3] is None else None
        name, operation = (inside[1], inside[2]) if inside else (match[3] or "", "")
        known = self._known.get(name, ())
        if operation.startswith((":-", ":=", "-", "=")):
            return (*known, operation.lstrip(":").removeprefix("-").removeprefix("="))
        if operation in ("%/*", "%%/*"):
            known = tuple(posixpath.dirname(value) or "." for value in known)
        elif operation:
            known = ()
        return known or (UNKNOWN,)


def _alternatives(match: re.Match[str]) -> str:
    return "*" if "," in match[0] or ".." in match[0] else match[0]
