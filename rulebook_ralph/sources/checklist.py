"""Tasks from Markdown plans: one for each item with a box (`- [ ] 1.2 [P] Title`), in the plan's order.

A file is taken whole or not at all. Items without an id of their own get one made of their words, so that it stays when
the item moves.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rulebook_ralph.core.model import VERIFY, Json, Task
from rulebook_ralph.core.problem import Problem, escaped
from rulebook_ralph.sources import checklist_order
from rulebook_ralph.sources.checklist_details import Details, read_details
from rulebook_ralph.sources.checklist_entries import Entry, read_entries
from rulebook_ralph.sources.rulebook_task import complexity
from rulebook_ralph.sources.source import COMMIT_MESSAGE, DONE_BEFORE, RefusedTasksError
from rulebook_ralph.sources.text_file import read_text

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
_LONGEST_TITLE = 200


def read(path: Path, shown: str) -> tuple[Task, ...]:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    entries = read_entries(read_text(path, within=path.parent))
    if wrong := [Problem(shown, line, "", message) for line, message in _faults(entries)]:
        raise RefusedTasksError(wrong)
    needed = checklist_order.dependencies(entries)
    if needed is None:
        told = "has runs of [P] so long one after the other that nobody could follow them"
        raise RefusedTasksError([Problem(shown, None, "", told)])
    return tuple(_task(entry, after, shown) for entry, after in zip(entries, needed, strict=True))


def _faults(entries: Sequence[Entry]) -> Iterator[tuple[int | None, str]]:
    """What is wrong in a file, with the lines: ids used twice, `[FIX …]` of what does not stand above."""
    if not entries:
        yield None, "has no task: expected items with a box, such as `- [ ] 1.1 Title`"
    above: dict[str, int] = {}
    ids: set[str] = set()
    for entry in entries:
        line = entry.item.row + 1
        if earlier := above.get(entry.id.casefold()):
            yield line, f"'{escaped(entry.id)}' is used already in line {earlier}; ids differ by more than case"
        for fixed in entry.fixes:
            if fixed not in ids:
                yield line, f"[FIX {escaped(fixed)}]: no task of that id stands above"
        above.setdefault(entry.id.casefold(), line)
        ids.add(entry.id)


def _task(entry: Entry, dependencies: tuple[str, ...], shown: str) -> Task:
    is_check = VERIFY in entry.markers
    details = read_details(entry.item, entry.title, is_check=is_check)
    whole = entry.title if len(entry.title) > _LONGEST_TITLE else ""
    return Task(
        id=entry.id,
        title=f"{entry.title[: _LONGEST_TITLE - 1]}…" if whole else entry.title,
        description="\n\n".join(part for part in (whole, details.description, _context(entry, details)) if part),
        status="completed" if entry.is_ticked else "pending",
        dependencies=dependencies,
        acceptance_criteria=details.criteria,
        estimated_complexity=complexity(len(details.criteria)) if details.criteria else None,
        relevant_files=details.files,
        markers=entry.markers,
        completion=_completion(details, is_check=is_check),
        overrides={"stages": ["qa"]} if is_check else {},
        source=shown,
        metadata=_metadata(entry, details),
    )


def _context(entry: Entry, details: Details) -> str:
    above = " / ".join(filter(None, [entry.item.section, *(item.lines[0].text for item in entry.above)]))
    lines = [f"Part of: {above}"] if above else []
    lines += [f"Mends: {', '.join(entry.fixes)}"] if entry.fixes else []
    return "\n".join([*lines, *(f"{kind.capitalize()}: {text}" for kind, text in details.notes)])


def _completion(details: Details, *, is_check: bool) -> dict[str, Json]:
    criteria: Json = {"promise": VERIFIED} if is_check else {}
    if details.command:
        criteria |= {"verificationMethod": "external", "verificationConfig": {"command": details.command}}
    return {"qa" if is_check else "coder": criteria} if criteria else {}


def _metadata(entry: Entry, details: Details) -> Json:
    message: Json = {COMMIT_MESSAGE: details.commit_message} if details.commit_message else {}
    return message | (DONE_BEFORE if entry.is_ticked else {})
