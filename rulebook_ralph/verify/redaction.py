"""Keeping secrets out of everything that is written or shown."""

import codecs
import dataclasses
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import is_
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

import msgspec

from rulebook_ralph.tasks.text import SEQUENCES

_CHARACTERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_IN_JSON = (  # colours and such characters as JSON writes them, and JSON within JSON
    r"\\{1,2}(?i:u001b\[|u009b)[0-?]*[ -/]*[@-~]?"
    r"|\\{1,2}(?i:u00[01][0-9a-f]|u007f|u00[89][0-9a-f]|u00ad|u034f|u061c|u20[0-6][0-9a-f]|ufe0[0-9a-f]|ufeff"
    r"|udb4[0-3]\\{1,2}ud[c-f][0-9a-f]{2})"
)
_UNSEEN = re.compile(f"(?:{SEQUENCES}|[{_CHARACTERS}]|{_IN_JSON})+")


@dataclass(frozen=True, slots=True)
class Reading:
    """`text` is made of pieces of another: they begin at `seen_at` here, and at `stood_at` there."""

    text: str
    seen_at: Sequence[int] = (0,)
    stood_at: Sequence[int] = (0,)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """From where to where stood what is seen from `start` to before `end`, which is more than nothing."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, index: int) -> int:
        piece = bisect_right(self.seen_at, index) - 1
        return self.stood_at[piece] + index - self.seen_at[piece]


def readings(text: str) -> list[Reading]:
    """The text as it is, and as it reads where something in it is not seen, such as a colour within a secret."""
    if (text.isascii() and text.isprintable() and "\\" not in text) or not _UNSEEN.search(text):
        return [Reading(text)]
    pieces, seen_at, stood_at = [], [], []
    length = end = 0
    for match in (*_UNSEEN.finditer(text), None):
        start = match.start() if match else len(text)
        pieces.append(text[end:start])
        seen_at.append(length)
        stood_at.append(end)
        length += start - end
        end = match.end() if match else start
    return [Reading(text), Reading("".join(pieces), seen_at, stood_at)]


_V = TypeVar("_V")

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PASS$|_PWD$|_AUTH$", re.IGNORECASE)
_IN_AN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:([^/@\s]+)@", re.IGNORECASE)
"""`scheme://user:password@host`, under whatever name."""

_SHORTEST = 8
_SHORTEST_LINE = 16
"""Of a secret of several lines, such as a private key: shorter ones stand in other texts too."""

_SHORTEST_PART = 6
_LEFT_OUT = re.compile(r"\n… \d+ (?:bytes|characters) left out …\n|…\Z")
"""By which a text is told to be cut."""

_SHAPES = (  # each with a part of it that a text is quickly searched for
    ("sk-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    ("sk-", r"sk-(?<![aeiou]sk-)[A-Za-z0-9_-]{20,}"),  # not the end of task-, disk- or risk-
    ("gh", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    ("xox", r"xox[abprs]-[A-Za-z0-9-]{10,}"),
    ("xapp-", r"xapp-[A-Za-z0-9-]{20,}"),
    ("KIA", r"AKIA[0-9A-Z]{16}"),
    ("SIA", r"ASIA[0-9A-Z]{16}"),
    ("k_live_", r"[sr]k_live_[0-9A-Za-z]{16,}"),
    ("npm_", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi-Ag", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    # not a word's end; an escape's
    ("hf_", r"hf_(?:(?<![A-Za-z0-9]hf_)|(?<=\\[nrt]hf_)|(?<=[0-9]mhf_))[A-Za-z0-9]{30,}"),
    ("AIza", r"AIza[0-9A-Za-z_-]{30,}"),
    ("eyJ", r"eyJ[A-Za-z0-9_-]{10,500}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
)
MARK = "[redacted]"
_LONGEST_SHAPE = 4096


class Redactor:
    """Replaces the values of secret-named environment variables, and known token shapes, by a mark.

    Also those with something within them that nobody sees, such as a colour.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {form for value in _secrets(environment) for form in _forms(value)}
        self._known = sorted(values, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, self._known)))
        self._longest = max([_LONGEST_SHAPE, *map(len, values)])

    def holds_value(self, text: str) -> bool:
        """Whether a secret of the environment itself is in the text, not only what looks like one."""
        return any(value in reading.text for reading in readings(text) for value in self._known)

    def finds(self, text: str) -> bool:
        """Whether there is something to replace in the text."""
        return bool(self._found(text))

    def clean(self, text: str) -> str:
        """The text with every secret replaced."""
        return _replaced(text, self._found(text))

    def clean_cut(self, text: str) -> str:
        """The same for a text that may begin, end or be cut in the middle of a secret: its part is replaced too."""
        pieces = _LEFT_OUT.split(text)
        marks = (*_LEFT_OUT.findall(text), "")
        return "".join(f"{self._clean_ends(piece)}{mark}" for piece, mark in zip(pieces, marks, strict=True))

    def _clean_ends(self, text: str) -> str:
        text = self.clean(text)
        if end := max((_cut_at_end(text, value) for value in self._known), default=0):
            text = text[: len(text) - end] + MARK
        if start := max((_cut_at_start(text, value) for value in self._known), default=0):
            text = MARK + text[start:]
        return text

    def clean_blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same for a stream: a secret that lies across two blocks is found too."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        text = ""
        for block in blocks:
            text += decoder.decode(block)
            found = self._found(text)
            end = max(0, len(text) - 2 * self._longest)  # unseen characters make a secret longer
            end = next((start for start, after in found if start < end < after), end)
            yield _replaced(text[:end], [span for span in found if span[1] <= end]).encode("utf-8", "surrogateescape")
            text = text[end:]
        yield self.clean(text + decoder.decode(b"", final=True)).encode("utf-8", "surrogateescape")

    def _found(self, text: str) -> list[tuple[int, int]]:
        """From where to where secrets stand in a text, in order; none overlaps another."""
        spans = {reading.span(*match.span()) for reading in readings(text) for match in self._matches(reading.text)}
        apart: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if apart and start < apart[-1][1]:
                apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
            else:
                apart.append((start, end))
        return apart

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        if any(value in text for value in self._known):
            yield from self._values.finditer(text)
        for part, shape in _SHAPES:
            if part in text:
                yield from re.finditer(shape, text)


def _replaced(text: str, spans: Sequence[tuple[int, int]]) -> str:
    if not spans:
        return text
    ends = (0, *(end for _, end in spans))
    return "".join(f"{text[end:start]}{MARK}" for end, (start, _) in zip(ends, spans, strict=False)) + text[ends[-1] :]


def cleaned(value: _V, clean: Callable[[str], str]) -> _V:
    """A value (text, list, mapping, dataclass or struct, however nested) with every text in it cleaned.

    Whatever holds nothing to clean is given back as it is.
    """
    return cast("_V", _cleaned(value, clean))


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        text = clean(value)
        return value if text == value else text
    if isinstance(value, dict):
        keys, items = ([_cleaned(each, clean) for each in part] for part in (value.keys(), value.values()))
        same = all(map(is_, keys, value.keys())) and all(map(is_, items, value.values()))
        return value if same else dict(zip(keys, items, strict=True))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        items = [_cleaned(item, clean) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    changed = {}
    for name in _fields(value.__class__):
        before = getattr(value, name)
        if (after := _cleaned(before, clean)) is not before:
            changed[name] = after
    if not changed:
        return value
    replace = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
    return replace(value, **changed)


@cache
def _fields(kind: type) -> tuple[str, ...]:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return ()


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            yield value
        elif "@" in value:
            yield from _IN_AN_ADDRESS.findall(value)


def _forms(value: str) -> Iterator[str]:
    """The secret as it may stand in a text: as it is, as it reads, inside JSON or an address, a line of it."""
    if len(value) < _SHORTEST:
        return
    yield from (reading.text for reading in readings(value) if len(reading.text) >= _SHORTEST)
    if not value.isalnum():
        for ascii_only in (True, False):
            yield json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        encoded = _encoded(value)
        yield quote(encoded, safe="")
        yield quote(encoded)
        yield quote_plus(encoded)
    if len(lines := value.splitlines()) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)


def _encoded(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which only a file can give
        return value.encode("utf-8", "surrogatepass")


def _cut_at_end(text: str, value: str) -> int:
    """How much of the secret's beginning the text ends with; 0 for none, or too little."""
    head = value[:_SHORTEST_PART]
    at = text.find(head, max(0, len(text) - len(value) + 1))
    while at >= 0 and not value.startswith(text[at:]):
        at = text.find(head, at + 1)
    return len(text) - at if at >= 0 else 0


def _cut_at_start(text: str, value: str) -> int:
    """How much of the secret's end the text begins with; 0 for none, or too little."""
    tail = value[-_SHORTEST_PART:]
    end = len(value) - 1
    while (at := text.rfind(tail, 0, end)) >= 0 and not value.endswith(text[: at + len(tail)]):
        end = at + len(tail) - 1
    return at + len(tail) if at >= 0 else 0
