"""Tasks from a rulebook: a folder for each task below `.rulebook/tasks/` or `rulebook/tasks/`.

`archive/` and plain files beside the task folders are no tasks. A task that cannot be read whole is left out and named,
as one with half its criteria would look finished too early; the others are read all the same.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import json_file
from rulebook_ralph.tasks.importers.markdown import (
    LONGEST_HEADING,
    Block,
    Heading,
    Item,
    MarkdownFile,
    codes_in,
    criteria,
    read_document,
    without_codes,
    without_leading_bold,
)
from rulebook_ralph.tasks.importers.source import (
    DONE_BEFORE,
    LONGEST_SHOWN,
    MAX_FILES,
    SourceReading,
    UnreadableError,
    complexity,
    read_text,
    read_text_if_there,
    refuse_link_out,
    shown_path,
)
from rulebook_ralph.tasks.model import Json, Task, Value, problem_with_id
from rulebook_ralph.tasks.text import Problem, cut, escaped

CHECKLIST = "tasks.md"
MARKS = ("proposal.md", CHECKLIST)
"""The files by which a folder is known as a task's."""

_PLACES = (".rulebook/tasks", "rulebook/tasks")
_ARCHIVE = "archive"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}-")
_LONGEST_NAME = 200
_LINE_SUFFIX = re.compile(r":\d+(?:-\d+)?(?::\d+)?$")

_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.DOTALL | re.MULTILINE)
_DEMAND = re.compile(r"\b(?:SHALL|MUST)\b")
_STEP = re.compile(r"(?:Given|When|Then|And|But|GIVEN|WHEN|THEN|AND|BUT)\b")
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+")
_DELTA = re.compile(r"(ADDED|MODIFIED|REMOVED|RENAMED)\s+Requirements?", re.IGNORECASE)
_PREFIX = re.compile(r"(?:requirement|scenario):\s*", re.IGNORECASE)
_REQUIREMENT_MARK = re.compile(r"`?#{1,6} *Requirement:\s*([^`\n]*)`?", re.IGNORECASE)
_KIND_OF_FILE = re.compile(
    r"(?:(?:change\s+)?proposal|(?:implementation\s+)?tasks?(?:\s+list)?|checklist)(?:\s*:\s*|\s+[-\u2013\u2014]\s+|$)",
    re.IGNORECASE,
)
_DATE_AND_PHASE = re.compile(r"(?:\d{4}-\d{2}-\d{2}-)?(?:phase[-_]?(\d{1,4})(?:[-_.]|$))?", re.IGNORECASE)


class _Links(Value, frozen=True, kw_only=True):
    blocked_by: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


def places(root: Path) -> tuple[Path, ...]:
    """The tasks folders of a project."""
    return tuple(root / place for place in _PLACES if (root / place).is_dir())


def read_all(paths: Sequence[Path], *, root: Path) -> SourceReading:
    """Read everything the paths mean as one list, in the order of the paths, then of the folder names.

    A path may be a project's root, its `.rulebook` folder, a tasks folder (an archive too), a task folder or a file in
    one. Raises RalphError where it is none of them; whatever is wrong inside a task is in the problems.
    """
    root = root.resolve()
    problems: list[Problem] = []
    refused: list[str] = []
    whole: dict[str, None] = {}
    archived: set[str] = set()
    blocking: dict[str, list[str]] = {}
    found: dict[Path, Task] = {}
    for place in dict.fromkeys(place.resolve() for path in paths for place in _meant(path)):
        within = place.parent if _is_task(place) else place
        if within == place:
            whole[shown_path(place, root)] = None
        put_away = [folder.name for folder in within.glob(f"{_ARCHIVE}/*")]
        archived |= {*put_away, *(_DATE.sub("", name, count=1) for name in put_away)}
        for folder in [place] if within != place else _folders(place):
            try:
                found[folder] = found.get(folder) or _read_folder(folder, within, root, blocking)
            except UnreadableError as error:
                problems.append(error.problem(root))
                refused.append(folder.name)
    phases = [phase_of(task.id) for task in found.values()]
    last = max((phase for phase in phases if phase is not None), default=-1)
    tasks = []
    for task, phase in zip(found.values(), phases, strict=True):
        needed = dict.fromkeys((*task.dependencies, *blocking.get(task.id, ())))
        open_ones = tuple(one for one in needed if one not in archived)
        tasks.append(replace(task, priority=last + 2 if phase is None else phase + 1, dependencies=open_ones))
    return SourceReading(tuple(tasks), tuple(problems), tuple(whole), tuple(refused))


def _meant(path: Path) -> tuple[Path, ...]:
    """The tasks folders or the single task folder that a path means."""
    shown = escaped(str(path), LONGEST_SHOWN)
    try:
        folder = path.parent if path.name in MARKS and path.is_file() else path
        if not folder.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise RalphError(f"{shown} {what}: name a project, a tasks folder or a task folder")
        if there := places(folder.parent if folder.name in (".rulebook", "rulebook") else folder):
            return there
        if _is_task(folder) or any(map(_is_task, _folders(folder))) or folder.name == "tasks":
            return (folder,)
    except OSError as error:
        raise RalphError(f"{shown} cannot be read: {error.strerror}") from error
    raise RalphError(
        f"{shown} has no rulebook tasks: expected .rulebook/tasks/ or rulebook/tasks/ with a folder per task"
    )


def _folders(place: Path) -> list[Path]:
    named = (each for each in place.iterdir() if not each.name.startswith(".") and each.name.casefold() != _ARCHIVE)
    return sorted(each for each in named if each.is_dir() or (each.is_symlink() and not each.exists()))


def _is_task(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in MARKS)


def _read_folder(folder: Path, within: Path, root: Path, blocking: dict[str, list[str]]) -> Task:
    """`within` is what no link may lead out of; paths in the task are from `root`. What it says it blocks goes into
    `blocking`. Raises UnreadableError for the first file that cannot be taken.
    """
    if wrong := problem_with_id(folder.name):
        raise UnreadableError(folder, None, f"the folder's name is the task's id, and {wrong}: rename it")
    refuse_link_out(folder, within=within)
    proposal, listed, design = (read_text_if_there(folder / name, within=within) for name in (*MARKS, "design.md"))
    specs = list(_spec_files(folder / "specs"))
    if proposal is None and listed is None and not specs:
        raise UnreadableError(folder, None, f"has no {', no '.join(MARKS)} and no specs: it is not a task")
    heading, description = read_proposal(proposal or "")
    checklist = read_document(listed or "", folder / CHECKLIST)
    wanted, completed = read_checklist(checklist)
    for file in specs:
        wanted += read_spec(read_document(read_text(file, within=within), file))
    links, kept = _metadata(folder / ".metadata.json", within)
    for blocked in links.blocks:
        blocking.setdefault(blocked, []).append(folder.name)
    has_prose = any(isinstance(part, Block) for part in checklist.flow)
    files = [*([folder / "design.md"] if design is not None else []), *specs]
    files += [folder / CHECKLIST] if has_prose else []
    names = dict.fromkeys((*(shown_path(file, root) for file in files), *_named_files(f"{proposal}\n{listed}", root)))
    return Task(
        id=folder.name,
        title=title_of((heading, checklist.title), folder.name),
        description=description,
        status="completed" if completed else "pending",
        dependencies=links.blocked_by,
        acceptance_criteria=tuple(dict.fromkeys(wanted)),
        estimated_complexity=complexity(len(wanted)),
        relevant_files=tuple(names)[:MAX_FILES],
        source=shown_path(folder, root),
        metadata=kept | (DONE_BEFORE if completed else {}),
    )


def _metadata(file: Path, within: Path) -> tuple[_Links, Json]:
    """What a .metadata.json says of other tasks, and the rest but for its status: the boxes are the truth."""
    text = read_text_if_there(file, within=within)
    data = b"{}" if text is None else text.encode()
    try:
        value = json_file.decode(data, file.name)
        links = json_file.convert(value, _Links, data, file.name)
    except RalphError as error:
        where, _, message = str(error).partition(": ")
        line = where.split(":")[1:2]
        raise UnreadableError(file, int(line[0]) if line else None, message) from None
    return links, {key: each for key, each in value.items() if key not in ("status", "blockedBy", "blocks")}


def _spec_files(folder: Path) -> Iterator[Path]:
    """Every spec.md below `specs/`, in order. A link to a folder is refused: what it holds may be endless."""
    if folder.is_symlink():
        raise UnreadableError(folder, None, "is a link: copy the folder instead")
    try:
        children = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise UnreadableError(folder, None, f"cannot be read: {error.strerror}") from error
    for child in children:
        if child.name == "spec.md":
            yield child
        elif child.is_dir():
            yield from _spec_files(child)


def _named_files(text: str, root: Path) -> list[str]:
    """The project's files that inline code names, in order. `:140` behind a name is a line number."""
    codes = (code for row in text.split("\n") for code in codes_in(row))
    names = dict.fromkeys(_LINE_SUFFIX.sub("", code).removeprefix("./") for code in codes if len(code) < _LONGEST_NAME)
    return [name for name in names if name[:1] not in ("/", "~") and ".." not in name and (root / name).is_file()]


# Texts


def read_checklist(document: MarkdownFile) -> tuple[list[str], bool]:
    """The criteria of a tasks.md, and whether it has boxes and all are ticked. Without a single box it is a plain list
    of items, all open.
    """
    items = [item for root in document.roots for item in root.whole()]
    boxes = [item.box for item in items if item.box is not None]
    for item in () if boxes else items:
        item.box = False
    return [criterion for _, criterion in criteria(document.roots)], bool(boxes) and all(boxes)


def boxes_of(document: MarkdownFile, verified: Collection[str]) -> list[Item] | None:
    """The items of a tasks.md whose boxes are ticked when those criteria are verified: theirs, and those of groups of
    which all are ticked then. None where none of the criteria is found.
    """
    meant = {item for item, criterion in criteria(document.roots) if criterion in verified}
    boxes = [item for root in document.roots for item in root.whole() if item.box is False]
    return [item for item in boxes if item in meant or (item.holds_box and item.is_done(meant))] if meant else None


def read_spec(document: MarkdownFile) -> Iterator[str]:
    """The criteria of a spec.md: all that stands below a heading is one where it says SHALL or MUST, and so is a
    removed or renamed requirement.
    """
    above: list[Heading] = []
    headings = [Heading(0, "", -1, ""), *document.headings]
    for heading, end in zip(headings, [*(each.row for each in headings[1:]), len(document.rows)], strict=True):
        above = [*(each for each in above if each.level < heading.level), heading]
        text = "\n".join(document.rows[heading.row + 1 : end]).strip()
        demands = _DEMAND.search(without_codes(_FENCED.sub("", text))) is not None
        names = [cut(_PREFIX.sub("", each.text, count=1), LONGEST_HEADING) for each in above]
        first = next((at for at, each in enumerate(above) if each.text.casefold().startswith("requirement:")), None)
        deltas = [found[1].capitalize() for each in above if (found := _DELTA.fullmatch(each.text))]
        delta = deltas[-1] if deltas else ""
        if delta in ("Removed", "Renamed") and first is None and text:
            named = _REQUIREMENT_MARK.sub(r"\1", text)
            yield f"{delta} requirement: {_folded(named)}"
        elif delta == "Removed" and first is not None and (demands or first == len(above) - 1):
            yield ": ".join(filter(None, (f'Removed requirement "{" — ".join(names[first:])}"', _folded(text))))
        elif demands:
            is_name = first is not None or (heading.level > 1 and not _DELTA.fullmatch(heading.text))
            name = " — ".join(names[first:] if first is not None else names[-1:]) if is_name else ""
            yield ": ".join(filter(None, (name, _folded(text))))


def _folded(text: str) -> str:
    """The text on one line; as it stands where it has code or a table."""
    if _FENCED.search(text) or "\n|" in text:
        return text
    parts: list[str] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        bullet = _BULLET.match(line)
        words = without_leading_bold(line[bullet.end() :] if bullet else line)
        plain = not parts or parts[-1].endswith(":")
        parts += [" " if plain else ", " if _STEP.match(words) else "; " if bullet else " ", words]
    return "".join(parts).strip()


def read_proposal(text: str) -> tuple[str, str]:
    """The title of a proposal.md, or empty; and all the rest, as it was written."""
    rows = text.split("\n")
    for heading in read_document(text).headings:
        if heading.level == 1:
            return heading.text, "\n".join([*rows[: heading.row], *rows[heading.row + 1 :]]).strip()
    return "", text.strip()


def title_of(headings: Sequence[str], task_id: str) -> str:
    """The first that is one: not merely a file's kind, as in `Proposal: X`, nor the id; else the id's words without
    date and phase.
    """
    for heading in headings:
        title = heading[kind.end() :] if (kind := _KIND_OF_FILE.match(heading)) else heading
        is_id = task_id.casefold().endswith(title.casefold()) and re.search("[-_]", title)
        if title and not is_id and title.casefold() != task_id.casefold():
            return title
    words = re.sub(r"[-_]+", " ", _DATE_AND_PHASE.sub("", task_id, count=1)).strip() or task_id
    return words[0].upper() + words[1:]


def phase_of(task_id: str) -> int | None:
    """The number in `phase3_name`, `phase-3-name` or `2026-01-31-phase3_name`; None without one."""
    match = _DATE_AND_PHASE.match(task_id)
    return int(match[1]) if match and match[1] else None
