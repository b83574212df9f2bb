"""The order among the tasks of a checklist: each after the one before it, but for adjacent `[P]`s. Pure."""

from collections.abc import Sequence
from itertools import groupby

from rulebook_ralph.core.model import PARALLEL, VERIFY
from rulebook_ralph.sources.checklist_entries import Entry

MOST_DEPENDENCIES = 500_000


def dependencies(entries: Sequence[Entry]) -> list[tuple[str, ...]] | None:
    """What each task depends on; None where there would be more than `MOST_DEPENDENCIES`.

    A run of adjacent `[P]`s under one heading depends on what came before it, and what follows on all of them. Tasks
    that were done at the import do not let those behind them overtake what is still open before.
    """
    found: list[tuple[str, ...]] = []
    before: tuple[str, ...] = ()
    still_open: tuple[str, ...] = ()
    count = 0
    for run in _runs(entries):
        needed = tuple(dict.fromkeys((*still_open, *before)))
        count += len(needed) * len(run)
        if count > MOST_DEPENDENCIES:
            return None
        found += [tuple(dict.fromkeys((*needed, *entry.fixes))) for entry in run]
        before = tuple(entry.id for entry in run)
        still_open = tuple(entry.id for entry in run if not entry.is_ticked) or still_open
    return found


def _runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    runs: list[list[Entry]] = []
    for heading, group in groupby(entries, key=_heading_of_parallel):
        members = list(group)
        runs += [members] if heading is not None else [[member] for member in members]
    return runs


def _heading_of_parallel(entry: Entry) -> str | None:
    """A check is never done beside others, whatever it is marked as."""
    return entry.item.section if PARALLEL in entry.markers and VERIFY not in entry.markers else None
