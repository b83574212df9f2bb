"""A spec.md of a rulebook task: what it demands, as acceptance criteria.

A demand is a whole paragraph, list item or scenario step that says SHALL or MUST, with the list, table or code it
announces. It is given with the name of its requirement unless its words say that already, and a step of a scenario with
what the scenario presupposes. A removed requirement is one criterion that says so.
"""

import re
from dataclasses import dataclass, field

from rulebook_ralph.sources.markdown import (
    LONGEST_CONTEXT,
    Line,
    heading,
    is_break,
    lines,
    list_item,
    shortened,
    without_code,
    without_leading_bold,
)

_DELTA = re.compile(r"(ADDED|MODIFIED|REMOVED|RENAMED)\s+Requirements?", re.IGNORECASE)
_ROLES = ("delta", "requirement", "scenario", "name")
_DEMAND = re.compile(r"\b(?:SHALL|MUST)\b")
_STEP = re.compile(r"(?:\*\*|__)?(?:given|when|then|and|but)\b", re.IGNORECASE)
_LABEL = re.compile(r"\*\*[^*]+\*\*\s*:|\*\*[^*]+:\*\*")
_FURTHER = re.compile(r"(?:and|but)\b", re.IGNORECASE)
_RENAME = re.compile(r"(FROM|TO)\b:?\s*(.*)", re.IGNORECASE | re.DOTALL)
_REQUIREMENT_MARK = re.compile(r"#+\s*Requirement:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Spec:
    """`requirements` counts the requirements (or demands outside of any) behind `criteria`."""

    criteria: tuple[str, ...] = ()
    requirements: int = 0


@dataclass(slots=True)
class _Block:
    kind: str  # paragraph, item, table, code
    parts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def demands(self) -> bool:
        return self.kind in ("paragraph", "item") and _DEMAND.search(without_code(self.text)) is not None


@dataclass(slots=True)
class _Section:
    delta: str = ""
    requirement: str = ""
    scenario: str = ""
    name: str = ""
    blocks: list[_Block] = field(default_factory=list)


def read(text: str) -> Spec:
    """Read the text of a spec.md."""
    criteria: list[str] = []
    subjects: list[str] = []
    for section in _sections(lines(text)):
        found: list[str]
        if section.delta == "RENAMED":
            found = _renamed(section)
        elif section.scenario:
            found = _scenario(section)
        elif section.delta == "REMOVED":
            found = _removed(section)
        else:
            found = _demands(section)
        criteria += found
        subjects += [section.requirement or one for one in found]
    return Spec(tuple(dict.fromkeys(criteria)), len(set(subjects)))


def _sections(read_lines: list[Line]) -> list[_Section]:
    sections = [_Section()]
    path: list[tuple[int, str, str]] = []
    run: list[Line] = []
    for line in read_lines:
        found = heading(line)
        if found is None:
            run.append(line)
            continue
        sections[-1].blocks = _blocks(run, steps=bool(sections[-1].scenario))
        run = []
        level, title = found
        path = [entry for entry in path if entry[0] < level]
        path.append((level, *_role(level, title)))
        roles = {role: name for _, role, name in path}
        delta, requirement, scenario, name = (roles.get(role, "") for role in _ROLES)
        sections.append(_Section(delta, requirement, scenario, name))
    sections[-1].blocks = _blocks(run, steps=bool(sections[-1].scenario))
    return sections


def _role(level: int, title: str) -> tuple[str, str]:
    if delta := _DELTA.fullmatch(title):
        return "delta", delta[1].upper()
    for role in ("requirement", "scenario"):
        if title.casefold().startswith(role + ":"):
            return role, shortened(title[len(role) + 1 :].strip())
    return ("title" if level == 1 else "name"), shortened(title)


def _blocks(run: list[Line], *, steps: bool) -> list[_Block]:
    """The paragraphs, list items, tables and fenced blocks of a section, each whole."""
    blocks: list[_Block] = []
    joinable = False
    for line in run:
        if (not line.text and not line.code) or is_break(line):
            joinable = False
            continue
        kind = "code" if line.code else "table" if line.text.startswith("|") else ""
        item = None if kind else list_item(line)
        last = blocks[-1] if blocks else _Block("", [""])
        if kind:
            if last.kind == kind and (joinable or kind == "code"):
                last.parts += ["\n", line.text]
            else:
                blocks.append(_Block(kind, [line.text]))
        elif item is not None:
            text = without_leading_bold(item)
            if last.kind == "item" and line.indent > 1:
                last.parts += [" " if last.parts[-1].endswith(":") else "; ", text]
            else:
                blocks.append(_Block("item", [text]))
        elif _goes_on(line, last, joinable=joinable, steps=steps):
            last.parts += [" ", line.text]
        else:
            blocks.append(_Block("paragraph", [without_leading_bold(line.text)]))
        joinable = True
    return blocks


def _goes_on(line: Line, last: _Block, *, joinable: bool, steps: bool) -> bool:
    if last.kind not in ("paragraph", "item") or _LABEL.match(line.text) or (steps and _STEP.match(line.text)):
        return False
    return joinable or (last.kind == "item" and line.indent > 1)


def _demands(section: _Section) -> list[str]:
    """The demands of a requirement's body, or of text outside of any requirement."""
    found: list[str] = []
    blocks = section.blocks
    i = 0
    while i < len(blocks):
        block = blocks[i]
        i += 1
        if not block.demands:
            continue
        announced: list[_Block] = []
        announces = block.text.endswith(":")
        while i < len(blocks) and _is_announced(blocks[i], block, announces=announces):
            announced.append(blocks[i])
            i += 1
        found.append(_named(section.requirement or section.name, _with(block.text, announced)))
    return found


def _is_announced(block: _Block, by: _Block, *, announces: bool) -> bool:
    if block.kind == "paragraph":
        return False
    if block.kind == "item":
        return by.kind == "paragraph" and (announces or not block.demands)
    return True


def _scenario(section: _Section) -> list[str]:
    """A criterion for each demanding step, after the steps that only say when it holds."""
    removed = _removal(section) if section.delta == "REMOVED" else section.requirement
    name = " — ".join(part for part in (removed, section.scenario) if part)
    context: list[str] = []
    found: list[str] = []
    last_demands = False
    for block in section.blocks:
        if block.kind in ("code", "table"):
            earlier = found if last_demands else context
            if earlier:
                earlier[-1] = _with(earlier[-1], [block])
            continue
        last_demands = block.demands
        if not last_demands:
            context.append(block.text)
            continue
        if sum(map(len, context)) > LONGEST_CONTEXT:  # once on its own, not before each demand
            found.append(f"{name}: {', '.join(context)}")
            context = []
        step = _FURTHER.sub("Then", block.text, count=1) if _FURTHER.match(block.text) else block.text
        found.append(f"{name}: " + ", ".join([*context, step]))
    return found


def _removed(section: _Section) -> list[str]:
    """One criterion for a removed requirement, with all that is said of it; without a heading one for each item."""
    if section.requirement:
        body = _with("", section.blocks)
        return [f"{_removal(section)}: {body}" if body else _removal(section)]
    return [
        f"Removed requirement: {_REQUIREMENT_MARK.sub('', block.text.strip('`'))}"
        for block in section.blocks
        if block.kind == "item" or block.demands
    ]


def _removal(section: _Section) -> str:
    return f'Removed requirement "{section.requirement}"'


def _renamed(section: _Section) -> list[str]:
    """`FROM: a`, `TO: b` as one criterion; demands of a renamed requirement's own body stay demands."""
    if section.requirement:
        return _scenario(section) if section.scenario else _demands(section)
    found: list[str] = []
    old = ""
    for block in section.blocks:
        match = _RENAME.match(block.text)
        name = _REQUIREMENT_MARK.sub("", match[2].strip().strip("`")) if match else ""
        if match and match[1].upper() == "FROM":
            old = name
        elif match:
            found.append(f'Renamed requirement "{old}" to "{name}"')
        elif block.demands:
            found.append(block.text)
    return found


def _with(text: str, blocks: list[_Block]) -> str:
    """A text and what follows it: items in the line, tables and code on lines of their own."""
    parts = [text] if text else []
    for block in blocks:
        if parts and (block.kind in ("code", "table") or parts[-1].endswith(("|", "```"))):
            parts.append("\n")
        elif parts:
            parts.append(" " if parts[-1].endswith((":", ".", ";")) else "; ")
        parts.append(block.text)
    return "".join(parts)


def _named(name: str, text: str) -> str:
    words = [word for word in re.findall(r"\w+", name.casefold()) if len(word) > 3]  # noqa: PLR2004 - not "the", "of"
    said = text.casefold()
    return text if not name or (words and all(word in said for word in words)) else f"{name}: {text}"
