"""The configuration of a project, from layers that lie over each other, and who set each value.

Built-in values, the user's file, the project's file, RALPH_* variables, flags; later ones win. Maps merge key by key. A
list takes the place of the one before it, whole; `+key` adds its items to it instead.
"""

import difflib
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.config.rules import GONE, as_written, checked, content_faults
from rulebook_ralph.config.settings import Config, InsistentConfig
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.plain_yaml import LONGEST_TEXT, Document, NotReadableError, read_yaml
from rulebook_ralph.tasks.struct_reading import Tree, camel, fields_of, item_type, struct_by_name, struct_in
from rulebook_ralph.tasks.text import Fault, JsonPath, Problem, dotted

CONFIG_NAME = "config.yaml"
PROJECT_CONFIG = f"{STATE_FOLDER}/{CONFIG_NAME}"
COMMAND_LINE = "command line"
BUILT_IN = "built-in"
ONLY_ONE = "the only one in tools.executors"
"""How the origin of `defaults.executor` begins where nobody set it and one agent is configured."""
ENVIRONMENT_PREFIX = "RALPH_"
_ALL_BUT_THE_SAME = 0.9
_CAPITAL = re.compile(r"[A-Z]")
_LARGEST_FILE = 1024 * 1024
"""Bytes; a YAML text may have a quarter as many characters."""
_NO_LINES = Document(None, {})


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration, where each of its leaves (`limits.maxCostUsd`) was set, and the files that were read."""

    config: Config
    origins: Mapping[str, str]
    files: tuple[Path, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The configuration as plain values, under the keys of a file."""
        values: dict[str, Any] = msgspec.to_builtins(self.config)
        values.pop("insisted", None)
        return values

    @property
    def chosen_executor(self) -> str:
        """How the default agent came about where nobody named one, but one is configured; else empty."""
        origin = self.origins.get("defaults.executor", "")
        return f"default agent {self.config.defaults.executor}: {origin}" if origin.startswith(ONLY_ONE) else ""


def load_config(
    root: Path | None,
    home: Path,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    *,
    instead: Mapping[Path, bytes] | None = None,
) -> LoadedConfig:
    """The configuration of the project at `root`, or outside of any. Raises RalphError.

    `flags` are nested like the file, keys in either case; a None in them counts as not given. `instead` are contents
    that files would have.
    """
    layers: list[_Layer] = []
    files: list[Path] = []
    for file, shown_as in config_files(root, home, environment):
        planned = (instead or {}).get(file)
        document = _document(file, shown_as) if planned is None else _parsed(planned, shown_as)
        if document is not None:
            layers.append(_layer(document, shown_as))
            files.append(file)
    layers += _environment_layers(environment)
    if given := _given(flags or {}):
        layers.append(_layer(Document(given, {}), COMMAND_LINE, insists=True))
    config, origins = _merged(layers)
    return LoadedConfig(config, origins, tuple(files))


def config_files(root: Path | None, home: Path, environment: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """The files that are read where they are there, later ones winning, each with the name that messages give it."""
    own = user_config(home, environment)
    project = ((root / PROJECT_CONFIG, PROJECT_CONFIG),) if root is not None else ()
    return ((own, str(own)), *project)


def user_config(home: Path, environment: Mapping[str, str]) -> Path:
    """Where the user's own file is; a relative XDG_CONFIG_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    return (configured if configured.is_absolute() else home / ".config") / "rulebook-ralph" / CONFIG_NAME


def problems_in(file: Path, shown_as: str) -> tuple[Problem, ...]:
    """Everything wrong with a config file; nothing where there is none."""
    document = _document(file, shown_as)
    if document is None or isinstance(document, Problem):
        return () if document is None else (document,)
    return _problems(checked(document.value)[1], shown_as, document)


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of settings in its one form. One that `insists`, a variable or flag, goes before what tasks say."""

    tree: Tree
    source: str
    document: Document
    insists: bool = False

    def origin(self, path: JsonPath) -> str:
        line = self.document.line(as_written(self.document.value, path))
        return self.source if line is None else f"{self.source}:{line}"


def _layer(document: Document | Problem, source: str, *, insists: bool = False) -> _Layer:
    if isinstance(document, Problem):
        raise RalphError(str(document))
    tree, faults = checked(document.value)
    _refuse(faults, source, document)
    return _Layer(tree, source, document, insists)


def _refuse(faults: Iterable[Fault], source: str, document: Document = _NO_LINES) -> None:
    """Raises RalphError with the first fault and how many there are besides, if there are any."""
    if problems := _problems(faults, source, document):
        more = f" (and {len(problems) - 1} more: ralph validate)" if len(problems) > 1 else ""
        raise RalphError(f"{problems[0]}{more}")


def _problems(faults: Iterable[Fault], shown_as: str, document: Document) -> tuple[Problem, ...]:
    return tuple(
        Problem(shown_as, document.line(fault.path), dotted("", fault.path).lstrip("."), fault.message)
        for fault in faults
    )


def _document(file: Path, shown_as: str) -> Document | Problem | None:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, a device never ends
            return Problem(shown_as, None, "", "is no regular file")
        if status.st_size > _LARGEST_FILE:
            return Problem(shown_as, None, "", f"is larger than {LONGEST_TEXT // 1024} KB")
        return _parsed(file.read_bytes(), shown_as)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Problem(shown_as, None, "", f"cannot be read: {error.strerror or error}")


def _parsed(data: bytes, shown_as: str) -> Document | Problem:
    try:
        return read_yaml(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Problem(shown_as, None, "", "is not UTF-8 text")
    except NotReadableError as error:
        where = shown_as if error.column is None else f"{shown_as}:{error.line}:{error.column}"
        return Problem(where, None, dotted("", error.fault.path).lstrip("."), error.fault.message)


def _given(flags: Mapping[str, object]) -> dict[str, Any]:
    inner = {key: _given(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def _environment_layers(environment: Mapping[str, str]) -> list[_Layer]:
    """A layer for each variable that sets a key, in alphabetical order. Other RALPH_* variables are left alone, but
    RalphError is raised for one that is all but a key's: a limit must not get lost.
    """
    sections = {field.encode_name for field in fields_of(Config)} | {key.partition(".")[0] for key in GONE}
    layers = []
    for name in sorted(each for each in environment if each.startswith(ENVIRONMENT_PREFIX)):
        keys = [camel(part.lower()) for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__")]
        if keys[0] in sections and (keys[0] not in GONE or len(keys) > 1):
            value = _environment_value(environment[name], _type_at(keys), name)
            for key in reversed(keys):
                value = {key: value}
            layers.append(_layer(Document(value, {}), name, insists=True))
        elif keys[0]:
            variables = {_variable_of(leaf): leaf for leaf in _built_in(Config, ()) if "." in leaf}
            close = difflib.get_close_matches(name, variables, n=1, cutoff=_ALL_BUT_THE_SAME)
            if close or len(keys) > 1:
                meant = f"did you mean {close[0]}? Else" if close else f"there is no section '{keys[0]}';"
                raise RalphError(f"{name} sets nothing; {meant} give it another name")
    return layers


def _variable_of(leaf: str) -> str:
    return ENVIRONMENT_PREFIX + _CAPITAL.sub(r"_\g<0>", leaf).replace(".", "__").upper()


def _type_at(keys: Iterable[str]) -> Any:
    annotation: Any = Config
    for key in keys:
        struct = struct_in(annotation)
        known = {field.encode_name: field.type for field in fields_of(struct)} if struct else {}
        annotation = known.get(key)
    return annotation


def _environment_value(text: str, annotation: Any, variable: str) -> Any:
    """A variable's text as what stands at its key: text stays text, a number is one, the rest is YAML."""
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


def _merged(layers: Iterable[_Layer]) -> tuple[Config, dict[str, str]]:
    """The configuration of all layers, later ones winning, and the origin of every leaf by its dotted path."""
    tree: Tree = {}
    origins = _built_in(Config, ())
    last, insisting = BUILT_IN, set[str]()
    for layer in layers:
        _lay(tree, layer.tree, (), layer, origins)
        last = layer.source
        insisting |= {layer.source} if layer.insists else set()
    _refuse(content_faults(tree), f"{last}, together with the settings before it")
    executors = tree.get("tools", {}).get("executors", ())
    if len(executors) == 1 and origins["defaults.executor"] == BUILT_IN:
        tree.setdefault("defaults", {})["executor"] = executors[0]["id"]
        origins["defaults.executor"] = f"{ONLY_ONE} ({origins['tools.executors']})"
    insisted = [leaf for leaf, origin in origins.items() if origin in insisting]
    if insisted:
        return msgspec.convert({**tree, "insisted": insisted}, InsistentConfig), origins
    return msgspec.convert(tree, Config), origins


def _lay(tree: Tree, layer: Tree, path: JsonPath, source: _Layer, origins: dict[str, str]) -> None:
    for key in sorted(layer, key=lambda key: key.startswith("+")):
        name = key.removeprefix("+")
        leaf = dotted("", (*path, name)).lstrip(".")
        if isinstance(layer[key], dict) and leaf not in origins:
            _lay(tree.setdefault(name, {}), layer[key], (*path, name), source, origins)
            continue
        before: list[Any] = []
        if key == name:
            tree[name] = layer[key]
            origins[leaf] = source.origin((*path, key))
            for inner in [each for each in origins if each.startswith(f"{leaf}[")]:
                del origins[inner]
        else:
            before = list(tree[name] if name in tree else _built_in_list((*path, name)))
            tree[name] = [*before, *layer[key]]
            added = source.origin((*path, key))
            origins[leaf] = f"{origins.get(leaf, BUILT_IN)} + {added}" if before else added
        for index, item in enumerate(layer[key] if isinstance(layer[key], list) else ()):
            shown = f"{leaf}[{len(before) + index}]"
            origins[shown] = source.origin((*path, key, index))
            for inner in item if isinstance(item, dict) else ():
                origins[dotted(shown, (inner,))] = source.origin((*path, key, index, inner))


def _built_in_list(path: JsonPath) -> list[Any]:
    value: Any = msgspec.to_builtins(Config())
    for key in path:
        value = value[key]
    return list(value)


def _built_in(struct: type[msgspec.Struct], path: JsonPath) -> dict[str, str]:
    leaves: dict[str, str] = {}
    for field in fields_of(struct):
        nested = struct_in(field.type)
        here = (*path, field.encode_name)
        if struct_by_name(field.type):  # merged by their keys, which are none of the built-in ones
            continue
        leaves |= _built_in(nested, here) if nested else {dotted("", here).lstrip("."): BUILT_IN}
    return leaves
