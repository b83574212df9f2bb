"""What a model is shown of files: line by line with their numbers, without secrets, what cannot be seen, and lines that
address it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rulebook_ralph.checks.quarantine import addresses_a_judge, suspicious_lines
from rulebook_ralph.core.diff import FileDiff, Line
from rulebook_ralph.core.printable import printable, printable_block
from rulebook_ralph.core.token_estimate import BYTES_PER_TOKEN

LONGEST_LINE = 1_000
WITHHELD = "[a line was withheld here: it addresses whoever judges the work]"

_LONGEST_NAME = 300
_MESSAGE_HEAD = 8_000
_MESSAGE_TAIL = 16_000
_SHORTEST_EXCERPT = 12
_KINDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed"}
_PREFIX = re.compile(r"^\s*[-+=]?\s*\d+\| ?")

Clean = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ShownLine:
    """`sign` is + for added, - for removed, a space for unchanged, = for what is said of the file itself (line 0).

    Evidence may point to a line unless it is not `citable`. A `number` below 0 stands for lines that are left out.
    """

    sign: str
    number: int
    text: str
    citable: bool = True

    def __str__(self) -> str:
        return f"{self.sign}{self.number:6d}| {self.text}" if self.number >= 0 else "       …"


@dataclass(frozen=True, slots=True)
class Section:
    """One file. `name` is how the model knows it, which is its path unless the path itself had to be withheld."""

    name: str
    path: str
    lines: tuple[ShownLine, ...]

    @property
    def tokens(self) -> int:
        return sum(len(line.text.encode()) + 10 for line in self.lines) // BYTES_PER_TOKEN

    def is_called(self, cited: str) -> bool:
        """Whether a model means this file by that name."""
        cited, name = cited.strip(), self.name.strip()
        return cited == name or cited in {f"./{name}", f"a/{name}", f"b/{name}"}

    def shows(self, number: int, quote: str) -> bool:
        """Whether the line of that number reads as quoted, white space apart; of a long line a part will do."""
        quotes = {_folded(quote), _folded(_PREFIX.sub("", quote))}
        texts = [_folded(line.text) for line in self.lines if line.number == number and line.citable]
        return any(_quoted(wanted, text) for wanted in quotes for text in texts)


def divided(sections: Sequence[Section], budget: int) -> list[tuple[Section, ...]]:
    """The sections in order, in parts of at most `budget` tokens; a section is never cut."""
    parts: list[list[Section]] = [[]]
    room = budget
    for section in sections:
        if section.tokens > room and parts[-1]:
            parts.append([])
            room = budget
        parts[-1].append(section)
        room -= section.tokens
    return [tuple(part) for part in parts if part]


class Names:
    """The names that files are shown by: one for each path, and none that talks."""

    def __init__(self, clean: Clean) -> None:
        self._clean = clean
        self._of: dict[str, str] = {}
        self.withheld: list[str] = []

    def of(self, path: str) -> str:
        if path not in self._of:
            name = printable(self._clean(path))[:_LONGEST_NAME]
            if kind := addresses_a_judge(name):
                name = f"withheld-name-{len(self.withheld) + 1}"
                self.withheld.append(f"a file name, shown as {name} ({kind})")
            taken = set(self._of.values())
            self._of[path] = name if name not in taken else f"{name} ({len(taken)})"
        return self._of[path]


def heading_of(file: FileDiff, names: Names) -> str:
    """What is said of the file itself."""
    what = f"{'binary ' if file.binary else ''}file {_KINDS[file.kind]}"
    return f"{what}, before: {names.of(file.old_path)}" if file.kind == "R" and file.old_path else what


def section_of(file: FileDiff, names: Names, said: str, lines: Iterable[ShownLine]) -> Section:
    """The file's lines below what is `said` of it, which can show something: that it is there, gone or moved."""
    heading = ShownLine("=", 0, said, citable=file.kind != "M" or file.binary)
    return Section(names.of(file.path), file.path, (heading, *lines))


def left_out(section: Section, why: str) -> Section:
    """What is said of the file, and why nothing else is shown."""
    heading = section.lines[0]
    return replace(section, lines=(replace(heading, text=f"{heading.text}, not shown: {why}"),))


UNSHOWABLE: tuple[ShownLine, ...] = (ShownLine("=", 0, "not shown", citable=False),)
"""Stands for a file in which a secret goes over several lines."""


def cut_to_fit(text: str) -> str:
    """The beginning of a line, without what cannot be seen."""
    more = len(text) - LONGEST_LINE
    return printable(text) if more <= 0 else f"{printable(text[:LONGEST_LINE])} [… {more:,} characters more]"


def file_lines(
    file: FileDiff, text: str | None, clean: Clean, *, visible: Callable[[str], str] = cut_to_fit
) -> tuple[ShownLine, ...]:
    """Added and removed lines in order, each made `visible`; between them the unchanged ones where the whole text is at
    hand. `UNSHOWABLE` where a secret goes over several lines.
    """
    added, removed = (_cleaned(lines, clean, visible) for lines in (file.added, file.removed))
    around = None if text is None or file.kind in "AD" else _cleaned(_numbered(text), clean, visible)
    if added is None or removed is None or (text is not None and file.kind in "MR" and around is None):
        return UNSHOWABLE
    return tuple(_in_order(added, removed, around))


def _numbered(text: str) -> tuple[Line, ...]:
    lines = text.split("\n")
    return tuple(Line(number, line) for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines, start=1))


def _cleaned(lines: Sequence[Line], clean: Clean, visible: Callable[[str], str]) -> tuple[Line, ...] | None:
    """The lines without secrets; None where a secret goes over several, so that none could be told from the others."""
    texts = clean("\n".join(line.text for line in lines)).split("\n") if lines else []
    if len(texts) != len(lines):
        return None
    return tuple(Line(line.number, visible(text)) for line, text in zip(lines, texts, strict=True))


def _in_order(added: Sequence[Line], removed: Sequence[Line], around: Sequence[Line] | None) -> Iterator[ShownLine]:
    """Both sides of a diff as one text, as they stand; old and new numbers run on together where nothing changed."""
    old = new = 1
    taken = gone = 0
    while taken < len(added) or gone < len(removed):
        ahead = [added[taken].number - new] if taken < len(added) else []
        ahead += [removed[gone].number - old] if gone < len(removed) else []
        gap = max(0, min(ahead))
        if gap:
            yield from _unchanged(around, new, new + gap)
            old, new = old + gap, new + gap
        if gone < len(removed) and removed[gone].number <= old:
            yield ShownLine("-", removed[gone].number, removed[gone].text)
            old, gone = old + 1, gone + 1
        else:
            yield ShownLine("+", added[taken].number, added[taken].text)
            new, taken = new + 1, taken + 1
    if around is not None:
        yield from _unchanged(around, new, len(around) + 1)


def _unchanged(around: Sequence[Line] | None, start: int, end: int) -> Iterator[ShownLine]:
    if around is None:
        yield ShownLine(" ", -1, "", citable=False)
    else:
        yield from (ShownLine(" ", line.number, line.text) for line in around[start - 1 : end - 1])


def quarantined(section: Section, withheld: list[str]) -> Section:
    """The section without what addresses a judge; where that was is added to `withheld`."""
    found = suspicious_lines([line.text for line in section.lines])
    if not found:
        return section
    lines = list(section.lines)
    for place, kind in found.items():
        if lines[place].text:
            withheld.append(f"{section.name}:{lines[place].number} ({kind})")
            lines[place] = replace(lines[place], text=WITHHELD, citable=False)
    return replace(section, lines=tuple(lines))


def claims_of(final_message: str, commit_messages: Sequence[str], clean: Clean, withheld: list[str]) -> Iterator[str]:
    """The lines of the author's messages, those aside that address a judge; where these were is added to `withheld`."""
    for title, text in (("commit messages", "\n".join(commit_messages)), ("final message", final_message)):
        lines = printable_block(_excerpt(clean(text))).splitlines()
        found = suspicious_lines(lines)
        withheld += [f"{title}, line {place + 1} ({kind})" for place, kind in found.items() if lines[place]]
        yield f"[{title}]"
        yield from (f"    {WITHHELD if place in found and line else line}" for place, line in enumerate(lines))


def _excerpt(text: str) -> str:
    left_out = len(text) - _MESSAGE_HEAD - _MESSAGE_TAIL
    if left_out <= 0:
        return text
    return f"{text[:_MESSAGE_HEAD]}\n[… {left_out:,} characters left out …]\n{text[-_MESSAGE_TAIL:]}"


def _folded(text: str) -> str:
    return " ".join(text.split())


def _quoted(wanted: str, text: str) -> bool:
    if not any(char.isalnum() for char in wanted):
        return False
    return wanted == text or (len(wanted) >= _SHORTEST_EXCERPT and wanted in text)
