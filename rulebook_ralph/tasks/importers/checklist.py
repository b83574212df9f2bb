"""Tasks from Markdown plans, in their order: one for each item with a box (`- [ ] 1.2 [P] Title`), or for each heading
that names one (`### Task 2: Title`, `### US-001: Title`).

Boxes below a task are its criteria; where they have ids of their own (`1.1` below `1.`), they are the tasks. `**Do**`,
`**Files**`, `**Acceptance Criteria:**`, `**Verify**` and `**Commit**` say more of it, and anything else is description.
Items without an id get one made of their words, so that it stays when the item moves. A file is taken whole or not at
all.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from rulebook_ralph.tasks.importers.markdown import (
    CODE,
    Block,
    Heading,
    Item,
    MarkdownFile,
    codes_in,
    criteria,
    read_document,
    without_closing_comment,
    without_leading_bold,
    words_of,
)
from rulebook_ralph.tasks.importers.source import (
    COMMIT_MESSAGE,
    DONE_BEFORE,
    MAX_FILES,
    RefusedTasksError,
    SourceReading,
    complexity,
    is_of_words,
    read_text,
    word_id,
)
from rulebook_ralph.tasks.model import PARALLEL, VERIFY, Json, Task
from rulebook_ralph.tasks.text import Problem, counted, escaped, printable

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
_LONGEST_TITLE = 200
_KIND_OF_FILE = re.compile(r"(?:PRD|plan|product requirements(?: document)?)\s*[:\u2013\u2014-]\s*", re.IGNORECASE)

_ID = r"(?:[0-9]{1,6}(?:\.[0-9]{1,6}){1,9}[a-z]?|V[0-9]{1,6}|T[0-9]{3,6}|[A-Z]{1,5}-[0-9]{1,6})"
_WITH_ID = re.compile(rf"({_ID})(?:[.):](?=\s|$)|(?=\s|$))\s*|([0-9]{{1,6}})[.):](?:\s+|$)")
_MARKER = re.compile(rf"\[({PARALLEL}|{VERIFY}|RED|GREEN|YELLOW)\]\s*")
_PARALLEL_LAST = re.compile(rf"\s+\[{PARALLEL}\]$")
_NAMED_HEADING = re.compile(
    r"(?:\[(?P<box>.?)\]\s+)?"
    r"(?:(?P<id>(?:US|TASK|STORY|FEAT|BUG|T)-[0-9]{1,6})|(?:(?:Task|Iteration)\s+(?P<task>[0-9]{1,6}(?:\.[0-9]{1,6})?[a-z]?)"
    r"|(?:User\s+)?Story\s+(?P<story>[0-9]{1,6})))(?:\s*[:.)\u2013\u2014-]\s+(?P<title>\S.*)|[:.]?\s*$)",
    re.IGNORECASE,
)
_COMMANDS = re.compile(r"validation(?: commands?)?", re.IGNORECASE)
_RANKED = re.compile(
    r"(?:^|/ )(?:(critical|high|medium|low)[ -]priority|priority[ :-]*(\d{1,3}|critical|high|medium|low)\b)",
    re.IGNORECASE,
)
_OPTIONAL = re.compile(r"(?:^|/ )(?:optional|future(?: enhancements)?|nice[ -]to[ -]have)$", re.IGNORECASE)
_RANKS = {"critical": 1, "high": 1, "medium": 2, "low": 3}
_LAST_RANK = 9

_LABEL = re.compile(r"(?:\*\*|__)([^*_]{1,40}?)(?:(?:\*\*|__)\s*:|:\s*(?:\*\*|__)\s*:?)\s*")
_LEADING_CODE = re.compile(rf"(?P<order>(?:please\s+)?(?:run|execute|command)\b:?\s*)?{CODE}", re.IGNORECASE)
_NO_COMMIT = re.compile(r"(?:none|n/?a|no(?: commit)?|-)\.?", re.IGNORECASE)
_PATH = re.compile(r"[^\s`,;()*]+")
_CRITERIA = ("done when", "acceptance criteria", "acceptance", "success criteria")


@dataclass(frozen=True, slots=True)
class ChecklistEntry:
    """A task as its line tells it. `id` is the one it has in this file, `above` are the items that it stands below.
    `headed`: the line is a heading, without a bullet.
    """

    item: Item
    id: str
    title: str
    markers: tuple[str, ...] = ()
    above: tuple[Item, ...] = ()
    headed: bool = False

    @property
    def is_ticked(self) -> bool:
        return bool(self.item.box) or (self.headed and self.item.holds_box and self.item.is_done())

    @property
    def priority(self) -> int:
        """What the headings above say of it: `High Priority`, `Priority 2`; 1 without."""
        if found := _RANKED.search(self.item.section):
            word = (found[1] or found[2]).casefold()
            return _RANKS.get(word) or max(1, int(word))
        return _LAST_RANK if _OPTIONAL.search(self.item.section) else 1


def read(path: Path, shown: str) -> SourceReading:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    document = read_document(read_text(path, within=path.parent), path)
    entries, left = parted(document)
    if wrong := [Problem(shown, line, "", message) for line, message in _faults(entries)]:
        raise RefusedTasksError(wrong)
    is_headed = any(entry.headed for entry in entries)
    used = {one for entry in entries for one in (*entry.item.whole(), *entry.above)}
    has_prose = any(isinstance(part, Block) or (isinstance(part, Item) and part not in used) for part in document.flow)
    further = (shown,) if is_headed or has_prose else ()  # what is said of all tasks is read in the plan itself
    command = _command_for_all(document)
    needed = dependencies(entries)
    tasks = (_task(entry, after, shown, command, further) for entry, after in zip(entries, needed, strict=True))
    told = f"{counted(len(left), 'box', 'boxes')} below none of the tasks' headings: left out"
    problems = (Problem(shown, left[0].row + 1, "", told),) if left else ()
    about = _KIND_OF_FILE.sub("", document.title, count=1) if is_headed else ""
    return SourceReading(tuple(tasks), problems, (shown,), description=about)


def boxes_of(document: MarkdownFile, task_id: str, title: str) -> list[Item] | None:
    """The items whose boxes are ticked when a task is done: its own, those of its criteria, and of groups of which
    every task is ticked then. None where the task is not found: where several bear its id, it is the one with that
    title.
    """
    entries, _ = parted(document)
    meant = [entry for entry in entries if entry.id == task_id]
    if len(meant) != 1 or is_of_words(task_id, meant[0].title):
        alike = [entry for entry in entries if entry.title.startswith(title.removesuffix("…"))]
        meant = [entry for entry in meant if entry in alike] or [entry for entry in alike if entry.title == title]
    if len(meant) != 1:
        return None
    own = list(meant[0].item.whole())
    done = {*own, *(one for entry in entries if entry.is_ticked for one in entry.item.whole())}
    groups = [group for group in reversed(meant[0].above) if group.box is not None and group.is_done(done)]
    return [own[0], *(one for one in own[1:] if one.box is not None), *groups]


def _faults(entries: Sequence[ChecklistEntry]) -> Iterator[tuple[int | None, str]]:
    """What is wrong in a file, with the lines."""
    if not entries:
        yield None, "has no task: expected items with a box, such as `- [ ] 1.1 Title`, or `### Task 1: Title`"
    above: dict[str, ChecklistEntry] = {}
    for entry in entries:
        earlier = above.setdefault(entry.id.casefold(), entry)
        if earlier is not entry:
            rule = "" if earlier.id == entry.id else "; ids differ by more than case"
            yield entry.item.row + 1, f"'{escaped(entry.id)}' is used already in line {earlier.item.row + 1}{rule}"


# Entries


def parted(document: MarkdownFile) -> tuple[list[ChecklistEntry], list[Item]]:
    """The tasks of a file, in its order, each with an id; and the items with boxes that belong to none of them."""
    found: list[ChecklistEntry] = []
    outside: list[Item] = []
    level = 0  # of the heading of the task that the parts belong to
    for part in document.flow:
        if not isinstance(part, Heading):
            if level:
                found[-1].item.parts.append(part)
            elif isinstance(part, Item):
                outside += [one for one in part.whole() if one.box is not None]
        elif named := _NAMED_HEADING.fullmatch(part.text):
            item = Item(part.row, part.section, box=named["box"] in ("x", "X") if named["box"] is not None else None)
            own = named["id"] or (f"T{named['task']}" if named["task"] else f"S{named['story']}")
            title = " ".join(printable(named["title"] or part.text).split())
            found.append(ChecklistEntry(item, own, title, headed=True))
            level = part.level
        elif level and part.level > level:
            found[-1].item.parts.append(Block(f"**{part.text}**:"))
        else:
            level = 0
    if found:
        return found, outside
    return list(_with_ids([entry for root in document.roots for entry in _within(root, ())])), []


def _within(item: Item, above: tuple[Item, ...]) -> Iterator[ChecklistEntry]:
    entry = _entry(item, above)
    is_task = item.box is not None or (PARALLEL in entry.markers and bool(entry.id))
    parts = [child for child in item.children if not _LABEL.match(child.text)]
    below = [found for child in parts for found in _within(child, (*above, item))]
    if is_task and entry.title and not any(inner.id for inner in below):
        yield entry
    else:
        yield from below


def _entry(item: Item, above: tuple[Item, ...]) -> ChecklistEntry:
    """What the first line of an item says. Ids and markers stand first, in any order; `[P]` may stand last, too."""
    text = item.text if _LABEL.match(item.text) else without_leading_bold(item.text)
    rest = printable(without_closing_comment(text)).strip()
    task_id, place = "", 0
    markers: list[str] = []
    while True:
        if (marker := _MARKER.match(rest, place)) is not None:
            markers.append(marker[1])
            place = marker.end()
        elif not task_id and (found := _WITH_ID.match(rest, place)):
            task_id, place = found[1] or found[2], found.end()
        else:
            break
    rest = rest[place:].lstrip()
    if (last := _PARALLEL_LAST.search(rest)) is not None:
        rest = rest[: last.start()]
        markers.append(PARALLEL)
    title = " ".join(without_leading_bold(rest).split())
    return ChecklistEntry(item, task_id, title or task_id, tuple(dict.fromkeys(markers)), above)


def _with_ids(entries: Sequence[ChecklistEntry]) -> Iterator[ChecklistEntry]:
    """Those without an id get one of their first words; where others begin alike, it tells the whole words too, and
    where others are the same, where they stand.
    """
    taken = Counter(entry.id.casefold() for entry in entries if entry.id)
    alike = Counter(word_id(title) for title in {entry.title for entry in entries})
    for entry in entries:
        if entry.id:
            yield entry
            continue
        slug = word_id(entry.title, several=alike[word_id(entry.title)] > 1)
        if slug in taken:
            slug = word_id(entry.title, entry.item.section, *(one.text for one in entry.above), several=True)
        first = slug
        while slug in taken:
            taken[first] += 1
            slug = f"{first}-{taken[first]}"
        taken[slug] = 1
        yield replace(entry, id=slug)


def dependencies(entries: Sequence[ChecklistEntry]) -> list[tuple[str, ...]]:
    """What each task depends on.

    Those of a higher priority come first, else the order is the file's. A run of adjacent `[P]`s under one heading
    depends on what came before it, and what follows on all of them. Tasks that were done at the import do not let those
    behind them overtake what is still open before.
    """
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    still_open: tuple[str, ...] = ()
    for run in _runs(sorted(entries, key=lambda entry: entry.priority)):
        needed = tuple(dict.fromkeys((*still_open, *before)))
        found |= dict.fromkeys((entry.id for entry in run), needed)
        before = tuple(entry.id for entry in run)
        still_open = tuple(entry.id for entry in run if not entry.is_ticked) or still_open
    return [found[entry.id] for entry in entries]


def _runs(entries: Sequence[ChecklistEntry]) -> Iterator[list[ChecklistEntry]]:
    """A check is never done beside others, whatever it is marked as."""
    beside = [PARALLEL in entry.markers and VERIFY not in entry.markers for entry in entries]
    numbered = zip(entries, beside, range(len(entries)), strict=True)
    for _, group in groupby(numbered, key=lambda each: each[0].item.section if each[1] else each[2]):
        yield [entry for entry, _, _ in group]


# Details


@dataclass(slots=True)
class _Detail:
    """A labelled part of a task, or one without a label. `text` is its own line, `items` are listed below it, and
    `code` are its fenced blocks. Where `box` is set it is that of a criterion.
    """

    label: str = ""
    text: str = ""
    items: list[Item] = field(default_factory=list)
    code: list[Block] = field(default_factory=list)
    box: Item | None = None

    def lines(self) -> list[str]:
        return [text for text in (self.text, *map(words_of, self.items)) if text]

    def written(self) -> str:
        named = f"{self.label}: " if self.label.casefold() not in ("", "do", "description") else ""
        parts = (f"{named}{self.text}", *(item.as_written for item in self.items), *(block.text for block in self.code))
        return "\n".join(filter(None, parts))

    def command(self) -> str:
        """What is to be run: fenced code, or the code that the text begins with, or that of each item below it."""
        below = [one for item in self.items for one in item.whole()]
        blocks = (*self.code, *(block for one in below for block in one.blocks))
        found = [block.code.strip() for block in blocks if block.code and block.code.strip()]
        if not found and (leading := _LEADING_CODE.match(self.text)):
            code = leading["code"].strip()  # a word of code of which something is said is no command
            found = [code] if leading["order"] or leading.end() == len(self.text) or len(code.split()) > 1 else []
        found = found or [codes[0] for one in below if (codes := codes_in(one.text))]
        return found[0] if len(found) == 1 and "\n" not in found[0] else "\n".join(["set -e", *found]) if found else ""

    def is_bare(self) -> bool:
        """Whether nothing is said but the command itself."""
        only_code = re.fullmatch(CODE, self.text) or (self.code and self.text.endswith(":"))
        return not self.items and bool(not self.text or only_code)


def _labelled(text: str) -> _Detail:
    label = _LABEL.match(text)
    return _Detail(printable(label[1]).strip(), text[label.end() :].strip()) if label else _Detail("", text)


def _details(item: Item) -> list[_Detail]:
    """The labelled parts, and what has no label, whether written as items or as lines below the task's own."""
    current = _Detail()
    found = [current]
    for part in item.parts:
        if isinstance(part, Block) and part.code is not None:
            current.code.append(part)
        elif isinstance(part, Block):
            begins = bool(current.text or current.items or current.code)
            for line in part.text.split("\n"):
                if begins or not current.label or _LABEL.match(line):
                    current = _labelled(line)
                    found.append(current)
                else:
                    current.text = f"{current.text} {line}".strip()
                begins = False
        elif part.box is not None:
            found.append(_Detail(box=part))
        elif _LABEL.match(part.text):
            detail = _labelled(" ".join([part.text, *(block.text for block in part.blocks if block.code is None)]))
            found.append(replace(detail, items=part.children, code=[each for each in part.blocks if each.code]))
        elif current.label:
            current.items.append(part)
        else:
            found.append(_Detail(text=part.as_written))
    return found


def _task(entry: ChecklistEntry, needed: tuple[str, ...], shown: str, command: str, further: tuple[str, ...]) -> Task:
    """`command` is run for every task of the file but where it names one of its own; `further` are files to read."""
    is_check = VERIFY in entry.markers
    whole = entry.title if len(entry.title) > _LONGEST_TITLE else ""
    description = [whole]
    files: list[str] = []
    wanted: list[str] = []
    commands: list[str] = []
    message = ""
    for detail in _details(entry.item):
        name = detail.label.casefold()
        if detail.box is not None:
            wanted += [text for _, text in criteria([detail.box])]
        elif name == "files":
            files += _paths(detail)
        elif name in _CRITERIA:
            wanted += detail.lines()
        elif name == "verify":
            commands.append(detail.command())
            wanted += [] if detail.is_bare() else detail.lines()
        elif name == "commit":
            message = message or _message(detail.text)
        else:
            description.append(detail.written())
    if is_check and entry.title.endswith("`"):
        commands += codes_in(entry.title)[-1:]
    command = next(filter(None, commands), command)
    above = [part for part in entry.item.section.split(" / ") if part and not _COMMANDS.fullmatch(part)]
    context = " / ".join(filter(None, [*above, *(item.text for item in entry.above)]))
    completion: Json = {"promise": VERIFIED} if is_check else {}
    if command:
        completion |= {"verificationMethod": "external", "verificationConfig": {"command": command}}
    told = "\n".join(filter(None, description))
    return Task(
        id=entry.id,
        title=f"{entry.title[: _LONGEST_TITLE - 1]}…" if whole else entry.title,
        description="\n\n".join(filter(None, (told, f"Part of: {context}" if context else ""))),
        priority=entry.priority,
        status="completed" if entry.is_ticked else "pending",
        dependencies=needed,
        acceptance_criteria=tuple(dict.fromkeys(wanted)),
        estimated_complexity=complexity(len(set(wanted))) if wanted else None,
        relevant_files=tuple(dict.fromkeys((*list(dict.fromkeys(files))[:MAX_FILES], *further))),
        markers=entry.markers,
        completion={"qa" if is_check else "coder": completion} if completion else {},
        overrides={"stages": ["qa"]} if is_check else {},
        source=shown,
        metadata=({COMMIT_MESSAGE: message} if message else {}) | (DONE_BEFORE if entry.is_ticked else {}),
    )


def _command_for_all(document: MarkdownFile) -> str:
    """The commands below a heading `Validation Commands`, as one; empty where there is none."""
    below = _Detail()
    inside = False
    for part in document.flow:
        if isinstance(part, Heading):
            inside = _COMMANDS.fullmatch(part.text) is not None
        elif inside and isinstance(part, Item):
            below.items.append(part)
        elif inside and isinstance(part, Block):
            below.code.append(part)
    return below.command()


def _message(text: str) -> str:
    """The commit's first line; what stands beside the code in it is a remark."""
    message = printable(next(iter(codes_in(text)), text)).strip()
    return "" if _NO_COMMIT.fullmatch(message) else message


def _paths(detail: _Detail) -> Iterator[str]:
    for part in (part for line in detail.lines() for part in re.split("[,;]", line)):
        match = _PATH.search(next(iter(codes_in(part)), part))
        if match and match[0].isprintable() and ("." in match[0].strip(".") or "/" in match[0].strip("/")):
            yield match[0].removeprefix("./")
