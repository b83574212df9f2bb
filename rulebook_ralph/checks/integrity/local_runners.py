"""Programs of a gate that are dependencies within the repository (`"runner": "file:./tools/runner"`): what they do, and
where they come from.
"""

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rulebook_ralph.checks.integrity.gate import Gate
from rulebook_ralph.checks.integrity.indirect_scripts import ReadBase
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.script_files import may_be_run
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.diff import FileDiff, Versions

_MANIFEST = "package.json"
_KEYS = ("dependencies", "devDependencies", "optionalDependencies")
_SCHEMES = ("file:", "link:", "portal:")
_MOST = 100


@dataclass(frozen=True, slots=True)
class _Runner:
    gate: str
    manifest: str
    name: str
    folder: str


def local_runners(
    diff: Sequence[FileDiff],
    gates: Callable[[], Iterable[Gate]],
    read_base: ReadBase,
    read: Callable[[FileDiff], Versions],
    excused: Callable[[FileDiff], bool],
) -> Iterator[Objection]:
    """Their files that were there and were changed, one for each of them, and a manifest that has another one instead.

    `gates`: with what they start through others. The base is read only where such a file may be.
    """
    changed = {
        file.old_path: file for file in diff if file.old_path and _may_count(file.old_path) and not excused(file)
    }
    for runner in _runners(gates(), read_base) if changed else ():
        inside = [path for path in changed if path.startswith(f"{runner.folder}/")]
        if inside:
            what = f"the gate '{runner.gate}' runs this as {runner.name}, and it was changed"
            yield Objection(min(inside), None, what)
        if (file := changed.get(runner.manifest)) is not None and not _is_there(read(file).after, runner):
            yield Objection(runner.manifest, None, f'where "{runner.name}" comes from was changed, which a gate runs')


def _may_count(path: str) -> bool:
    is_manifest = path.rpartition("/")[2] == _MANIFEST
    return is_manifest or (may_be_run(path) is not False and not path.endswith(".py") and not is_test_file(path))


def _runners(gates: Iterable[Gate], read_base: ReadBase) -> Iterator[_Runner]:
    homes: dict[str, dict[str, str]] = {}
    """By manifest: programs that are run beside it, and the gate that does it."""
    for gate in gates:
        manifest = posixpath.normpath(posixpath.join(gate.folder, _MANIFEST))
        homes.setdefault(manifest, {}).update(dict.fromkeys(gate.programs, gate.name))
    manifests = read_base(sorted(homes)[:_MOST]) if homes else {}
    local = [(path, name, folder) for path, text in manifests.items() for name, folder in _local(text, path).items()]
    own = read_base([f"{folder}/{_MANIFEST}" for _, _, folder in local[:_MOST]]) if local else {}
    for path, name, folder in local:
        programs = {name.rpartition("/")[2], *_programs(own.get(f"{folder}/{_MANIFEST}", ""))}
        if called := sorted(programs & homes[path].keys()):
            yield _Runner(homes[path][called[0]], path, name, folder)


def _is_there(text: str | None, runner: _Runner) -> bool:
    return _local(text or "", runner.manifest).get(runner.name) == runner.folder


def _local(text: str, path: str) -> Mapping[str, str]:
    """The dependencies within the repository that a manifest names, and the folder of each."""
    tables = [table for key in _KEYS if isinstance(table := _read(text).get(key), dict)]
    found: dict[str, str] = {}
    for name, place in (item for table in tables for item in table.items()):
        scheme = next((each for each in _SCHEMES if isinstance(place, str) and place.startswith(each)), None)
        if scheme is not None:
            folder = posixpath.normpath(posixpath.join(posixpath.dirname(path), place.removeprefix(scheme)))
            found |= {} if folder.startswith(("..", "/")) else {name: folder}
    return found


def _programs(text: str) -> set[str]:
    manifest = _read(text)
    programs = manifest.get("bin")
    return set(programs) if isinstance(programs, dict) else set()


def _read(text: str) -> Mapping[str, object]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
