"""What a reviewer is shown of a change: each file's changed lines with those around them, in parts that fit a question.

Nothing is left out unsaid: what cannot be shown is named, and where hiding it would serve its author it is an issue.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.secrets import private_key_in, secrets_in
from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.shown_files import (
    LONGEST_LINE,
    UNSHOWABLE,
    WITHHELD,
    Clean,
    Names,
    Section,
    ShownLine,
    claims_of,
    file_lines,
    heading_of,
    left_out,
    quarantined,
    section_of,
)
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.printable import capital
from rulebook_ralph.core.problem import escaped
from rulebook_ralph.core.redaction import MARK
from rulebook_ralph.core.review import ReviewIssue

_AROUND = 10
"""Unchanged lines that are shown before and after changed ones."""
_GENERATED = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lock|Cargo\.lock|poetry\.lock"
    r"|uv\.lock|pdm\.lock|Pipfile\.lock|composer\.lock|Gemfile\.lock|go\.sum|gradle\.lockfile|Podfile\.lock"
    r"|[^/]+\.min\.(?:js|css)|[^/]+\.(?:js|css)\.map)$"
)
_GENERATED_AT_MOST = 4
"""Of a file that a program writes so much of a question's room may be filled: one fourth."""
_MOST_CLAIMED = 200
_KEY_TEXT = re.compile(r"[\s\"'+,\\n]*[A-Za-z0-9+/=]{16,}[\s\"'+,\\n]*")
"""A line of a private key, also within a string of some language."""


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to review. The sections are not `quieted` yet, which takes long: of many it is known what was said.
    `not_reviewed` names what cannot be shown; `issues` are those that Ralph sees itself.
    """

    sections: tuple[Section, ...]
    claims: tuple[str, ...]
    not_reviewed: tuple[str, ...]
    issues: tuple[ReviewIssue, ...]


def gather(change: ReviewedChange, *, clean: Clean, budget: int) -> Material:
    """What can be shown of the change; `budget` is a question's room in tokens."""
    names = Names(clean)
    sections: list[Section] = []
    not_reviewed: list[str] = []
    issues: list[ReviewIssue] = []
    texts = change.versions([file for file in change.files if file.kind in "MR" and not file.binary])
    keys = {found.path for found in secrets_in(change.files, lambda _: False)}
    for found in secrets_in(change.files, lambda text: clean(text) != text):
        issues += [] if change.may_hold_secrets(found.path) else [_secret(found)]
    for file in change.files:
        known = texts.get(file.path)
        lines = file_lines(file, known.after if known else None, clean, visible=_whole)
        shown = tuple(_without_keys(lines, has_new=file.path in keys))
        section = section_of(file, names, heading_of(file, names), _wrapped(_near(shown)))
        if why := _unfit(file, lines, section.tokens, budget):
            not_reviewed.append(f"{section.name}: {why}")
            section = left_out(section, why)
            issues += [_unreadable(file.path, why)] if _may_hide(file, lines) else []
        sections.append(section)
    messages = [message for message in change.commit_messages if message.strip()][:_MOST_CLAIMED]
    claims = ("claims of the author:", *claims_of("", messages, clean, [])) if messages else ()
    return Material(tuple(sections), claims, tuple(not_reviewed), tuple(issues))


def quieted(section: Section) -> tuple[Section, tuple[ReviewIssue, ...]]:
    """The section as a reviewer may be shown it, without lines that address it; and that those must go."""
    shown = quarantined(section, [])
    return shown, tuple(_withheld(shown))


def pieces(section: Section, budget: int) -> Iterator[Section]:
    """The section in pieces of at most `budget` tokens, each under what is said of the file."""
    heading, *lines = section.lines
    piece: list[ShownLine] = [heading]
    room = budget - replace(section, lines=(heading,)).tokens
    for line in lines:
        size = replace(section, lines=(line,)).tokens + 1
        if size > room and len(piece) > 1:
            yield replace(section, lines=tuple(piece))
            piece, room = [heading], budget - replace(section, lines=(heading,)).tokens
        piece.append(line)
        room -= size
    yield replace(section, lines=tuple(piece))


def digest(section: Section) -> str:
    """By which it is recognised that the same was shown of a file before."""
    shown = "\n".join((section.path, section.name, *map(str, section.lines)))
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()


def _whole(text: str) -> str:
    """The line with nothing left out: what cannot be seen, and may turn code into other code, is written out."""
    return escaped(text.expandtabs(4), len(text) * 4)


def _without_keys(lines: Sequence[ShownLine], *, has_new: bool) -> Iterator[ShownLine]:
    """The lines without private keys: who sees one has it. Of those that are added only where it is told (`has_new`),
    else a line could be hidden by what stands before it.
    """
    within = False
    for line in lines:
        if begins := private_key_in(line.text):
            within, rest = True, line.text[begins.end() :]
            yield replace(line, text=line.text[: begins.end()] + MARK) if has_new and _KEY_TEXT.search(rest) else line
            continue
        within = within and _KEY_TEXT.fullmatch(line.text) is not None
        hidden = within and (has_new or line.sign == "-")
        yield replace(line, text=MARK) if hidden else line


def _near(lines: Sequence[ShownLine]) -> Iterator[ShownLine]:
    """The changed lines and some around them; what is left out leaves a mark."""
    changed = [place for place, line in enumerate(lines) if line.sign in "+-="]
    kept = {near for place in changed for near in range(place - _AROUND, place + _AROUND + 1)}
    left_out = False
    for place, line in enumerate(lines):
        if place in kept:
            yield line
        elif not left_out:
            yield ShownLine(" ", -1, "", citable=False)
        left_out = place not in kept


def _wrapped(lines: Iterable[ShownLine]) -> Iterator[ShownLine]:
    """A long line goes on under the same number, so that its end is seen as well."""
    for line in lines:
        for start in range(0, max(len(line.text), 1), LONGEST_LINE):
            yield (
                line if len(line.text) <= LONGEST_LINE else replace(line, text=line.text[start : start + LONGEST_LINE])
            )


def _unfit(file: FileDiff, lines: Sequence[ShownLine], tokens: int, budget: int) -> str:
    """Why a file is not shown, or empty."""
    if file.cut:
        return "too large"
    if file.binary:
        return "a binary file"
    if lines is UNSHOWABLE:
        return "a secret over several lines"
    if _GENERATED.search(file.path) and tokens > budget // _GENERATED_AT_MOST:
        return f"written by a program, {tokens:,} tokens"
    return ""


def _may_hide(file: FileDiff, lines: Sequence[ShownLine]) -> bool:
    """Whether an author could have made it so in order that nobody looks."""
    return lines is UNSHOWABLE or (file.cut and not _GENERATED.search(file.path))


def _secret(found: Objection) -> ReviewIssue:
    return ReviewIssue(
        file=found.path,
        lines=(found.line or 0, found.line or 0),
        type="security",
        severity="high",
        description=f"{capital(found.what)}.",
        suggestion="Take it out, and replace it: whoever saw it has it. A file that may hold it: integrity.allow.",
        agent_prompt=f"Take the secret out of {found.path}; read it from the environment or a file that git ignores.",
    )


def _unreadable(path: str, why: str) -> ReviewIssue:
    return ReviewIssue(
        file=path,
        lines=(0, 0),
        type="other",
        severity="high",
        description=f"Nobody can review this file: {why}.",
        suggestion="Split it, leave it out of the repository, or take the secret out.",
        agent_prompt=f"Make {path} a file that can be reviewed, or take it out of the change: {why}.",
    )


def _withheld(section: Section) -> list[ReviewIssue]:
    """Added lines that were not shown for what they say: unseen, they could do anything."""
    numbers = [line.number for line in section.lines if line.sign == "+" and line.text == WITHHELD]
    if not numbers:
        return []
    named = ", ".join(map(str, dict.fromkeys(numbers)))
    return [
        ReviewIssue(
            file=section.path,
            lines=(min(numbers), max(numbers)),
            type="other",
            severity="high",
            description=f"Lines that read as if they addressed the reviewer were not shown to it: {named}.",
            suggestion="Say the same in other words, or leave it out.",
            agent_prompt=f"In {section.path}, reword or remove these lines, which read as if they spoke to whoever "
            f"reviews or judges the work: {named}.",
        )
    ]
