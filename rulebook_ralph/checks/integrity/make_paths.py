"""Files and folders that keep make from running what a gate asks of it, or that it reads besides the Makefile."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.gate import Gate
from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.checks.integrity.indirect_scripts import ReadBase
from rulebook_ralph.checks.integrity.make_targets import changed_targets, done_by_files, included_files
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.script_files import may_hold_words
from rulebook_ralph.core.diff import FileDiff, Versions

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MAKES = frozenset(("make", "gmake"))
_MOST_HOMES = 20
_INCLUDED = "{}; the Makefile of the gate '{}' includes this file"
_TAKEN = "make takes the target `{}` of the gate '{}' for done while there is a file or folder so named"


def make_paths(
    diff: Sequence[FileDiff],
    gates: Iterable[Gate],
    read_base: ReadBase,
    *,
    folders: Callable[[Sequence[str]], frozenset[str]],
    read: Callable[[FileDiff], Versions],
    excused: Callable[[str], bool],
) -> Iterator[Objection]:
    """New paths that are named like a target that is reached, and files that a Makefile includes: new ones, and those
    of which something was changed that a target goes by which is reached.

    `gates`: with what they start through others; `folders`: those of paths that were folders at the base; `read` gives
    both versions of a file. The base is read only where such a file may be.
    """
    new = [file.path for file in diff if file.kind in ("A", "R") and not excused(file.path)]
    old = {file.old_path: file for file in diff if file.old_path and may_hold_words(file.old_path)}
    old = {path: file for path, file in old.items() if not (file.binary or excused(path))}
    told: set[str] = set()
    for gate in gates if new or old else ():
        wanted = frozenset(gate.targets) or frozenset(("",))
        for home in sorted(gate.homes)[:_MOST_HOMES] if gate.programs & _MAKES else ():
            inside, changed = _below(home, new), _below(home, old)
            texts = read_base([_in(home, name) for name in MAKEFILES]) if inside or changed else {}
            for text in texts.values():
                included = Globs(f"/{name}" for name in included_files(text))
                for path in (path for path, name in changed.items() if included.match(name) and path not in told):
                    if (what := _changed(text, read(old[path]), wanted)) is not None:
                        told.add(path)
                        yield Objection(path, None, _INCLUDED.format(what, gate.name))
                for path, target in _taken(inside, done_by_files(text, wanted)):
                    if target not in told and not folders([_in(home, target)]):
                        told.add(target)
                        yield Objection(path, None, _TAKEN.format(target, gate.name))
                for path in (path for path, name in inside.items() if included.match(name) and path not in told):
                    told.add(path)
                    yield Objection(path, None, f"the Makefile of the gate '{gate.name}' includes this new file")


def _changed(text: str, included: Versions, wanted: frozenset[str]) -> str | None:
    """What was changed in a file that a Makefile's text includes, and counts for the targets."""
    before, after = included.before or "", included.after or ""
    return next((what for what, _ in changed_targets(f"{before}\n{text}", f"{after}\n{text}", wanted)), None)


def _below(home: str, paths: Iterable[str]) -> Mapping[str, str]:
    """Those of the paths that lie in a folder, and what they are called from there."""
    return {path: posixpath.relpath(path, home) for path in paths if home == "." or path.startswith(f"{home}/")}


def _taken(inside: Mapping[str, str], targets: set[str]) -> Iterator[tuple[str, str]]:
    for path, name in inside.items():
        yield from ((path, target) for target in targets if name == target or name.startswith(f"{target}/"))


def _in(home: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(home, name))
