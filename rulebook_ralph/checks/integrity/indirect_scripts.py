"""Scripts that gates start by a target of make, a script of package.json, or another script."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.gate_commands import Gate, read_gate
from rulebook_ralph.checks.integrity.languages import language_of
from rulebook_ralph.checks.integrity.make_targets import recipes
from rulebook_ralph.checks.integrity.node_scripts import commands_of
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.settings import VerificationStep

ReadBase = Callable[[str], str | None]

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile", "justfile", "Justfile", ".justfile")
_SHELL = re.compile(r"(?:^|/)[^/.]+$|\.(?:sh|bash|zsh|ksh)$")
_OF_CHECKS = re.compile(
    r"(?:^|[/_.-])(?:run[_-]?)?(?:tests?|checks?|lint\w*|verif\w*|specs?|ci|validate)(?=[_.-]|$)|"
    r"(?:^|/)(?:scripts?|tools?|\.?ci|hack)/[^/]+$"
)
_DEEPEST = 3
_MOST_LINES = 2000


def indirect_scripts(
    diff: Sequence[FileDiff], gates: Sequence[Gate], read_base: ReadBase, excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """Scripts that were there, that a gate starts through others, and that were changed.

    They count by their names or folders, for what a gate starts may be the program itself. `read_base` gives a file's
    text at the base; nothing is read unless such a file was changed.
    """
    changed = {file.old_path: file for file in diff if file.old_path and _OF_CHECKS.search(file.old_path)}
    told: set[str] = set()
    for gate in gates if changed else ():
        for path in sorted(_started(gate, read_base) & changed.keys()):
            if path in told or path in gate.paths or excused(path) or language_of(path) is not None:
                continue
            told.add(path)
            done = {"D": "deleted", "R": "renamed"}.get(changed[path].kind, "changed")
            yield Objection(path, None, f"the gate '{gate.name}' starts this script through others, and it was {done}")


def _started(gate: Gate, read_base: ReadBase) -> set[str]:
    """Everything that a gate starts through others, as far as shell scripts tell."""
    found = set(_paths(_commands(gate, read_base), gate))
    fresh = found | gate.paths
    for _ in range(_DEEPEST):
        texts = [text for path in fresh if _SHELL.search(path) and (text := read_base(path))]
        lines = [line for text in texts for line in text.split("\n")[:_MOST_LINES]]
        fresh = set(_paths(lines, gate)) - found
        found |= fresh
    return found


def _commands(gate: Gate, read_base: ReadBase) -> Iterator[str]:
    """What targets and scripts of package.json run."""
    at = "" if gate.folder == "." else f"{gate.folder}/"
    if gate.makes:
        for name in _MAKEFILES:
            if text := read_base(f"{at}{name}"):
                yield from recipes(text, frozenset(gate.targets) or frozenset(("",)))
    if gate.scripts and (text := read_base(f"{at}package.json")):
        yield from commands_of(text, gate.scripts)


def _paths(commands: Iterable[str], gate: Gate) -> Iterator[str]:
    for command in commands:
        if command and not command.startswith("#"):
            line = command.strip().lstrip("@-+").strip()
            yield from read_gate(VerificationStep(name=gate.name, command=line, working_dir=gate.folder)).paths
