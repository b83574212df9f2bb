"""Text that others wrote, made safe to show on a terminal or in a log: it can move no cursor and hide no character."""

import re
import unicodedata

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


def printable(text: str) -> str:
    """`text` as one line without escape sequences, control characters, bidi overrides or other invisible characters.

    A line break or tab becomes a space, a lone surrogate U+FFFD. Applying it twice changes nothing more.
    """
    return text if _plain(text) else _cleaned(text, line_break=" ", tab=" ")


def printable_block(text: str) -> str:
    """Like `printable`, but lines stay lines (ended by a line feed) and a tab becomes four spaces."""
    return text if _plain(text) else _cleaned(text, line_break="\n", tab="    ")


def printable_text(text: str) -> str:
    """Like `printable_block`, but a tab stays a tab: for what is kept, and read by others than terminals."""
    return text if _plain(text) else _cleaned(text, line_break="\n", tab="\t")


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _cleaned(text: str, *, line_break: str, tab: str) -> str:
    parts = (part.split("\t") for part in _BREAKS.sub("\n", _SEQUENCES.sub("", text)).split("\n"))
    return line_break.join(tab.join(map(_line, part)) for part in parts)


def _line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_shown, text))


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


def cut(text: str, width: int, *, ellipsis: str = "…") -> str:
    """`text` when it fits into `width` columns, else its beginning with an ellipsis."""
    if display_width(text) <= width:
        return text
    room = width - len(ellipsis)
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > room:
            return (text[:index] + ellipsis)[: max(width, 0)]
    return text


def clipped(text: str) -> str:
    """The beginning of an agent's or command's text as one printable line; costs the same however long it is."""
    return cut(printable(text[: 4 * _LONGEST]).strip(), _LONGEST)


def fold(text: str, width: int) -> list[str]:
    """`text` (one line) as lines of at most `width` columns, broken at spaces; a longer word is broken anywhere."""
    lines, line, used = [], "", 0
    for word in text.split():
        columns = display_width(word)
        if line and used + 1 + columns <= width:
            line, used = f"{line} {word}", used + 1 + columns
            continue
        if line:
            lines.append(line)
        *whole, line = _chopped(word, width) if columns > width else [word]
        lines += whole
        used = display_width(line)
    return [*lines, line] if line else lines


def _chopped(word: str, width: int) -> list[str]:
    parts, start, used = [], 0, 0
    for index, character in enumerate(word):
        columns = _columns(character)
        if used + columns > width and index > start:
            parts.append(word[start:index])
            start, used = index, 0
        used += columns
    return [*parts, word[start:]]


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def capital(text: str) -> str:
    """The text with its first letter as a capital, for the start of a sentence."""
    return text[:1].upper() + text[1:]
