"""Text that others wrote, made safe to show: it moves no cursor and hides nothing. And how lists, amounts and faults
read to a person.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SEQUENCES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement, erasing
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, to their end
    r"|\x1b[ -/]*[0-~]?"  # all other escapes
)
"""What a terminal obeys, as a regular expression."""

_SEQUENCES = re.compile(SEQUENCES)
_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
_KEPT = "\u200c\u200d"
"""Joiners: several scripts and emoji are misspelt without them."""

_NARROW = re.compile("[ -~\xa0-\xac\xae-\u02ff\u2010-\u2027\u2030-\u205e]*")
"""Western text with its dashes and quotation marks: one column each."""

_LONGEST = 500
_INVISIBLE = ("Cc", "Cf", "Cs")


def printable(text: str, *, line_break: str = " ", tab: str = " ") -> str:
    """`text` as one line without escape sequences, control characters, bidi overrides or other invisible characters.

    A line break or tab becomes a space, a lone surrogate U+FFFD. Applying it twice changes nothing more.
    """
    if text.isascii() and text.isprintable():
        return text
    lines = (line.split("\t") for line in _BREAKS.sub("\n", _SEQUENCES.sub("", text)).split("\n"))
    return line_break.join(
        tab.join(part if part.isprintable() else "".join(map(_shown, part)) for part in parts) for parts in lines
    )


def printable_block(text: str, *, tab: str = "    ") -> str:
    """Like `printable`, but lines stay lines (ended by a line feed), and a tab becomes four spaces; it may stay one
    where a text is kept, and read by others than terminals.
    """
    return printable(text, line_break="\n", tab=tab)


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if category not in _INVISIBLE or character in _KEPT:
        return character
    return "\ufffd" if category == "Cs" else ""


def display_width(text: str) -> int:
    """Terminal columns that `text` (one line, printable) takes: wide characters two, combining ones none."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    return sum(map(_columns, text))


def cut(text: str, width: int) -> str:
    """`text` when it fits into `width` columns, else its beginning with an ellipsis."""
    if display_width(text) <= width:
        return text
    room = width - 1
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > room:
            return (text[:index] + "…")[: max(width, 0)]
    return text


def clipped(text: str) -> str:
    """The beginning of an agent's or command's text as one printable line; costs the same however long it is."""
    return cut(printable(text[: 4 * _LONGEST]).strip(), _LONGEST)


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def capital(text: str) -> str:
    """The text with its first letter as a capital, for the start of a sentence."""
    return text[:1].upper() + text[1:]


def escaped(text: str, longest: int = 80) -> str:
    """The text fit for one line of a message: cut, with control characters and lone surrogates escaped."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in cut)


def one_line(text: str, longest: int) -> str:
    """The text printable, its white space folded to single blanks, cut to `longest` characters."""
    return " ".join(printable(text).split())[:longest]


BYTES_PER_TOKEN = 3
"""Of UTF-8: English has about four."""


def estimated_tokens(text: str) -> int:
    """An upper estimate of a text's tokens, before any model has counted them."""
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN


# Names and amounts in a sentence


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 problem`, `2 problems`; `plural` for a noun that takes more than an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def some(names: Collection[str], most: int = 5, between: str = ", ") -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    shown = between.join(list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


_MINUTE, _HOUR, _CENT, _LEAST, _THOUSAND = 60, 3600, 0.01, 0.0001, 1000


def duration(seconds: float) -> str:
    """`12.3 s`, from a minute on `1 min 05 s`, from an hour on `1 h 02 min`; never negative."""
    if round(seconds, 1) < _MINUTE:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes // _MINUTE} h {minutes % _MINUTE:02d} min"


def span(seconds: float) -> str:
    """A round length of time, such as a limit: `0.5 s`, `90 s` is `1 min 30 s`, 600 s `10 min`, 3600 s `1 h`."""
    if seconds < _MINUTE and seconds == int(seconds):
        return f"{int(seconds)} s"
    return duration(seconds).removesuffix(" 00 s").removesuffix(" 00 min")


def money(usd: float) -> str:
    """Dollars with cents; below a cent with one digit that says something."""
    if 0 < usd < _CENT:
        return f"<${_LEAST}" if usd < _LEAST else f"${usd:.4f}".rstrip("0")
    return f"${usd:,.2f}"


def cost(usd: float, spent: int) -> str:
    """What so many tokens cost, where anybody told; that nothing was paid is said only of no tokens."""
    known = known_cost(usd, spent)
    return "cost unknown" if known is None else money(known)


def known_cost(usd: float, spent: int) -> float | None:
    """None where something was spent, and nobody told what it cost."""
    return usd if usd or not spent else None


def tokens(count: int) -> str:
    """`1 token`, `950 tokens`, `12.4k tokens`, `1.2M tokens`."""
    if count < _THOUSAND:
        return counted(count, "token")
    thousands = count / _THOUSAND
    if round(thousands, 1) < _THOUSAND:
        return f"{thousands:.1f}k tokens"
    return f"{thousands / _THOUSAND:,.1f}M tokens"


def nearest(name: str, known: Collection[str], *, cutoff: float = 0.55) -> str:
    """The name that was probably meant, or none; `cutoff` is how alike the two must be, at most 1."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name needs it

    folded = {each.casefold(): each for each in known}
    near = get_close_matches(name[:200].casefold().replace("-", ""), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else ""


# What is wrong with a file

JsonPath = tuple[str | int, ...]
"""Keys and indexes from the top of a document to one value of it."""

LONGEST_MESSAGE = 200


class Fault(NamedTuple):
    """Something wrong at one place of a document, before anyone knows which line that is."""

    path: JsonPath
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in a file. `line` counts from 1; `path` is a JSON path (`$.tasks[3].priority`), empty where none fits."""

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


def json_path(path: Sequence[str | int]) -> str:
    """The path as people write it: `$.tasks[3].priority`."""
    return "$" + dotted("", path)


def dotted(start: str, path: Sequence[str | int]) -> str:
    """`start` followed by every step of the path: `.key` or `[index]`."""
    return start + "".join(f"[{step}]" if isinstance(step, int) else f".{escaped(step)}" for step in path)
