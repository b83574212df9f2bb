"""The configuration of a project: built-in values, the user's file, the project's file, RALPH_* variables, flags."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.config_layers import (
    ONLY_ONE,
    Layer,
    environment_layers,
    file_layer,
    layer_of,
    merged,
    problems_in_file,
    value_layer,
)
from rulebook_ralph.config_template import SCHEMA_HINT, SCHEMA_NAME, commented_config
from rulebook_ralph.core.model import STATE_FOLDER
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.core.settings import Config

CONFIG_NAME = "config.yaml"
PROJECT_CONFIG = f"{STATE_FOLDER}/{CONFIG_NAME}"
COMMAND_LINE = "command line"

__all__ = [
    "SCHEMA_HINT",
    "SCHEMA_NAME",
    "LoadedConfig",
    "candidates",
    "commented_config",
    "load",
    "load_with_origins",
    "parse",
    "problems_of",
    "project_problems",
    "told_of_executor",
    "user_config",
    "user_problems",
]


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
        return told_of_executor(self.config, self.origins)


def load(
    root: Path | None,
    *,
    environment: Mapping[str, str],
    home: Path,
    overrides: Mapping[str, object] | None = None,
) -> Config:
    """The configuration of the project at `root`, or outside of any.

    `overrides` are nested like the file, keys in either case; a None in them counts as not given. Raises RalphError.
    """
    return load_with_origins(root, environment=environment, home=home, overrides=overrides).config


def load_with_origins(
    root: Path | None,
    *,
    environment: Mapping[str, str],
    home: Path,
    overrides: Mapping[str, object] | None = None,
    instead: Mapping[Path, bytes] | None = None,
) -> LoadedConfig:
    """Like `load`, with the origin of every value; `instead` are contents that files would have."""
    layers: list[Layer] = []
    files: list[Path] = []
    for file, shown_as in candidates(root, environment=environment, home=home):
        planned = (instead or {}).get(file)
        if layer := file_layer(file, shown_as) if planned is None else layer_of(planned, shown_as):
            layers.append(layer)
            files.append(file)
    layers += environment_layers(environment)
    if given := _given(overrides or {}):
        layers.append(value_layer(given, COMMAND_LINE))
    config, origins = merged(layers)
    return LoadedConfig(config, origins, tuple(files))


def candidates(root: Path | None, *, environment: Mapping[str, str], home: Path) -> tuple[tuple[Path, str], ...]:
    """The files that are read where they are there, later ones winning, each with the name that messages give it."""
    own = user_config(environment, home)
    files = [(own, str(own))]
    if root is not None:
        files.append((root / STATE_FOLDER / CONFIG_NAME, PROJECT_CONFIG))
    return tuple(files)


def told_of_executor(config: Config, origins: Mapping[str, str]) -> str:
    """How the default agent came about where nobody named one, but one is configured; else empty."""
    origin = origins.get("defaults.executor", "")
    return f"default agent {config.defaults.executor}: {origin}" if origin.startswith(ONLY_ONE) else ""


def parse(data: bytes) -> Config:
    """The configuration that a project's file with this content alone makes. Raises RalphError."""
    layer = layer_of(data, PROJECT_CONFIG)
    return merged([layer] if layer else [])[0]


def project_problems(root: Path) -> tuple[Problem, ...]:
    """Everything wrong with the project's config.yaml; nothing where there is none."""
    return problems_in_file(root / STATE_FOLDER / CONFIG_NAME, PROJECT_CONFIG)


def user_problems(environment: Mapping[str, str], home: Path) -> tuple[Problem, ...]:
    """Everything wrong with the user's own config.yaml; nothing where there is none."""
    file = user_config(environment, home)
    return problems_in_file(file, str(file))


def problems_of(file: Path, shown_as: str) -> tuple[Problem, ...]:
    """Everything wrong with a config file, whose name in messages is given; nothing where there is none."""
    return problems_in_file(file, shown_as)


def user_config(environment: Mapping[str, str], home: Path) -> Path:
    """Where the user's own file is; a relative XDG_CONFIG_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    base = configured if configured.is_absolute() else home / ".config"
    return base / "rulebook-ralph" / CONFIG_NAME


def _given(overrides: Mapping[str, object]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in overrides.items():
        if isinstance(value, Mapping):
            if inner := _given(value):
                given[key] = inner
        elif value is not None:
            given[key] = value
    return given
