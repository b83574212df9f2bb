"""Keeping secrets out of everything that is written or shown."""

import codecs
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, quote_plus

import msgspec

from rulebook_ralph.tasks.text import SEQUENCES

if TYPE_CHECKING:
    from rulebook_ralph.git.diff import FileDiff  # git, not for commands that only show something

_CHARACTERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_IN_JSON = (  # colours and such characters as JSON writes them, and JSON within JSON
    r"\\{1,2}(?i:u001b\[|u009b)[0-?]*[ -/]*[@-~]?"
    r"|\\{1,2}(?i:u00[01][0-9a-f]|u007f|u00[89][0-9a-f]|u00ad|u034f|u061c|u20[0-6][0-9a-f]|ufe0[0-9a-f]|ufeff"
    r"|udb4[0-3]\\{1,2}ud[c-f][0-9a-f]{2})"
)
_UNSEEN = re.compile(f"(?:{SEQUENCES}|[{_CHARACTERS}]|{_IN_JSON})++")
"""Possessive: else a regular expression keeps a note of each of 32 million NULs."""


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
_LONGEST_LINE = 1024 * 1024


class Redactor:
    """Replaces the values of secret-named environment variables, and known token shapes, by a mark.

    Also those with something within them that nobody sees, such as a colour, which goes from the line then.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {form for value in _secrets(environment) for form in _forms(value)}
        self._known = sorted(values, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, self._known)))

    def holds_value(self, text: str) -> bool:
        """Whether a secret of the environment itself is in the text, not only what looks like one."""
        return any(value in read for read in (text, _visible(text)) for value in self._known)

    def finds(self, text: str) -> bool:
        """Whether there is something to replace in the text."""
        return bool(self._found(text) or self._found(_visible(text)))

    def clean(self, text: str) -> str:
        """The text with every secret replaced."""
        if _visible(text) != text:
            text = "\n".join(map(self._unhidden, text.split("\n")))
        if any(value in text for value in self._known):
            text = self._values.sub(MARK, text)
        for part, shape in _SHAPES:
            if part in text:
                text = re.sub(shape, MARK, text)
        return text

    def clean_cut(self, text: str) -> str:
        """The same for a text that may begin, end or be cut in the middle of a secret: its part is replaced too."""
        pieces = _LEFT_OUT.split(text)
        marks = (*_LEFT_OUT.findall(text), "")
        return "".join(f"{self._clean_ends(piece)}{mark}" for piece, mark in zip(pieces, marks, strict=True))

    def clean_blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same for a stream, line by line; a very long line at its spaces, or anywhere where it has none."""
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        text = ""
        for block in blocks:
            text += decoder.decode(block)
            is_long = len(text) >= _LONGEST_LINE
            if end := text.rfind(" " if is_long else "\n") + 1:
                yield self.clean(text[:end]).encode("utf-8", "surrogateescape")
                text = text[end:]
            elif is_long:
                yield self.clean_cut(text).encode("utf-8", "surrogateescape")
                text = ""
        yield self.clean(text + decoder.decode(b"", final=True)).encode("utf-8", "surrogateescape")

    def _unhidden(self, line: str) -> str:
        """The line as it reads, where that shows a secret which the line itself does not."""
        read = _visible(line)
        return read if read != line and Counter(self._found(read)) - Counter(self._found(line)) else line

    def _found(self, text: str) -> list[str]:
        known = self._values.findall(text) if any(value in text for value in self._known) else []
        return known + [found for part, shape in _SHAPES if part in text for found in re.findall(shape, text)]

    def _clean_ends(self, text: str) -> str:
        text = self.clean(text)
        if end := max((_cut_at_end(text, value) for value in self._known), default=0):
            text = text[: len(text) - end] + MARK
        turned = text[::-1]
        if start := max((_cut_at_end(turned, value[::-1]) for value in self._known), default=0):
            text = MARK + text[start:]
        return text


def _visible(text: str) -> str:
    """The text as it reads."""
    plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if plain else _UNSEEN.sub("", text)


def cleaned(value: _V, clean: Callable[[str], str]) -> _V:
    """A value (text, list, mapping, dataclass or struct, however nested) with every text in it cleaned.

    Whatever holds nothing to clean is given back as it is.
    """
    return cast("_V", _cleaned(value, clean))


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    after: Any
    if isinstance(value, str):
        after = clean(value)
    elif isinstance(value, dict):
        after = {_cleaned(key, clean): _cleaned(each, clean) for key, each in value.items()}
    elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        after = type(value)(_cleaned(each, clean) for each in value)
    else:
        told = {name: getattr(value, name) for name in _fields(value.__class__)}
        changed = {name: new for name, old in told.items() if (new := _cleaned(old, clean)) is not old}
        replace = msgspec.structs.replace if isinstance(value, msgspec.Struct) else dataclasses.replace
        return replace(value, **changed) if changed else value
    return value if after == value else after


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
    yield from (form for form in (value, _visible(value)) if len(form) >= _SHORTEST)
    if not value.isalnum():
        yield from (json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))
        yield from (quote(value, safe=safe, errors="surrogatepass") for safe in ("", "/"))
        yield quote_plus(value, errors="surrogatepass")
    if len(lines := value.splitlines()) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE)


def _cut_at_end(text: str, value: str) -> int:
    """How much of the secret's beginning the text ends with; 0 for none, or too little."""
    head = value[:_SHORTEST_PART]
    at = text.find(head, max(0, len(text) - len(value) + 1))
    while at >= 0 and not value.startswith(text[at:]):
        at = text.find(head, at + 1)
    return len(text) - at if at >= 0 else 0


# Secrets in what an attempt added; what they are is never told

_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_EXAMPLE = re.compile(
    r"EXAMPLE|PLACEHOLDER|REDACTED|DUMMY|CHANGE.?ME|YOUR[-_ ]|NOT[-_ ]?(?:A[-_ ])?REAL|FAKE|SAMPLE|"
    r"(.)\1{5,}|(?:0?123456|abcdef|\.\.\.|<[\w -]+>|\$\{|\{\{)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z0-9_+/.-]{8,}")
_LONGEST_READ = 20_000
_KEY_LINE = re.compile(r"^[\s\"'+\\n]*[A-Za-z0-9+/=]{32,}")


@dataclass(frozen=True, slots=True)
class SecretFound:
    """A place that was given a secret. `own`: it is a secret of this environment, which no task can ask for."""

    path: str
    line: int | None
    what: str
    own: bool = False

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.what}"


def secrets_in(diff: "Iterable[FileDiff]", redactor: Redactor) -> Iterator[SecretFound]:
    """The first secret of each file that was given one."""
    for file in diff:
        if (found := _in_name(file, redactor) or _in_lines(file, redactor)) is not None:
            yield found


def _in_name(file: "FileDiff", redactor: Redactor) -> SecretFound | None:
    own = redactor.holds_value(file.path)
    if file.kind not in "AR" or not (own or looks_secret(file.path, redactor)):
        return None
    what = "holds a secret of this environment" if own else "looks like a secret (a key or token)"
    return SecretFound(file.path.rpartition("/")[0] or ".", None, f"a file whose name {what} was added", own)


def _in_lines(file: "FileDiff", redactor: Redactor) -> SecretFound | None:
    whole = "\n".join(line.text for line in file.added)
    if "PRIVATE KEY" not in whole and not redactor.finds(whole):
        return None
    before = {line.text for line in file.removed}
    lines = [line for line in file.added if line.text not in before]
    if own := next((line for line in lines if redactor.holds_value(line.text)), None):
        return SecretFound(file.path, own.number, "a secret of this environment was added", own=True)
    for at, line in enumerate(lines):
        text = line.text[:_LONGEST_READ]
        if begins := _PRIVATE_KEY.search(text):
            following = lines[at + 1].text if at + 1 < len(lines) else ""
            if _KEY_LINE.match(following) or _KEY_LINE.search(text[begins.end() :]):
                return SecretFound(file.path, line.number, "a private key was added")
        elif looks_secret(text, redactor):
            return SecretFound(file.path, line.number, "what looks like a secret (a key or token) was added")
    return None


def looks_secret(line: str, redactor: Redactor) -> bool:
    """Whether something is left to find in a line once what is plainly made up is taken out of it."""
    return redactor.finds(_TOKEN.sub(lambda found: "" if _EXAMPLE.search(found[0]) else found[0], line))


def without_private_keys(text: str, mark: str) -> str:
    """The text with the lines of private keys replaced: whoever is shown one has it."""
    lines, within = text.split("\n"), False
    for at, line in enumerate(lines):
        if begins := _PRIVATE_KEY.search(line):
            within = True
            if _KEY_LINE.search(line[begins.end() :]):
                lines[at] = line[: begins.end()] + mark
        elif within and _KEY_LINE.match(line):
            lines[at] = mark
        else:
            within = False
    return "\n".join(lines)
