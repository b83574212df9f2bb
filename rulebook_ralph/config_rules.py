"""What a layer of configuration may say beyond the types in core/settings.py, and the layer in one form."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from rulebook_ralph.core.criteria_reading import pattern_faults, stage_faults
from rulebook_ralph.core.problem import Fault, JsonPath, escaped
from rulebook_ralph.core.settings import Config
from rulebook_ralph.core.struct_reading import Tree, camel, read_struct

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _List(NamedTuple):
    """A list of items with names of their own. `section` is empty where it stands at the top."""

    section: str
    name: str
    key: str
    may_be_empty: tuple[str, ...] = ()


_LISTS = (
    _List("tools", "executors", "id", may_be_empty=("name", "command")),
    _List("tools", "planners", "id", may_be_empty=("name",)),
    _List("tools", "reviewers", "id", may_be_empty=("name",)),
    _List("verification", "steps", "name"),
    _List("", "hooks", "name", may_be_empty=("command",)),
)


@dataclass(slots=True)
class Checked:
    """A layer in one form: camelCase keys (a `+` before those that add), seconds as numbers, only what is set."""

    tree: Tree = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def checked(value: Any) -> Checked:
    """The layer in one form and everything wrong with it; `tree` may be used only when there are no faults."""
    result = Checked()
    result.tree = read_struct(value, Config, (), result.faults)
    if not result.faults:
        found = content_faults(result.tree)
        result.faults.extend(Fault(as_written(value, fault.path), fault.message) for fault in found)
    return result


def as_written(value: Any, path: JsonPath) -> JsonPath:
    """A path of the one form as the keys stand in the file, in snake_case or camelCase."""
    written: list[str | int] = []
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            if step not in value:
                step = next((key for key in value if camel(key) == step), step)  # noqa: PLW2901 - respelled
            value = value.get(step)
        else:
            value = value[step] if isinstance(value, (list, tuple)) and isinstance(step, int) else None
        written.append(step)
    return tuple(written)


def content_faults(tree: Tree) -> Iterator[Fault]:
    """What types cannot tell: names used twice, empty commands, folders outside the repository, bad patterns."""
    for items in _LISTS:
        yield from _list_faults(tree, items)
    for form in ("executors", "+executors"):
        yield from _fallback_faults(tree.get("tools", {}).get(form, ()), ("tools", form))
    for form in ("hooks", "+hooks"):
        for index, hook in enumerate(tree.get(form, ())):
            yield from _hook_faults(hook, (form, index))
    for form in ("stages", "+stages"):
        if form in tree:
            yield from stage_faults(tree[form], (form,))
    yield from pattern_faults(tree.get("stopCriteria", {}), ("stopCriteria",))
    yield from _workspace_faults(tree.get("workspace", {}))
    integrity = tree.get("integrity", {})
    for form in ("", "+"):
        yield from _glob_faults(tree.get(f"{form}protect", ()), (f"{form}protect",))
        yield from _glob_faults(integrity.get(f"{form}allow", ()), ("integrity", f"{form}allow"))
        for index, step in enumerate(tree.get("verification", {}).get(f"{form}steps", ())):
            yield from _glob_faults(step.get("when", ()), ("verification", f"{form}steps", index, "when"))
        yield from _text_faults(integrity.get(f"{form}contradictions", ()), ("integrity", f"{form}contradictions"))


def _workspace_faults(workspace: Tree) -> Iterator[Fault]:
    if "\0" in workspace.get("setup", ""):
        yield Fault(("workspace", "setup"), "must not hold a NUL character")
    for name in ("copy", "+copy", "link", "+link"):
        for index, path in enumerate(workspace.get(name, ())):
            within = PurePosixPath(path)
            if within.is_absolute() or not within.parts or ".." in within.parts or "\0" in path or not path.strip():
                shown = escaped(path)
                yield Fault(
                    ("workspace", name, index), f"must be a path within the repository, from its root, got '{shown}'"
                )


def _text_faults(texts: Sequence[str], path: JsonPath) -> Iterator[Fault]:
    for index, text in enumerate(texts):
        if not text.strip():
            yield Fault((*path, index), "must not be empty: it is in every text")


def _list_faults(tree: Tree, items: _List) -> Iterator[Fault]:
    section = tree.get(items.section, {}) if items.section else tree
    for form in (items.name, f"+{items.name}"):
        first_use: dict[str, int] = {}
        for index, item in enumerate(section.get(form, ())):
            path = (items.section, form, index) if items.section else (form, index)
            yield from _item_faults(item, path, may_be_empty=items.may_be_empty)
            name = item[items.key]
            before = first_use.setdefault(name, index)
            if before != index:
                yield Fault((*path, items.key), f"'{escaped(name)}' is used already by {items.name}[{before}]")


def _fallback_faults(executors: Sequence[Tree], path: JsonPath) -> Iterator[Fault]:
    """Fallbacks that lead back to where they began: nobody would take over in the end."""
    following = {executor["id"]: executor.get("fallback", "") for executor in executors}
    for index, executor in enumerate(executors):
        seen, name = [executor["id"]], executor.get("fallback", "")
        while name and name not in seen:
            seen.append(name)
            name = following.get(name, "")
        if name == executor["id"]:
            yield Fault((*path, index, "fallback"), f"leads back to itself: {escaped(' -> '.join([*seen, name]))}")


def _hook_faults(hook: Tree, path: JsonPath) -> Iterator[Fault]:
    given = [key for key in ("command", "plugin") if hook.get(key, "").strip()]
    if len(given) != 1:
        yield Fault(path, f"exactly one of `command` and `plugin` is needed, got {'both' if given else 'neither'}")


def _glob_faults(globs: list[str], path: JsonPath) -> Iterator[Fault]:
    """Globs are those of a .gitignore (checks/integrity/globs.py)."""
    for index, glob in enumerate(globs):
        if not glob.strip("/! ") or "\0" in glob or ".." in PurePosixPath(glob).parts:
            shown = escaped(glob)
            yield Fault((*path, index), f"must be a glob of paths of the repository, as in a .gitignore, got '{shown}'")


def _item_faults(item: Tree, path: JsonPath, *, may_be_empty: Collection[str]) -> Iterator[Fault]:
    for key in item:
        if key.startswith("+"):
            yield Fault(
                (*path, key), f"`+` adds to a list of the files before, and there is none here; write `{key[1:]}`"
            )
    for key in ("id", "type", "name", "command"):
        if key in item and not item[key].strip() and key not in may_be_empty:
            yield Fault((*path, key), "must not be empty")
    texts = {key: [value] for key, value in item.items() if isinstance(value, str)}
    texts |= {"args": item.get("args", []), "checks": item.get("checks", []), "env": [*item.get("env", {}).values()]}
    for key, values in texts.items():
        if any("\0" in value for value in values):
            yield Fault((*path, key), "must not hold a NUL character")
    folder = item.get("workingDir", ".")
    if PurePosixPath(folder).is_absolute() or ".." in PurePosixPath(folder).parts or not folder.strip():
        yield Fault(
            (*path, "workingDir"), f"must be a folder of the repository, from its root, got '{escaped(folder)}'"
        )
    for name in item.get("env", {}):
        if not _VARIABLE.fullmatch(name):
            yield Fault((*path, "env"), f"'{escaped(name)}' is no name of an environment variable")
