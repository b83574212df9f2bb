"""A text as it reads once what nobody sees is taken out of it, and where each character that is left stood.

What a terminal obeys (escape sequences), control characters, and characters without width are not seen. A tab and a
line feed are. Patterns are compiled where they are first needed: most texts hide nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from rulebook_ralph.core.printable import SEQUENCES

_FIRST_PLANE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
)
_FURTHER = "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
_CHARACTERS = f"[{_FIRST_PLANE}{_FURTHER}]"
_MAY_BEGIN = rf"{_FIRST_PLANE}\U000110bd-\U0001d17a\U000e0000-\U000e0fff"
"""With few ranges beyond the first plane, which are looked through one by one for every character of a text."""

_U = r"\\(?:(?<!\\\\)\\)?u"
"""The same as JSON writes them, also in JSON within JSON: of a longer row of backslashes only the last one is its."""

_ESCAPED_CHARACTERS = (
    rf"{_U}(?i:00(?:0[0-8b-f]|1[0-9a-f]|7f|[89][0-9a-f]|ad)|034f|06(?:0[0-5]|1c|dd)|070f|089[01]|08e2|17b[45]|180[b-f]"
    r"|200[b-f]|202[a-e]|206[0-9a-f]|fe0[0-9a-f]|feff|fff[9ab]|d804\\{1,2}udc[bc]d|d80d\\{1,2}udc3[0-9a-f]"
    r"|d82f\\{1,2}udca[0-3]|d834\\{1,2}udd7[3-9a]|db4[0-3]\\{1,2}ud[c-f][0-9a-f]{2})"
    r"|\\(?<!\\\\)[bfr]"
)
_ESCAPE = rf"{_U}001[bB]"
_ENDS = rf"{_U}00(?:07|1[bB]|9[cC])"
_ESCAPED_SEQUENCES = (
    rf"(?:{_ESCAPE}\[|{_U}009[bB])[0-?]*[ !#-/]*[@-\[\]-~]?"
    rf"|(?:{_ESCAPE}[\]PX^_]|{_U}009(?:[08]|[d-fD-F]))(?:[^\"\\\n\x07\x1b\x9c]|(?!{_ENDS})\\[\"\\/bfrt])*"
    rf"(?:{_U}0007|{_ESCAPE}(?:\\\\){{1,2}}(?:\\(?=\\u))?|{_U}009[cC])?"
    rf"|{_ESCAPE}[ !#-/]*[0-\[\]-~]?"
)
_MAY_HIDE = f"[{_MAY_BEGIN}]"
_MAY_HIDE_ESCAPED = rf"[\\{_MAY_BEGIN}]"


@dataclass(frozen=True, slots=True)
class Reading:
    """`text` is made of pieces of another: they begin at `seen_at` here, and at `stood_at` there."""

    text: str
    seen_at: list[int]
    stood_at: list[int]

    def place(self, index: int) -> int:
        """Where the character with that index stood."""
        piece = bisect_right(self.seen_at, index) - 1
        return self.stood_at[piece] + index - self.seen_at[piece]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """From where to where stood what is seen from `start` to before `end`, which is more than nothing."""
        return self.place(start), self.place(end - 1) + 1

    def after(self, count: int) -> "Reading":
        """The same of a text in which `count` characters stand before this one's."""
        return Reading(self.text, self.seen_at, [start + count for start in self.stood_at])


def readings(text: str) -> list[Reading]:
    """The text as it is, and where something in it is not seen, each way it may read."""
    return [Reading(text, [0], [0]), *_others(text)]


def _others(text: str) -> Iterator[Reading]:
    """Without sequences, and with their letters: what one reader takes for a sequence may be none for another."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return
    if re.search(_MAY_HIDE, text):
        yield _without(text, SEQUENCES, _CHARACTERS, begins=_MAY_HIDE)
        yield _without(text, _CHARACTERS, begins=_MAY_HIDE)
    if "\\" in text and re.search(_ESCAPED_CHARACTERS, text):
        escaped = (_ESCAPED_CHARACTERS, _CHARACTERS)
        yield _without(text, _ESCAPED_SEQUENCES, SEQUENCES, *escaped, begins=_MAY_HIDE_ESCAPED)
        yield _without(text, *escaped, begins=_MAY_HIDE_ESCAPED)


def _without(text: str, *unseen: str, begins: str) -> Reading:
    """The reading without what is not seen; `begins` passes quickly over all that cannot be the beginning of it."""
    first, whole = re.compile(begins), re.compile(f"(?:{'|'.join(unseen)})++")
    pieces, seen_at, stood_at = [], [], []
    length = end = 0
    found = first.search(text)
    while found:
        start, following = found.span()
        if match := whole.match(text, start):
            if start > end:
                pieces.append(text[end:start])
                seen_at.append(length)
                stood_at.append(end)
                length += start - end
            end = following = match.end()
        found = first.search(text, following)
    return Reading("".join([*pieces, text[end:]]), [*seen_at, length], [*stood_at, end])
