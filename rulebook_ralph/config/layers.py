"""The configuration of a project, from layers that lie over each other, and who set each value.

Built-in values, the user's file, the project's file, RALPH_* variables, flags; later ones win. Maps merge key by key. A
list takes the place of the one before it, whole; `+key` adds its items to it instead.
"""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.config.keys import built_in_values, given_value, in_camel, named, place_of, planted, value_at
from rulebook_ralph.config.rules import IS_GONE, checked, content_faults
from rulebook_ralph.config.settings import Config, InsistentConfig
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import STATE_FOLDER
from rulebook_ralph.tasks.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.tasks.struct_reading import Tree, camel
from rulebook_ralph.tasks.text import Fault, JsonPath, Problem

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


class MisconfiguredError(RalphError):
    """What is wrong with a layer; the message has the first problem, and how many there are besides."""

    def __init__(self, *problems: Problem) -> None:
        more = f" (and {len(problems) - 1} more: ralph validate)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")
        self.problems = problems


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
    named_files = config_files(root, home, environment)
    read = [(file, _file_layer(file, shown_as, (instead or {}).get(file))) for file, shown_as in named_files]
    layers = [layer for _, layer in read if layer is not None]
    layers += _environment_layers(environment)
    if given := _given(flags or {}):
        layers.append(_layer(given, COMMAND_LINE, insists=True))
    config, origins = _merged(layers)
    return LoadedConfig(config, origins, tuple(file for file, layer in read if layer is not None))


def config_files(root: Path | None, home: Path, environment: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """The files that are read where they are there, later ones winning, each with the name that messages give it."""
    own = user_config(home, environment)
    project = ((root / PROJECT_CONFIG, PROJECT_CONFIG),) if root is not None else ()
    return ((own, str(own)), *project)


def user_config(home: Path, environment: Mapping[str, str]) -> Path:
    """Where the user's own file is; a relative XDG_CONFIG_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    return (configured if configured.is_absolute() else home / ".config") / "rulebook-ralph" / CONFIG_NAME


def config_of(content: bytes) -> Config:
    """What a project's file with this content says by itself; keys of the first edition do not matter. Raises
    RalphError, NotReadableError or UnicodeDecodeError.
    """
    tree, faults = checked(read_yaml(content.decode("utf-8-sig")).value)
    _refuse((fault for fault in faults if not fault.message.startswith(IS_GONE)), PROJECT_CONFIG, {})
    return _merged([_Layer(tree, PROJECT_CONFIG, {}, insists=False)])[0]


def problems_in(file: Path, shown_as: str) -> tuple[Problem, ...]:
    """Everything wrong with a config file; nothing where there is none."""
    try:
        _file_layer(file, shown_as)
    except MisconfiguredError as error:
        return error.problems
    return ()


# Layers


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of settings in its one form. One that `insists`, a variable or flag, goes before what tasks say."""

    tree: Tree
    source: str
    lines: Mapping[JsonPath, int]
    insists: bool

    def origin(self, path: JsonPath) -> str:
        line = _line(path, self.lines)
        return self.source if line is None else f"{self.source}:{line}"


def _layer(value: Any, source: str, lines: Mapping[JsonPath, int] | None = None, *, insists: bool = False) -> _Layer:
    """The layer that a value is, with the lines of what stands in it. Raises MisconfiguredError."""
    places = {in_camel(path): line for path, line in (lines or {}).items()}
    tree, faults = checked(value)
    _refuse(faults, source, places)
    return _Layer(tree, source, places, insists)


def _line(path: JsonPath, lines: Mapping[JsonPath, int]) -> int | None:
    """The line of a value, or of the nearest one around it."""
    path = in_camel(path)
    return next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)


def _refuse(faults: Iterable[Fault], source: str, lines: Mapping[JsonPath, int]) -> None:
    found = [Problem(source, _line(fault.path, lines), named(fault.path), fault.message) for fault in faults]
    if found:
        raise MisconfiguredError(*found)


def _file_layer(file: Path, shown_as: str, content: bytes | None = None) -> _Layer | None:
    """The layer that a file is, or would be with this content; None where there is none. Raises MisconfiguredError."""
    try:
        if content is None:  # dotfiles may be links; Path.resolve raises for those that lead in a circle
            content = disk.read_file(Path(os.path.realpath(file)), largest=_LARGEST_FILE)
        document = read_yaml(content.decode("utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MisconfiguredError(Problem(shown_as, None, "", f"cannot be read: {error.strerror or error}")) from None
    except UnicodeDecodeError:
        raise MisconfiguredError(Problem(shown_as, None, "", "is not UTF-8 text")) from None
    except NotReadableError as error:
        where = shown_as if error.column is None else f"{shown_as}:{error.line}:{error.column}"
        raise MisconfiguredError(Problem(where, None, named(error.fault.path), error.fault.message)) from None
    return _layer(document.value, shown_as, document.lines)


def _given(flags: Mapping[str, object]) -> dict[str, Any]:
    inner = {key: _given(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def _environment_layers(environment: Mapping[str, str]) -> Iterator[_Layer]:
    """A layer for each variable that sets a key, in alphabetical order. Other RALPH_* variables are left alone, but
    RalphError is raised for one that is all but a key's: a limit must not get lost.
    """
    variables = {_variable_of(path): path for path, _ in _settings(built_in_values(), ()) if len(path) > 1}
    for name in sorted(each for each in environment if each.startswith(ENVIRONMENT_PREFIX)):
        keys = [camel(part.lower()) for part in name.removeprefix(ENVIRONMENT_PREFIX).split("__")]
        if keys[0] in built_in_values():
            try:
                place = place_of(".".join(keys), {})
                value = given_value(environment[name], place)
            except RalphError as error:
                raise RalphError(f"{name}: {error}") from None
            yield _layer(planted({}, place.path, value), name, insists=True)
        elif keys[0]:
            close = difflib.get_close_matches(name, variables, n=1, cutoff=_ALL_BUT_THE_SAME)
            if close or len(keys) > 1:
                meant = f"did you mean {close[0]}? Else" if close else f"there is no section '{keys[0]}';"
                raise RalphError(f"{name} sets nothing; {meant} give it another name")


def _variable_of(path: JsonPath) -> str:
    return ENVIRONMENT_PREFIX + _CAPITAL.sub(r"_\g<0>", "__".join(map(str, path))).upper()


# Merging


def _merged(layers: Iterable[_Layer]) -> tuple[Config, dict[str, str]]:
    """The configuration of all layers, later ones winning, and the origin of every leaf by its dotted path."""
    tree = built_in_values()
    origins = {named(path): BUILT_IN for path, _ in _settings(tree, ())}
    last, insisting = BUILT_IN, set[str]()
    for layer in layers:
        for path, value in sorted(_settings(layer.tree, ()), key=lambda each: str(each[0][-1]).startswith("+")):
            tree = _laid(tree, path, value, layer, origins)
        last = layer.source
        insisting |= {layer.source} if layer.insists else set()
    _refuse(content_faults(tree), f"{last}, together with the settings before it", {})
    executors = tree["tools"]["executors"]
    if len(executors) == 1 and origins["defaults.executor"] == BUILT_IN:
        tree = planted(tree, ("defaults", "executor"), executors[0]["id"])
        origins["defaults.executor"] = f"{ONLY_ONE} ({origins['tools.executors']})"
    insisted = [leaf for leaf, origin in origins.items() if origin in insisting]
    if insisted:
        return msgspec.convert({**tree, "insisted": insisted}, InsistentConfig), origins
    return msgspec.convert(tree, Config), origins


def _settings(tree: Tree, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value that is no section, and where it stands."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _settings(value, (*path, key))
        else:
            yield (*path, key), value


def _laid(tree: Tree, path: tuple[str, ...], value: Any, layer: _Layer, origins: dict[str, str]) -> Tree:
    """The tree with a value of a layer in it; where it comes from is put down in `origins`."""
    place = (*path[:-1], path[-1].removeprefix("+"))
    leaf, origin, before = named(place), layer.origin(path), 0
    if place == path:
        for inner in [each for each in origins if each.startswith(f"{leaf}[")]:
            del origins[inner]
    elif held := value_at(tree, place):
        before, value = len(held), [*held, *value]
        origin = f"{origins[leaf]} + {origin}"
    origins[leaf] = origin
    for index, item in enumerate(value[before:] if isinstance(value, list) else ()):
        origins[named((*place, before + index))] = layer.origin((*path, index))
        for key in item if isinstance(item, dict) else ():
            origins[named((*place, before + index, key))] = layer.origin((*path, index, key))
    whole: Tree = planted(tree, place, value)
    return whole
