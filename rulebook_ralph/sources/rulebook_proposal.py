"""A task's `proposal.md`: its title and description; and the files that a task's texts name."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rulebook_ralph.sources.markdown import code_spans, heading, lines

MAX_FILES = 20
_TITLE_PREFIX = re.compile(
    r"(?:change\s+)?proposal\s*(?::|\s[-\u2013\u2014]\s)\s*|(?:implementation\s+)?tasks?\s*:\s*", re.IGNORECASE
)
_GENERIC_TITLE = re.compile(r"(?:change\s+)?proposal|(?:implementation\s+)?tasks?(?:\s+list)?|checklist", re.IGNORECASE)
_SLUG = re.compile(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}-")
_PHASE = re.compile(r"phase[-_]?(\d{1,4})(?:[-_.]|$)", re.IGNORECASE)
_PATH = re.compile(r"\.?[A-Za-z0-9_][\w.+-]*(?:/\.?[\w+-][\w.+-]*)*", re.ASCII)
_LINE_SUFFIX = re.compile(r":\d+(?:-\d+)?(?::\d+)?$")
_NAMES = frozenset(
    ("Makefile", "Dockerfile", "LICENSE", "justfile", "Justfile", ".gitignore", ".gitattributes", "Gemfile")
)
_EXTENSION = re.compile(
    "astro|bash|bat|c|cc|cfg|cjs|clj|cmake|conf|cpp|cs|css|csv|cts|cxx|dart|env|erl|ex|exs|fish|gleam|go|gql|gradle"
    "|graphql|h|hpp|hs|html|ini|ipynb|java|jl|js|json|json5|jsonc|jsx|kt|kts|less|lock|lua|md|mdc|mdx|mjs|ml|mod|mts|nix"
    "|php|pl|prisma|properties|proto|ps1|py|pyi|pyx|r|rb|rs|rst|sass|scala|scss|sh|sol|sql|sum|svelte|svg|swift|tcl|tf"
    "|toml|ts|tsx|txt|vue|xml|yaml|yml|zig|zsh",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """`title` without a `Proposal:` prefix, or empty; `description` is all the rest, as it was written."""

    title: str = ""
    description: str = ""


def read(text: str) -> Proposal:
    """Read the text of a proposal.md."""
    rows = text.split("\n")
    for index, line in enumerate(lines(text)):
        found = heading(line)
        if found and found[0] == 1:
            return Proposal(clean_title(found[1]), "\n".join([*rows[:index], *rows[index + 1 :]]).strip())
    return Proposal("", text.strip())


def clean_title(title: str) -> str:
    """A heading as a title: `Proposal: X` and `Tasks: X` give X; a file's mere kind gives nothing."""
    title = _TITLE_PREFIX.sub("", title, count=1) if _TITLE_PREFIX.match(title) else title
    return "" if _GENERIC_TITLE.fullmatch(title.strip()) else title.strip()


def readable_title(title: str, task_id: str) -> str:
    """The title; or where it is empty or merely the id, the id's words without date and phase."""
    repeated = _SLUG.fullmatch(title) is not None and task_id.casefold().endswith(title.casefold())
    if title and not (repeated and ("-" in title or "_" in title or title.casefold() == task_id.casefold())):
        return title
    bare = _DATE.sub("", task_id, count=1) if _DATE.match(task_id) else task_id
    bare = _PHASE.sub("", bare, count=1) if _PHASE.match(bare) else bare
    words = re.sub(r"[-_]+", " ", bare).strip() or task_id
    return words[0].upper() + words[1:]


def phase_of(task_id: str) -> int | None:
    """The number in `phase3_name`, `phase-3-name` or `2026-01-31-phase3_name`; None without one."""
    date = _DATE.match(task_id)
    phase = _PHASE.match(task_id, date.end() if date else 0)
    return int(phase[1]) if phase else None


def named_files(texts: list[str], exists: Callable[[str], bool]) -> tuple[str, ...]:
    """The repository files that inline code in the texts names, in order, without repeats, at most 20.

    A file is named by a relative path that exists or whose extension says it is a file; patterns, folders, URLs and
    paths that lead upwards are none. `:140` behind a name is a line number.
    """
    found: dict[str, None] = {}
    for text in texts:
        for code in _inline_code(text):
            name = _LINE_SUFFIX.sub("", code).removeprefix("./")
            if name not in found and _is_file_name(name, exists):
                found[name] = None
                if len(found) == MAX_FILES:
                    return tuple(found)
    return tuple(found)


def _is_file_name(name: str, exists: Callable[[str], bool]) -> bool:
    if len(name) > 300 or not _PATH.fullmatch(name) or ".." in name:  # noqa: PLR2004 - longer is no path
        return False
    last = name.rsplit("/", 1)[-1]
    if last in _NAMES or ("." in last.lstrip(".") and _EXTENSION.fullmatch(last.rsplit(".", 1)[-1])):
        return True
    return "/" in name and exists(name)


def _inline_code(text: str) -> Iterator[str]:
    for line in lines(text):
        if not line.code:
            for start, end in code_spans(line.text):
                yield line.text[start:end].strip("`").strip()
