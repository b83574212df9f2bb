"""What the model that judges is shown of the work: files line by line with their numbers, and what the author says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.checks.shown_files import (
    UNSHOWABLE,
    Clean,
    Names,
    Section,
    claims_of,
    file_lines,
    heading_of,
    left_out,
    quarantined,
    section_of,
)
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.token_estimate import BYTES_PER_TOKEN

BUDGET = 60_000
"""Tokens of one question's data, and so of one file."""


@dataclass(frozen=True, slots=True)
class Material:
    """All that can be shown. `claims` are the lines of the author's messages; `notes` say what is not shown, and why;
    `withheld` says where lines or names address a judge.
    """

    sections: tuple[Section, ...]
    claims: tuple[str, ...]
    notes: tuple[str, ...]
    withheld: tuple[str, ...]

    @property
    def said(self) -> tuple[str, ...]:
        """What the author says, as it stands in the data."""
        return ("claims of the author:", *self.claims)


def gather(
    diff: Sequence[FileDiff],
    relevant_files: Mapping[str, str],
    *,
    final_message: str,
    commit_messages: Sequence[str],
    clean: Clean,
) -> Material:
    """What can be shown of the work. A file that is too large for one question is named in the notes instead."""
    names = Names(clean)
    withheld: list[str] = []
    notes: list[str] = []
    sections: list[Section] = []
    changed = {file.path for file in diff if file.kind != "D"}
    whole = [FileDiff(kind="M", path=path, old_path=path) for path in relevant_files if path not in changed]
    headed = [(file, heading_of(file, names)) for file in diff] + [(file, "file not changed") for file in whole]
    for file, heading in headed:
        lines = file_lines(file, _fitting(file, relevant_files.get(file.path)), clean)
        section = section_of(file, names, heading, lines)
        if lines is UNSHOWABLE or section.tokens > BUDGET:
            why = "a secret over several lines" if lines is UNSHOWABLE else f"{section.tokens:,} tokens: too large"
            notes.append(f"{section.name} ({heading}) is not shown: {why}")
            section = left_out(section, why)
        sections.append(quarantined(section, withheld))
    claims = claims_of(final_message, commit_messages, clean, withheld)
    return Material(tuple(sections), tuple(claims), tuple(notes), (*names.withheld, *withheld))


def _fitting(file: FileDiff, text: str | None) -> str | None:
    """The whole text, unless it would leave no room for others and the lines that were changed will do."""
    return None if text is not None and file.added and len(text) > BUDGET * BYTES_PER_TOKEN // 2 else text
