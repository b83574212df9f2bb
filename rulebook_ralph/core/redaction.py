"""Keeping secrets out of everything that is written or shown."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import is_
from typing import Any, TypeVar, cast
from urllib.parse import quote, quote_plus

import msgspec

_V = TypeVar("_V")

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_IN_AN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s:]*:([^/@\s]+)@", re.IGNORECASE)
"""`scheme://user:password@host`, under whatever name."""

_SHORTEST = 8
_SHORTEST_LINE = 16
"""Of a secret of several lines, such as a private key: shorter ones stand in other texts too."""

_SHORTEST_PART = 6
_LEFT_OUT = re.compile(r"\n… \d+ (?:bytes|characters) left out …\n")
_SHAPES = (  # each begins with a letter, so that the search passes quickly over what begins none of them
    r"sk-ant-[A-Za-z0-9_-]{16,}",
    r"sk-(?<![aeiou]sk-)[A-Za-z0-9_-]{20,}",  # not the end of task-, disk- or risk-
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{20,}",
    r"A(?:KI|SI)A[0-9A-Z]{16}",
    r"[sr]k_live_[0-9A-Za-z]{16,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}",
    r"hf_(?:(?<![A-Za-z0-9]hf_)|(?<=\\[nrt]hf_)|(?<=[0-9]mhf_))[A-Za-z0-9]{30,}",  # not a word's end; an escape's
    r"AIza[0-9A-Za-z_-]{30,}",
    r"eyJ[A-Za-z0-9_-]{10,500}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
)
MARK = "[redacted]"
_MARK_BYTES = MARK.encode()
_LONGEST_SHAPE = 4096


class Redactor:
    """Replaces the values of secret-named environment variables, and known token shapes, by a mark."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {form for value in _secrets(environment) for form in _forms(value)}
        self._known = sorted(values, key=len, reverse=True)
        literal = [re.escape(value) for value in self._known]
        self._shapes = re.compile("|".join(_SHAPES))
        self._pattern = re.compile("|".join([*literal, *_SHAPES]))
        self._bytes_pattern = re.compile(self._pattern.pattern.encode("utf-8", "surrogatepass"))
        self._longest = max([_LONGEST_SHAPE, *(len(value.encode("utf-8", "surrogatepass")) for value in values)])

    def holds_value(self, text: str) -> bool:
        """Whether a secret of the environment itself is in the text, not only what looks like one."""
        return any(value in text for value in self._known)

    def clean(self, text: str) -> str:
        """The text with every secret replaced."""
        pattern = self._pattern if self.holds_value(text) else self._shapes  # the second is far quicker
        return pattern.sub(MARK, text)

    def clean_cut(self, text: str) -> str:
        """The same for a text that may begin, end or be cut in the middle of a secret: its part is replaced too."""
        pieces = _LEFT_OUT.split(text)
        if len(pieces) == 1:
            return self._clean_ends(text)
        marks = _LEFT_OUT.findall(text)
        cleaned = map(self._clean_ends, pieces)
        return next(cleaned) + "".join(f"{mark}{piece}" for mark, piece in zip(marks, cleaned, strict=True))

    def _clean_ends(self, text: str) -> str:
        text = self.clean(text)
        if length := max((_cut_at_end(text, value) for value in self._known), default=0):
            text = text[:-length] + MARK
        if length := max((_cut_at_start(text, value) for value in self._known), default=0):
            text = MARK + text[length:]
        return text

    def clean_blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same for a stream: a secret that lies across two blocks is found too."""
        rest = b""
        for block in blocks:
            data = rest + block
            end = max(0, len(data) - self._longest)
            across = (match for match in self._bytes_pattern.finditer(data) if match.start() < end < match.end())
            end = min((match.start() for match in across), default=end)
            yield self._bytes_pattern.sub(_MARK_BYTES, data[:end])
            rest = data[end:]
        yield self._bytes_pattern.sub(_MARK_BYTES, rest)


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
    """The secret as it may stand in a text: as it is, inside JSON or an address, a line of it."""
    if len(value) < _SHORTEST:
        return
    yield value
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
