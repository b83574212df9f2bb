"""Changes to what defines the gates: configuration, targets and scripts, and what the gates' commands start."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.gate_commands import Gate
from rulebook_ralph.checks.integrity.gate_files import Category, Definition, definition_of
from rulebook_ralph.checks.integrity.gate_parts import Part, parts_of
from rulebook_ralph.checks.integrity.make_targets import changed_targets
from rulebook_ralph.checks.integrity.node_scripts import changed_scripts
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.checks.integrity.script_files import may_hold_words
from rulebook_ralph.core.diff import FileDiff, Versions

_DONE = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed"}
_NOTHING = Versions(None, None)
_SETTINGS = (".ini", ".cfg", ".toml", ".conf")
_FIRST_OF_MAKE = ("GNUmakefile", "makefile", "Makefile")


def defining_files(diff: Sequence[FileDiff]) -> list[FileDiff]:
    """Changed files that may define gates, by their old name or their new one."""
    return [file for file in diff if definition_of(file.path) or (file.old_path and definition_of(file.old_path))]


def gate_changes(
    files: Sequence[FileDiff],
    versions: Mapping[str, Versions],
    gates: Sequence[Gate],
    green: Sequence[Gate],
    diff: Sequence[FileDiff],
) -> Iterator[Objection]:
    """What was changed in those files that `gates` use. A new file counts only for gates that were `green`."""
    for file in files:
        texts = versions.get(file.path, _NOTHING)
        if file.old_path is None:
            yield from _new_file(file, texts.after, green, diff)
        else:
            yield from _old_file(file, texts, gates)


def named_settings(
    diff: Sequence[FileDiff], gates: Callable[[], Iterable[Gate]], excused: Callable[[FileDiff], bool]
) -> Iterator[Objection]:
    """Settings by whatever name that a gate is given in so many words, as in `pytest -c settings/tests.ini`, and files
    whose text stands among them, as in `pytest $(cat options)`.
    """
    for file in diff:
        old = file.old_path
        if old is None or not may_hold_words(old) or definition_of(old) is not None or excused(file):
            continue
        gate = next((gate for gate in gates() if old in _named(gate, is_setting=old.endswith(_SETTINGS))), None)
        if gate is not None:
            yield Objection(old, _first_line(file), f"was {_DONE[file.kind]}; the gate '{gate.name}' is given it")


def _named(gate: Gate, *, is_setting: bool) -> set[str]:
    return gate.inserted | ({posixpath.normpath(place) for place in gate.places} if is_setting else set())


def _old_file(file: FileDiff, texts: Versions, gates: Sequence[Gate]) -> Iterator[Objection]:
    old_path = file.old_path or file.path
    definition = definition_of(old_path)
    if definition is None:
        yield from _new_file(file, texts.after, gates, ())
        return
    after = texts.after if definition_of(file.path) is definition else None
    line = _first_line(file)
    if definition.always:
        yield Objection(old_path, line, f"{definition.what} was {_DONE[file.kind]}")
    elif definition.parts == "make":
        yield from _targets(file, old_path, definition, Versions(texts.before, after), gates)
    else:
        old, new = parts_of(definition, texts.before), parts_of(definition, after)
        for name in sorted(old.keys() | new.keys()):
            part = old.get(name) or new[name]
            gate = _user(part, gates)
            if gate is not None and _value(old, name) != _value(new, name):
                done = _DONE[file.kind] if name in old else "added"
                what = f"{name or definition.what} was {done if name in new or not name else 'removed'}"
                yield Objection(file.path, _line_of(file, part.mark), f"{what}; the gate '{gate.name}' goes by it")
        if definition.parts == "package":
            yield from _scripts(file, Versions(texts.before, after), gates)


def _value(parts: Mapping[str, Part], name: str) -> object:
    return parts[name].value if name in parts else None


def _new_file(file: FileDiff, text: str | None, green: Sequence[Gate], diff: Sequence[FileDiff]) -> Iterator[Objection]:
    """A file that was not there counts where a gate that was green would go by it."""
    definition = definition_of(file.path)
    if definition is None or definition.always:
        return
    folder = file.path.rpartition("/")[0]
    if definition.parts == "make":
        gate = next((gate for gate in green if gate.makes and gate.folder == (folder or ".")), None)
        if gate is not None and file.path.rpartition("/")[2] in _FIRST_OF_MAKE:
            yield Objection(file.path, None, f"was added, and the gate '{gate.name}' would go by it")
        return
    for name, part in parts_of(definition, text).items():
        gate = _strict_user(part, [gate for gate in green if _applies(definition, folder, gate, diff)])
        if gate is not None:
            what = f"{name or definition.what} was added; the gate '{gate.name}', which was green, would go by it"
            yield Objection(file.path, _line_of(file, part.mark), what)


def _applies(definition: Definition, folder: str, gate: Gate, diff: Sequence[FileDiff]) -> bool:
    """Whether a new file in a folder can change what a gate says of files that were there."""
    if folder in ("", gate.folder) or any(f"{place}/".startswith(f"{folder}/") for place in gate.places):
        return True
    return definition.deep and any(file.kind != "A" and file.path.startswith(f"{folder}/") for file in diff)


def _user(part: Part, gates: Sequence[Gate]) -> Gate | None:
    """The gate that goes by a part: one that runs the tool, else one that may run anything."""
    direct = next((gate for gate in gates if gate.tools & part.tools), None)
    return direct or next((gate for gate in gates if gate.opaque), None)


def _strict_user(part: Part, gates: Sequence[Gate]) -> Gate | None:
    """The same, but of the gates that may run anything only those whose kind fits."""
    direct = next((gate for gate in gates if gate.tools & part.tools), None)
    return direct or next((gate for gate in gates if gate.opaque and _fits(part.category, gate)), None)


def _fits(category: Category, gate: Gate) -> bool:
    return category == gate.kind


def _targets(
    file: FileDiff, path: str, definition: Definition, texts: Versions, gates: Sequence[Gate]
) -> Iterator[Objection]:
    users = [gate for gate in gates if gate.makes] or [gate for gate in gates if gate.opaque]
    if not users or texts.before is None:
        return
    if texts.after is None:
        yield Objection(path, None, f"{definition.what}: the file was {_DONE[file.kind]}")
        return
    wanted = frozenset(name for gate in users for name in gate.targets) if all(g.makes for g in users) else frozenset()
    if any(gate.makes and not gate.targets for gate in users):
        wanted |= {""}  # the first target
    for what, mark in changed_targets(texts.before, texts.after, wanted):
        yield Objection(path, _line_of(file, mark), what)


def _scripts(file: FileDiff, texts: Versions, gates: Sequence[Gate]) -> Iterator[Objection]:
    users = [gate for gate in gates if gate.opaque]
    if not users or texts.before is None:
        return
    wanted = frozenset(name for gate in users for name in gate.scripts)
    any_may = any(not gate.scripts for gate in users)
    for name in changed_scripts(texts.before, texts.after or "", wanted, all_count=any_may):
        yield Objection(file.path, _line_of(file, f'"{name}"'), f'the script "{name}" was changed, which a gate runs')


def stand_ins(diff: Sequence[FileDiff], green: Sequence[Gate], excused: Callable[[str], bool]) -> Iterator[Objection]:
    """New files that would be run instead of a tool: a module or program of its name."""
    programs = {name for gate in green for name in gate.programs | gate.tools}
    for file in diff:
        if file.kind not in ("A", "R") or excused(file.path):
            continue
        folder, _, base = file.path.rpartition("/")
        package = folder.rpartition("/")[2] if base == "__init__.py" else base.removesuffix(".py")
        is_module = base.endswith(".py") and folder in ("", "src", package, f"src/{package}") and package in programs
        if is_module or (base in programs and folder.endswith(("node_modules/.bin", "bin", "vendor/bin"))):
            yield Objection(file.path, None, f"would be run instead of {package}, which the gates use")


def _first_line(file: FileDiff) -> int | None:
    lines = file.added or file.removed
    return lines[0].number if lines else None


def _line_of(file: FileDiff, mark: str) -> int | None:
    """The first changed line with that text in it, else the first changed line."""
    for line in (*file.added, *file.removed):
        if mark and mark in line.text:
            return line.number
    return _first_line(file)
