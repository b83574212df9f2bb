"""Gates from a Makefile or justfile: targets by their usual names that really do something."""

import re
from collections.abc import Iterator
from pathlib import Path

from rulebook_ralph.core.settings import StepKind, VerificationStep
from rulebook_ralph.sources.gates_found import Found, step, text_of
from rulebook_ralph.sources.source import SourceProblem

_KINDS: tuple[tuple[StepKind, tuple[str, ...]], ...] = (
    ("test", ("test", "tests", "check")),
    ("lint", ("lint",)),
    ("typecheck", ("typecheck", "type-check", "types")),
    ("build", ("build",)),
)
_RULE = re.compile(r"([A-Za-z0-9_.][\w./-]*(?:[ \t]+[\w./-]+)*)[ \t]*::?(?![:=])(.*)")
_ASSIGNMENT = re.compile(r"[ \t]*(?:(?:export|override|private)[ \t]+)*[\w.-]+[ \t]*(?::|::|\?|\+|!)?=")
_RECIPE = re.compile(r"@?([A-Za-z_][\w-]*)((?:[ \t]+[^\s:]+)*)[ \t]*:(?!=)(.*)")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile", "JUSTFILE")


def discover_make(root: Path) -> Found:
    """`make X` for targets with a recipe or prerequisites. `check` is a test target where there is no `test`."""
    problems: list[SourceProblem] = []
    file = _first(root, _MAKEFILES)
    if file is None:
        return Found()
    targets, phony = _targets(text_of(file, problems))
    for name in sorted(targets - phony):
        if any(name in names for _, names in _KINDS) and (root / name).exists():
            targets.discard(name)
            message = f'the target "{name}" is not .PHONY and something of that name exists: make would do nothing'
            problems.append(SourceProblem(file, None, message))
    return Found(tuple(_steps("make", targets)), tuple(problems))


def discover_just(root: Path) -> Found:
    """`just X` for recipes that need no argument."""
    problems: list[SourceProblem] = []
    file = _first(root, _JUSTFILES)
    return Found() if file is None else Found(tuple(_steps("just", _recipes(text_of(file, problems)))), tuple(problems))


def _steps(tool: str, targets: set[str]) -> Iterator[VerificationStep]:
    for kind, names in _KINDS:
        for name in names:
            if name in targets:
                yield step(kind, f"{tool} {name}")
                break


def _targets(text: str) -> tuple[set[str], set[str]]:
    """Targets that do something, and the names declared .PHONY."""
    rows = [row.split("#", 1)[0] if not row.startswith("\t") else row for row in text.replace("\\\n", " ").split("\n")]
    doing: set[str] = set()
    phony: set[str] = set()
    current: list[str] = []
    inside_define = False
    for row in rows:
        if row.startswith(("define ", "endef")):
            inside_define = row.startswith("define ")
        if inside_define or not row.strip():
            continue
        if row.startswith("\t"):
            doing.update(current)
            continue
        rule = _RULE.match(row)
        current = [] if rule is None or _ASSIGNMENT.match(row) else rule[1].split()
        if not current or rule is None or _ASSIGNMENT.match(rule[2]):
            current = []
        elif current == [".PHONY"]:
            phony.update(rule[2].split())
        elif rule[2].strip(" \t;"):
            doing.update(current)
    return doing, phony


def _recipes(text: str) -> set[str]:
    """Recipes with a body or dependencies, and without parameters that must be given."""
    rows = text.split("\n")
    found: set[str] = set()
    for index, row in enumerate(rows):
        recipe = _RECIPE.match(row)
        if recipe is None:
            continue
        needed = [word for word in recipe[2].split() if "=" not in word and not word.startswith("*")]
        body = next((after for after in rows[index + 1 :] if after.strip()), "")
        if not needed and (recipe[3].split("#", 1)[0].strip() or body[:1].isspace()):
            found.add(recipe[1])
    return found


def _first(root: Path, names: tuple[str, ...]) -> Path | None:
    return next((root / name for name in names if (root / name).is_file()), None)
