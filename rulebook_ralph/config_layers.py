"""Layers of configuration laid over each other, and who set each value.

Maps merge key by key, those under names of a person's own (`prices`) name by name. A list takes the place of the one
before it, whole; `+key` adds its items to it instead. What stands in an item of a list merges with nothing.
"""

import difflib
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.config_rules import as_written, checked, content_faults
from rulebook_ralph.core.problem import Fault, JsonPath, Problem, dotted
from rulebook_ralph.core.refusal import fields_of, item_type, struct_by_name, struct_in
from rulebook_ralph.core.settings import Config, InsistentConfig
from rulebook_ralph.core.struct_reading import Tree, camel
from rulebook_ralph.errors import RalphError
from rulebook_ralph.plain_yaml import LONGEST_TEXT, Document, NotReadableError, read_yaml

BUILT_IN = "built-in"
ONLY_ONE = "the only one in tools.executors"
"""How the origin of `defaults.executor` begins where nobody set it and one agent is configured."""
ENVIRONMENT_PREFIX = "RALPH_"
_ALL_BUT_THE_SAME = 0.92
_CAPITAL = re.compile(r"[A-Z]")
LARGEST_FILE = 1024 * 1024
"""Bytes; a YAML text may have a quarter as many characters."""

Leaves = dict[str, str]


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings in its one form; `origin` says where a value of it comes from. One that `insists`, of a
    variable or flag, goes before what tasks say.
    """

    tree: Tree
    source: str
    lines: Mapping[JsonPath, int]
    written: Any = None
    insists: bool = False

    def origin(self, path: JsonPath) -> str:
        line = line_near(self.lines, as_written(self.written, path))
        return self.source if line is None else f"{self.source}:{line}"


def file_layer(file: Path, shown_as: str) -> Layer | None:
    """The layer in a config file; None where there is no file. Raises RalphError with file, line, key and fault."""
    return _layer(_document(file, shown_as), shown_as)


def layer_of(data: bytes, shown_as: str) -> Layer | None:
    """The layer in a config file's content. Raises RalphError likewise."""
    return _layer(_read(data, shown_as), shown_as)


def _layer(document: Document | tuple[Problem, ...] | None, shown_as: str) -> Layer | None:
    if isinstance(document, tuple):
        raise RalphError(told(document))
    if document is None:
        return None
    result = checked(document.value)
    if result.faults:
        raise RalphError(told(_problems(result.faults, shown_as, document.lines)))
    return Layer(result.tree, shown_as, document.lines, document.value)


def problems_in_file(file: Path, shown_as: str) -> tuple[Problem, ...]:
    """Everything wrong with a config file; nothing where there is none."""
    document = _document(file, shown_as)
    if document is None or isinstance(document, tuple):
        return document or ()
    return _problems(checked(document.value).faults, shown_as, document.lines)


def value_layer(values: Mapping[str, object], source: str) -> Layer:
    """The layer of nested values, of a variable or of flags. Raises RalphError that names `source`, key and fault."""
    result = checked(values)
    if result.faults:
        raise RalphError(told(_problems(result.faults, source, {})))
    return Layer(result.tree, source, {}, insists=True)


def environment_layers(environment: Mapping[str, str]) -> list[Layer]:
    """A layer for each variable that sets a key, in alphabetical order; other RALPH_* variables are left alone, unless
    they are all but a key: RalphError is raised, for a limit must not get lost.
    """
    sections = {field.encode_name: field.type for field in fields_of(Config)}
    layers = []
    for name in sorted(environment):
        keys = [camel(part.lower()) for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__")]
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if keys[0] and len(keys) > 1 and keys[0] not in sections:
            near = difflib.get_close_matches(keys[0], sections, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise RalphError(f"{name}: there is no section '{keys[0]}' in the configuration{hint}")
        if keys[0] in sections:
            layers.append(value_layer(_nested(keys, environment[name], sections[keys[0]], name), name))
        elif meant := _variable_meant(name):
            raise RalphError(f"{name} sets nothing; did you mean {meant}? Else give it another name")
    return layers


def _variable_meant(name: str) -> str:
    """The variable of a key that an unknown one resembles in all but its underscores; empty for none."""
    words = name.removeprefix(ENVIRONMENT_PREFIX).replace("_", "").lower()
    leaves = {leaf.replace(".", "").lower(): leaf for leaf in _built_in(Config, ()) if "." in leaf}
    near = difflib.get_close_matches(words, leaves, n=1, cutoff=_ALL_BUT_THE_SAME)
    return ENVIRONMENT_PREFIX + _CAPITAL.sub(r"_\g<0>", leaves[near[0]]).replace(".", "__").upper() if near else ""


def merged(layers: Iterable[Layer]) -> tuple[Config, dict[str, str]]:
    """The configuration of all layers, later ones winning, and the origin of every leaf by its dotted path."""
    tree: Tree = {}
    origins = _built_in(Config, ())
    last, insisting = BUILT_IN, set[str]()
    for layer in layers:
        _lay(tree, layer.tree, (), layer, origins)
        last = layer.source
        insisting |= {layer.source} if layer.insists else set()
    if faults := tuple(content_faults(tree)):
        raise RalphError(told(_problems(faults, f"{last}, together with the settings before it", {})))
    _choose_executor(tree, origins)
    insisted = [leaf for leaf, origin in origins.items() if origin in insisting]
    config = (
        msgspec.convert({**tree, "insisted": insisted}, InsistentConfig) if insisted else msgspec.convert(tree, Config)
    )
    return config, origins


def _choose_executor(tree: Tree, origins: Leaves) -> None:
    """Who configures one agent and names none as the default means that one."""
    executors = tree.get("tools", {}).get("executors", ())
    if len(executors) == 1 and origins["defaults.executor"] == BUILT_IN:
        tree.setdefault("defaults", {})["executor"] = executors[0]["id"]
        origins["defaults.executor"] = f"{ONLY_ONE} ({origins['tools.executors']})"


def told(problems: tuple[Problem, ...]) -> str:
    """The first problem in one line, and how many there are besides."""
    more = f" (and {len(problems) - 1} more: ralph validate)" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


def line_near(lines: Mapping[JsonPath, int], path: JsonPath) -> int | None:
    """The line of the value, or of the nearest one around it."""
    return next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)


def _document(file: Path, shown_as: str) -> Document | tuple[Problem, ...] | None:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device never ends
            return (Problem(shown_as, None, "", "is no regular file"),)
        if status.st_size > LARGEST_FILE:
            return (Problem(shown_as, None, "", f"is larger than {LONGEST_TEXT // 1024} KB"),)
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return (Problem(shown_as, None, "", f"cannot be read: {error.strerror or error}"),)
    return _read(data, shown_as)


def _read(data: bytes, shown_as: str) -> Document | tuple[Problem, ...]:
    try:
        return read_yaml(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return (Problem(shown_as, None, "", "is not UTF-8 text"),)
    except NotReadableError as error:
        where = shown_as if error.column is None else f"{shown_as}:{error.line}:{error.column}"
        return (Problem(where, None, dotted("", error.fault.path).lstrip("."), error.fault.message),)


def _problems(faults: Iterable[Fault], shown_as: str, lines: Mapping[JsonPath, int]) -> tuple[Problem, ...]:
    return tuple(
        Problem(shown_as, line_near(lines, fault.path), dotted("", fault.path).lstrip("."), fault.message)
        for fault in faults
    )


def _nested(keys: list[str], text: str, section: Any, variable: str) -> dict[str, Any]:
    """The variable's text as the value of its keys, read as what stands there: text stays text, the rest is YAML."""
    annotation = section
    for key in keys[1:]:
        struct = struct_in(annotation)
        known = {field.encode_name: field.type for field in fields_of(struct)} if struct else {}
        annotation = known.get(key)
    value = _environment_value(text, annotation, variable)
    for key in reversed(keys):
        value = {key: value}
    nested: dict[str, Any] = value
    return nested


def _environment_value(text: str, annotation: Any, variable: str) -> Any:
    if annotation is None:
        return text
    if struct_in(annotation) is None and item_type(annotation) is None and struct_by_name(annotation) is None:
        try:
            return msgspec.convert(text, annotation, strict=False)
        except msgspec.ValidationError:
            return text
    try:
        return read_yaml(text).value
    except NotReadableError as error:
        raise RalphError(f"{variable}: {error.fault.message}") from None


def _lay(tree: Tree, layer: Tree, path: JsonPath, source: Layer, origins: dict[str, str]) -> None:
    for key in sorted(layer, key=lambda key: key.startswith("+")):
        name = key.removeprefix("+")
        leaf = dotted("", (*path, name)).lstrip(".")
        if isinstance(layer[key], dict) and leaf not in origins:
            _lay(tree.setdefault(name, {}), layer[key], (*path, name), source, origins)
        elif key == name:
            tree[name] = layer[key]
            origins[leaf] = source.origin((*path, key))
            _forget_items(leaf, origins)
            _items(layer[key], (*path, key), leaf, source, origins)
        else:
            before = tree[name] if name in tree else _built_in_list((*path, name))
            tree[name] = [*before, *layer[key]]
            added = source.origin((*path, key))
            origins[leaf] = f"{origins.get(leaf, BUILT_IN)} + {added}" if before else added
            _items(layer[key], (*path, key), leaf, source, origins, first=len(before))


def _forget_items(leaf: str, origins: Leaves) -> None:
    for inner in [each for each in origins if each.startswith(f"{leaf}[")]:
        del origins[inner]


def _items(items: Any, path: JsonPath, leaf: str, source: Layer, origins: Leaves, *, first: int = 0) -> None:
    """The origin of every item of a list, and of every key that is set in it."""
    for index, item in enumerate(items if isinstance(items, list) else ()):
        here, shown = (*path, index), f"{leaf}[{first + index}]"
        origins[shown] = source.origin(here)
        for key in item if isinstance(item, dict) else ():
            origins[dotted(shown, (key,))] = source.origin((*here, key))


def _built_in_list(path: JsonPath) -> list[Any]:
    value: Any = msgspec.to_builtins(Config())
    for key in path:
        value = value[key]
    return list(value)


def _built_in(struct: type[msgspec.Struct], path: JsonPath) -> Leaves:
    leaves: Leaves = {}
    for field in fields_of(struct):
        nested = struct_in(field.type)
        here = (*path, field.encode_name)
        if struct_by_name(field.type):  # merged by their keys, which are none of the built-in ones
            continue
        leaves |= _built_in(nested, here) if nested else {dotted("", here).lstrip("."): BUILT_IN}
    return leaves
