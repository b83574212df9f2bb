"""Tasks from Markdown plans, in their order: one for each item with a box (`- [ ] 1.2 [P] Title`), or for each heading
that names one (`### Task 2: Title`, `### US-001: Title`).

Boxes below a task are its criteria; where they have ids of their own (`1.1` below `1.`), they are the tasks. `**Do**`,
`**Files**`, `**Acceptance Criteria:**`, `**Verify**` and `**Commit**` say more of it, and anything else is description.
Items without an id get one made of their words, so that it stays when the item moves. A file is taken whole or not at
all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rulebook_ralph.tasks.importers.checklist_entries import LABEL, ChecklistEntry, dependencies, parted
from rulebook_ralph.tasks.importers.markdown import (
    CODE,
    Block,
    Heading,
    Item,
    MarkdownFile,
    codes_in,
    criteria,
    read_document,
    words_of,
)
from rulebook_ralph.tasks.importers.source import (
    COMMIT_MESSAGE,
    DONE_BEFORE,
    MAX_FILES,
    RefusedTasksError,
    SourceReading,
    complexity,
    read_text,
)
from rulebook_ralph.tasks.model import VERIFY, Json, Task
from rulebook_ralph.tasks.text import Problem, counted, escaped, printable

VERIFIED = "VERIFICATION_PASS"
"""The promise of a `[VERIFY]` task."""
_LONGEST_TITLE = 200
_NO_TASK = "has no task: expected items with a box, such as `- [ ] 1.1 Title`, or `### Task 1: Title`"
_KIND_OF_FILE = re.compile(r"(?:PRD|plan|product requirements(?: document)?)\s*[:\u2013\u2014-]\s*", re.IGNORECASE)
_COMMANDS = re.compile(r"validation(?: commands?)?", re.IGNORECASE)
_LEADING_CODE = re.compile(rf"(?P<order>(?:please\s+)?(?:run|execute|command)\b:?\s*)?{CODE}", re.IGNORECASE)
_NO_COMMIT = re.compile(r"(?:none|n/?a|no(?: commit)?|-)\.?", re.IGNORECASE)
_PATH = re.compile(r"[^\s`,;()*]+")
_CRITERIA = ("done when", "acceptance criteria", "acceptance", "success criteria")


def read(path: Path, shown: str) -> SourceReading:
    """The tasks of a file, with its own ids, which depend on others of it only; `shown` is their source.

    Raises UnreadableError, and RefusedTasksError with all that is wrong.
    """
    document = read_document(read_text(path, within=path.parent), path)
    entries, left = parted(document)
    wrong = [] if entries else [Problem(shown, None, "", _NO_TASK)]
    earlier: dict[str, int] = {}
    for entry in entries:
        row = earlier.setdefault(entry.id.casefold(), entry.item.row)
        if row != entry.item.row:
            told = f"'{escaped(entry.id)}' is used already in line {row + 1}"
            wrong.append(Problem(shown, entry.item.row + 1, "", told))
    if wrong:
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


def _labelled(text: str) -> _Detail:
    label = LABEL.match(text)
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
                if begins or not current.label or LABEL.match(line):
                    current = _labelled(line)
                    found.append(current)
                else:
                    current.text = f"{current.text} {line}".strip()
                begins = False
        elif part.box is not None:
            found.append(_Detail(box=part))
        elif LABEL.match(part.text):
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
            only_code = re.fullmatch(CODE, detail.text) or (detail.code and detail.text.endswith(":"))
            wanted += [] if only_code and not detail.items else detail.lines()
        elif name == "commit":
            told = printable(next(iter(codes_in(detail.text)), detail.text)).strip()  # beside code stands a remark
            message = message or ("" if _NO_COMMIT.fullmatch(told) else told)
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
    return Task(
        id=entry.id,
        title=f"{entry.title[: _LONGEST_TITLE - 1]}…" if whole else entry.title,
        description="\n\n".join(
            filter(None, ("\n".join(filter(None, description)), context and f"Part of: {context}"))
        ),
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


def _paths(detail: _Detail) -> Iterator[str]:
    for part in (part for line in detail.lines() for part in re.split("[,;]", line)):
        match = _PATH.search(next(iter(codes_in(part)), part))
        if match and match[0].isprintable() and ("." in match[0].strip(".") or "/" in match[0].strip("/")):
            yield match[0].removeprefix("./")
