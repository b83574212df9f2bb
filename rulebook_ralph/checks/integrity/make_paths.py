"""New files and folders that keep make from running what a gate asks of it, or that it reads besides the Makefile."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.gate import Gate
from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.indirect_scripts import ReadBase
from rulebook_ralph.checks.integrity.make_targets import done_by_files, included_files
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MAKES = frozenset(("make", "gmake"))
_MOST_HOMES = 20
_TAKEN = "make takes the target `{}` of the gate '{}' for done while there is a file or folder so named"


def make_paths(
    diff: Sequence[FileDiff],
    gates: Iterable[Gate],
    read_base: ReadBase,
    folders: Callable[[Sequence[str]], frozenset[str]],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """New paths that are named like a target that is reached, and new files that a Makefile includes.

    `gates`: with what they start through others; `folders`: those of paths that were folders at the base. The base is
    read only where there are new paths beside a Makefile.
    """
    new = [file.path for file in diff if file.kind in ("A", "R") and not excused(file.path)]
    told: set[str] = set()
    for gate in gates if new else ():
        for home in sorted(gate.homes)[:_MOST_HOMES] if gate.programs & _MAKES else ():
            inside = {path: posixpath.relpath(path, home) for path in new if home == "." or path.startswith(f"{home}/")}
            texts = read_base([_in(home, name) for name in MAKEFILES]) if inside else {}
            for text in texts.values():
                for path, target in _taken(inside, done_by_files(text, frozenset(gate.targets) or frozenset(("",)))):
                    if target not in told and not folders([_in(home, target)]):
                        told.add(target)
                        yield Objection(path, None, _TAKEN.format(target, gate.name))
                read = Globs(f"/{name}" for name in included_files(text))
                for path in (path for path, name in inside.items() if read.match(name) and path not in told):
                    told.add(path)
                    yield Objection(path, None, f"the Makefile of the gate '{gate.name}' includes this new file")


def _taken(inside: Mapping[str, str], targets: set[str]) -> Iterator[tuple[str, str]]:
    for path, name in inside.items():
        yield from ((path, target) for target in targets if name == target or name.startswith(f"{target}/"))


def _in(home: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(home, name))
