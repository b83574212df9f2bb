"""Which lines of what an agent wrote address a judge: those are not shown to it.

A line is looked at in every reading that a model might see through: without invisible characters and accents, with
look-alike letters as Latin ones, unescaped, split at the borders of words, run together, reversed and decoded.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from urllib.parse import unquote

from rulebook_ralph.checks.quarantine_phrases import PHRASES, RUN_TOGETHER, WHOLE_LINES

_LEADER = re.compile(r"^[\s#/*\-+>|\"'`;!<%.:=~(){}\[\],&$@\u2022]+")
_TRAILER = re.compile(r"[\s\\\"'`*/;,+(){}\[\]>-]+$")
_STRING_SEAM = re.compile(r"[\"'`]\s*[+.]?\s*[\"'`]")
_ESCAPE = re.compile(r"\\(?:u\{?([0-9a-fA-F]{4,6})\}?|x([0-9a-fA-F]{2}))")
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-./\\+]+")
_BRACKET = re.compile(r"[<>\[\]]")
_SPACE = re.compile(r"\s+")
_NOT_A_LETTER = re.compile(r"[\W\d_]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_WHOLLY_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}={0,2}")
_HEX = re.compile(r"(?:(?:0x)?[0-9a-fA-F]{2}[\s:,]{0,2}){10,}")
_BLANKS = dict.fromkeys(map(ord, "\u115f\u1160\u3164\uffa0\u2800\u034f"))
_DEEPEST = 3

_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u043a\u043c\u0442\u043d\u0432\u0433\u0437"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9"
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22"
    "\u0131\u0261\u0251\u00f8\u0142\u0111\u0127"
    "0134578@$",
    "aeopcyxijshdqwkmthbrzaeiknoptuxwabcdefghijklmnoprstuvwyzigaoldhoieastbas",
)
"""Letters of other alphabets, small capitals and digits, as the Latin letters they are read as."""

_ENCLOSED = ((0x1F150, 26), (0x1F170, 26), (0x1F1E6, 26))
_ENCLOSED_LETTERS = {start + place: chr(ord("a") + place) for start, count in _ENCLOSED for place in range(count)}


def suspicious_lines(lines: Sequence[str]) -> dict[int, str]:
    """The lines of one text that address a judge: their index, from 0, and the kind of address. A phrase that goes over
    several lines marks all of them.
    """
    return _found(lines, _DEEPEST)


def addresses_a_judge(text: str) -> str:
    """The kind of address in a short text, such as a path; empty where there is none."""
    return next(iter(suspicious_lines([text]).values()), "")


def _found(lines: Sequence[str], depth: int) -> dict[int, str]:
    plain = [_plain(line) for line in lines]
    found: dict[int, str] = {}
    for view, seam in _views(plain):
        for place, kind in _whole_lines(view):
            found.setdefault(place, kind)
        for first, last, kind in _phrases([_folded(line) for line in view], seam, PHRASES):
            found.update({place: kind for place in range(first, last + 1) if place not in found})
    letters = [_NOT_A_LETTER.sub("", _latin(line.lower())) for line in plain]
    for first, last, kind in _phrases(letters, "", RUN_TOGETHER):
        found.update({place: kind for place in range(first, last + 1) if place not in found})
    if depth:
        for first, last, text in _decoded(plain):
            kinds = _found(text.splitlines(), depth - 1)
            if kinds:
                kind = next(iter(kinds.values())).removesuffix(", encoded")
                found.update({place: f"{kind}, encoded" for place in range(first, last + 1) if place not in found})
    return found


def _views(plain: list[str]) -> Iterator[tuple[list[str], str]]:
    """The text as it stands, and every other reading of it that differs, each with what joins its lines: a phrase goes
    over a space, not over a line feed.
    """
    yield plain, " "
    readings: tuple[tuple[Callable[[str], str], str], ...] = (
        (lambda line: _latin(line.lower()), " "),
        (lambda line: _WORD_BORDER.sub(" ", line), "\n"),
        (lambda line: codecs.encode(line, "rot13"), "\n"),
        (lambda line: line[::-1], "\n"),
    )
    for reading, seam in readings:
        view = [reading(line) for line in plain]
        if view != plain:
            yield view, seam


def _whole_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for place, line in enumerate(lines):
        bare = _bare(line)
        for kind, pattern in WHOLE_LINES:
            if bare and pattern.fullmatch(bare):
                yield place, kind


def _phrases(
    lines: Sequence[str], seam: str, families: Sequence[tuple[str, re.Pattern[str]]]
) -> Iterator[tuple[int, int, str]]:
    """First and last line of each phrase, and its kind; the lines are read as one text."""
    starts = list(accumulate((len(line) + len(seam) for line in lines), initial=0))
    text = seam.join(lines)
    for kind, pattern in families:
        for match in pattern.finditer(text):
            first, last = (bisect_right(starts, at) - 1 for at in (match.start(), max(match.start(), match.end() - 1)))
            yield first, min(last, len(lines) - 1), kind


def _decoded(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Texts that stand encoded in the lines, with the first and last line of each."""
    run: list[str] = []
    for place, line in enumerate([*lines, ""]):
        bare = _bare(line).strip("=") if line else ""
        if bare and _WHOLLY_BASE64.fullmatch(bare):
            run.append(bare)
            continue
        if len(run) > 1 and (text := _of_base64("".join(run))):
            yield place - len(run), place - 1, text
        run = []
    for place, line in enumerate(lines):
        texts = [_of_base64(match[0]) for match in _BASE64.finditer(line)]
        texts += [_of_hex(match[0]) for match in _HEX.finditer(line)]
        yield from ((place, place, text) for text in texts if text)


def _of_base64(text: str) -> str:
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    bare = bare[: len(bare) - 1] if len(bare) % 4 == 1 else bare
    try:
        return _readable(base64.b64decode(bare + "=" * (-len(bare) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _of_hex(text: str) -> str:
    digits = re.sub(r"0x|[\s:,]", "", text)
    return _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def _readable(raw: bytes) -> str:
    """The bytes as text, where they are text."""
    for encoding in ("utf-8", "utf-16"):
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if all(char.isprintable() or char.isspace() for char in text):
            return text
    return ""


def _plain(line: str) -> str:
    """The line with escapes resolved and all that cannot be seen taken out."""
    if "&" in line:
        line = html.unescape(line)
    if "%" in line:
        line = unquote(line)
    if "\\" in line:
        line = _ESCAPE.sub(_character, line)
    line = _STRING_SEAM.sub("", line)
    if line.isascii():
        return line
    decomposed = unicodedata.normalize("NFKD", line.translate(_BLANKS))
    seen = "".join(char for char in decomposed if unicodedata.category(char) not in {"Cf", "Mn", "Me"})
    return unicodedata.normalize("NFC", seen)


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1] or escape[2], 16)
    return chr(code) if 0x20 <= code < 0xD800 else escape[0]  # noqa: PLR2004 - neither controls nor surrogates


def _latin(line: str) -> str:
    return line.translate(_ENCLOSED_LETTERS).translate(_ALIKE)


def _bare(line: str) -> str:
    """The line without signs of comments, lists and strings around it."""
    return _TRAILER.sub("", _LEADER.sub("", line))


def _folded(line: str) -> str:
    """For phrases over several lines; brackets at the ends stay, which mark roles and delimiters."""
    kept = line if _BRACKET.search(line) else _bare(line)
    return _SPACE.sub(" ", kept).strip().lower().replace("\u2019", "'")
